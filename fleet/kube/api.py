"""Protocol of a Kubernetes API client: one response to one request, or a stream of bytes.

`client.transport` implements it over HTTP, tests with a scripted server under virtual time. Writes are sent through two
wrappers: `WriteGate`, and `leader_election.FencedApi` with the fence of a leader.
"""

from __future__ import annotations

import asyncio
import enum
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, Protocol

from msgspec import Struct, structs

from fleet.clock import Clock
from fleet.errors import ConnectionLost, DeadlineExceeded, NotLeading, ServerTimeout

DEFAULT_DEADLINE: Final = 30.0
"""Seconds. The API server itself gives up on a request after 60."""

READ_CLASS: Final = "read"
WRITE_CLASS: Final = "write"
LEASE_CLASS: Final = "lease"

_AMBIGUOUS_FAILURES: Final = (asyncio.CancelledError, ConnectionLost, DeadlineExceeded, ServerTimeout)
"""After these the server may still apply the write."""


class Method(enum.StrEnum):
    GET = "GET"
    POST = "POST"
    PUT = "PUT"
    PATCH = "PATCH"
    DELETE = "DELETE"


class Request(Struct, frozen=True):
    method: Method
    path: str
    """Quoted already, like the paths of `resource.Resource`."""
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    content_type: str = "application/json"
    call_class: str = READ_CLASS
    """Selects the rate limit."""
    deadline: float = DEFAULT_DEADLINE
    """Seconds for the whole exchange, waiting for the rate limit included; of a stream, until it is open."""
    guard: Callable[[], object] | None = None
    """Called once more right before sending, after any wait; raises when the request must not be sent."""
    bearer: str = ""
    """The token of another user, sent instead of this client's own. A client that also proves who it is in another way
    refuses the request with a ConfigurationError."""

    @property
    def is_write(self) -> bool:
        return self.method is not Method.GET


class Api(Protocol):
    async def call(self, request: Request) -> bytes:
        """The body of the response. Everything else is an `ApiError`."""

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The response as it arrives, in pieces of any size. Timeouts between pieces are left to the caller."""


@dataclass(frozen=True, slots=True)
class ClassedApi:
    """An `Api` whose writes count against the rate limit of one class."""

    api: Api
    call_class: str

    async def call(self, request: Request) -> bytes:
        return await self.api.call(
            structs.replace(request, call_class=self.call_class) if request.is_write else request
        )

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self.api.stream(request)


class WriteGate:
    """An `Api` that lets writes pass only while it is open, and reads always.

    Reading starts before leadership and continues after it, so that the cache of a standby is warm; writing is bound to
    leadership. The gate tracks the writes that the server may still apply: those in flight, and those that ended
    without an answer, until their deadlines, after which the server drops them as well.
    """

    def __init__(self, api: Api, *, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._write_api: Api | None = None
        self._numbers = itertools.count()
        self._unsettled: dict[int, tuple[Request, float]] = {}

    def open(self, write_api: Api | None = None) -> None:
        """Writes pass through `write_api`, such as one that a lease fences; without it, they go where reads go."""
        self._write_api = write_api or self._api

    def close(self) -> None:
        self._write_api = None

    async def call(self, request: Request) -> bytes:
        if not request.is_write:
            return await self._api.call(request)
        if self._write_api is None:
            raise NotLeading("this process does not lead: nothing is written")
        number = next(self._numbers)
        self._unsettled[number] = request, self._clock.monotonic() + request.deadline
        try:
            answer = await self._write_api.call(request)
        except _AMBIGUOUS_FAILURES:
            self._forget_settled()
            raise
        except BaseException:
            self._unsettled.pop(number, None)
            raise
        self._unsettled.pop(number, None)
        return answer

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._api.stream(request)

    def list_unsettled(self) -> list[str]:
        """The writes that the server may still apply."""
        self._forget_settled()
        return [f"{request.method} {request.path}" for request, _ in self._unsettled.values()]

    def _forget_settled(self) -> None:
        now = self._clock.monotonic()
        for number in [number for number, (_, until) in self._unsettled.items() if until <= now]:
            del self._unsettled[number]
