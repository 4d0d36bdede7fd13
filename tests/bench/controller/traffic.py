"""Requests without ceremony, for the driver and for the plain client: a session, 64 requests in flight, no retries."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import aiohttp
import msgspec

from fleet.kube.resource import Resource
from tests.bench.controller.hubs import Hub

IN_FLIGHT: Final = 64

T = TypeVar("T")
Json = dict[str, Any]


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    resource_version: str = ""


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] = ()


class Seen(msgspec.Struct, frozen=True):
    metadata: _Metadata
    status: _Status = _Status()

    @property
    def is_scheduled(self) -> bool:
        return self.has_condition("Scheduled")

    @property
    def is_decided(self) -> bool:
        """A placement: whether it found its clusters or not."""
        return any(each.type.endswith("Scheduled") and each.status != "Unknown" for each in self.status.conditions)

    def has_condition(self, type: str) -> bool:
        """That is True."""
        return any(condition.type == type and condition.status == "True" for condition in self.status.conditions)


class Event(msgspec.Struct, frozen=True):
    type: str
    object: Seen


class _List(msgspec.Struct, frozen=True):
    metadata: _Metadata
    items: list[msgspec.Raw] | None = None


_READ_EVENT: Final = msgspec.json.Decoder(Event).decode
_READ_SEEN: Final = msgspec.json.Decoder(Seen).decode
_READ_LIST: Final = msgspec.json.Decoder(_List).decode


class Traffic:
    def __init__(self, hub: Hub, session: aiohttp.ClientSession) -> None:
        self._hub = hub
        self._session = session
        self._slots = asyncio.Semaphore(IN_FLIGHT)

    @classmethod
    @asynccontextmanager
    async def to(cls, hub: Hub, *, agent: str = "fleet-bench-driver") -> AsyncIterator[Traffic]:
        """As whom counts: a hub keeps for every field who wrote it, which costs less where it was always the same."""
        headers = {**hub.headers(), "User-Agent": agent}
        connector = aiohttp.TCPConnector(ssl=hub.trust(), limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, headers=headers, timeout=timeout) as session:
            yield cls(hub, session)

    async def post(self, resource: Resource, document: Json) -> bytes:
        return await self.send("POST", resource.collection(), {**_typed(resource), **document})

    async def put_status(self, resource: Resource, document: Json) -> bytes:
        path = resource.item(document["metadata"]["name"], "status")
        return await self.send("PUT", path, {**_typed(resource), **document})

    async def send(self, method: str, path: str, body: Json | bytes | None = None) -> bytes:
        data = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
        headers = {"Content-Type": "application/json"}
        async with (
            self._slots,
            self._session.request(method, self._hub.url + path, data=data, headers=headers) as answer,
        ):
            content = await answer.read()
            assert answer.status < 300, f"{method} {path}: {answer.status} {content[:500]!r}"
            return content

    async def list(self, resource: Resource, labels: str) -> _List:
        query = f"?labelSelector={labels}"
        return _READ_LIST(await self.send("GET", resource.collection() + query))

    async def count_of(self, resource: Resource, labels: str) -> int:
        return len((await self.list(resource, labels)).items or ())

    async def watch(self, resource: Resource, labels: str, version: str) -> AsyncIterator[Event]:
        """Without an end: a server may close a watch at any time, and does so soon after its kinds were defined."""
        while True:
            query = f"?watch=1&labelSelector={labels}&resourceVersion={version}"
            async with self._session.get(self._hub.url + resource.collection() + query, read_bufsize=2**20) as answer:
                assert answer.status == 200, await answer.read()
                async for line in _lines(answer):
                    event = _READ_EVENT(line)
                    version = event.object.metadata.resource_version
                    yield event

    async def counted(self) -> Counter[str]:
        return self._hub.counted((await self.send("GET", self._hub.counts_path)).decode())


async def for_each(items: Iterable[T], work: Callable[[T], Awaitable[object]]) -> None:
    """So many at a time as are allowed to be in flight, and no more tasks than that."""
    waiting = iter(items)

    async def one_after_the_other() -> None:
        for item in waiting:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(one_after_the_other())


async def _lines(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    rest = b""
    async for piece in answer.content.iter_any():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line


def read_seen(document: bytes) -> Seen:
    return _READ_SEEN(document)


def _typed(resource: Resource) -> Json:
    return {"apiVersion": resource.api_version, "kind": resource.kind}
