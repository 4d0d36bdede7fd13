"""T-13: what is kept for placements counts as in use to others, whichever comes first, the quota or what is kept."""

from __future__ import annotations

from typing import Any, Final

from fleet.informers.cache import Caches
from fleet.kube.informer import InformerConfig
from fleet.model.placement_key import PlacementKey
from fleet.model.views import LabelSelector, Metadata, Observed, Placement, PlacementQuota, PlacementQuotaSpec
from fleet.scheduler.quotas.quota_ledger import QuotaLedger
from fleet.snapshot.sidedata import Nomination
from tests.fake_clock import FakeClock
from tests.unit.scheduler.watching import NoApi

KEPT_FOR, OTHER = map(PlacementKey.parse, ("kept-for", "other"))
QUOTA: Final = PlacementQuota(
    Metadata(name="team", uid="team", resource_version="9"),
    PlacementQuotaSpec(placements=LabelSelector(), max={"cpu": "10"}),
)


class Ledger:
    def __init__(self) -> None:
        access = InformerConfig(reads=NoApi(), writes=NoApi(), clock=FakeClock(), jitter=lambda: 0.0)
        self.kinds = (caches := Caches(access, namespaced_placements=False)).kinds[0]
        self.changes: list[Any] = []
        self.ledger = QuotaLedger(caches, lambda _: "cpu=2", on_change=self.changes.append)
        for number, key in enumerate((KEPT_FOR, OTHER), start=1):
            metadata = Metadata(name=key.name, uid=key.name, resource_version=str(number))
            self.kinds.placements.store.apply_event(Observed(Placement(metadata), b"{}"))

    def create_quota(self) -> None:
        self.kinds.quotas.store.apply_event(Observed(QUOTA, b"{}"))

    def keep(self, *clusters: str) -> None:
        self.ledger.keep([Nomination(each, str(KEPT_FOR), 0, {"cpu": 2}) for each in clusters], keeper="groups")

    def count_used(self, key: PlacementKey) -> int:
        (share,) = self.ledger.list_shares(key)
        return share.used


def test_T_13_what_is_kept_counts_for_others_also_in_a_quota_that_comes_later() -> None:
    ledger = Ledger()
    ledger.keep("a", "b")
    assert ledger.ledger.list_shares(OTHER) == ()
    ledger.create_quota()
    assert (ledger.count_used(OTHER), ledger.count_used(KEPT_FOR)) == (4000, 0)
    ledger.keep("a")
    assert (ledger.count_used(OTHER), ledger.count_used(KEPT_FOR)) == (2000, 0)


def test_T_13_room_that_is_kept_no_more_is_reported_and_more_of_it_is_not() -> None:
    ledger = Ledger()
    ledger.keep("a")
    ledger.keep()
    ledger.create_quota()
    ledger.changes.clear()
    ledger.keep("a")
    ledger.keep("a", "b")
    assert ledger.changes == []
    ledger.keep("b", "c")
    assert ledger.changes == [None]
    ledger.keep()
    assert ledger.changes == [None, None]
