"""Our finalizer on placements comes and goes, and nothing else about them changes."""

from __future__ import annotations

import copy

import pytest

from fleet.errors import StaleInputs, Unavailable
from fleet.informers.cache import PlacementKinds
from fleet.model.keys import PLACEMENT_CLEANUP, SCHEDULER_CLEANUP
from fleet.model.views import Observed, Placement
from tests.fake_hub import DELETED_AT, GROUP, UNAVAILABLE, FakeHub, Json, Lost, Refused
from tests.faults.virtual import virtual, within
from tests.unit.scheduler.desk import failing
from tests.unit.scheduler.site import Site, a_site

PATH = f"{GROUP}/clusterresourceplacements/web"
ODD = {"spec": {"unknown": [{"deep": None}]}, "status": {"theirs": 1}, "more": True}


def a_placement(*finalizers: str, **metadata: object) -> Json:
    return {**copy.deepcopy(ODD), "metadata": {"generation": 4, "finalizers": list(finalizers), **metadata}}


async def read(kinds: PlacementKinds) -> Observed[Placement]:
    return await kinds.placements.objects.get("web")


def finalizers(server: FakeHub) -> list[str]:
    found: list[str] = server.objects[PATH]["metadata"]["finalizers"]
    return found


# --- adding -----------------------------------------------------------------------------------------------------------


@within(lambda: a_site(FakeHub()))
async def test_the_finalizer_is_added_by_a_put_of_the_object_as_read(site: Site) -> None:
    before = site.server.put(PATH, a_placement(PLACEMENT_CLEANUP))
    held = await site.cleanup.add_finalizer(site.kinds, await read(site.kinds))
    assert held is not None
    assert held.view.metadata.finalizers == (PLACEMENT_CLEANUP, SCHEDULER_CLEANUP)
    assert site.kinds.placements.store.get("web") == held
    assert site.server.writes() == ["PUT clusterresourceplacements/web"]
    (body,) = site.server.bodies()
    typed = {"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement"}
    metadata = {**before["metadata"], "finalizers": [PLACEMENT_CLEANUP, SCHEDULER_CLEANUP]}
    assert body == {**before, **typed, "metadata": metadata}


@virtual
async def test_the_finalizer_of_a_namespaced_placement() -> None:
    server = FakeHub()
    async with a_site(server, namespaced=True) as site:
        path = f"{GROUP}/namespaces/shop/resourceplacements/web"
        server.put(path, a_placement(namespace="shop"))
        await site.cleanup.add_finalizer(site.kinds, await site.kinds.placements.objects.get("shop/web"))
        assert server.writes() == ["PUT namespaces/shop/resourceplacements/web"]


@within(lambda: a_site(FakeHub()))
async def test_a_placement_that_has_it_is_not_written(site: Site) -> None:
    site.server.put(PATH, a_placement(SCHEDULER_CLEANUP))
    placement = await read(site.kinds)
    assert await site.cleanup.add_finalizer(site.kinds, placement) == placement
    assert site.server.writes() == []


@within(lambda: a_site(FakeHub()))
async def test_after_a_conflict_it_is_added_to_the_live_object(site: Site) -> None:
    site.server.put(PATH, a_placement())
    placement = await read(site.kinds)
    site.server.before_write = [lambda: site.server.edit(PATH, metadata={"finalizers": ["theirs"]}, spec={"n": 2})] * 2
    assert await site.cleanup.add_finalizer(site.kinds, placement) is not None
    assert finalizers(site.server) == ["theirs", SCHEDULER_CLEANUP]
    assert site.server.objects[PATH]["spec"] == {**ODD["spec"], "n": 2}  # type: ignore[dict-item]


@within(lambda: a_site(FakeHub()))
async def test_it_is_not_added_to_a_placement_that_is_being_deleted_meanwhile(site: Site) -> None:
    site.server.put(PATH, a_placement(PLACEMENT_CLEANUP))
    placement = await read(site.kinds)
    site.server.before_write = [lambda: site.server.edit(PATH, metadata={"deletionTimestamp": DELETED_AT})]
    assert await site.cleanup.add_finalizer(site.kinds, placement) is None
    assert finalizers(site.server) == [PLACEMENT_CLEANUP]


@within(lambda: a_site(FakeHub()))
async def test_a_placement_that_is_gone_meanwhile_is_none(site: Site) -> None:
    site.server.put(PATH, a_placement())
    placement = await read(site.kinds)
    site.server.objects.clear()
    assert await site.cleanup.add_finalizer(site.kinds, placement) is None


@within(lambda: a_site(FakeHub()))
async def test_a_placement_that_was_made_again_is_decided_about_anew(site: Site) -> None:
    site.server.put(PATH, a_placement())
    placement = await read(site.kinds)
    del site.server.objects[PATH]
    site.server.put(PATH, a_placement())
    with pytest.raises(StaleInputs, match="placement web was deleted and created again"):
        await site.cleanup.add_finalizer(site.kinds, placement)


@virtual
async def test_an_addition_whose_answer_was_lost_is_not_made_twice() -> None:
    server = failing(Lost(UNAVAILABLE))
    async with a_site(server) as site:
        server.put(PATH, a_placement())
        assert await site.cleanup.add_finalizer(site.kinds, await read(site.kinds)) is not None
        assert finalizers(server) == [SCHEDULER_CLEANUP]
        assert len(server.writes()) == 1


# --- removing ---------------------------------------------------------------------------------------------------------


@within(lambda: a_site(FakeHub()))
async def test_only_our_finalizer_is_removed(site: Site) -> None:
    before = site.server.put(PATH, a_placement(PLACEMENT_CLEANUP, SCHEDULER_CLEANUP, "x", deletionTimestamp=DELETED_AT))
    await site.cleanup.remove_finalizer(site.kinds, await read(site.kinds))
    (body,) = site.server.bodies()
    assert body["metadata"] == {**before["metadata"], "finalizers": [PLACEMENT_CLEANUP, "x"]}
    assert site.server.writes() == ["PUT clusterresourceplacements/web"]
    assert site.server.requests[-1].call_class == "evict"


@within(lambda: a_site(FakeHub()))
async def test_after_a_conflict_it_is_removed_from_the_live_object(site: Site) -> None:
    site.server.put(PATH, a_placement(SCHEDULER_CLEANUP, "x", deletionTimestamp=DELETED_AT))
    placement = await read(site.kinds)
    site.server.before_write = [lambda: site.server.edit(PATH, metadata={"finalizers": ["y", SCHEDULER_CLEANUP]})]
    await site.cleanup.remove_finalizer(site.kinds, placement)
    assert finalizers(site.server) == ["y"]


@within(lambda: a_site(FakeHub()))
async def test_a_placement_that_is_gone_has_no_finalizer_to_remove(site: Site) -> None:
    site.server.put(PATH, a_placement(SCHEDULER_CLEANUP))
    placement = await read(site.kinds)
    site.server.objects.clear()
    await site.cleanup.remove_finalizer(site.kinds, placement)
    assert site.server.objects == {}


@within(lambda: a_site(FakeHub()))
async def test_a_successor_of_the_same_name_keeps_its_finalizer(site: Site) -> None:
    site.server.put(PATH, a_placement(SCHEDULER_CLEANUP))
    placement = await read(site.kinds)
    del site.server.objects[PATH]
    site.server.put(PATH, a_placement(SCHEDULER_CLEANUP))
    await site.cleanup.remove_finalizer(site.kinds, placement)
    assert finalizers(site.server) == [SCHEDULER_CLEANUP]


@virtual
async def test_a_removal_is_attempted_four_times() -> None:
    server = failing(*[Refused(UNAVAILABLE)] * 4)
    async with a_site(server) as site:
        server.put(PATH, a_placement(SCHEDULER_CLEANUP))
        with pytest.raises(Unavailable):
            await site.cleanup.remove_finalizer(site.kinds, await read(site.kinds))
        assert len(server.writes()) == 4
