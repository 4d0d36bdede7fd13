"""T-13: what is kept for placements counts as in use to others, whichever comes first, the quota or what is kept; and
whether a copy more fits is answered as if nothing had been remembered."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import pytest

from fleet.framework.policy.quotas import CLUSTERS
from fleet.framework.policy.resource_requests import parse_needs
from fleet.informers.cache import Caches
from fleet.kube.informer import InformerConfig
from fleet.model.keys import (
    IS_LATEST_SNAPSHOT,
    NODE_COUNT,
    PARENT_PLACEMENT,
    REQUESTS,
    SCHEDULED,
    WORKLOAD_REQUESTS,
)
from fleet.model.placement_key import PlacementKey
from fleet.model.views import (
    Binding,
    BindingSpec,
    LabelSelector,
    MemberCluster,
    MemberClusterStatus,
    Metadata,
    Observed,
    Placement,
    PlacementQuota,
    PlacementQuotaSpec,
    PolicySnapshot,
    PropertyValue,
)
from fleet.scheduler.companions import Companions
from fleet.scheduler.quotas.quota_ledger import QuotaLedger
from fleet.snapshot.sidedata import Nomination
from tests.fake_clock import FakeClock
from tests.unit.scheduler.watching import NoApi

KEPT_FOR, OTHER, THIRD = KEYS = tuple(map(PlacementKey.parse, ("kept-for", "other", "third")))
CLUSTER_NAMES: Final = ("a", "b", "c")
NEEDS: Final = ("", "cpu=1", "cpu=2", "cpu=3", "cpu=1,memory=4Gi", "cpu=1;node:cpu=1", ";node:cpu=2")


class Ledger:
    def __init__(self) -> None:
        access = InformerConfig(reads=NoApi(), writes=NoApi(), clock=FakeClock(), jitter=lambda: 0.0)
        self.caches = caches = Caches(access, namespaced_placements=False)
        self.kinds = caches.kinds[0]
        self.changes: list[Any] = []
        self.ledger = QuotaLedger(caches, Companions(caches).requests_of, on_change=self.changes.append)
        self.version = 0
        self.needs: dict[PlacementKey, str] = {}
        for key in KEYS:
            self.put_placement(key, "cpu=2")

    def _describe(self, name: str, **more: Any) -> Metadata:
        self.version += 1
        return Metadata(name=name, uid=name, resource_version=str(self.version), **more)

    def put_placement(self, key: PlacementKey, needs: str | None) -> None:
        self.needs[key] = needs or ""
        metadata = self._describe(key.name, annotations=None if needs is None else {REQUESTS: needs})
        self.kinds.placements.store.apply_event(Observed(Placement(metadata), b"{}"))

    def put_quota(self, name: str = "team", **most: str | int | float) -> None:
        spec = PlacementQuotaSpec(placements=LabelSelector(), max=most)
        self.kinds.quotas.store.apply_event(Observed(PlacementQuota(self._describe(name), spec), b"{}"))

    def report(self, cluster: str, nodes: int) -> None:
        status = MemberClusterStatus(properties={NODE_COUNT: PropertyValue(value=str(nodes))})
        self.caches.clusters.apply_event(MemberCluster(self._describe(cluster), status=status))

    def leave(self, cluster: str) -> None:
        self.version += 1
        self.caches.clusters.apply_delete_event(cluster, uid=cluster, version=str(self.version))

    def put_snapshot(self, key: PlacementKey, needs: str) -> None:
        labels, annotations = {PARENT_PLACEMENT: key.name, IS_LATEST_SNAPSHOT: "true"}, {WORKLOAD_REQUESTS: needs}
        metadata = self._describe(f"{key}-0", labels=labels, annotations=annotations)
        self.kinds.policy_snapshots.store.apply_event(Observed(PolicySnapshot(metadata), b"{}"))

    def bind(self, key: PlacementKey, cluster: str) -> None:
        metadata = self._describe(f"{key}-{cluster}", labels={PARENT_PLACEMENT: key.name})
        binding = Binding(metadata, BindingSpec(state=SCHEDULED, target_cluster=cluster))
        self.kinds.bindings.store.apply_event(Observed(binding, b"{}"))

    def unbind(self, key: PlacementKey, cluster: str) -> None:
        self.version += 1
        name = f"{key}-{cluster}"
        self.kinds.bindings.store.apply_delete_event(name, uid=name, version=str(self.version))

    def keep(self, *clusters: str) -> None:
        self.ledger.keep([Nomination(each, str(KEPT_FOR), 0, {"cpu": 2}) for each in clusters], keeper="groups")

    def count_used(self, key: PlacementKey) -> int:
        (share,) = self.ledger.list_shares(key)
        return share.used

    def fits(self, key: PlacementKey) -> bool:
        """On any cluster, as its nodes are now."""
        needs, clusters = parse_needs(self.needs[key]), list(self.caches.clusters.values())
        counts = [int((cluster.status.properties or {})[NODE_COUNT].value) for cluster in clusters]
        shares = self.ledger.list_shares(key)
        return any(
            all({CLUSTERS: 1, **needs.on(nodes)}.get(share.resource, 0) <= share.left for share in shares)
            for nodes in (counts if needs.vary and counts else [1])
        )


def test_T_13_what_is_kept_counts_for_others_also_in_a_quota_that_comes_later() -> None:
    ledger = Ledger()
    ledger.keep("a", "b")
    assert ledger.ledger.list_shares(OTHER) == ()
    ledger.put_quota(cpu="10")
    assert (ledger.count_used(OTHER), ledger.count_used(KEPT_FOR)) == (4000, 0)
    ledger.keep("a")
    assert (ledger.count_used(OTHER), ledger.count_used(KEPT_FOR)) == (2000, 0)


def test_T_13_room_that_is_kept_no_more_is_reported_and_more_of_it_is_not() -> None:
    ledger = Ledger()
    ledger.keep("a")
    ledger.keep()
    ledger.put_quota(cpu="10")
    ledger.changes.clear()
    ledger.keep("a")
    ledger.keep("a", "b")
    assert ledger.changes == []
    ledger.keep("b", "c")
    assert ledger.changes == [None]
    ledger.keep()
    assert ledger.changes == [None, None]


def test_T_13_what_a_snapshot_says_counts_as_long_as_it_is_there() -> None:
    ledger = Ledger()
    ledger.put_quota(cpu="1")
    ledger.put_placement(OTHER, None)
    assert ledger.ledger.has_room(OTHER)
    ledger.put_snapshot(OTHER, "cpu=2")
    assert not ledger.ledger.has_room(OTHER)
    ledger.version += 1
    name = f"{OTHER}-0"
    ledger.kinds.policy_snapshots.store.apply_delete_event(name, uid=name, version=str(ledger.version))
    assert ledger.ledger.has_room(OTHER)


@pytest.mark.parametrize("seed", range(30))
def test_T_13_whether_a_copy_fits_follows_all_that_it_depends_on(seed: int) -> None:
    dice, ledger = Random(seed), Ledger()
    answers = set()

    def change() -> None:
        key, cluster = dice.choice(KEYS), dice.choice(CLUSTER_NAMES)
        match dice.randrange(9):
            case 0:
                ledger.put_placement(key, dice.choice(NEEDS))
            case 1:
                ledger.put_quota(dice.choice(("team", "all")), cpu=str(dice.randint(2, 8)), clusters="4")
            case 2:
                ledger.keep(*dice.sample(CLUSTER_NAMES, dice.randint(0, 3)))
            case 3:
                ledger.unbind(key, cluster)
            case 4:
                ledger.ledger.reserve_quota(cluster, str(key))
            case 5:
                ledger.ledger.release_quota(cluster, str(key))
            case 6:
                ledger.report(cluster, dice.randint(1, 5))
            case 7:
                ledger.leave(cluster)
            case _:
                ledger.bind(key, cluster)

    for _ in range(100):
        change()
        for key in KEYS:
            assert ledger.ledger.has_room(key) is ledger.fits(key)
            answers.add(ledger.fits(key))
    assert answers == {True, False}
