"""What placements select on a hub as it is: its discovery, watches of all sorts of kinds, snapshot groups."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import pytest

from fleet.clock import SystemClock, epoch_nanoseconds
from fleet.errors import StaleInputs
from fleet.kube.cache.store import build_codec
from fleet.kube.client.transport import Transport
from fleet.kube.informer import InformerConfig
from fleet.kube.objects import RetryPolicy
from fleet.kube.scopes import CLUSTER_SCOPED, NAMESPACED
from fleet.model.decoding import decode
from fleet.model.views import Observed, Placement
from fleet.placement.reconcile_context import ReconciledSpec
from fleet.placement.selection.resolution import SelectionResult
from fleet.placement.selection.resource_selection import ResourceSelection
from fleet.placement.snapshots.resource_snapshots import EnsureResult, Pacing, ResourceSnapshots
from tests.conformance.hub import Hub
from tests.conformance.playing import play
from tests.control_plane.waiting import SECONDS_BETWEEN_REFRESHES

pytestmark = pytest.mark.servers

PLACEMENTS: Final = CLUSTER_SCOPED.placement.collection()
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SECONDS: Final = 200

Json = dict[str, Any]


@dataclass
class Bench:
    content: ResourceSelection
    groups: ResourceSnapshots
    woken: asyncio.Queue[str]

    async def resolve(self, placement: Observed[Placement]) -> SelectionResult:
        """Again, as the controller does, while a kind cannot be read: other tests define some and take them away."""
        while True:
            with suppress(StaleInputs):
                return await self.content.resolve(placement.view.metadata, spec_of(placement).resource_selectors)
            await asyncio.sleep(SECONDS_BETWEEN_REFRESHES)

    async def told(self, key: str) -> None:
        """Waits until the placement is woken."""
        while await self.woken.get() != key:
            pass

    async def selects(self, placement: Observed[Placement], key: str, *wanted: str) -> SelectionResult:
        """What is selected, as soon as it is this. It may be woken more often than for what the test does."""
        while names(selected := await self.resolve(placement)) != [*wanted]:
            await self.told(key)
        return selected

    async def ensure(
        self, placement: Observed[Placement], selected: SelectionResult, *, reads_live: bool = False
    ) -> EnsureResult:
        now = epoch_nanoseconds(SystemClock())
        return await self.groups.ensure(
            placement.view.metadata, spec_of(placement), selected, now=now, reads_live=reads_live
        )


def spec_of(placement: Observed[Placement]) -> ReconciledSpec:
    return decode(bytes(placement.view.spec), ReconciledSpec).view


@asynccontextmanager
async def working(transport: Transport, *, part_bytes: int = 600) -> AsyncIterator[Bench]:
    clock, woken = SystemClock(), asyncio.Queue[str]()
    access = InformerConfig(reads=transport, writes=transport, clock=clock, jitter=lambda: 0.0)
    content = ResourceSelection(access)
    content.subscribe(woken.put_nowait)
    groups = ResourceSnapshots(
        access,
        (CLUSTER_SCOPED, NAMESPACED),
        retry_policy=RetryPolicy(clock, lambda: 0.0),
        pacing=Pacing(minimum_interval=0, collection_time=0),
        part_bytes=part_bytes,
    )
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(one.run()) for one in (content, groups)]
        yield Bench(content, groups, woken)
        for task in running:
            task.cancel()


def a_placement(hub: Hub, name: str, *terms: Json) -> Observed[Placement]:
    placement = CLUSTER_SCOPED.placement
    document = {"apiVersion": placement.api_version, "kind": placement.kind, "metadata": {"name": name}}
    created = hub.http.post(PLACEMENTS, {**document, "spec": {"resourceSelectors": terms}}).ok()
    return build_codec(Placement).read(msgspec.json.encode(created))


def the_namespace(hub: Hub) -> Json:
    return {"group": "", "version": "v1", "kind": "Namespace", "name": hub.namespace}


async def create(hub: Hub, plural: str, document: Json, *, group: str = "/api/v1") -> None:
    path = f"{group}/namespaces/{hub.namespace}/{plural}"
    await asyncio.to_thread(lambda: hub.http.post(path, document).ok())


def names(selected: SelectionResult) -> list[str]:
    assert selected.user_error is None, selected.user_error
    return [one.name for one in selected.objects]


def a_kind(name: str) -> Json:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{name}s.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": f"{name}s", "kind": name.title()},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def test_what_comes_into_a_namespace_is_selected_and_stored(hub: Hub, unique: str) -> None:
    placement = a_placement(hub, unique, the_namespace(hub))

    async def scene(transport: Transport) -> None:
        async with working(transport) as bench:
            assert names(await bench.resolve(placement)) == [hub.namespace]
            await create(hub, "configmaps", {"metadata": {"name": "a"}, "data": {"x": "<1>"}})
            selected = await bench.selects(placement, unique, hub.namespace, "a")
            first = await bench.ensure(placement, selected)
            assert await bench.ensure(placement, selected, reads_live=True) == first
            await create(hub, "configmaps", {"metadata": {"name": "b"}, "data": {"x": "y" * 600}})
            second = await bench.ensure(placement, await bench.selects(placement, unique, hub.namespace, "a", "b"))
            assert (first.index, second.index) == (0, 1)
            assert second.names == (f"{unique}-1-snapshot", f"{unique}-1-0")

    play(hub.access, scene, seconds=SECONDS)


def test_a_service_goes_without_what_the_hub_gave_it(hub: Hub, unique: str) -> None:
    placement = a_placement(hub, unique, the_namespace(hub))

    async def scene(transport: Transport) -> None:
        async with working(transport) as bench:
            ports = [{"name": "http", "port": 80}]
            await create(hub, "services", {"metadata": {"name": "web"}, "spec": {"type": "NodePort", "ports": ports}})
            *_, service = (await bench.resolve(placement)).objects
            content = msgspec.json.decode(service.content)
            assert {"clusterIP", "clusterIPs", "healthCheckNodePort"}.isdisjoint(content["spec"])
            assert "nodePort" not in content["spec"]["ports"][0]
            assert set(content["metadata"]) == {"name", "namespace"}

    play(hub.access, scene, seconds=SECONDS)


def test_a_kind_that_is_defined_later_is_found(hub: Hub, unique: str) -> None:
    """By those who wait for it, and by those who take their namespace as a whole."""
    placement = a_placement(hub, unique, the_namespace(hub))
    by_kind = {"group": "example.com", "version": "v1", "kind": unique.title()}
    document = {"metadata": {"name": "later", "namespace": hub.namespace}, "spec": {"resourceSelectors": [by_kind]}}
    waiting = build_codec(Placement).read(msgspec.json.encode(document))

    async def scene(transport: Transport) -> None:
        async with working(transport) as bench:
            assert names(await bench.resolve(placement)) == [hub.namespace]
            refused = (await bench.resolve(waiting)).user_error
            assert refused is not None
            assert refused.startswith("PL-05: ")
            await asyncio.to_thread(lambda: hub.http.post(DEFINITIONS, a_kind(unique)).ok())
            while (await bench.resolve(waiting)).user_error is not None:
                await bench.told(f"{hub.namespace}/later")
            assert names(await bench.resolve(waiting)) == []
            one = {"apiVersion": "example.com/v1", "kind": unique.title(), "metadata": {"name": "w"}, "n": 1.5}
            await create(hub, f"{unique}s", one, group="/apis/example.com/v1")
            await bench.selects(placement, unique, hub.namespace, "w")
            assert names(await bench.resolve(waiting)) == ["w"]

    play(hub.access, scene, seconds=SECONDS)
