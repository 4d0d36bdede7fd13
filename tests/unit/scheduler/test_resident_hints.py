"""X-16: whom a placement that comes to a cluster, or leaves it, wakes; and who is looked at for that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

import pytest

from fleet.framework.policy.placement_terms import build_group
from fleet.framework.profiles.profile import CompiledProfile
from fleet.informers.cache import Caches
from fleet.kube.informer import InformerConfig
from fleet.model.keys import AFFINITY
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Metadata, Observed, Placement
from fleet.scheduler.events import resident_hints
from fleet.scheduler.events.resident_hints import ResidentHints
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


class Ledger(ResidentLedger):
    """It knows three placements labelled app=web, of which two have terms, and remembers which it was asked about."""

    def __init__(self) -> None:
        access = InformerConfig(reads=NoApi(), writes=NoApi(), clock=FakeClock(), jitter=lambda: 0.0)
        caches = Caches(access, namespaced_placements=False)
        super().__init__(caches, lambda metadata: dict(metadata.annotations or {}))
        self.asked: set[PlacementKey] = set()
        self.keep(is_wanted=True)
        for number, (key, terms) in enumerate(((PLAIN, ""), (NEAR, NEAR_DB), (NEARER, NEAR_DB_IF_POSSIBLE)), start=1):
            metadata = Metadata(
                name=key.name,
                uid=key.name,
                resource_version=str(number),
                labels={"app": "web"},
                annotations={AFFINITY: terms},
            )
            caches.kinds[0].placements.store.apply_event(Observed(Placement(metadata), b"{}"))

    def select_concerned(self, keys: Iterable[PlacementKey], group: ResidentGroup) -> Iterator[PlacementKey]:
        self.asked |= (asked := set(keys))
        return super().select_concerned(asked, group)


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
    hints = ResidentHints(ledger, lambda: [] if are_rejected else waiting, lambda _: profile)
    for key in waiting if are_rejected else ():
        hints.note_decision(key, profile, frozenset({"PlacementAffinity"}))
    return hints


@pytest.mark.parametrize(
    "group, woken",
    [(DB, {NEAR, NEARER}), (QUEUE, set()), (SHY, {PLAIN, NEAR, NEARER}), (SHY_ELSEWHERE, set())],
)
def test_X_16_those_wake_whom_it_matters_to(hints: ResidentHints, group: ResidentGroup, woken: set[Any]) -> None:
    assert set(hints.select(OTHER, group)) == woken
    assert {key for key in (PLAIN, NEAR, NEARER) if hints.concerns([key], group)} == woken
    assert hints.concerns([PLAIN, NEAR], group) is bool(woken)


def test_X_16_of_the_rejected_only_those_with_terms_are_looked_at(
    ledger: Ledger, profile: CompiledProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident_hints, "may_end_rejection", lambda *_: True)
    hints = ResidentHints(ledger, list, lambda _: profile)
    for key in (PLAIN, NEAR, OTHER):
        hints.note_decision(key, profile, frozenset())
    assert list(hints.select(OTHER, DB)) == [NEAR]
    assert ledger.asked == {NEAR}


def test_X_16_a_placement_does_not_wake_itself(hints: ResidentHints) -> None:
    assert set(hints.select(NEAR, DB)) == {NEARER}


def test_X_16_none_is_woken_whose_profile_does_not_read_residents(hints: ResidentHints, profile: Profile) -> None:
    profile.reads_residents = False
    assert set(hints.select(OTHER, SHY)) == set()
    assert not hints.concerns([NEAR], DB)


def test_X_16_a_placement_that_is_gone_wakes_no_more(hints: ResidentHints, request: pytest.FixtureRequest) -> None:
    hints.forget(NEAR)
    is_rejected = "rejected" in request.node.name
    assert (NEAR in hints.select(OTHER, DB)) is not is_rejected


def test_X_16_without_terms_none_is_concerned(ledger: Ledger) -> None:
    hints = ResidentHints(ledger, list, cast("Any", None))
    assert hints.may_concern(DB)
    ledger.naming.clear()
    assert not hints.may_concern(DB)
    assert hints.may_concern(SHY)
