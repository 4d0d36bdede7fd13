"""W-12 on random fleets: what a placement is said to wake on is what wakes it, and nothing else does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import pytest

from api.live.queue_status import list_wake_events
from api.why_models import Waker
from fleet.model.placement_key import PlacementKey
from fleet.model.views import MemberCluster, PlacementPolicy, PolicySnapshot, find_untolerated
from fleet.scheduler.events.cluster_diff import ClusterDiff, diff_clusters
from fleet.scheduler.events.interest_index import InterestIndex, lacks_clusters
from tests.builders import a_policy, label, measure, sorted_by
from tests.property.test_scheduler_interests import EVENT_SOURCES, became_eligible, key_of, random_change, satisfied
from tests.strategies import random_scenario

CPU = "resources.kubernetes-fleet.io/available-cpu"


@pytest.fixture(scope="module")
def snapshots(*, long: bool) -> list[PolicySnapshot]:
    found = [random_scenario(seed)["policySnapshot"] for seed in range(400 if long else 120)]
    documents = [satisfied(one) if number % 2 else one for number, one in enumerate(found)]
    return [msgspec.convert(one, PolicySnapshot) for one in documents]


@pytest.fixture(scope="module")
def changes(*, long: bool) -> list[ClusterDiff]:
    found = []
    for seed in range(3000 if long else 300):
        views = (None if one is None else msgspec.convert(one, MemberCluster) for one in random_change(seed))
        found.append(diff_clusters(*views, became_eligible=became_eligible))
    return found


def fired(change: ClusterDiff, snapshot: PolicySnapshot) -> Iterator[tuple[str, Iterable[str]]]:
    """The events that a change is made of, with the names they are about."""
    policy = snapshot.spec.policy or PlacementPolicy()
    named = {
        "Delete": [change.cluster] if change.deleted else [],
        "Add": [change.cluster] if change.joined else [],
        "UpdateHealth": [change.cluster] if change.became_eligible and not change.joined else [],
        "UpdateLabels": change.labels,
        "UpdateProperties": change.properties,
        "UpdateCapacity": change.usage,
        "UpdateNamespaces": [snapshot.metadata.namespace] if change.namespaces_unconfirmed else change.namespaces,
    }
    yield from ((action, names) for action, names in named.items() if names)
    if change.taints and find_untolerated(change.taints, policy.tolerations) is not None:
        yield "UpdateTaints", ()


def is_listed(wakers: Sequence[Waker], change: ClusterDiff, snapshot: PolicySnapshot) -> bool:
    return any(
        waker.event == f"MemberCluster/{action}" and (waker.names is None or not set(waker.names).isdisjoint(names))
        for action, names in fired(change, snapshot)
        for waker in wakers
    )


def test_W_12_a_listed_event_wakes_the_placement_and_an_unlisted_one_does_not(
    snapshots: list[PolicySnapshot], changes: list[ClusterDiff]
) -> None:
    index = InterestIndex(lambda _: EVENT_SOURCES)
    for number, snapshot in enumerate(snapshots):
        index.put(PlacementKey.parse(key_of(number)), snapshot, short=lacks_clusters(snapshot))
    listed = [list_wake_events(snapshot, key_of(number), EVENT_SOURCES) for number, snapshot in enumerate(snapshots)]

    mixed = 0
    for number, change in enumerate(changes):
        woken = set(map(str, index.find_affected(change))) if change else set()
        said = {key_of(at) for at, snapshot in enumerate(snapshots) if is_listed(listed[at], change, snapshot)}
        assert said == woken, number
        mixed += 0 < len(woken) < len(snapshots)
    assert mixed  # neither everybody nor nobody


def test_W_12_no_event_is_listed_twice_for_one_plugin(snapshots: list[PolicySnapshot]) -> None:
    for number, snapshot in enumerate(snapshots):
        found = [(one.event, one.plugin) for one in list_wake_events(snapshot, key_of(number), EVENT_SOURCES)]
        assert len(found) == len(set(found)), number


def test_W_12_events_are_listed_in_the_order_in_which_plugins_filter() -> None:
    requires = a_policy().pick_n(1).require(label("region", "Exists")).require(measure("count", "Ge", "3"))
    policy = requires.prefer(5, sorted_by(CPU)).spread("zone").in_namespace("team")

    listed = list_wake_events(policy.snapshot(), "team/web", EVENT_SOURCES)

    assert [(one.event.partition("/")[2], one.plugin) for one in listed][:8] == [
        ("Add", "*"),
        ("UpdateHealth", "ClusterEligibility"),
        ("UpdateTaints", "TaintToleration"),
        ("UpdateNamespaces", "NamespaceAffinity"),
        ("UpdateLabels", "ClusterAffinity"),
        ("UpdateProperties", "ClusterAffinity"),
        ("UpdateCapacity", "ClusterAffinity"),
        ("UpdateLabels", "TopologySpreadConstraints"),
    ]


def test_W_12_of_thousands_of_names_the_first_are_listed_and_the_others_counted() -> None:
    policy = a_policy().pick_n(1)
    for number in (7, *reversed(range(2_500))):
        policy = policy.require(label(f"label-{number:04}", "Exists"))
    labels = next(
        one for one in list_wake_events(policy.snapshot(), "web", EVENT_SOURCES) if one.event.endswith("Labels")
    )

    assert labels.names is not None
    assert labels.names == tuple(f"label-{number:04}" for number in range(200))
    assert labels.more_names == 2_300
    assert labels.when.endswith("label-0009 or one of 2490 more of a cluster changes")


def test_W_10_a_hidden_cluster_of_a_fixed_policy_is_counted_in_the_wake_list(snapshots: list[PolicySnapshot]) -> None:
    checked = 0
    for snapshot in snapshots:
        policy = snapshot.spec.policy or PlacementPolicy()
        if policy.placement_type == "PickFixed" and policy.cluster_names and lacks_clusters(snapshot):
            hidden = policy.cluster_names[0]
            found = list_wake_events(snapshot, "web", EVENT_SOURCES, hides={hidden}.__contains__)
            texts = [text for one in found for text in (*one.when.split(), *(one.names or ()))]
            assert hidden not in texts
            assert any("1 that you may not read" in one.when for one in found)
            checked += 1
    assert checked
