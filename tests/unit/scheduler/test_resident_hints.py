"""X-16: whom a placement that comes to a cluster, or leaves it, wakes; and who is looked at for that."""

from __future__ import annotations

from typing import Any, Final, cast

import pytest

from fleet.framework.policy.placement_terms import build_group, is_named
from fleet.framework.profiles.profile import CompiledProfile
from fleet.informers.cache import Caches
from fleet.kube.informer import InformerConfig
from fleet.model.keys import AFFINITY
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Metadata, Observed, Placement
from fleet.scheduler.events import resident_hints
from fleet.scheduler.events.resident_hints import ResidentHints
from fleet.scheduler.ledgers import resident_ledger
from fleet.scheduler.ledgers.resident_ledger import ResidentLedger
from fleet.snapshot.sidedata import ResidentGroup
from tests.fake_clock import FakeClock
from tests.unit.scheduler.watching import NoApi

NEAR_DB: Final = '{"required": [{"placements": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"}]}'
NEAR_DB_IF_POSSIBLE: Final = '{"preferred": [{"placements": {"matchLabels": {"app": "db"}}, "weight": 1}]}'
AWAY_FROM_WEB: Final = (
    '{"required": [{"placements": {"matchLabels": {"app": "web"}}, "topologyKey": "zone", "anti": true}]}'
)
PLAIN, NEAR, NEARER, OTHER = map(PlacementKey.parse, ("plain", "near", "nearer", "other"))
DB, QUEUE = build_group("", {"app": "db"}, ""), build_group("", {"app": "mq"}, "")
SHY = build_group("", None, AWAY_FROM_WEB)
SHY_ELSEWHERE = build_group("elsewhere", None, AWAY_FROM_WEB)


def decide_alone(key: PlacementKey) -> set[PlacementKey]:
    return {key}


class Ledger(ResidentLedger):
    """It knows three placements labelled app=web, of which two have terms."""

    def __init__(self) -> None:
        access = InformerConfig(reads=NoApi(), writes=NoApi(), clock=FakeClock(), jitter=lambda: 0.0)
        self.placements = (caches := Caches(access, namespaced_placements=False)).kinds[0].placements
        self.version = 0
        super().__init__(caches, lambda metadata: dict(metadata.annotations or {}))
        self.keep(is_wanted=True)
        for key, terms in ((PLAIN, ""), (NEAR, NEAR_DB), (NEARER, NEAR_DB_IF_POSSIBLE)):
            self.create(key.name, terms)

    def create(self, name: str, terms: str, **more: str) -> None:
        self.version += 1
        labels, annotations = {"app": "web", **more}, {AFFINITY: terms}
        metadata = Metadata(
            name=name, uid=name, resource_version=str(self.version), labels=labels, annotations=annotations
        )
        self.placements.store.apply_event(Observed(Placement(metadata), b"{}"))


class Profile:
    reads_residents = True


@pytest.fixture
def profile() -> Any:
    return Profile()


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture(params=["rejected", "undecided"])
def hints(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, ledger: Ledger, profile: CompiledProfile
) -> ResidentHints:
    monkeypatch.setattr(resident_hints, "may_end_rejection", lambda *_: True)
    are_rejected = request.param == "rejected"
    waiting = [PLAIN, NEAR, NEARER]
    hints = ResidentHints(ledger, lambda: [] if are_rejected else waiting, decide_alone, lambda _: profile)
    for key in waiting if are_rejected else ():
        hints.note_decision(key, profile, frozenset({"PlacementAffinity"}))
    return hints


@pytest.mark.parametrize(
    "group, woken",
    [(DB, {NEAR, NEARER}), (QUEUE, set()), (SHY, {PLAIN, NEAR, NEARER}), (SHY_ELSEWHERE, set())],
)
def test_X_16_those_wake_whom_it_matters_to(hints: ResidentHints, group: ResidentGroup, woken: set[Any]) -> None:
    assert set(hints.select(OTHER, group, "c", "Add")) == woken
    assert {key for key in (PLAIN, NEAR, NEARER) if hints.concerns([key], group)} == woken
    assert hints.concerns([PLAIN, NEAR], group) is bool(woken)


def test_X_16_equal_terms_are_looked_at_once(monkeypatch: pytest.MonkeyPatch, ledger: Ledger) -> None:
    looked_at: list[str] = []

    def look(group: ResidentGroup, terms: str) -> bool:
        looked_at.append(terms)
        return is_named(group, terms)

    monkeypatch.setattr(resident_ledger, "is_named", look)
    waiting = set[PlacementKey]()
    for number in range(50):
        for kind, terms in (("near", NEAR_DB), ("plain", "")):
            ledger.create(f"{kind}-{number}", terms, number=str(number))
            waiting.add(PlacementKey.parse(f"{kind}-{number}"))
    assert {key.name for key in ledger.select_concerned(waiting, DB)} == {f"near-{number}" for number in range(50)}
    assert sorted(looked_at) == sorted((NEAR_DB, NEAR_DB_IF_POSSIBLE))
    looked_at.clear()
    assert ledger.select_concerned({NEAR}, DB) == {NEAR}
    assert looked_at == [NEAR_DB]


def test_X_16_those_that_wake_are_in_the_order_of_their_names(
    hints: ResidentHints, ledger: Ledger, profile: CompiledProfile
) -> None:
    names = [f"near-{number}" for number in range(50)]
    for name in reversed(names):
        ledger.create(name, NEAR_DB)
        hints.note_decision(PlacementKey.parse(name), profile, frozenset({"PlacementAffinity"}))
    assert [key.name for key in hints.select(OTHER, DB, "c", "Add")] == ["near", *sorted(names), "nearer"]


def test_X_16_terms_are_known_as_they_are_when_they_are_read_again(ledger: Ledger) -> None:
    ledger.keep(is_wanted=False)
    ledger.create("near", "")
    ledger.create("plain", NEAR_DB)
    ledger.keep(is_wanted=True)
    keys = {PLAIN, NEAR, NEARER}
    assert ledger.select_concerned(keys, DB) == {PLAIN, NEARER}
    for name in ("plain", "near", "nearer"):
        ledger.create(name, "")
    assert (ledger.naming, ledger._alike) == ({}, {})


def test_X_16_a_placement_does_not_wake_itself(hints: ResidentHints) -> None:
    assert set(hints.select(NEAR, DB, "c", "Add")) == {NEARER}


def test_X_16_none_is_woken_whose_profile_does_not_read_residents(hints: ResidentHints, profile: Profile) -> None:
    profile.reads_residents = False
    assert set(hints.select(OTHER, SHY, "c", "Add")) == set()
    assert not hints.concerns([NEAR], DB)


def test_X_16_a_placement_that_is_gone_wakes_no_more(hints: ResidentHints, request: pytest.FixtureRequest) -> None:
    hints.forget(NEAR)
    is_rejected = "rejected" in request.node.name
    assert (NEAR in hints.select(OTHER, DB, "c", "Add")) is not is_rejected


def test_X_16_without_terms_none_is_concerned(ledger: Ledger) -> None:
    hints = ResidentHints(ledger, list, decide_alone, cast("Any", None))
    assert hints.may_concern(DB)
    ledger.keep(is_wanted=False)
    assert not hints.may_concern(DB)
    assert hints.may_concern(SHY)


@pytest.mark.parametrize("is_undecided", [False, True])
def test_X_16_X_18_those_that_are_decided_together_learn_at_the_end_what_has_come_of_it(
    ledger: Ledger,
    profile: CompiledProfile,
    monkeypatch: pytest.MonkeyPatch,
    is_undecided: bool,  # noqa: FBT001 - drawn
) -> None:
    monkeypatch.setattr(resident_hints, "may_end_rejection", lambda *_: True)
    undecided = [NEAR] if is_undecided else []
    hints = ResidentHints(ledger, lambda: undecided, lambda _: {OTHER, NEAR}, lambda _: profile)
    for key in (NEARER,) if is_undecided else (NEAR, NEARER):
        hints.note_decision(key, profile, frozenset())
    assert list(hints.select(OTHER, DB, "a", "Add")) == [NEARER]
    assert list(hints.select(OTHER, DB, "b", "Add")) == [NEARER]
    assert list(hints.select(OTHER, DB, "b", "Delete")) == [NEARER]
    assert list(hints.select(OTHER, DB, "c", "Delete")) == [NEARER]
    assert list(hints.settle(OTHER)) == [("Add", [NEAR]), ("Delete", [NEAR])]
    assert list(hints.settle(OTHER)) == []
