"""X-13: what the ledger books equals a sum over everything, after any sequence of events."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, Final

import msgspec
import pytest

from fleet.informers.cache import Caches
from fleet.kube.informer import InformerConfig
from fleet.model.keys import BOUND, PARENT_PLACEMENT, REQUESTS
from fleet.model.views import Metadata, Observed, Placement, ResourceUsage
from fleet.scheduler.ledgers.room_ledger import RoomLedger
from tests.builders import a_cluster, ago
from tests.fake_clock import FakeClock
from tests.unit.scheduler.watching import NoApi

CLUSTERS: Final = ("a", "b", "c")
PLACEMENTS: Final = ("p", "q", "r", "s")
STEPS: Final = 80


class Hub:
    """Events in random order, and the sum that follows from them."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        access = InformerConfig(reads=NoApi(), writes=NoApi(), clock=FakeClock(), jitter=lambda: 0.0)
        self.caches = Caches(access, namespaced_placements=False)
        self.booked: dict[str, dict[str, int]] = {}
        self.ledger = RoomLedger(self.caches, lambda metadata: metadata.annotation(REQUESTS), book=self._book)
        self.version = 0
        self.requests: dict[str, int] = {}
        self.bindings: dict[tuple[str, str], tuple[int, float | None]] = {}
        """By placement and cluster: the uid, and how long ago it was applied."""
        self.reports: dict[str, float] = {}
        self.included: set[tuple[str, str]] = set()
        self.reserved: dict[tuple[str, str], int] = {}

    def _book(self, cluster: str, booked: Any) -> None:
        self.booked[cluster] = dict(booked)

    def _see(self, store: Any, view: Any) -> None:
        self.version += 1
        metadata = msgspec.structs.replace(view.metadata, resource_version=str(self.version))
        view = msgspec.structs.replace(view, metadata=metadata)
        store.apply_event(view if store is self.caches.clusters else Observed(view, msgspec.json.encode(view)))

    def step(self) -> None:
        placement, cluster = self.dice.choice(PLACEMENTS), self.dice.choice(CLUSTERS)
        self.dice.choice((self.request, self.report, self.bind, self.bind, self.unbind, self.reserve, self.release))(
            placement, cluster
        )

    def request(self, placement: str, cluster: str) -> None:
        del cluster
        amount = self.dice.choice((0, 1, 2, 5))
        changed = self.requests.get(placement, 0) != amount
        self.requests[placement] = amount
        annotations = {REQUESTS: f"cpu={amount}"} if amount else None
        view = Placement(Metadata(name=placement, uid=placement, annotations=annotations))
        self._see(self.caches.kinds[0].placements.store, view)
        for key in self.bindings if changed else ():
            if key[0] == placement:
                self._judge(key)

    def report(self, placement: str, cluster: str) -> None:
        del placement
        self.reports[cluster] = seconds = 1000.0 - self.version
        quantities: dict[str, str | int | float] = {"cpu": "9"}
        usage = ResourceUsage(quantities, quantities, quantities, ago(seconds))
        view = a_cluster(cluster).build()
        status = msgspec.structs.replace(view.status, resource_usage=usage)
        self._see(self.caches.clusters, msgspec.structs.replace(view, status=status))
        for key in self.bindings:
            if key[1] == cluster and key not in self.included:
                self._judge(key)

    def bind(self, placement: str, cluster: str) -> None:
        """A new binding, one in place of another, or the report of its agent."""
        key, known = (placement, cluster), self.bindings.get((placement, cluster))
        is_new = known is None or self.dice.random() < 0.2
        applied = None if is_new or self.dice.random() < 0.3 else 1000.0 - self.version
        uid = self.version if is_new or known is None else known[0]
        self.bindings[key] = (uid, applied)
        labels = {PARENT_PLACEMENT: placement}
        conditions = [] if applied is None else [condition(applied)]
        metadata = Metadata(name=f"{placement}-{cluster}", uid=str(uid), labels=labels, creation_timestamp=ago(1000.0))
        document = {"spec": {"state": BOUND, "targetCluster": cluster}, "status": {"conditions": conditions}}
        self._see_binding(metadata, document)
        if is_new:
            self.reserved.pop(key, None)
            self._judge(key)
        elif key not in self.included:
            self._judge(key)

    def _see_binding(self, metadata: Metadata, document: dict[str, Any]) -> None:
        self.version += 1
        numbered = msgspec.structs.replace(metadata, resource_version=str(self.version))
        raw = msgspec.json.encode({"metadata": msgspec.to_builtins(numbered), **document})
        store = self.caches.kinds[0].bindings.store
        store.apply_event(store.codec.read(raw))

    def _judge(self, key: tuple[str, str]) -> None:
        """Where nothing is requested there is nothing to include."""
        reported, applied = self.reports.get(key[1]), self.bindings[key][1]
        is_included = reported is not None and applied is not None and applied > reported
        if is_included or not self.requests.get(key[0]):
            self.included.add(key)
        else:
            self.included.discard(key)

    def unbind(self, placement: str, cluster: str) -> None:
        known = self.bindings.pop((placement, cluster), None)
        self.included.discard((placement, cluster))
        if known is not None:
            self.version += 1
            store = self.caches.kinds[0].bindings.store
            store.apply_delete_event(f"{placement}-{cluster}", uid=str(known[0]), version=str(self.version))

    def reserve(self, placement: str, cluster: str) -> None:
        amount = self.dice.choice((1, 3))
        self.ledger.reserve_room(cluster, placement, {"cpu": amount * 1000})
        if (placement, cluster) not in self.bindings:
            self.reserved[placement, cluster] = amount

    def release(self, placement: str, cluster: str) -> None:
        self.ledger.release_room(cluster, placement)
        self.reserved.pop((placement, cluster), None)

    def sum_up(self) -> dict[str, dict[str, int]]:
        total: dict[str, Counter[str]] = {}
        for (_, cluster), amount in self.reserved.items():
            total.setdefault(cluster, Counter())["cpu"] += amount * 1000
        for placement, cluster in self.bindings.keys() - self.included:
            total.setdefault(cluster, Counter())["cpu"] += self.requests[placement] * 1000
        return {cluster: dict(booked) for cluster, booked in total.items()}


def condition(seconds: float) -> dict[str, str]:
    return {"type": "Applied", "status": "True", "lastTransitionTime": ago(seconds)}


@pytest.mark.parametrize("seed", range(100))
def test_X_13_bookings_equal_a_sum_over_everything(seed: int) -> None:
    hub = Hub(seed)
    for _ in range(STEPS):
        hub.step()
        expected = hub.sum_up()
        assert {cluster: booked for cluster, booked in hub.booked.items() if booked} == expected
        assert {name: dict(hub.ledger.find_booked(name)) for name in expected} == expected


def test_a_binding_whose_label_is_taken_away_leaves_nothing_booked() -> None:
    hub = Hub(0)
    hub.requests["p"] = 2
    view = Placement(Metadata(name="p", uid="p", annotations={REQUESTS: "cpu=2"}))
    hub._see(hub.caches.kinds[0].placements.store, view)
    document = {"spec": {"state": BOUND, "targetCluster": "a"}}
    bound = Metadata(name="p-a", uid="1", labels={PARENT_PLACEMENT: "p"}, creation_timestamp=ago(1000.0))
    hub._see_binding(bound, document)
    assert hub.booked["a"] == {"cpu": 2000}
    hub._see_binding(msgspec.structs.replace(bound, labels={}), document)
    assert hub.booked["a"] == {}
    hub._see_binding(bound, document)
    assert hub.booked["a"] == {"cpu": 2000}
