"""The embedded hub behind an `Api` in memory: no sockets, so hours pass at once under virtual time."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Callable, MutableMapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote, urlencode

import msgspec

from fleet.errors import NotFound
from fleet.hub.access.authentication import Tokens
from fleet.hub.http.app import Application, Listener
from fleet.hub.hub import Hub
from fleet.hub.storage.entries import StoredEntry
from fleet.kube.api import Method, Request
from fleet.kube.client.failures import parse_error

Message = MutableMapping[str, Any]
Document = dict[str, Any]

_ADDRESS = "127.0.0.1:1"


class HubApi:
    """Remembers all requests, and lets its hub clean up after every one."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.requests: list[Request] = []
        self._app = Application(hub, Listener(trusts_local=True, address=_ADDRESS))

    async def call(self, request: Request) -> bytes:
        self.requests.append(request)
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

        serving = asyncio.create_task(self._app(_scope(request), _open_end, send), name="watch")
        try:
            if (code := await started) >= 300:
                raise parse_error(code, await pieces.get() or b"", doing=f"watch {request.path}")
            yield _pieces(pieces)
        finally:
            serving.cancel()
            await asyncio.wait([serving])

    # --- what tests do and see ----------------------------------------------------------------------------------------

    async def get(self, path: str) -> Document:
        found: Document = msgspec.json.decode(await self.call(_request("GET", path)))
        return found

    async def list(self, path: str) -> list[Document]:
        items: list[Document] = (await self.get(path))["items"]
        return items

    async def create(self, path: str, document: Document) -> Document:
        made: Document = msgspec.json.decode(await self.call(_request("POST", path, document)))
        return made

    async def patch(self, path: str, patch: Document) -> Document:
        media_type = "application/merge-patch+json"
        body = await self.call(_request("PATCH", path, patch, content_type=media_type))
        patched: Document = msgspec.json.decode(body)
        return patched

    async def delete(self, path: str) -> None:
        await self.call(_request("DELETE", path))

    async def exists(self, path: str) -> bool:
        try:
            await self.get(path)
        except NotFound:
            return False
        return True


def a_hub(*, clock: Callable[[], float] = time.time) -> HubApi:
    """A hub with Fleet's kinds and nothing else. Making one costs next to nothing after the first."""
    revision, entries = _furniture()
    return HubApi(Hub(Tokens({}), revision=revision, entries=entries, clock=clock))


@functools.cache
def _furniture() -> tuple[int, Sequence[tuple[str, StoredEntry]]]:
    hub = Hub(Tokens({}))
    hub.bootstrap()
    store = hub.store
    return store.revision, [(one.resource, entry) for one in store.collections for entry in one.scan()]


def _request(method: str, path: str, body: Document | None = None, **changes: Any) -> Request:
    return Request(Method(method), path, body=None if body is None else msgspec.json.encode(body), **changes)


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


async def _open_end() -> Message:
    await asyncio.Event().wait()
    raise AssertionError("nobody sets the event")


async def _pieces(queue: asyncio.Queue[bytes | None]) -> AsyncIterator[bytes]:
    while (piece := await queue.get()) is not None:
        yield piece
