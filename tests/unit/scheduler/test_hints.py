"""Which events wake which rejected placements, and which hints are asked about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.model.placement_key import PlacementKey
from fleet.scheduler.queue.hints import EVERYTHING, EventKind, EventRegistration, QueueEvent, QueueingHints
from fleet.scheduler.queue.item import QueueItem
from tests.unit.scheduler.queue_fakes import (
    CLUSTER_ADDED,
    CLUSTER_TAINTS,
    HEARTBEAT,
    Turned,
    cluster_added,
    pooled,
    wildcard,
)


class Asked:
    """A hint that answers the same each time, and remembers whom it was asked about."""

    def __init__(self, *, answer: bool = True) -> None:
        self.answer = answer
        self.keys: list[str] = []

    def __call__(self, event: QueueEvent, item: QueueItem) -> bool:
        self.keys.append(str(item.key))
        return self.answer


class Broken:
    def __call__(self, event: QueueEvent, item: QueueItem) -> bool:
        raise RuntimeError("no")


def fits(event: QueueEvent, item: QueueItem) -> bool:
    """Capacity: an item wants as much as the length of its key, an event brings a number."""
    return len(str(item.key)) <= int(event.new)


def on_add(**registered: object) -> QueueingHints:
    """Hints of plugins for added clusters."""
    return QueueingHints({plugin: [EventRegistration(CLUSTER_ADDED, hint)] for plugin, hint in registered.items()})  # type: ignore[arg-type]


# --- who is asked -----------------------------------------------------------------------------------------------------


def test_Q_06_an_event_that_no_plugin_registered_for_asks_no_hint_and_wakes_nobody() -> None:
    hint = Asked()
    queue = pooled("a", "b", hints=on_add(Taints=hint))
    queue.happened(QueueEvent(CLUSTER_TAINTS))
    assert hint.keys == []
    assert queue.counts() == {"unschedulable": 2}


def test_Q_07_the_hint_of_a_plugin_that_did_not_reject_is_never_called() -> None:
    taints, capacity = Asked(), Asked()
    queue = pooled("a", by="Taints", hints=on_add(Taints=taints, Capacity=capacity)).rejected("b", by="Capacity")
    queue.happened(cluster_added())
    assert (taints.keys, capacity.keys) == (["a"], ["b"])


def test_an_item_stays_when_no_plugin_that_rejected_it_says_queue() -> None:
    queue = pooled("a", hints=on_add(Taints=Asked(answer=False)))
    assert queue.happened(cluster_added()).counts() == {"unschedulable": 1}


def test_one_of_several_rejecting_plugins_is_enough() -> None:
    queue = Turned(hints=on_add(Taints=Asked(answer=False), Capacity=Asked())).add("a")
    queue.reject(queue.pop().key, "Taints", "Capacity")
    assert queue.happened(cluster_added()).counts() == {"backoff": 1}


def test_F3_113_a_plugin_that_registers_nothing_is_woken_by_every_event() -> None:
    queue = pooled("a", hints=QueueingHints({"Taints": []}))
    assert queue.happened(QueueEvent(EventKind("Quota", "Update"))).counts() == {"backoff": 1}


@pytest.mark.parametrize(
    "kind, covered",
    [
        (EventKind("MemberCluster", "Add"), True),
        (EventKind("MemberCluster", "*"), True),
        (EventKind("*", "Add"), True),
        (EVERYTHING, True),
        (EventKind("MemberCluster", "Delete"), False),
        (EventKind("Binding", "Add"), False),
    ],
    ids=str,
)
def test_F3_113_registrations_may_stand_for_many_kinds(kind: EventKind, *, covered: bool) -> None:
    assert kind.covers(CLUSTER_ADDED) is covered
    assert QueueingHints({"Taints": [EventRegistration(kind)]}).handles(CLUSTER_ADDED) is covered


# --- what the answer does ---------------------------------------------------------------------------------------------


def test_Q_08_only_the_items_that_fit_a_new_cluster_are_woken() -> None:
    hints = QueueingHints({"Capacity": [EventRegistration(CLUSTER_ADDED, fits)]})
    queue = pooled("a", "bbb", "cc", "ddddd", by="Capacity", hints=hints)
    assert queue.happened(cluster_added(new=0)).counts() == {"unschedulable": 4}
    assert queue.happened(cluster_added(new=3)).counts() == {"unschedulable": 1, "backoff": 3}
    assert queue.queue.get(PlacementKey.parse("ddddd")) is not None


@pytest.mark.parametrize(
    "registration",
    [
        EventRegistration(CLUSTER_ADDED),
        EventRegistration(CLUSTER_ADDED, Broken()),
    ],
    ids=["missing", "raising"],
)
def test_Q_09_without_a_usable_answer_the_item_is_woken(registration: EventRegistration) -> None:
    queue = pooled("a", "b", hints=QueueingHints({"Taints": [registration]}))
    assert queue.happened(cluster_added()).counts() == {"backoff": 2}


def test_Q_09_a_hint_that_raises_is_reported() -> None:
    told: list[tuple[str, str, str]] = []
    hints = QueueingHints(
        {"Taints": [EventRegistration(CLUSTER_ADDED, Broken())]},
        on_error=lambda plugin, kind, error: told.append((plugin, str(kind), str(error))),
    )
    pooled("a", hints=hints).happened(cluster_added())
    assert told == [("Taints", "MemberCluster/Add", "no")]


def test_Q_10_a_pending_plugin_wakes_without_back_off_even_if_a_rejector_says_no() -> None:
    queue = Turned(hints=on_add(Taints=Asked(answer=False), Group=Asked())).add("a")
    queue.pop()
    queue.reject("a", "Taints", pending=("Group",)).happened(cluster_added())
    assert queue.counts() == {"active": 1}


def test_Q_10_a_pending_plugin_that_says_no_leaves_the_say_to_the_rejectors() -> None:
    queue = Turned(hints=on_add(Taints=Asked(), Group=Asked(answer=False))).add("a")
    queue.pop()
    queue.reject("a", "Taints", pending=("Group",)).happened(cluster_added())
    assert queue.counts() == {"backoff": 1}


def test_an_item_that_nobody_rejected_is_woken_by_whatever_anybody_listens_to() -> None:
    queue = Turned(hints=on_add(Taints=Asked(answer=False))).add("a")
    queue.pop()
    queue.reject("a")
    assert queue.happened(QueueEvent(HEARTBEAT)).counts() == {"unschedulable": 1}
    assert queue.happened(cluster_added()).counts() == {"backoff": 1}


def test_the_item_says_which_event_woke_it() -> None:
    assert pooled("a", hints=on_add(Taints=Asked())).happened(cluster_added()).pop().triggers == ("MemberCluster/Add",)


# --- indexes, and events about some items only ------------------------------------------------------------------------


def test_only_the_items_named_by_the_index_are_asked_about() -> None:
    hint = Asked()
    event = replace(cluster_added(), among=[PlacementKey.parse("b"), PlacementKey.parse("unknown")])
    queue = pooled("a", "b", "c", hints=on_add(Taints=hint)).happened(event)
    assert hint.keys == ["b"]
    assert queue.counts() == {"unschedulable": 2, "backoff": 1}


def test_whoever_caused_an_event_is_not_woken_by_it() -> None:
    queue = pooled("a", "b", hints=on_add(Taints=Asked()))
    assert queue.happened(cluster_added(excluding="a")).pop_all() == ["b"]


def test_a_wildcard_wakes_everything_without_asking() -> None:
    hint = Asked(answer=False)
    queue = pooled("a", "b", hints=on_add(Taints=hint)).happened(wildcard("ConfigReload"))
    assert queue.counts() == {"backoff": 2}
    assert hint.keys == []
    assert queue.pop().triggers == ("ConfigReload",)


def test_a_wildcard_may_name_the_one_item_it_wakes() -> None:
    assert pooled("a", "b").happened(wildcard("Asked", only="b")).pop_all() == ["b"]
