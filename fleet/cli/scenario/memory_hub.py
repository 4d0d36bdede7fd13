"""The embedded hub behind an `Api` in memory: no sockets, so hours pass at once in virtual time."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Callable, Iterator, MutableMapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, Self
from urllib.parse import unquote, urlencode

from fleet.hub.access.authentication import Tokens
from fleet.hub.http.app import Application, Listener
from fleet.hub.hub import Hub
from fleet.hub.objects.metadata import new_uid
from fleet.hub.storage.entries import StoredEntry
from fleet.kube.api import Request
from fleet.kube.client.failures import parse_error

Message = MutableMapping[str, Any]

_ADDRESS: Final = "127.0.0.1:1"


class MemoryHub:
    """Collects garbage after every request."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self._clock = _Clock(time.time)
        # Its time is that of the event loop, and its uids come in order.
        self._app = Application(hub, Listener(trusts_local=True, address=_ADDRESS), uses_thread=False)

    @classmethod
    def boot(cls, *, clock: Callable[[], float] = time.time, new_uid: Callable[[], str] = new_uid) -> Self:
        """With Fleet's kinds and nothing else. Costs next to nothing after the first."""
        revision, entries = _bootstrap()
        dates = _Clock(clock)
        booted = cls(Hub(Tokens({}), revision=revision, entries=entries, clock=dates, new_uid=new_uid))
        booted._clock = dates
        return booted

    @contextmanager
    def backdate(self, moment: float | None) -> Iterator[None]:
        """What is created meanwhile has this date, in seconds since the epoch."""
        self._clock.pinned = moment
        try:
            yield
        finally:
            self._clock.pinned = None

    async def call(self, request: Request) -> bytes:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        await self._app(_scope(request), _body_of(request), send)
        while self.hub.garbage_collector.has_work:
            self.hub.garbage_collector.process_batch()
        code, body = sent[0]["status"], b"".join(message["body"] for message in sent[1:])
        if code >= 300:
            raise parse_error(code, body, doing=f"{request.method} {request.path}")
        return body

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        pieces: asyncio.Queue[bytes | None] = asyncio.Queue()

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                started.set_result(message["status"])
            else:
                await pieces.put(message["body"])
                if not message.get("more_body"):
                    await pieces.put(None)

        serving = asyncio.create_task(self._app(_scope(request), _wait_forever, send), name="watch")
        try:
            if (code := await started) >= 300:
                raise parse_error(code, await pieces.get() or b"", doing=f"watch {request.path}")
            yield _read_pieces(pieces)
        finally:
            serving.cancel()
            await asyncio.wait([serving])


class _Clock:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.pinned: float | None = None

    def __call__(self) -> float:
        return self._clock() if self.pinned is None else self.pinned


@functools.cache
def _bootstrap() -> tuple[int, Sequence[tuple[str, StoredEntry]]]:
    hub = Hub(Tokens({}))
    hub.bootstrap()
    store = hub.store
    return store.revision, [(each.resource, entry) for each in store.collections for entry in each.scan()]


def _scope(request: Request) -> Message:
    return {
        "type": "http",
        "method": str(request.method),
        "path": unquote(request.path),
        "query_string": urlencode(request.query).encode(),
        "headers": [(b"host", _ADDRESS.encode()), (b"content-type", request.content_type.encode())],
    }


def _body_of(request: Request) -> Any:
    async def receive() -> Message:
        return {"type": "http.request", "body": request.body or b""}

    return receive


async def _wait_forever() -> Message:
    await asyncio.Event().wait()
    raise AssertionError("the event is never set")


async def _read_pieces(queue: asyncio.Queue[bytes | None]) -> AsyncIterator[bytes]:
    while (piece := await queue.get()) is not None:
        yield piece
