"""X-16: the residents of the ledger equal a look at all bindings and reservations, after any sequence of events."""

from __future__ import annotations

import copy
import random
from typing import Any, Final

import msgspec
import pytest

from fleet.framework.policy.placement_terms import build_concern, build_group, parse_terms
from fleet.informers.cache import Caches
from fleet.kube.informer import InformerConfig
from fleet.model.keys import AFFINITY, BOUND, PARENT_PLACEMENT, SCHEDULED, UNSCHEDULED
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Binding, BindingSpec, Metadata, Observed, Placement
from fleet.scheduler.ledgers.resident_ledger import ResidentLedger
from fleet.snapshot.sidedata import ResidentGroup
from tests.fake_clock import FakeClock
from tests.unit.scheduler.watching import NoApi

CLUSTERS: Final = ("a", "b", "c")
PLACEMENTS: Final = ("p", "q", "r", "s")
TERMS: Final = '{"required": [{"placements": {}, "anti": true}]}'
PREFERENCES: Final = '{"preferred": [{"placements": {"matchLabels": {"app": "db"}}, "weight": 1}]}'
COMING: Final = (
    build_group("", {"app": "db"}, ""),
    build_group("", {"app": "web"}, ""),
    build_group("", None, '{"required": [{"placements": {"matchLabels": {"app": "web"}}, "anti": true}]}'),
    build_group("elsewhere", {"app": "db"}, TERMS),
)
STEPS: Final = 120


class Hub:
    """Events in random order, and the residents that follow from them."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        access = InformerConfig(reads=NoApi(), writes=NoApi(), clock=FakeClock(), jitter=lambda: 0.0)
        self.caches = Caches(access, namespaced_placements=False)
        self.noted: list[tuple[ResidentGroup, str, str]] = []
        self.ledger = ResidentLedger(
            self.caches,
            lambda metadata: dict(metadata.annotations or {}),
            on_change=lambda group, key, _, event: self.noted.append((group, str(key), event)),
        )
        self.version = 0
        self.groups: dict[str, ResidentGroup] = {}
        """Of the placements that exist, or are somewhere."""
        self.existing: set[str] = set()
        self.terms: dict[str, str] = {}
        """Of those that exist."""
        self.bindings: dict[tuple[str, str], str] = {}
        """Their states."""
        self.reserved: set[tuple[str, str]] = set()

    def step(self) -> None:
        placement, cluster = self.dice.choice(PLACEMENTS), self.dice.choice(CLUSTERS)
        steps = (self.label, self.drop, self.bind, self.bind, self.bind, self.unbind, self.reserve, self.release)
        self.dice.choice(steps)(placement, cluster)
        for name in list(self.groups):
            if name not in self.existing and not self.find_places(name):
                del self.groups[name]

    def find_places(self, placement: str) -> set[str]:
        live = {key for key, state in self.bindings.items() if state != UNSCHEDULED}
        return {cluster for name, cluster in live | self.reserved if name == placement}

    def _number(self, metadata: Metadata) -> Metadata:
        self.version += 1
        return msgspec.structs.replace(metadata, resource_version=str(self.version))

    def label(self, placement: str, cluster: str) -> None:
        del cluster
        labels = self.dice.choice((None, {"app": "web"}, {"app": "db"}))
        text = self.dice.choice(("", TERMS, PREFERENCES))
        self.terms[placement] = text
        metadata = self._number(Metadata(name=placement, uid=placement, labels=labels, annotations={AFFINITY: text}))
        self.existing.add(placement)
        self.groups[placement] = build_group("", labels, text)
        self.caches.kinds[0].placements.store.apply_event(Observed(Placement(metadata), b"{}"))

    def drop(self, placement: str, cluster: str) -> None:
        del cluster
        if placement in self.existing:
            self.existing.discard(placement)
            del self.terms[placement]
            self._delete(self.caches.kinds[0].placements.store, placement, placement)

    def bind(self, placement: str, cluster: str) -> None:
        state = self.dice.choice((SCHEDULED, BOUND, UNSCHEDULED))
        self.bindings[placement, cluster] = state
        if state != UNSCHEDULED:
            self.reserved.discard((placement, cluster))
        name = f"{placement}-{cluster}"
        metadata = self._number(Metadata(name=name, uid=name, labels={PARENT_PLACEMENT: placement}))
        binding = Binding(metadata, BindingSpec(state=state, target_cluster=cluster))
        self.caches.kinds[0].bindings.store.apply_event(Observed(binding, b"{}"))

    def unbind(self, placement: str, cluster: str) -> None:
        if self.bindings.pop((placement, cluster), None) is not None:
            name = f"{placement}-{cluster}"
            self._delete(self.caches.kinds[0].bindings.store, name, name)

    def _delete(self, store: Any, name: str, uid: str) -> None:
        self.version += 1
        store.apply_delete_event(name, uid=uid, version=str(self.version))

    def reserve(self, placement: str, cluster: str) -> None:
        if self.bindings.get((placement, cluster), UNSCHEDULED) == UNSCHEDULED:
            self.reserved.add((placement, cluster))
        self.ledger.reserve(PlacementKey.parse(placement), cluster)

    def release(self, placement: str, cluster: str) -> None:
        self.reserved.discard((placement, cluster))
        self.ledger.release(PlacementKey.parse(placement), cluster)

    def list_concerned(self, group: ResidentGroup) -> set[str]:
        return {
            name
            for name in PLACEMENTS
            if build_concern(self.groups.get(name) or build_group("", None, ""), parse_terms(self.terms.get(name, "")))(
                group
            )
        }

    def list_residents(self) -> dict[ResidentGroup, dict[str, set[str]]]:
        residents: dict[ResidentGroup, dict[str, set[str]]] = {}
        for placement in PLACEMENTS:
            group = self.groups.get(placement) or build_group("", None, "")
            for cluster in self.find_places(placement):
                residents.setdefault(group, {}).setdefault(cluster, set()).add(placement)
        return residents


@pytest.mark.parametrize("seed", range(60))
def test_X_16_residents_equal_a_look_at_everything_and_what_was_read_stays(seed: int) -> None:
    hub = Hub(seed)
    hub.ledger.keep(is_wanted=True)
    counted: dict[tuple[ResidentGroup, str], int] = {}
    for _ in range(STEPS):
        before = hub.ledger.read()
        kept = copy.deepcopy(dict(before))
        hub.step()
        assert hub.ledger.read() == hub.list_residents()
        assert {str(key) for key in hub.ledger.naming} == {name for name, terms in hub.terms.items() if terms}
        for group in COMING:
            asked = set(map(PlacementKey.parse, hub.dice.sample(PLACEMENTS, hub.dice.randint(0, 4))))
            concerned = [str(key) for key in hub.ledger.select_concerned(asked, group)]
            assert sorted(concerned) == sorted(hub.list_concerned(group) & set(map(str, asked)))
        assert before == kept
        for group, placement, event in hub.noted:
            counted[group, placement] = counted.get((group, placement), 0) + (1 if event == "Add" else -1)
        hub.noted.clear()
        present = {
            (group, name): sum(name in names for names in on.values())
            for group, on in hub.list_residents().items()
            for name in PLACEMENTS
        }
        assert {entry: count for entry, count in counted.items() if count} == {
            entry: count for entry, count in present.items() if count
        }


@pytest.mark.parametrize("seed", range(20))
def test_X_16_residents_are_the_same_for_the_next_leader_and_nothing_is_kept_unless_it_is_read(seed: int) -> None:
    hub = Hub(seed)
    for _ in range(STEPS):
        hub.step()
    assert not hub.ledger.read()
    hub.reserved.clear()
    hub.groups = {name: group for name, group in hub.groups.items() if name in hub.existing}
    hub.ledger.keep(is_wanted=True)
    assert hub.ledger.read() == hub.list_residents()
    expected = hub.list_residents()
    for placement, cluster in [(placement, cluster) for placement in PLACEMENTS for cluster in CLUSTERS]:
        hub.reserve(placement, cluster)
    hub.ledger.begin()
    assert hub.ledger.read() == expected
    hub.ledger.keep(is_wanted=False)
    assert not hub.ledger.read()
    assert not hub.ledger.naming
