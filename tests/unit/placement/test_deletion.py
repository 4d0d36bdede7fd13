"""The end of a placement."""

from __future__ import annotations

import pytest

from fleet.errors import NotFound
from fleet.kube.api import Request
from fleet.model.keys import PARENT_PLACEMENT
from tests.faults.virtual import within
from tests.unit.placement.workbench import SNAPSHOT, WEB, Neighbours, Workbench, a_placement, pick_n

SNAPSHOTS = "clusterschedulingpolicysnapshots"
CLEANUP = "kubernetes-fleet.io/crp-cleanup"


@within(Workbench)
async def test_snapshots_go_then_the_finalizer_and_bindings_are_left_to_the_scheduler(bench: Workbench) -> None:
    a_placement(bench.hub, policy=pick_n(1))
    await bench.settle()
    Neighbours(bench.hub).schedule("c1")
    await bench.settle()
    bench.hub.remove(WEB)
    bench.hub.forget_requests()
    await bench.settle()
    assert bench.hub.writes() == [
        "DELETE clusterschedulingpolicysnapshots",
        "DELETE clusterresourcesnapshots",
        "PUT clusterresourceplacements/web",
    ]
    assert bench.hub.names("clusterresourceplacements") == []
    assert bench.hub.names("clusterresourcebindings") == ["web-c1-0a1b2c3d"]
    assert bench.told.reasons()[-1] == "PlacementCleanupFinalizerRemoved"
    assert bench.told.series == {}
    assert bench.content.forgotten[-1] == "web"


@within(Workbench)
async def test_what_belongs_to_others_stays(bench: Workbench) -> None:
    for path in (WEB, "namespaces/shop/resourceplacements/web", "clusterresourceplacements/other"):
        a_placement(bench.hub, path)
    for key in ("web", "shop/web", "other"):
        await bench.settle(key)
    bench.hub.remove(WEB)
    await bench.settle()
    assert bench.hub.names("clusterschedulingpolicysnapshots") == ["other-0"]
    assert bench.hub.names("schedulingpolicysnapshots") == ["web-0"]


@within(Workbench)
async def test_a_namespaced_placement_takes_only_the_snapshots_of_its_namespace(bench: Workbench) -> None:
    bench.hub.namespaces.add("other")
    for namespace in ("shop", "other"):
        a_placement(bench.hub, f"namespaces/{namespace}/resourceplacements/web")
        await bench.settle(f"{namespace}/web")
    bench.hub.remove("namespaces/shop/resourceplacements/web")
    await bench.settle("shop/web")
    left = [path for path in bench.hub.objects if "snapshots" in path]
    assert left
    assert all("/namespaces/other/" in path for path in left)


@within(Workbench)
async def test_finalizers_of_others_stay_and_nothing_is_done_twice(bench: Workbench) -> None:
    a_placement(bench.hub)
    bench.hub.edit(WEB, metadata={"finalizers": ["kubernetes-fleet.io/scheduler-cleanup"]})
    await bench.settle()
    bench.hub.remove(WEB)
    await bench.settle()
    assert bench.hub.get(WEB)["metadata"]["finalizers"] == ["kubernetes-fleet.io/scheduler-cleanup"]
    bench.hub.forget_requests()
    await bench.pass_over()
    assert bench.hub.writes() == []
    assert bench.told.reasons().count("PlacementCleanupFinalizerRemoved") == 1


@within(Workbench)
async def test_a_placement_that_is_being_deleted_gets_nothing_new(bench: Workbench) -> None:
    a_placement(bench.hub)
    going = {"finalizers": ["a/b"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    bench.hub.edit(WEB, metadata=going)
    await bench.settle()
    assert bench.hub.writes() == []


@within(Workbench)
async def test_a_deletion_between_reading_and_claiming_is_noticed(bench: Workbench) -> None:
    a_placement(bench.hub)
    bench.hub.edit(WEB, metadata={"finalizers": ["a/b"]})
    await bench.catch_up()
    bench.hub.before_write = [lambda: bench.hub.remove(WEB)]
    await bench.reconciler.reconcile("web")
    assert bench.hub.get(WEB)["metadata"]["finalizers"] == ["a/b"]
    assert bench.hub.names("clusterschedulingpolicysnapshots") == []


@within(Workbench)
async def test_a_placement_that_goes_in_spite_of_the_finalizer_leaves_nothing(bench: Workbench) -> None:
    """An API server that has begun to delete an object does not look for finalizers that came since."""
    a_placement(bench.hub)
    await bench.catch_up()

    def vanish() -> None:
        bench.hub.edit(WEB, metadata={"finalizers": None})
        bench.hub.remove(WEB)

    bench.hub.before_write = [lambda: None, lambda: None, vanish]
    with pytest.raises(NotFound):
        await bench.reconciler.reconcile("web")
    assert bench.hub.names("clusterschedulingpolicysnapshots") == ["web-0"]

    assert await bench.reconciler.reconcile("web", reads_live=True) is None

    assert bench.hub.names("clusterschedulingpolicysnapshots") == []
    assert bench.hub.names("clusterresourcesnapshots") == []


@within(Workbench)
async def test_what_its_successor_has_is_not_swept_away(bench: Workbench) -> None:
    """It is created while the leftovers of the one before are listed."""
    bench.hub.put(SNAPSHOT, {"metadata": {"name": "web-0", "labels": {PARENT_PLACEMENT: "web"}}})

    def succeed(request: Request) -> None:
        if request.path.endswith("clusterresourcesnapshots"):
            a_placement(bench.hub)

    bench.hub.fault = succeed
    assert await bench.reconciler.reconcile("web", reads_live=True) is None

    assert bench.hub.names("clusterschedulingpolicysnapshots") == ["web-0"]


@within(Workbench)
async def test_what_took_the_name_of_a_leftover_is_not_swept_away_and_the_sweeping_goes_on(bench: Workbench) -> None:
    for name in ("web-0", "web-1"):
        bench.hub.put(f"{SNAPSHOTS}/{name}", {"metadata": {"labels": {PARENT_PLACEMENT: "web"}}})
    bench.hub.before_write = [lambda: bench.hub.succeed(SNAPSHOT, {"metadata": {}})]

    assert await bench.reconciler.reconcile("web", reads_live=True) is None

    assert bench.hub.names(SNAPSHOTS) == ["web-0"]


@within(Workbench)
async def test_a_name_that_is_no_label_value_never_had_snapshots_and_is_released(bench: Workbench) -> None:
    name = "w" * 64
    path = f"clusterresourceplacements/{name}"
    a_placement(bench.hub, path)
    await bench.settle(name)
    bench.hub.remove(path)
    await bench.settle(name)
    assert bench.hub.names("clusterresourceplacements") == []


@within(Workbench)
async def test_a_placement_that_is_gone_is_forgotten(bench: Workbench) -> None:
    await bench.pass_over("web")
    assert bench.content.forgotten == ["web"]
    assert bench.hub.writes() == []


@within(Workbench)
async def test_snapshots_that_are_gone_already_are_no_obstacle(bench: Workbench) -> None:
    a_placement(bench.hub)
    await bench.settle()
    bench.hub.remove(SNAPSHOT)
    bench.hub.remove(WEB)
    await bench.settle()
    assert bench.hub.names("clusterresourceplacements") == []
