"""Targets of the operator: where the objects of a scheduler are, and run. On the hub, its own controllers run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Protocol

from fleet.kube.informer import Informer
from fleet.kube.resource import Resource, join_key
from fleet.operator.operands import APPLIED, Json, get_operand_name
from fleet.operator.ownership import MANAGER, transfer_fields


class OperandTarget(Protocol):
    has_nodes: bool
    """Whether replicas are limited by nodes of the hub."""

    def open(self, on_change: Callable[[], None]) -> AbstractAsyncContextManager[None]:
        """While the operator leads. `on_change` is called when the state of an object changes."""

    def find(self, resource: Resource) -> Json | None: ...

    async def create(self, resource: Resource, document: Json) -> None: ...

    async def apply(self, resource: Resource, document: Json) -> None:
        """To the object that exists. Fields that it has by others, or by an earlier call only, are removed."""

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
        await self._informers[resource].objects.create(document, manager=MANAGER)

    async def apply(self, resource: Resource, document: Json) -> None:
        objects, key, observed = self._informers[resource].objects, self._get_key(resource), self.find(resource)
        assert observed is not None
        uid = {"uid": observed["metadata"]["uid"]}
        if transfer_fields(observed) is not None:
            live = (await objects.get(key)).document()
            version = {"resourceVersion": live["metadata"]["resourceVersion"]}
            # Without the digest the next reconcile applies if this one cannot.
            marks = {"managedFields": transfer_fields(live), "annotations": {APPLIED: None}}
            await objects.merge_patch(key, {"metadata": {**uid, **version, **marks}})
        await objects.apply({**document, "metadata": {**document["metadata"], **uid}}, manager=MANAGER)

    async def delete(self, resource: Resource) -> None:
        await self._informers[resource].objects.delete(self._get_key(resource))

    async def collect(self, owner: str) -> None: ...

    def _get_key(self, resource: Resource) -> str:
        return join_key(self._namespace, get_operand_name(resource))
