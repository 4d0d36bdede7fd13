"""What wakes whom: member clusters, and what the index of interests is told."""

from __future__ import annotations

import pytest

from fleet.clock import SECOND
from fleet.model.keys import IS_LATEST_SNAPSHOT, PARENT_PLACEMENT, PLACEMENT_GENERATION
from fleet.model.placement_key import PlacementKey
from tests.builders import NOW, ClusterBuilder, a_cluster, a_policy, label
from tests.unit.scheduler.watching import (
    World,
    a_placement,
    a_snapshot,
    annotated,
    labelled_latest,
    satisfied,
    with_metadata,
)

WELL = a_cluster("c7")
SILENT = WELL.heard(3600)


# --- clusters ---------------------------------------------------------------------------------------------------------


def a_fleet() -> World:
    """One placement of each kind; c7 has not been heard of for long."""
    return World().saw(
        SILENT,
        a_snapshot(a_policy().require(label("region", "Exists")), of="all"),
        a_snapshot(a_policy().pick_n(3), of="short"),
        satisfied(a_snapshot(a_policy().pick_n(3), of="satisfied")),
        a_snapshot(a_policy().pick_fixed("c7"), of="fixed"),
        a_snapshot(a_policy().in_namespace("team"), of="app"),
    )


def test_D25_a_cluster_that_becomes_eligible() -> None:
    world = a_fleet().start().saw(WELL)
    assert world.queue.woken == [(["all", "fixed", "short", "team/app"], "MemberCluster/UpdateHealth c7")]
    assert world.told == [("MemberCluster", 4)]


def test_D25_a_cluster_that_is_gone_wakes_all_placements() -> None:
    world = a_fleet().saw(a_placement(name="without-snapshot")).start()
    world.gone(world.caches.clusters, "c7")
    everybody = ["all", "fixed", "satisfied", "short", "team/app", "without-snapshot"]
    assert world.queue.woken == [(everybody, "MemberCluster/Delete c7")]


def of_uid(uid: str) -> ClusterBuilder:
    return ClusterBuilder(with_metadata(WELL.build(), uid=uid))


def test_D25_a_cluster_replaced_by_another_of_its_name_is_gone_and_joins() -> None:
    world = World().saw(of_uid("old"), a_snapshot()).start()
    world.saw(of_uid("new"))
    assert [trigger for _, trigger in world.queue.woken] == ["MemberCluster/Delete c7", "MemberCluster/Add c7"]


def test_D25_a_change_that_nobody_reads_wakes_nobody_and_is_counted() -> None:
    world = a_fleet().start().saw(SILENT.labelled(rack="r1"))
    assert world.queue.woken == []
    assert world.told == [("MemberCluster", 0)]


def test_D25_what_a_relist_finds_is_a_change_like_any_other() -> None:
    world = a_fleet().start()
    relist = world.caches.clusters.relist()
    relist.begin("1000")
    relist.add(with_metadata(a_cluster("c8").build(), resource_version="999"))
    relist.end()
    assert [trigger for _, trigger in world.queue.woken] == ["MemberCluster/Add c8", "MemberCluster/Delete c7"]


def test_Q13_a_storm_of_heartbeats_moves_nothing() -> None:
    world = a_fleet()
    for age in (50, 40):
        world.saw(*(a_cluster(f"c{number}").heard(age) for number in range(100, 150)))
    world.start()
    for age in (30, 20, 10):
        world.saw(*(a_cluster(f"c{number}").heard(age) for number in range(100, 150)))
    assert world.queue.keys == []
    assert world.told == []


def test_P09_all_who_wait_are_woken_by_one_call() -> None:
    world = World().saw(*(a_snapshot(a_policy().pick_n(3), of=f"web-{number}") for number in range(200))).start()
    world.saw(WELL)
    assert [len(keys) for keys, _ in world.queue.woken] == [200]


@pytest.mark.parametrize("batched", [True, False])
def test_in_batched_mode_changes_of_clusters_take_the_slow_lane(*, batched: bool) -> None:
    world = World(batched=batched).saw(SILENT, a_snapshot()).start().saw(WELL)
    assert world.queue.slow == [batched]


# --- what the index is told -------------------------------------------------------------------------------------------


def test_D25_a_new_count_begins_it_again() -> None:
    snapshot = satisfied(a_snapshot(a_policy().pick_n(3)))
    world = World().saw(SILENT, snapshot).start().saw(annotated(snapshot, PLACEMENT_GENERATION, "2"), WELL)
    assert [keys for keys, _ in world.queue.woken] == [["web"]]


def test_D25_the_new_latest_snapshot_counts() -> None:
    old, new = a_snapshot(a_policy().pick_fixed("c1")), a_snapshot(a_policy().pick_fixed("c7"), index=1)
    world = World().saw(SILENT, old).start().saw(labelled_latest(old, "false"), new, WELL)
    assert [keys for keys, _ in world.queue.woken] == [["web"]]


@pytest.mark.parametrize("number", [0, 2], ids=["none", "several"])
def test_D25_without_one_latest_snapshot_only_a_vanished_cluster_counts(number: int) -> None:
    world = World().saw(SILENT, a_placement(), *(a_snapshot(index=index) for index in range(number))).start()
    world.saw(WELL)
    assert world.queue.woken == []
    world.gone(world.caches.clusters, "c7")
    assert [keys for keys, _ in world.queue.woken] == [["web"]]


def test_a_placement_that_is_gone_with_its_snapshots_is_forgotten() -> None:
    world = World().saw(SILENT, a_placement(), a_snapshot()).start()
    world.gone(world.caches.kinds[0].policy_snapshots.store, "web-0")
    world.gone(world.caches.kinds[0].placements.store, "web")
    world.gone(world.caches.clusters, "c7")
    assert world.queue.keys == []


def test_a_snapshot_that_moves_to_another_placement_is_none_of_the_first_any_more() -> None:
    snapshot = a_snapshot(of="web")
    moved = with_metadata(snapshot, labels={PARENT_PLACEMENT: "shop", IS_LATEST_SNAPSHOT: "true"})
    world = World().saw(SILENT, snapshot).start().saw(moved, WELL)
    assert [keys for keys, _ in world.queue.woken] == [["shop"]]


def test_what_happens_during_a_decision_is_heard_even_by_the_satisfied() -> None:
    world = World().saw(SILENT, satisfied(a_snapshot(a_policy().pick_n(3)))).start()
    with world.handlers.track_attempt(PlacementKey.parse("web")):
        world.saw(WELL)
    assert [keys for keys, _ in world.queue.woken] == [["web"]]


def test_after_a_decision_that_failed_the_satisfied_wait_for_nothing_again() -> None:
    world = World().saw(SILENT, satisfied(a_snapshot(a_policy().pick_n(3)))).start()
    with pytest.raises(RuntimeError, match="boom"), world.handlers.track_attempt(PlacementKey.parse("web")):
        raise RuntimeError("boom")
    world.saw(WELL)
    assert world.queue.keys == []


# --- a clock that was ahead -------------------------------------------------------------------------------------------


def a_fleet_that_is_well() -> World:
    """The same placements. Every cluster was heard of just now."""
    return a_fleet().saw(WELL, a_cluster("c8")).start()


def decided_by_a_clock_that_was_ahead(world: World) -> World:
    world.clock.set(NOW + 3600 * SECOND)
    with world.handlers.track_attempt(PlacementKey.parse("short")):
        pass
    world.clock.set(NOW)
    return world


def test_a_clock_that_was_ahead_wakes_those_who_found_everybody_silent() -> None:
    world = decided_by_a_clock_that_was_ahead(a_fleet_that_is_well())
    world.saw(WELL.heard(1))
    assert world.queue.woken == [(["all", "fixed", "short", "team/app"], "MemberCluster/ClockSetBack")]


def test_a_clock_that_was_ahead_wakes_once() -> None:
    world = decided_by_a_clock_that_was_ahead(a_fleet_that_is_well()).saw(WELL.heard(1))
    world.queue.woken.clear()
    world.saw(WELL.heard(2), a_cluster("c8").heard(2))
    assert world.queue.woken == []


def test_a_clock_that_was_ahead_wakes_nobody_while_nobody_decided() -> None:
    world = a_fleet_that_is_well()
    world.clock.set(NOW + 3600 * SECOND)
    world.saw(WELL.heard(1))
    world.clock.set(NOW)
    world.saw(WELL.heard(2))
    assert world.queue.woken == []


def test_a_clock_that_was_hardly_ahead_wakes_nobody() -> None:
    world = a_fleet_that_is_well()
    world.clock.set(NOW + 3 * SECOND)
    with world.handlers.track_attempt(PlacementKey.parse("short")):
        pass
    world.clock.set(NOW)
    world.saw(WELL.heard(1))
    assert world.queue.woken == []
