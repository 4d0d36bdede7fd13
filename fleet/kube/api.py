"""What the rest of this package asks of a Kubernetes API: one answer to one request, or a stream of bytes.

This is the seam under the reflector, the lease and the patches. `transport` fills it with HTTP; tests fill it with a
scripted server under virtual time; a leader puts its fence in front of it (`lease.FencedApi`).
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
    """Quoted already; `resource.Resource` makes such paths."""
    _: KW_ONLY
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    content_type: str = "application/json"
    call_class: str = READ_CLASS
    """Whose budget the request is paid from."""
    deadline: float = DEFAULT_DEADLINE
    """Seconds for the whole exchange, waiting for the budget included; of a stream, until it is open."""
    guard: Callable[[], object] | None = None
    """Asked once more before the request leaves, after any wait; raises when it must not."""

    @property
    def is_write(self) -> bool:
        return self.method is not Method.GET


class Api(Protocol):
    async def call(self, request: Request) -> bytes:
        """The body of the answer. Everything else is an `ApiError`."""

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The answer as it arrives, in pieces of any size. How long to wait for a piece is the caller's business."""
