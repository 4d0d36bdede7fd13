"""Targets of the operator: where the objects of a scheduler are, and run. On the hub, its own controllers run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Protocol

from fleet.kube.informer import Informer
from fleet.kube.resource import Resource, join_key
from fleet.operator.operands import Json, get_operand_name


class OperandTarget(Protocol):
    has_nodes: bool
    """Whether replicas are limited by nodes of the hub."""

    def open(self, on_change: Callable[[], None]) -> AbstractAsyncContextManager[None]:
        """While the operator leads. `on_change` is called when the state of an object changes."""

    def find(self, resource: Resource) -> Json | None: ...

    async def create(self, resource: Resource, document: Json) -> None: ...

    async def patch(self, resource: Resource, document: Json) -> None: ...

    async def delete(self, resource: Resource) -> None: ...

    async def collect(self, owner: str) -> None:
        """Deletes the objects that belong to another owner than the one with this uid; all if it is empty."""


class HubTarget:
    """The operator watches the objects as all others, and the hub collects those whose owner is gone."""

    has_nodes = True

    def __init__(self, informers: Mapping[Resource, Informer[Any]], namespace: str) -> None:
        self._informers, self._namespace = informers, namespace

    def open(self, on_change: Callable[[], None]) -> AbstractAsyncContextManager[None]:
        del on_change
        return nullcontext()

    def find(self, resource: Resource) -> Json | None:
        stored = self._informers[resource].store.get(self._get_key(resource))
        return None if stored is None else stored.document()

    async def create(self, resource: Resource, document: Json) -> None:
        await self._informers[resource].objects.create(document)

    async def patch(self, resource: Resource, document: Json) -> None:
        # No server-side apply: it would keep the items that a hand edit added to a list.
        await self._informers[resource].objects.merge_patch(self._get_key(resource), document)

    async def delete(self, resource: Resource) -> None:
        await self._informers[resource].objects.delete(self._get_key(resource))

    async def collect(self, owner: str) -> None: ...

    def _get_key(self, resource: Resource) -> str:
        return join_key(self._namespace, get_operand_name(resource))
