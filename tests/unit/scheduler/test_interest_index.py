"""D25: which placements react to a change of a member cluster."""

from __future__ import annotations

import msgspec
import pytest

from fleet.framework.explaining import ClusterEvent, ClusterEventKind, RegisteredSource
from fleet.model.keys import PLACEMENT_GENERATION, SCHEDULED_CONDITION
from fleet.model.placement_key import PlacementKey
from fleet.model.views import (
    Condition,
    PlacementPolicy,
    PolicySnapshot,
    PolicySnapshotStatus,
    Taint,
    Toleration,
    find_untolerated,
)
from fleet.scheduler.events import interest_index as interests
from fleet.scheduler.events.cluster_diff import ClusterDiff
from fleet.scheduler.events.interest_index import InterestIndex, lacks_clusters
from fleet.scheduler.requests import PARTS_ON_LOOP
from plugins.default_profile import compile_default
from tests.builders import PolicyBuilder, a_policy, label, measure, sorted_by

EVENT_SOURCES = compile_default().event_sources
CPU = "resources.kubernetes-fleet.io/available-cpu"

ELIGIBLE = ClusterDiff(cluster="c7", became_eligible=True)
DELETED = ClusterDiff(cluster="c7", deleted=True)
TAINT_GONE = ClusterDiff(cluster="c7", taints=(Taint("gpu", "a", "NoSchedule"),))
RELABELLED = ClusterDiff(cluster="c7", labels=frozenset(("region",)))
MEASURED = ClusterDiff(cluster="c7", properties=frozenset(("count",)))
READS_IT_ALL = (
    a_policy().require(label("region", "Exists")).require(measure("count", "Ge", "3")).prefer(5, sorted_by(CPU))
)


def an_index(**placements: tuple[PolicyBuilder, bool]) -> InterestIndex:
    """Of placements with their policies, and whether they are short."""
    index = InterestIndex(lambda _: EVENT_SOURCES)
    for name, (policy, short) in placements.items():
        snapshot = policy.snapshot()
        namespace = snapshot.metadata.namespace
        index.put(PlacementKey(namespace, name), snapshot, short=short)
    return index


def reacts(policy: PolicyBuilder, change: ClusterDiff, *, short: bool) -> bool:
    return bool(an_index(web=(policy, short)).find_affected(change))


# --- what a policy reads ----------------------------------------------------------------------------------------------


def test_a_malformed_policy_is_listed_under_what_can_be_read_of_it() -> None:
    nonsense = a_policy().require(label("region", "Near", "x")).require(measure("count", "About", "much"))
    assert reacts(nonsense, RELABELLED, short=True)
    assert reacts(nonsense, MEASURED, short=True)


def test_a_policy_of_an_unknown_type_waits_for_nothing_but_a_vanished_cluster() -> None:
    strange = PolicyBuilder(msgspec.structs.replace(READS_IT_ALL.policy, placement_type="PickSome"))
    assert not any(reacts(strange, change, short=True) for change in (ELIGIBLE, RELABELLED, TAINT_GONE))
    assert reacts(strange, DELETED, short=True)


def test_plugins_are_asked_once_about_a_policy_that_many_placements_have() -> None:
    asked: list[tuple[str, str]] = []

    class Source:
        def events_to_register(self, policy: PlacementPolicy, namespace: str) -> tuple[ClusterEvent, ...]:
            asked.append((policy.placement_type, namespace))
            return (ClusterEvent(ClusterEventKind.UPDATE_LABELS, ("region",)),)

    sources = [(RegisteredSource("reader", Source()),)]
    index = InterestIndex(lambda _: sources[-1])

    def put_all() -> list[str]:
        for key in ("web", "shop", "prod/web"):
            placement = PlacementKey.parse(key)
            index.forget_spec(placement)
            index.put(placement, a_policy().pick_n(3).in_namespace(placement.namespace).snapshot(), short=True)
        return list(map(str, index.find_affected(RELABELLED)))

    assert put_all() == put_all() == ["web", "shop", "prod/web"]
    assert asked == [("PickN", ""), ("PickN", "prod")]
    sources.append((RegisteredSource("reader", Source()),))
    assert put_all() == ["web", "shop", "prod/web"]
    assert len(asked) == 4


# --- the index --------------------------------------------------------------------------------------------------------


def test_satisfied_and_short_again() -> None:
    policy = a_policy().pick_n(3).spread("region").snapshot()
    index = InterestIndex(lambda _: EVENT_SOURCES)
    found = []
    for short in (True, False, True):
        index.put(PlacementKey.parse("web"), policy, short=short)
        found.append([list(map(str, index.find_affected(change))) for change in (RELABELLED, TAINT_GONE)])
    assert found == [[["web"], ["web"]], [[], []], [["web"], ["web"]]]


def test_another_policy_replaces_the_old_interest() -> None:
    index = an_index(web=(a_policy().require(label("region", "Exists")), False))
    index.put(
        PlacementKey.parse("web"),
        a_policy().require(label("rack", "Exists")).tolerate("gpu", operator="Exists").snapshot(),
        short=False,
    )
    assert not index.find_affected(RELABELLED)
    assert not index.find_affected(TAINT_GONE)
    diff = ClusterDiff(cluster="c7", labels=frozenset(("rack",)))
    assert list(map(str, index.find_affected(diff))) == ["web"]


def test_a_placement_that_names_very_many_labels_or_properties_is_listed_under_all_of_them_together() -> None:
    """The event loop lists and unlists placements, however large their policies are."""
    many = range(PARTS_ON_LOOP + 1)
    labels = a_policy().require(*(label(f"key-{number}", "Exists") for number in many))
    properties = a_policy().require(*(measure(f"name-{number}", "Ge", "3") for number in many))
    index = an_index(labels=(labels, True), properties=(properties, True))

    assert len(list(index._by_topic.items())) < 10
    for change, affected in ((RELABELLED, "labels"), (MEASURED, "properties")):
        assert list(map(str, index.find_affected(change))) == [affected]


def test_without_a_latest_snapshot_only_a_vanished_cluster_counts() -> None:
    index = an_index(web=(READS_IT_ALL, False))
    index.put(PlacementKey.parse("web"), None, short=True)
    assert not index.find_affected(ELIGIBLE)
    assert list(map(str, index.find_affected(DELETED))) == ["web"]


def test_the_same_snapshot_counts_again_after_there_was_none() -> None:
    index = an_index(web=(READS_IT_ALL, False))
    index.put(PlacementKey.parse("web"), None, short=True)
    index.put(PlacementKey.parse("web"), READS_IT_ALL.snapshot(), short=False)
    assert list(map(str, index.find_affected(ELIGIBLE))) == ["web"]


def test_a_forgotten_placement_is_found_by_nothing() -> None:
    index = an_index(web=(READS_IT_ALL, True))
    index.forget(PlacementKey.parse("web"))
    assert not any(index.find_affected(change) for change in (ELIGIBLE, DELETED, TAINT_GONE, RELABELLED, MEASURED))
    assert index.list_keys() == []


def test_forgetting_somebody_unknown_is_fine() -> None:
    InterestIndex(lambda _: EVENT_SOURCES).forget(PlacementKey.parse("nobody"))


def test_while_it_is_decided_a_satisfied_placement_counts_as_short() -> None:
    """It may have just lost a binding: its status will say so only after the decision."""
    index = an_index(web=(a_policy().pick_n(3), False), fixed=(a_policy().pick_fixed("c7"), False))
    for key in ("web", "fixed"):
        index.begin_attempt(PlacementKey.parse(key))
    assert set(map(str, index.find_affected(ELIGIBLE))) == {"web", "fixed"}
    for key in ("web", "fixed"):
        index.end_attempt(PlacementKey.parse(key))
    assert not index.find_affected(ELIGIBLE)


def test_a_placement_that_turned_out_short_stays_listed_after_the_decision() -> None:
    policy = a_policy().pick_n(3).snapshot()
    index = InterestIndex(lambda _: EVENT_SOURCES)
    index.put(PlacementKey.parse("web"), policy, short=False)
    index.begin_attempt(PlacementKey.parse("web"))
    index.put(PlacementKey.parse("web"), policy, short=True)
    index.end_attempt(PlacementKey.parse("web"))
    assert list(map(str, index.find_affected(ELIGIBLE))) == ["web"]


def test_deciding_about_a_placement_that_is_not_there_is_fine() -> None:
    index = InterestIndex(lambda _: EVENT_SOURCES)
    index.begin_attempt(PlacementKey.parse("gone"))
    index.end_attempt(PlacementKey.parse("gone"))
    assert index.list_keys() == []


def test_P09_a_removed_taint_is_judged_once_for_all_who_tolerate_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[object] = []

    def judge(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> Taint | None:
        judged.append(tolerations)
        return find_untolerated(taints, tolerations)

    monkeypatch.setattr(interests, "find_untolerated", judge)
    index = InterestIndex(lambda _: EVENT_SOURCES)
    picky, easy = a_policy().pick_n(3).snapshot(), a_policy().pick_n(3).tolerate("gpu", operator="Exists").snapshot()
    for number in range(500):
        index.put(PlacementKey.parse(f"picky-{number}"), picky, short=True)
        index.put(PlacementKey.parse(f"easy-{number}"), easy, short=True)
    assert len(index.find_affected(TAINT_GONE)) == 500
    assert len(judged) == 2


# --- short ------------------------------------------------------------------------------------------------------------

FULFILLED = Condition(SCHEDULED_CONDITION, "True", observed_generation=1)


def judged(*conditions: Condition, observed: int = 1) -> PolicySnapshot:
    """Snapshot of generation 1, made for generation 1 of its placement."""
    return msgspec.structs.replace(
        a_policy().pick_n(3).snapshot(),
        status=PolicySnapshotStatus(observed_crp_generation=observed, conditions=conditions),
    )


def test_D25_satisfied_is_scheduled_for_this_generation_of_snapshot_and_placement() -> None:
    assert not lacks_clusters(judged(Condition("Other", "False"), FULFILLED))


@pytest.mark.parametrize(
    "snapshot",
    [
        judged(),
        judged(msgspec.structs.replace(FULFILLED, status="False")),
        judged(msgspec.structs.replace(FULFILLED, status="Unknown")),
        judged(msgspec.structs.replace(FULFILLED, observed_generation=0)),
        judged(FULFILLED, observed=0),
        judged(FULFILLED, observed=2),
    ],
    ids=["no condition", "False", "Unknown", "older snapshot", "older placement", "newer placement"],
)
def test_D25_short_is_everything_else(snapshot: PolicySnapshot) -> None:
    assert lacks_clusters(snapshot)


@pytest.mark.parametrize(
    "written", [None, "", "one", "-1", "9" * 5000], ids=["none", "empty", "a word", "negative", "huge"]
)
def test_D25_short_if_the_generation_cannot_be_read(written: str | None) -> None:
    satisfied = judged(FULFILLED)
    annotations = {} if written is None else {PLACEMENT_GENERATION: written}
    metadata = msgspec.structs.replace(satisfied.metadata, annotations=annotations)
    assert lacks_clusters(msgspec.structs.replace(satisfied, metadata=metadata))
