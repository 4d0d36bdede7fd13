"""Placements and bindings that are being deleted are let go, and nothing is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from fleet.errors import InternalError, StaleInputs
from fleet.framework.operations import Action
from fleet.kube.api import Method, Request
from fleet.model.keys import PLACEMENT_CLEANUP, SCHEDULER_BINDING_CLEANUP, SCHEDULER_CLEANUP, WORK_CLEANUP
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Binding, Observed
from fleet.scheduler.cleanup import BindingReleases
from tests.fake_hub import DELETED_AT, GROUP, INTERNAL, UNAVAILABLE, FakeHub, Fault, Json, Lost, Refused, Slow
from tests.faults.virtual import VirtualClock, virtual, within
from tests.unit.scheduler.desk import WEB, a_document, failing, path_of, update
from tests.unit.scheduler.site import Site, a_site

PLACEMENT = f"{GROUP}/clusterresourceplacements/web"


async def clean_up(site: Site) -> None:
    await site.cleanup.clean_up(site.kinds, await site.kinds.placements.objects.get("web"))


def deleting(server: FakeHub, *bindings: tuple[str, Json]) -> FakeHub:
    """The placement `web` is being deleted and has these bindings."""
    finalizers = [PLACEMENT_CLEANUP, SCHEDULER_CLEANUP]
    server.put(PLACEMENT, {"metadata": {"finalizers": finalizers, "deletionTimestamp": DELETED_AT}})
    for name, document in bindings:
        server.put(path_of(name), document)
    return server


def left(server: FakeHub) -> dict[str, list[str]]:
    """What still exists, with its finalizers."""
    return {path.rpartition("/")[2]: one["metadata"].get("finalizers", []) for path, one in server.objects.items()}


# --- placements -------------------------------------------------------------------------------------------------------


@virtual
async def test_bindings_lose_our_finalizer_and_then_go_and_the_placement_is_let_go_last() -> None:
    server = deleting(FakeHub(), ("b1", a_document("c1")), ("b2", a_document("c2")))
    async with a_site(server, concurrency=1) as site:
        await clean_up(site)
    assert server.writes() == [
        "PATCH clusterresourcebindings/b1",
        "DELETE clusterresourcebindings/b1",
        "PATCH clusterresourcebindings/b2",
        "DELETE clusterresourcebindings/b2",
        "PUT clusterresourceplacements/web",
    ]
    assert left(server) == {"web": [PLACEMENT_CLEANUP]}
    assert {one.call_class for one in server.requests if one.is_write} == {"evict"}


@virtual
async def test_bindings_are_deleted_at_the_same_time_and_with_their_uid() -> None:
    server = deleting(FakeHub(), *((f"b{n}", a_document(f"c{n}", uid=f"uid-of-{n}")) for n in range(8)))
    server.fault = lambda _: Slow(1.0)
    async with a_site(server) as site:
        await clean_up(site)
        assert asyncio.get_running_loop().time() == 5.0  # read, list, patch, delete, let go
    deletions = [one for one in server.bodies() if one.get("kind") == "DeleteOptions"]
    assert sorted(one["preconditions"]["uid"] for one in deletions) == [f"uid-of-{n}" for n in range(8)]


@virtual
async def test_bindings_are_found_by_label_and_those_of_others_stay() -> None:
    server = deleting(FakeHub(), ("b1", a_document("c1")), ("b2", a_document("c1", placement="other")))
    async with a_site(server) as site:
        await clean_up(site)
    assert left(server) == {"b2": [SCHEDULER_BINDING_CLEANUP], "web": [PLACEMENT_CLEANUP]}
    assert [dict(one.query).get("labelSelector") for one in server.requests if one.query] == [
        "kubernetes-fleet.io/parent-CRP=web"
    ]


@virtual
async def test_a_namespaced_placement_takes_the_bindings_of_its_namespace_along() -> None:
    server = FakeHub()
    folder = f"{GROUP}/namespaces/shop"
    server.put(
        f"{folder}/resourceplacements/web",
        {"metadata": {"namespace": "shop", "finalizers": [SCHEDULER_CLEANUP, "x"], "deletionTimestamp": DELETED_AT}},
    )
    server.put(f"{folder}/resourcebindings/b1", a_document("c1", namespace="shop"))
    server.put(f"{GROUP}/namespaces/other/resourcebindings/b1", a_document("c1", namespace="other"))
    async with a_site(server, namespaced=True) as site:
        cleanup = site.cleanup
        await cleanup.clean_up(site.kinds, await site.kinds.placements.objects.get("shop/web"))
    assert sorted(server.objects) == [
        f"{GROUP}/namespaces/other/resourcebindings/b1",
        f"{folder}/resourceplacements/web",
    ]


@virtual
async def test_foreign_finalizers_hold_a_binding_and_are_not_waited_for() -> None:
    finalizers = [SCHEDULER_BINDING_CLEANUP, WORK_CLEANUP]
    server = deleting(FakeHub(), ("b1", a_document("c1", finalizers=finalizers)))
    async with a_site(server) as site:
        await clean_up(site)
    assert left(server) == {"b1": [WORK_CLEANUP], "web": [PLACEMENT_CLEANUP]}
    assert server.objects[path_of("b1")]["metadata"]["deletionTimestamp"]


@virtual
async def test_a_terminating_binding_only_loses_our_finalizer() -> None:
    finalizers = [SCHEDULER_BINDING_CLEANUP, WORK_CLEANUP]
    server = deleting(
        FakeHub(),
        ("b1", a_document("c1", deleted=True, finalizers=finalizers)),
        ("b2", a_document("c2", deleted=True, finalizers=[WORK_CLEANUP])),
    )
    async with a_site(server) as site:
        await clean_up(site)
    assert server.writes() == ["PATCH clusterresourcebindings/b1", "PUT clusterresourceplacements/web"]


@virtual
async def test_a_binding_without_our_finalizer_is_deleted_as_it_is() -> None:
    server = deleting(FakeHub(), ("b1", a_document("c1", finalizers=[])))
    async with a_site(server) as site:
        await clean_up(site)
    assert server.writes() == ["DELETE clusterresourcebindings/b1", "PUT clusterresourceplacements/web"]


@virtual
async def test_of_what_outlived_its_placement_only_what_is_as_the_scheduler_made_it_goes() -> None:
    """A bound one stands for workload, and may wait for a placement that is just being restored."""
    server = FakeHub()
    server.put(path_of("ours"), a_document("c1"))
    server.put(path_of("theirs"), a_document("c2", finalizers=[WORK_CLEANUP]))
    server.put(path_of("bound"), a_document("c3", state="Bound"))
    async with a_site(server) as site:
        bindings = await site.kinds.bindings.objects.list()
        await site.cleanup.delete_orphans(site.kinds, PlacementKey("", "web"), bindings)
    assert left(server) == {"theirs": [WORK_CLEANUP], "bound": [SCHEDULER_BINDING_CLEANUP]}
    assert b'"uid":"uid-' in (server.requests[-1].body or b"")


@virtual
async def test_a_failure_leaves_the_placement_held_and_the_other_bindings_gone() -> None:
    server = deleting(failing(Refused(INTERNAL)), ("b1", a_document("c1")), ("b2", a_document("c2")))
    async with a_site(server) as site:
        with pytest.raises(InternalError):
            await clean_up(site)
    assert left(server) == {"b1": [SCHEDULER_BINDING_CLEANUP], "web": [PLACEMENT_CLEANUP, SCHEDULER_CLEANUP]}


@virtual
async def test_a_binding_that_changes_meanwhile_goes_all_the_same() -> None:
    server = deleting(FakeHub(), ("b1", a_document("c1")))
    server.before_write = [lambda: server.edit(path_of("b1"), spec={"state": "Bound"})]
    async with a_site(server) as site:
        await clean_up(site)
    assert left(server) == {"web": [PLACEMENT_CLEANUP]}


@virtual
async def test_a_binding_that_vanishes_meanwhile_is_done() -> None:
    server = deleting(FakeHub(), ("b1", a_document("c1")))
    server.before_write = [lambda: server.objects.pop(path_of("b1"))]
    async with a_site(server) as site:
        await clean_up(site)
    assert left(server) == {"web": [PLACEMENT_CLEANUP]}


@virtual
async def test_a_successor_under_the_name_of_a_binding_is_spared() -> None:
    server = deleting(FakeHub(), ("b1", a_document("c1", finalizers=[])))

    def replace() -> None:
        del server.objects[path_of("b1")]
        server.put(path_of("b1"), a_document("c1", placement="other"))

    server.before_write = [replace]
    async with a_site(server) as site:
        await clean_up(site)
    assert "b1" in left(server)


@virtual
async def test_answers_that_were_lost_do_no_harm() -> None:
    server = deleting(failing(Lost(UNAVAILABLE), None, Lost(UNAVAILABLE)), ("b1", a_document("c1")))
    async with a_site(server) as site:
        await clean_up(site)
    assert left(server) == {"web": [PLACEMENT_CLEANUP]}


# --- bindings ---------------------------------------------------------------------------------------------------------


@dataclass
class Releasing:
    site: Site
    releases: BindingReleases
    enqueued: list[str]
    problems: list[tuple[str, Exception]]

    async def brings(self, name: str, document: Json) -> Observed[Binding]:
        """The watch."""
        self.site.server.put(path_of(name), document)
        found = await self.site.bindings.get(name)
        self.site.kinds.bindings.store.apply_event(found)
        return found

    async def settle(self) -> None:
        await asyncio.sleep(60)


@asynccontextmanager
async def releasing(server: FakeHub) -> AsyncIterator[Releasing]:
    enqueued: list[str] = []
    problems: list[tuple[str, Exception]] = []
    async with a_site(server) as site, asyncio.TaskGroup() as group:
        releases = BindingReleases(
            site.writer,
            lambda key: enqueued.append(str(key)),
            clock=VirtualClock(),
            on_problem=lambda key, error: problems.append((key, error)),
        )
        group.create_task(releases.run(), name="releases")
        yield Releasing(site, releases, enqueued, problems)
        releases.close()


@within(lambda: releasing(FakeHub()))
async def test_D18_our_finalizer_goes_at_once_and_then_the_placement_is_enqueued(desk: Releasing) -> None:
    finalizers = [WORK_CLEANUP, SCHEDULER_BINDING_CLEANUP]
    binding = await desk.brings("b1", a_document("c1", deleted=True, finalizers=finalizers))
    desk.releases.add(desk.site.kinds, binding)
    await desk.settle()
    assert desk.site.server.writes() == ["PATCH clusterresourcebindings/b1"]
    assert left(desk.site.server) == {"b1": [WORK_CLEANUP]}
    assert desk.enqueued == ["web"]


@virtual
async def test_D18_a_release_is_tried_until_it_succeeds() -> None:
    async with releasing(failing(*[Refused(INTERNAL)] * 12)) as desk:
        desk.releases.add(desk.site.kinds, await desk.brings("b1", a_document("c1", deleted=True)))
        await asyncio.sleep(1)
        assert desk.enqueued == []
        await desk.settle()
        assert left(desk.site.server) == {}
        assert desk.enqueued == ["web"]
        assert [key for key, _ in desk.problems] == ["b1"] * 12


@within(lambda: releasing(FakeHub()))
async def test_the_newest_state_of_the_binding_is_looked_at(desk: Releasing) -> None:
    binding = await desk.brings("b1", a_document("c1", deleted=True, finalizers=[SCHEDULER_BINDING_CLEANUP, "x"]))
    await desk.brings("b1", a_document("c1", deleted=True, finalizers=["x"]))
    desk.releases.add(desk.site.kinds, binding)
    await desk.settle()
    assert desk.site.server.writes() == []
    assert desk.enqueued == ["web"]


@within(lambda: releasing(FakeHub()))
async def test_a_binding_that_is_not_leaving_is_not_touched(desk: Releasing) -> None:
    desk.releases.add(desk.site.kinds, await desk.brings("b1", a_document("c1")))
    await desk.settle()
    assert desk.site.server.writes() == []


@within(lambda: releasing(FakeHub()))
async def test_a_binding_that_belongs_to_nobody_is_released_too(desk: Releasing) -> None:
    desk.releases.add(desk.site.kinds, await desk.brings("b1", a_document("c1", deleted=True, labels={})))
    await desk.settle()
    assert left(desk.site.server) == {}
    assert desk.enqueued == []


@virtual
async def test_a_release_and_an_attempt_that_drops_the_same_finalizer_need_one_request() -> None:
    server = FakeHub()
    async with releasing(server) as desk:
        finalizers = [SCHEDULER_BINDING_CLEANUP, WORK_CLEANUP]
        binding = await desk.brings("b1", a_document("c1", deleted=True, finalizers=finalizers))
        server.fault = lambda _: Slow(1.0)
        desk.releases.add(desk.site.kinds, binding)
        await asyncio.sleep(0.5)
        writes = desk.site.writer
        result = await writes.release(desk.site.kinds, binding.view)
        assert (result.error, result.skipped) == (None, True)
        assert server.writes() == ["PATCH clusterresourcebindings/b1"]


@virtual
async def test_a_refresh_gives_way_to_the_release_of_the_same_binding() -> None:
    server = FakeHub()
    async with releasing(server) as desk:
        binding = await desk.brings("b1", a_document("c1", deleted=True))
        server.fault = lambda _: Slow(1.0)
        desk.releases.add(desk.site.kinds, binding)
        await asyncio.sleep(0.5)
        writes = desk.site.writer
        (result,) = await writes.write_operations(desk.site.kinds, WEB, [update(Action.REFRESH, binding.view)])
        assert isinstance(result.error, StaleInputs)
        assert server.writes() == ["PATCH clusterresourcebindings/b1"]


@virtual
async def test_a_closed_queue_lets_its_workers_go() -> None:
    def never(request: Request) -> Fault:
        return Refused(UNAVAILABLE) if request.method is Method.PATCH else None

    async with releasing(FakeHub(never)) as desk:
        desk.releases.add(desk.site.kinds, await desk.brings("b1", a_document("c1", deleted=True)))
        await desk.settle()
    assert left(desk.site.server) == {"b1": [SCHEDULER_BINDING_CLEANUP]}
