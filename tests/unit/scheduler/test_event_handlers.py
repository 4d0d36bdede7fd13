"""What wakes whom: the start, placements, snapshots and bindings."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from fleet.model.keys import (
    IS_LATEST_SNAPSHOT,
    NUMBER_OF_CLUSTERS,
    PLACEMENT_CLEANUP,
    PLACEMENT_GENERATION,
    SCHEDULER_CLEANUP,
)
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Placement
from tests.builders import a_binding, a_cluster, a_policy
from tests.unit.scheduler.watching import (
    World,
    a_placement,
    a_snapshot,
    annotated,
    labelled_latest,
    leaving,
    satisfied,
    with_metadata,
)

WEB = PlacementKey("", "web")

# --- start ------------------------------------------------------------------------------------------------------------


def test_nothing_is_woken_before_the_start() -> None:
    world = World().saw(
        a_cluster("c7").heard(3600), a_snapshot(), a_placement(SCHEDULER_CLEANUP), a_binding("c7").build()
    )
    world.saw(a_cluster("c7"), leaving(a_placement(SCHEDULER_CLEANUP)), a_binding("c7").deleting().build())
    assert world.queue.keys == []
    assert world.released == []


def test_start_up_adds_every_placement_with_a_latest_snapshot() -> None:
    world = World().saw(
        a_snapshot(of="web"),
        labelled_latest(a_snapshot(of="web", index=1), "false"),
        labelled_latest(a_snapshot(of="rotating"), "false"),
        a_snapshot(a_policy().in_namespace("team"), of="api"),
        a_placement(name="new"),
    )
    world.handlers.start()
    assert world.queue.added == [("web", "StartUp"), ("team/api", "StartUp")]


def test_P_14_start_up_adds_those_that_lack_clusters_before_those_that_have_them() -> None:
    placed = [
        satisfied(a_snapshot(policy, of=name)) for policy, name in ((a_policy().pick_n(3), "a"), (a_policy(), "b"))
    ]
    world = World().saw(*placed, a_snapshot(of="pending"), a_snapshot(a_policy().in_namespace("team"), of="api"))
    world.handlers.start()
    assert [key for key, _ in world.queue.added] == ["pending", "team/api", "a", "b"]


def test_D19_start_up_adds_terminating_placements_with_our_finalizer() -> None:
    world = World().saw(
        leaving(a_placement(SCHEDULER_CLEANUP, name="ours")),
        leaving(a_placement(PLACEMENT_CLEANUP, name="theirs")),
        a_placement(SCHEDULER_CLEANUP, name="alive"),
        leaving(a_placement(SCHEDULER_CLEANUP, name="ours", namespace="team")),
    )
    world.handlers.start()
    assert [key for key, _ in world.queue.added] == ["ours", "team/ours"]


def test_start_up_adds_placements_that_are_gone_and_left_bindings() -> None:
    world = World().saw(a_placement(name="other"), a_binding("c1").build(), a_binding("c2").build())
    world.handlers.start()
    assert world.queue.added == [("web", "StartUp")]


def test_start_up_leaves_bindings_alone_with_which_somebody_has_done_something() -> None:
    theirs = with_metadata(a_binding("c1").build(), finalizers=())
    world = World().saw(theirs, a_binding("c2").deleting().build(), a_binding("c3").bound().build())
    world.handlers.start()
    assert world.queue.keys == []


def test_start_up_releases_terminating_bindings_with_our_finalizer() -> None:
    world = World().saw(
        a_binding("c1", name="web-c1").deleting().build(),
        a_binding("c2", name="web-c2").build(),
        with_metadata(
            a_binding("c3", name="web-c3").deleting().build(), finalizers=("kubernetes-fleet.io/work-cleanup",)
        ),
        a_binding("c4", name="api-c4").in_namespace("team").deleting().build(),
    )
    world.handlers.start()
    assert world.released == ["ClusterResourceBinding web-c1", "ResourceBinding api-c4"]


def test_several_latest_snapshots_are_somebody_to_look_at_too() -> None:
    world = World().saw(a_snapshot(index=0), a_snapshot(index=1))
    world.handlers.start()
    assert world.queue.added == [("web", "StartUp")]


def test_without_namespaced_placements_their_kinds_are_left_alone() -> None:
    world = World(namespaced=False).saw(a_snapshot()).start()
    world.saw(a_snapshot(of="shop"))
    assert world.queue.keys == ["shop"]


# --- placements -------------------------------------------------------------------------------------------------------


def test_a_placement_that_starts_terminating_with_our_finalizer() -> None:
    world = World().saw(a_placement(SCHEDULER_CLEANUP)).start()
    world.saw(leaving(a_placement(SCHEDULER_CLEANUP)))
    assert world.queue.added == [("web", "ClusterResourcePlacement/Terminating web")]
    assert world.told == [("ClusterResourcePlacement", 1)]


def test_a_namespaced_placement_that_starts_terminating() -> None:
    placement = a_placement(SCHEDULER_CLEANUP, namespace="team")
    world = World().saw(placement).start().saw(leaving(placement))
    assert world.queue.added == [("team/web", "ResourcePlacement/Terminating web")]


def test_a_placement_that_starts_terminating_without_our_finalizer() -> None:
    world = World().saw(a_placement(PLACEMENT_CLEANUP)).start().saw(leaving(a_placement(PLACEMENT_CLEANUP)))
    assert world.queue.keys == []


def test_a_placement_that_goes_on_terminating() -> None:
    world = World().saw(leaving(a_placement(SCHEDULER_CLEANUP, PLACEMENT_CLEANUP))).start()
    world.saw(leaving(a_placement(SCHEDULER_CLEANUP)))
    assert world.queue.keys == []


def test_a_placement_that_is_seen_only_when_it_is_terminating() -> None:
    """Another one of that name was there before, and the watch was away while they were exchanged."""
    world = World().saw(with_metadata(a_placement(), uid="old")).start()
    world.saw(with_metadata(leaving(a_placement(SCHEDULER_CLEANUP)), uid="new"))
    assert world.queue.keys == ["web"]


def test_a_placement_that_vanishes_is_looked_for_once_more_if_it_waits() -> None:
    world = World().saw(a_placement()).start()
    world.queue.held.add("web")
    world.gone(world.caches.kinds[0].placements.store, "web")
    assert world.queue.added == [("web", "ClusterResourcePlacement/Delete web")]


def test_a_placement_that_vanishes_and_leaves_a_binding_is_looked_for_once_more() -> None:
    world = World().saw(a_placement(), a_binding("c7").build()).start()
    world.gone(world.caches.kinds[0].placements.store, "web")
    assert world.queue.added == [("web", "ClusterResourcePlacement/Delete web")]


def vanished(world: World, last: Placement, *, after: float = 0.0) -> bool:
    """Whether a bound binding is deleted when a placement vanishes this long after it got our finalizer."""
    world.saw(last, a_binding("c7").bound().build()).start()
    world.orphans.note_held(last.metadata.uid)
    world.clock.advance(after)
    world.gone(world.caches.kinds[0].placements.store, "web")
    is_orphan = world.orphans.includes(WEB, a_binding("c7").bound().build())
    assert world.queue.keys == (["web"] if is_orphan else [])
    return is_orphan


@pytest.mark.parametrize("seconds, deletes", [(0.0, True), (119.0, True), (120.0, False)])
def test_a_placement_that_vanishes_right_after_it_was_held_leaves_no_binding(seconds: float, *, deletes: bool) -> None:
    assert vanished(World(), a_placement(SCHEDULER_CLEANUP), after=seconds) is deletes


@pytest.mark.parametrize("last", [leaving(a_placement(SCHEDULER_CLEANUP)), a_placement()], ids=["leaving", "let go"])
def test_where_our_finalizer_was_taken_off_by_hand_bound_bindings_stay(last: Placement) -> None:
    assert not vanished(World(), last)


def test_bound_bindings_are_no_orphans_once_their_placement_is_back_or_they_may_have_been_restored() -> None:
    binding, world = a_binding("c7").bound().build(), World()
    assert vanished(world, a_placement(SCHEDULER_CLEANUP))
    world.clock.advance(599.0)
    assert world.orphans.includes(WEB, binding)
    world.clock.advance(1.0)
    assert not world.orphans.includes(WEB, binding)

    again = World()
    assert vanished(again, a_placement(SCHEDULER_CLEANUP))
    again.saw(a_placement())
    assert not again.orphans.includes(WEB, binding)


def test_a_placement_under_the_name_of_one_that_was_held_is_another() -> None:
    world = World().saw(with_metadata(a_placement(SCHEDULER_CLEANUP), uid="new"), a_binding("c7").bound().build())
    world.start().orphans.note_held("old")
    world.gone(world.caches.kinds[0].placements.store, "web")
    assert world.queue.keys == []


def test_a_placement_that_vanishes_before_a_binding_that_is_leaving_wakes_nobody() -> None:
    world = World().saw(a_placement(), a_binding("c7").deleting().build()).start()
    world.gone(world.caches.kinds[0].placements.store, "web")
    assert world.queue.keys == []


def test_creation_edits_and_finalizers_of_placements_wake_nobody() -> None:
    world = World().start().saw(a_placement(), a_placement(SCHEDULER_CLEANUP))
    world.saw(with_metadata(a_placement(SCHEDULER_CLEANUP), generation=2))
    world.gone(world.caches.kinds[0].placements.store, "web")
    assert world.queue.keys == []


# --- snapshots --------------------------------------------------------------------------------------------------------


def test_a_snapshot_created_as_latest() -> None:
    world = World().start().saw(a_snapshot())
    assert world.queue.added == [("web", "ClusterSchedulingPolicySnapshot/Add web-0")]


def test_a_namespaced_snapshot_created_as_latest() -> None:
    world = World().start().saw(a_snapshot(a_policy().in_namespace("team")))
    assert world.queue.added == [("team/web", "SchedulingPolicySnapshot/Add web-0")]


TRUE = ["1", "t", "T", "TRUE", "true", "True"]
NOT_TRUE = [None, "", "0", "f", "F", "FALSE", "false", "False", "yes", "tRUE"]


@pytest.mark.parametrize("text", TRUE)
def test_a_snapshot_created_with_a_label_that_says_true(text: str) -> None:
    assert World().start().saw(labelled_latest(a_snapshot(), text)).queue.keys == ["web"]


@pytest.mark.parametrize("text", NOT_TRUE, ids=str)
def test_a_snapshot_created_with_a_label_that_does_not(text: str | None) -> None:
    assert World().start().saw(labelled_latest(a_snapshot(), text)).queue.keys == []


@pytest.mark.parametrize("before", NOT_TRUE, ids=str)
@pytest.mark.parametrize("after", TRUE)
def test_a_snapshot_that_becomes_the_latest(before: str | None, after: str) -> None:
    world = World().saw(labelled_latest(a_snapshot(), before)).start().saw(labelled_latest(a_snapshot(), after))
    assert world.queue.added == [("web", "ClusterSchedulingPolicySnapshot/UpdateLatest web-0")]


def test_a_snapshot_whose_label_says_true_in_another_way() -> None:
    world = World().saw(labelled_latest(a_snapshot(), "1")).start().saw(a_snapshot())
    assert world.queue.keys == []


def test_a_snapshot_that_is_not_the_latest_any_more() -> None:
    world = World().saw(a_snapshot()).start().saw(labelled_latest(a_snapshot(), "false"))
    assert world.queue.keys == []


@pytest.mark.parametrize(
    "annotation, event", [(NUMBER_OF_CLUSTERS, "UpdateCount"), (PLACEMENT_GENERATION, "UpdateGeneration")]
)
def test_a_snapshot_whose_annotation_changed(annotation: str, event: str) -> None:
    world = World().saw(a_snapshot()).start().saw(annotated(a_snapshot(), annotation, "7"))
    assert world.queue.added == [("web", f"ClusterSchedulingPolicySnapshot/{event} web-0")]


def test_count_and_generation_changed_at_once_are_one_event() -> None:
    changed = annotated(annotated(a_snapshot(), NUMBER_OF_CLUSTERS, "7"), PLACEMENT_GENERATION, "2")
    world = World().saw(a_snapshot()).start().saw(changed)
    assert world.queue.added == [("web", "ClusterSchedulingPolicySnapshot/UpdateCount web-0")]


def test_an_annotation_of_a_snapshot_that_is_not_the_latest() -> None:
    older = labelled_latest(a_snapshot(), "false")
    assert World().saw(older).start().saw(annotated(older, NUMBER_OF_CLUSTERS, "7")).queue.keys == []


def test_a_terminating_snapshot_wakes_nobody() -> None:
    world = World().saw(a_snapshot()).start()
    world.saw(leaving(annotated(a_snapshot(), NUMBER_OF_CLUSTERS, "7")), leaving(a_snapshot(of="other")))
    assert world.queue.keys == []


def test_other_annotations_and_status_of_a_snapshot_wake_nobody() -> None:
    world = World().saw(a_snapshot()).start()
    world.saw(annotated(a_snapshot(), "note", "x"), satisfied(a_snapshot()))
    assert world.queue.keys == []
    assert world.told == []


def test_a_deleted_snapshot_wakes_nobody() -> None:
    world = World().saw(a_snapshot()).start()
    world.gone(world.caches.kinds[0].policy_snapshots.store, "web-0")
    assert world.queue.keys == []


def test_a_snapshot_without_a_tracking_label_is_logged_and_counted() -> None:
    world = World().start()
    with capture_logs() as logs:
        world.saw(with_metadata(a_snapshot(), labels={IS_LATEST_SNAPSHOT: "true"}))
    assert world.queue.keys == []
    assert [(entry["kind"], entry["name"]) for entry in logs] == [("ClusterSchedulingPolicySnapshot", "web-0")]
    assert world.told == [("ClusterSchedulingPolicySnapshot", 0)]


# --- bindings ---------------------------------------------------------------------------------------------------------


def test_a_binding_that_starts_terminating_is_released() -> None:
    """Who releases it wakes the placement, so that a replacement is not decided about a binding that is still held."""
    world = World().saw(a_binding("c7").build()).start().saw(a_binding("c7").deleting().build())
    assert world.released == ["ClusterResourceBinding web-c7-b"]
    assert world.told == [("ClusterResourceBinding", 1)]


def test_a_binding_that_is_seen_only_when_it_is_terminating_is_released() -> None:
    assert World().start().saw(a_binding("c7").deleting().build()).released == ["ClusterResourceBinding web-c7-b"]


def test_a_binding_is_released_once() -> None:
    world = World().saw(a_binding("c7").build()).start()
    world.saw(a_binding("c7").deleting().build(), a_binding("c7").deleting().bound().build())
    assert len(world.released) == 1


def test_a_terminating_binding_without_our_finalizer_is_left_alone() -> None:
    ours_is_off = with_metadata(a_binding("c7").build(), finalizers=())
    world = World().saw(ours_is_off).start().saw(leaving(ours_is_off))
    assert (world.released, world.queue.keys) == ([], [])


def test_other_changes_of_bindings_wake_nobody() -> None:
    world = World().saw(a_binding("c7").build()).start().saw(a_binding("c7").bound().build())
    assert (world.released, world.queue.keys) == ([], [])


def test_a_binding_that_appears_during_an_attempt_is_left_to_the_attempt() -> None:
    world = World().start()
    with world.handlers.track_attempt(PlacementKey.parse("web")) as appeared:
        world.saw(a_binding("c7").build())
    assert (world.released, world.queue.keys) == ([], [])
    assert appeared == {"web-c7-b"}


def test_a_binding_that_appears_out_of_nowhere_wakes_its_placement() -> None:
    """An attempt gave up on creating it, and what was decided since may have put another in its place."""
    world = World().start().saw(a_binding("c7").build())
    assert world.queue.added == [("web", "ClusterResourceBinding/Add web-c7-b")]


def test_a_binding_whose_end_the_watch_missed_wakes_its_placement() -> None:
    world = World().saw(a_binding("c7").build()).start()
    world.gone(world.caches.kinds[0].bindings.store, "web-c7-b")
    assert world.queue.added == [("web", "ClusterResourceBinding/Delete web-c7-b")]


def test_a_binding_that_we_let_go_wakes_nobody_when_it_is_gone() -> None:
    world = World().saw(with_metadata(a_binding("c7").build(), finalizers=())).start()
    world.gone(world.caches.kinds[0].bindings.store, "web-c7-b")
    assert world.queue.keys == []
