"""PlacementAffinity over columns equals a naive look at every cluster and every placement, one after the other."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

import pytest

from fleet.framework.bindings import PlacementBindings
from fleet.framework.context import HookContext
from fleet.framework.policy.placement_terms import build_concern, build_group, format_terms
from fleet.framework.request import PlacementRequest
from fleet.framework.state import CycleState
from fleet.framework.status import Code, code_of
from fleet.framework.types import Delta
from fleet.model.keys import PICK_N
from fleet.model.selectors import matches
from fleet.model.views import LabelSelector, PlacementTerm, PlacementTerms, SelectorRequirement, WeightedPlacementTerm
from fleet.snapshot.columns.bitset import as_bits, from_rows, to_rows
from fleet.snapshot.frame import Frame
from fleet.snapshot.recorded_sidedata import encode_sidedata, restore_sidedata
from fleet.snapshot.sidedata import ResidentGroup
from fleet.snapshot.table import Table
from plugins.affinity.placement_affinity import PlacementAffinity
from tests.builders import a_cluster
from tests.tiers import in_tiers

SEEDS: Final = 1000
KEYS: Final = ("", "region", "zone")
APPS: Final = ("db", "web", "cache")


class Fleet:
    """Clusters with random labels, placements with random terms on them, and one more that is decided."""

    def __init__(self, seed: int) -> None:
        self.dice = dice = random.Random(seed)
        self.labels = {
            f"c{number}": {key: f"{key}-{dice.randint(1, 3)}" for key in ("region", "zone") if dice.random() < 0.8}
            for number in range(dice.randint(1, 14))
        }
        self.table = Table(a_cluster(name).labelled(**labels).build() for name, labels in self.labels.items())
        self.others = {
            f"p{number}": self.a_placement(f"p{number}", dice.choice(("", "", "", "ns"))) for number in range(8)
        }
        self.places: dict[str, set[str]] = {
            name: {cluster for cluster in (*self.labels, "gone") if dice.random() < 0.2} for name in self.others
        }
        self.own = self.a_placement("own", "")
        if dice.random() < 0.3:
            self.places["own"] = {cluster for cluster in self.labels if dice.random() < 0.2}
        self.settle()
        self.active = self.rows_of("own")

    def settle(self) -> None:
        residents: dict[ResidentGroup, dict[str, frozenset[str]]] = {}
        for name, clusters in self.places.items():
            placement = self.own if name == "own" else self.others[name]
            on = residents.setdefault(placement.resident_group, {})
            for cluster in clusters:
                on[cluster] = on.get(cluster, frozenset()) | {placement.key}
        self.table.settle({group: on for group, on in residents.items() if on})
        self.frame = self.table.freeze()

    def rows_of(self, name: str) -> int:
        rows = (self.frame.row_of(cluster) for cluster in self.places.get(name, ()))
        return from_rows(row for row in rows if row is not None)

    def a_placement(self, name: str, namespace: str) -> PlacementRequest:
        dice = self.dice
        labels = {"app": dice.choice(APPS)} | ({"tier": "gold"} if dice.random() < 0.3 else {})
        required = tuple(self.a_term() for _ in range(dice.choice((0, 0, 1, 2))))
        preferred = tuple(
            WeightedPlacementTerm(term.placements, term.topology_key, term.anti, dice.randint(1, 100))
            for term in (self.a_term() for _ in range(dice.choice((0, 1, 3))))
        )
        terms = PlacementTerms(required, preferred)
        return PlacementRequest(
            placement=name, namespace=namespace, placement_type=PICK_N, wanted=1, labels=labels, affinity=terms
        )

    def a_term(self) -> PlacementTerm:
        dice = self.dice
        selector = dice.choice(
            (
                LabelSelector(match_labels={"app": dice.choice(APPS)}),
                LabelSelector(match_labels={"app": dice.choice(APPS), "tier": "gold"}),
                LabelSelector(match_expressions=(SelectorRequirement("tier", "DoesNotExist"),)),
                LabelSelector(match_expressions=(SelectorRequirement("app", "NotIn", (dice.choice(APPS),)),)),
                LabelSelector(),
            )
        )
        return PlacementTerm(placements=selector, topology_key=dice.choice(KEYS), anti=dice.random() < 0.5)

    # --- the naive evaluation -----------------------------------------------------------------------------------------

    def domain_of(self, cluster: str, key: str) -> str | None:
        return self.labels[cluster].get(key) if key else cluster

    def holds(self, term: PlacementTerm, cluster: str) -> bool:
        """Whether the domain of the cluster has placements of a term of the placement that is decided."""
        domain = self.domain_of(cluster, term.topology_key)
        return domain is not None and any(
            self.domain_of(other, term.topology_key) == domain for other in self.list_clusters(term)
        )

    def list_clusters(self, term: PlacementTerm) -> list[str]:
        """Clusters with a placement that the term selects."""
        assert term.placements is not None
        found = []
        for name, clusters in self.places.items():
            placement = self.own if name == "own" else self.others[name]
            if placement.namespace == self.own.namespace and matches(term.placements, placement.labels):
                found += [cluster for cluster in clusters if cluster in self.labels]
        return found

    def fits(self, cluster: str) -> bool:
        if cluster in self.places.get("own", ()):
            return True
        return all(self.meets(term, cluster) for term in self.own.affinity.required) and not self.is_kept_away(cluster)

    def meets(self, term: PlacementTerm, cluster: str) -> bool:
        assert term.placements is not None
        if self.domain_of(cluster, term.topology_key) is None:
            return False
        if term.anti:
            return not self.holds(term, cluster)
        is_first = matches(term.placements, self.own.labels) and not self.list_clusters(term)
        return is_first or self.holds(term, cluster)

    def is_kept_away(self, cluster: str) -> bool:
        for name, other in self.others.items():
            for term in other.affinity.required if other.namespace == self.own.namespace else ():
                assert term.placements is not None
                if not term.anti or not matches(term.placements, self.own.labels):
                    continue
                domain = self.domain_of(cluster, term.topology_key)
                there = {self.domain_of(each, term.topology_key) for each in self.places[name] if each in self.labels}
                if domain is not None and domain in there:
                    return True
        return False

    def rank(self, cluster: str) -> int:
        signed = ((-term.weight if term.anti else term.weight, term) for term in self.own.affinity.preferred)
        return sum(weight for weight, term in signed if self.holds(term, cluster))


class Asked:
    """What the plugin answers."""

    def __init__(self, fleet: Fleet, frame: Frame | None = None) -> None:
        self.plugin, self.state = PlacementAffinity(), CycleState()
        self.request, self.frame = fleet.own, frame or fleet.frame
        self.ctx = HookContext(now=0, bindings=PlacementBindings())
        self.ctx.active = fleet.active
        asked = (self.ctx, self.state, self.request, self.frame)
        self.is_skipped = code_of(self.plugin.pre_filter(*asked)[1]) is Code.SKIP
        rows = to_rows(self.frame.valid, self.frame.size)
        scores = self.plugin.pre_score(*asked, rows, None) is None
        points = self.plugin.score(*asked, rows).tolist() if scores else [0] * len(rows)
        self.ranks = dict(zip(map(self.frame.name, rows.tolist()), points, strict=True))

    def list_fitting(self) -> set[str]:
        verdict = self.plugin.filter(self.ctx, self.state, self.request, self.frame, self.frame.valid)
        ok = as_bits(verdict.ok, self.frame.valid) & self.frame.valid
        self.why = {}
        for row in to_rows(self.frame.valid & ~ok, self.frame.size).tolist():
            assert verdict.explain is not None
            number = int(verdict.reason[row])  # type: ignore[index]
            self.why[self.frame.name(row)] = self.plugin.REASONS[number].form.format(**verdict.explain(row))
        return {self.frame.name(row) for row in to_rows(ok, self.frame.size).tolist()}

    def correct(self, *deltas: Delta) -> None:
        self.plugin.add(self.ctx, self.state, self.request, self.frame, deltas)


@pytest.mark.parametrize("block", in_tiers(SEEDS // 100, 3))
def test_X_16_placement_affinity_equals_a_naive_evaluation(block: int) -> None:
    skipped = unequal = 0
    for seed in range(block * 100, (block + 1) * 100):
        fleet = Fleet(seed)
        asked = Asked(fleet)
        expected = {cluster for cluster in fleet.labels if fleet.fits(cluster)}
        assert asked.list_fitting() == expected, seed
        assert asked.ranks == {cluster: fleet.rank(cluster) for cluster in fleet.labels}, seed
        assert not asked.is_skipped or len(expected) == len(fleet.labels), seed
        assert asked.why.keys() == fleet.labels.keys() - expected
        skipped += asked.is_skipped
        unequal += 0 < len(expected) < len(fleet.labels)
    assert skipped
    assert unequal > 20


@pytest.mark.parametrize("block", in_tiers(SEEDS // 100, 3))
def test_X_16_adding_is_deciding_with_the_placement_there_and_removing_restores(block: int) -> None:
    for seed in range(block * 100, (block + 1) * 100):
        fleet = Fleet(seed)
        asked = Asked(fleet)
        before = asked.list_fitting()
        name, cluster = fleet.dice.choice(list(fleet.others)), fleet.dice.choice(list(fleet.labels))
        placement, row = fleet.others[name].key, fleet.frame.row_of(cluster)
        assert row is not None
        if not fleet.places[name] or cluster in fleet.places[name]:
            continue  # what is nowhere is not known, and nothing is twice in one place
        asked.correct(Delta(row, placement, 1))
        fleet.places[name].add(cluster)
        assert asked.list_fitting() == {each for each in fleet.labels if fleet.fits(each)}, seed
        asked.correct(Delta(row, placement, -1))
        assert asked.list_fitting() == before, seed


def test_X_16_what_is_recorded_of_the_others_decides_the_same() -> None:
    for seed in range(200):
        fleet = Fleet(seed)
        own = fleet.own
        is_concerned = build_concern(own.resident_group, own.affinity)
        read = {group: on for group, on in fleet.frame.residents.items() if is_concerned(group)}
        again = Table(a_cluster(name).labelled(**labels).build() for name, labels in fleet.labels.items())
        restore_sidedata(again, encode_sidedata(fleet.frame, feeds=False, ledgers=False, residents=read))
        before, after = Asked(fleet), Asked(fleet, again.freeze())
        assert after.list_fitting() == before.list_fitting(), seed
        assert (after.why, after.ranks) == (before.why, before.ranks), seed


def test_placements_that_are_alike_to_others_are_one_group() -> None:
    fleet = Fleet(1)
    one = replace(fleet.own, labels={"b": "1", "a": "2"})
    other = replace(one, placement="other", labels={"a": "2", "b": "1"})

    assert one.resident_group == other.resident_group
    assert one.resident_group != build_group("ns", one.labels, format_terms(one.affinity))
