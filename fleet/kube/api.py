"""Protocol of a Kubernetes API client: one response to one request, or a stream of bytes.

`client.transport` implements it over HTTP, tests with a scripted server under virtual time; `leader_election.FencedApi`
wraps it with the fence of a leader.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import KW_ONLY, dataclass
from typing import Final, Protocol

DEFAULT_DEADLINE: Final = 30.0
"""Seconds. The API server itself gives up on a request after 60."""

READ_CLASS: Final = "read"
WRITE_CLASS: Final = "write"
LEASE_CLASS: Final = "lease"


class Method(enum.StrEnum):
    GET = "GET"
    POST = "POST"
    PUT = "PUT"
    PATCH = "PATCH"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True)
class Request:
    method: Method
    path: str
    """Quoted already, like the paths of `resource.Resource`."""
    _: KW_ONLY
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    content_type: str = "application/json"
    call_class: str = READ_CLASS
    """Selects the rate limit."""
    deadline: float = DEFAULT_DEADLINE
    """Seconds for the whole exchange, waiting for the rate limit included; of a stream, until it is open."""
    guard: Callable[[], object] | None = None
    """Called once more right before sending, after any wait; raises when the request must not be sent."""

    @property
    def is_write(self) -> bool:
        return self.method is not Method.GET


class Api(Protocol):
    async def call(self, request: Request) -> bytes:
        """The body of the response. Everything else is an `ApiError`."""

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The response as it arrives, in pieces of any size. Timeouts between pieces are left to the caller."""
