"""The hub in memory of scenarios, with what tests do and see."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from fleet.cli.scenario.memory_hub import MemoryHub
from fleet.errors import NotFound
from fleet.hub.access.authentication import Tokens
from fleet.hub.hub import Hub
from fleet.kube.api import Method, Request
from fleet.kube.resource import Resource

Document = dict[str, Any]


class HubApi(MemoryHub):
    """Remembers all requests."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(hub)
        self.requests: list[Request] = []

    async def call(self, request: Request) -> bytes:
        self.requests.append(request)
        return await super().call(request)

    def copy(self, *, clock: Callable[[], float]) -> HubApi:
        """Another hub, that begins with all that this one holds."""
        store = self.hub.store
        entries = [(each.resource, entry) for each in store.collections for entry in each.scan()]
        return HubApi(Hub(Tokens({}), revision=store.revision, entries=entries, clock=clock))

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

    def remove_at_once(self, resource: Resource, key: tuple[str, str]) -> None:
        """Whatever finalizers it has."""
        kind = self.hub.registry.find(resource.group, resource.version, resource.plural)
        assert kind is not None
        entry = self.hub.objects.head(kind, key)
        assert entry is not None
        self.hub.objects.remove(kind, entry)

    async def exists(self, path: str) -> bool:
        try:
            await self.get(path)
        except NotFound:
            return False
        return True


def a_hub(*, clock: Callable[[], float] = time.time) -> HubApi:
    return HubApi.boot(clock=clock)


def _request(method: str, path: str, body: Document | None = None, **changes: Any) -> Request:
    return Request(Method(method), path, body=None if body is None else msgspec.json.encode(body), **changes)
