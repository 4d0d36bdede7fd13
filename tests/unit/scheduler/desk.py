"""Bindings to write: documents, operations, and a desk at which they are carried out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fleet.framework.operations import Action, Operation, TargetScores, WriteGroup, build_binding_name
from fleet.framework.request import PlacementRequest
from fleet.model.keys import (
    PARENT_PLACEMENT,
    SCHEDULED,
    SCHEDULER_BINDING_CLEANUP,
)
from fleet.model.views import Binding
from fleet.scheduler.dispatch.binding_calls import BindingWriter, WriteResult
from tests.fake_hub import DELETED_AT, GROUP, FakeHub, Fault, Json, Slow, in_turn, is_write
from tests.unit.scheduler.site import PATIENCE, Site, a_site

UID = "5d0c1b52-7f6e-4f0e-9a54-0c1f2b7a9e11"
WEB = PlacementRequest(placement="web", uid=UID, snapshot="web-1", placement_type="PickN")
IN_SHOP = PlacementRequest(placement="web", namespace="shop", uid=UID, snapshot="web-1")
BINDINGS = f"{GROUP}/clusterresourcebindings"


# --- what there is ----------------------------------------------------------------------------------------------------


def path_of(name: str) -> str:
    return f"{BINDINGS}/{name}"


def a_document(
    cluster: str,
    *,
    state: str = SCHEDULED,
    snapshot: str = "web-0",
    placement: str = "web",
    deleted: bool = False,
    **metadata: Any,
) -> Json:
    about: Json = {"labels": {PARENT_PLACEMENT: placement}, "finalizers": [SCHEDULER_BINDING_CLEANUP], **metadata}
    if deleted:
        about["deletionTimestamp"] = DELETED_AT
    decision = {"clusterName": cluster, "selected": True, "reason": "before", "clusterScore": {"affinityScore": 1}}
    spec = {
        "state": state,
        "targetCluster": cluster,
        "schedulingPolicySnapshotName": snapshot,
        "resourceSnapshotName": "theirs",
        "clusterDecision": decision,
    }
    return {"metadata": about, "spec": spec, "status": {"theirs": True}}


@dataclass
class Desk:
    site: Site
    writes: BindingWriter
    told: list[tuple[Action, str]] = field(default_factory=list)
    request: PlacementRequest = WEB

    @property
    def server(self) -> FakeHub:
        return self.site.server

    async def holds(self, name: str, document: Json) -> Binding:
        """The server has it, and the scheduler read it."""
        self.server.put(path_of(name), document)
        found = await self.site.bindings.get(name)
        self.site.kinds.bindings.store.apply_event(found)
        self.server.requests.clear()
        return found.view

    async def write(self, *operations: Operation) -> list[WriteResult]:
        return await self.writes.write_operations(self.site.kinds, self.request, operations)

    def stored(self, name: str) -> Json:
        return self.server.objects[path_of(name)]

    def others_write(self, name: str, patch: Json) -> None:
        """And the watch brings it."""
        written = msgspec.json.encode(self.server.edit(path_of(name), **patch))
        self.site.kinds.bindings.store.apply_event(self.site.bindings.codec.read(written))

    @asynccontextmanager
    async def writing_after(self, first: Operation, then: Operation) -> AsyncIterator[asyncio.Task[list[WriteResult]]]:
        """The body runs while the first is under way and the other waits for its slot."""
        self.server.fault = lambda _: Slow(1.0)
        task = asyncio.create_task(self.write(first, then))
        await asyncio.sleep(0.5)
        yield task
        await task

    def clusters(self) -> list[str]:
        return sorted(one["spec"]["targetCluster"] for one in self.server.objects.values())


@asynccontextmanager
async def a_desk(server: FakeHub | None = None, **more: Any) -> AsyncIterator[Desk]:
    async with a_site(server or FakeHub(), **more) as site:
        told: list[tuple[Action, str]] = []
        writes = BindingWriter(
            dispatcher=site.dispatcher,
            retry_policy=PATIENCE,
            on_write=lambda action, result: told.append((action, result)),
        )
        yield Desk(site, writes, told, IN_SHOP if more.get("namespaced") else WEB)


def create(cluster: str, *, holder_uid: str | None = None) -> Operation:
    name = build_binding_name(placement="web", placement_uid=UID, cluster=cluster, holder_uid=holder_uid)
    return Operation(
        action=Action.CREATE, group=WriteGroup.CREATE, cluster=cluster, name=name, scores=TargetScores(3, 0)
    )


def update(action: Action, binding: Binding) -> Operation:
    return Operation(
        action=action,
        group=WriteGroup.UPDATE,
        cluster=binding.spec.target_cluster,
        name=binding.metadata.name,
        binding=binding,
        scores=TargetScores(7, -1),
    )


def failing(*faults: Fault) -> FakeHub:
    """The first writes meet these."""
    return FakeHub(in_turn(*faults, to=is_write))


def only_error(results: list[WriteResult]) -> Exception | None:
    (result,) = results
    return result.error
