"""The search for victims in columns equals a naive one: one cluster after the other, with a whole attempt for each."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pytest

from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.cycle.decision import Decision
from fleet.framework.cycle.runner import Runner
from fleet.framework.handle import OfflineHandle
from fleet.framework.policy.placement_terms import build_group, parse_terms
from fleet.framework.policy.resource_requests import read_requests
from fleet.framework.profiles.extender import ExtenderRef
from fleet.framework.profiles.profile import METHODS, CompiledProfile, PluginRef, Profile, compile_profile
from fleet.framework.request import Constraint, PlacementRequest
from fleet.framework.status import Code
from fleet.framework.types import ExternalResult
from fleet.framework.verdicts import Verdicts
from fleet.informers.cache import book_room
from fleet.model.keys import PICK_N
from fleet.model.views import Binding, MemberCluster
from fleet.snapshot.frame import Frame
from fleet.snapshot.removals import Removals
from fleet.snapshot.sidedata import LEAVING, Nomination, PlacedBinding, ResidentGroup, Residents
from fleet.snapshot.table import Table
from plugins import in_tree_registry
from plugins.capacity import default_preemption
from plugins.extended_profile import EXTENDED_PLUGINS
from tests.builders import NOW, a_binding, a_cluster
from tests.conftest import LONG

FLEETS: Final = 1000 if LONG else 80
BLOCK: Final = FLEETS // 4
OWN: Final = "web"
AWAY: Final = '{"required":[{"placements":{"matchLabels":{"app":"x"}},"anti":true}]}'
GROUPS: Final = (
    build_group("", {"app": "x"}, ""),
    build_group("", {"app": "y"}, ""),
    build_group(
        "", {"app": "y"}, '{"required":[{"placements":{"matchLabels":{"app":"x"}},"topologyKey":"zone","anti":true}]}'
    ),
)
TERMS: Final = (
    "",
    AWAY,
    '{"required":[{"placements":{"matchLabels":{"app":"y"}},"topologyKey":"zone"}]}',
    '{"required":[{"placements":{"matchLabels":{"app":"x"}},"topologyKey":"zone","anti":true}]}',
)
"""What else is on the clusters, and what the placement wants of it."""


def _compile(*more: str, extenders: tuple[ExtenderRef, ...] = ()) -> CompiledProfile:
    registry = in_tree_registry()
    refs = [*EXTENDED_PLUGINS, *map(PluginRef, more)]
    plugins = {
        hook: [ref for ref in refs if hasattr(registry[ref.name](None, OfflineHandle()), method)]
        for hook, method in METHODS.items()
    }
    profile = Profile(
        scheduler_name="", plugins=plugins, ranking="weighted", tie_break="nameAscending", extenders=extenders
    )
    return compile_profile(registry, profile, OfflineHandle())


EVICTING: Final = _compile("DefaultPreemption")
PLAIN: Final = _compile()


class Victims(NamedTuple):
    cluster: str
    names: tuple[str, ...]


class Fleet:
    def __init__(self, seed: int) -> None:
        dice = random.Random(seed)
        self.members, self.placed, self.booked = {}, {}, {}
        budget = {f"p{number}": dice.choice((0, 1, 1, 2, 3)) for number in range(12)}
        rank = {name: dice.choice((-5, 0, 0, 1, 2, 10, 20)) for name in budget}
        needs = {name: {"cpu": dice.randint(0, 4), "memory": dice.randint(0, 3)} for name in budget}
        for number in range(dice.randint(1, 12)):
            name = f"c{number:02}"
            size = {"cpu": dice.randint(2, 12), "memory": dice.randint(2, 9)}
            free = {each: dice.randint(-1, 3) for each in size}
            member = a_cluster(name).having(capacity=_write(size), allocatable=_write(size), available=_write(free))
            self.members[name] = member.labelled(zone=dice.choice("abc")) if dice.random() < 0.9 else member
            self.booked[name] = {"cpu": dice.choice((0, 0, 1000))}
            on = dice.sample(sorted(budget), dice.randint(0, 6))
            self.placed[name] = [
                PlacedBinding(
                    each,
                    rank[each],
                    dice.randint(0, 3),
                    LEAVING if dice.random() < 0.15 else "",
                    tuple(sorted(read_requests(_write(needs[each])).items())),
                    budget[each],
                )
                for each in on
            ]
        kept = dice.sample(sorted(self.members), min(len(self.members), dice.choice((0, 0, 1, 2))))
        self.nominations = [Nomination(name, f"n{name}", dice.choice((0, 5, 30)), {"cpu": 2000}) for name in kept]
        self.groups = {name: dice.choice(GROUPS) for name in sorted(budget)} if dice.random() < 0.4 else {}
        spreads = dice.random() < 0.4
        wanted, least = dice.choice(((1, None), (3, None), (3, 2), (2, 2)))
        self.request = PlacementRequest(
            placement=OWN,
            placement_type=PICK_N,
            wanted=wanted,
            min_targets=least,
            priority=dice.choice((1, 5, 20)),
            requests=read_requests({"cpu": str(dice.randint(1, 8)), "memory": str(dice.randint(1, 5))}),
            constraints=(Constraint("zone", 1, hard=True),) if spreads else (),
            snapshot="web-0",
            labels={"app": dice.choice("xyz")},
            affinity=parse_terms(dice.choice(TERMS) if self.groups else ""),
        )
        self.own: list[Binding] = [a_binding(name).bound().build() for name in kept[1:]] if least is not None else []

    def build(self, without: tuple[str, tuple[PlacedBinding, ...]] = ("", ())) -> Frame:
        """Without these bindings on a cluster, and their room there."""
        table = Table(member.build() for member in self.members.values())
        for name, booked in self.booked.items():
            book_room(table, name, booked)
            table.set_placed(name, [each for each in self.placed[name] if name != without[0] or each not in without[1]])
        for gone in without[1]:
            for resource, amount in gone.requests:
                table.book(f"assumed/{resource}", without[0], -amount)
        table.nominate(self.nominations)
        table.settle(self._list_residents(without))
        return table.freeze()

    def _list_residents(self, without: tuple[str, tuple[PlacedBinding, ...]]) -> Residents:
        """What leaves counts no more."""
        residents: dict[ResidentGroup, dict[str, frozenset[str]]] = {group: {} for group in self.groups.values()}
        for name, placed in self.placed.items():
            for each in placed:
                if (
                    each.placement in self.groups
                    and each.state != LEAVING
                    and (name != without[0] or each not in without[1])
                ):
                    on = residents[self.groups[each.placement]]
                    on[name] = on.get(name, frozenset()) | {each.placement}
        return residents

    def decide(self, frame: Frame, profile: CompiledProfile) -> Decision:
        given = DecisionInput(frame=frame, request=self.request, bindings=self.own, profile=profile, now=NOW)
        return decide(given)


def _write(amounts: dict[str, int]) -> dict[str, str | int | float]:
    return {name: str(amount) for name, amount in amounts.items()}


# --- the naive search -------------------------------------------------------------------------------------------------


def search(fleet: Fleet, plain: Decision) -> list[Victims]:
    shortfall = (fleet.request.min_targets or 1) - len(fleet.own) - len(plain.rounds[0].picked)
    verdicts = plain.rounds[-1].verdicts
    options = []
    for name in sorted(fleet.members):
        status = verdicts.status_by_name(name)
        if status is None or status.code is not Code.UNSCHEDULABLE:
            continue
        victims = [each for each in fleet.placed[name] if each.state == LEAVING or _may_leave(each, fleet.request)]
        victims.sort(key=lambda each: (each.state == LEAVING, -each.priority, each.started, each.placement))
        if not victims or not _fits(fleet, name, victims):
            continue
        for each in list(victims):
            fewer = [other for other in victims if other is not each]
            if _fits(fleet, name, fewer):
                victims = fewer
        options.append((name, victims))
    options.sort(key=lambda option: _loss(*option))
    chosen: list[Victims] = []
    left: Counter[str] = Counter()
    for name, victims in options:
        live = [each for each in victims if each.state != LEAVING]
        if len(chosen) < shortfall and all(left[each.placement] < each.disruptions for each in live):
            left.update(each.placement for each in live)
            chosen.append(Victims(name, tuple(each.placement for each in victims)))
    return chosen if len(chosen) == shortfall else []


def _may_leave(binding: PlacedBinding, request: PlacementRequest) -> bool:
    return binding.priority < request.priority and binding.disruptions > 0


def _fits(fleet: Fleet, cluster: str, gone: list[PlacedBinding]) -> bool:
    frame = fleet.build((cluster, tuple(gone)))
    rounds = fleet.decide(frame, PLAIN).rounds
    row = frame.row_of(cluster)
    assert row is not None
    return bool(rounds) and bool(rounds[0].verdicts.alive >> row & 1)


def _loss(name: str, victims: list[PlacedBinding]) -> tuple[object, ...]:
    live = [each for each in victims if each.state != LEAVING]
    highest = max((each.priority for each in live), default=-(2**31))
    total = sum(each.priority + 2**31 for each in live)
    return highest, total, len(live), -min((each.started for each in live), default=0), name


@pytest.mark.parametrize("first", range(0, FLEETS, BLOCK))
def test_F3_054_F3_134_victims_equal_those_of_a_naive_search(first: int) -> None:
    searched = 0
    for seed in range(first, first + BLOCK):
        fleet = Fleet(seed)
        decision, plain = (fleet.decide(fleet.build(), profile) for profile in (EVICTING, PLAIN))
        if plain.active is None or plain.active >= (fleet.request.min_targets or 1) or not plain.rounds:
            assert decision.nomination == ()
            continue
        if fleet.request.constraints and plain.rounds[0].picked:
            continue  # the order of picks counts, too
        expected = search(fleet, plain)
        searched += bool(expected)
        pairs = () if decision.evictions is None else decision.evictions.victims
        assert decision.nomination == tuple(each.cluster for each in expected), seed
        assert pairs == tuple((each.cluster, name) for each in expected for name in each.names), seed
    assert searched > BLOCK // 10


@pytest.mark.parametrize("part", [1, 3])
def test_a_search_in_parts_finds_room_wherever_the_naive_one_does(monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    """Of small fleets it examines so many clusters at a time."""
    monkeypatch.setattr(default_preemption, "_FEWEST_CANDIDATES", part)
    for seed in range(FLEETS // 2):
        fleet = Fleet(seed)
        decision, plain = (fleet.decide(fleet.build(), profile) for profile in (EVICTING, PLAIN))
        if plain.active is not None and plain.active < (fleet.request.min_targets or 1) and plain.rounds:
            assert decision.nomination or not search(fleet, plain), seed


def test_a_search_ends_with_the_part_that_has_enough_room_and_examines_each_cluster_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    judge_without = Runner.judge_without

    def count(runner: Runner, verdicts: Verdicts, removed: Removals) -> int:
        asked.append(len(removed))
        return judge_without(runner, verdicts, removed)

    monkeypatch.setattr(Runner, "judge_without", count)
    table = Table([sized(f"c{number:03}", 8, 0) for number in range(350)])
    for number in range(350):
        table.set_placed(f"c{number:03}", (a_victim(f"low{number}", 4000 if number == 130 else 1000),))
    assert decide_evicting(table).nomination == ("c130",)
    assert [each for each in asked if each] == [100, 100, 1]
    asked.clear()
    table.set_placed("c130", (a_victim("low130", 1000),))
    decision = decide_evicting(table)
    assert decision.nomination == ()
    assert "of 350 clusters, 350 have" in decision.notes["DefaultPreemption"]["preemption"]
    assert [each for each in asked if each] == [100, 100, 100, 50]


# --- with other plugins -----------------------------------------------------------------------------------------------


def sized(name: str, cpu: int, free: int) -> MemberCluster:
    amounts: dict[str, str | int | float] = {"cpu": cpu}
    return a_cluster(name).having(capacity=amounts, allocatable=amounts, available={"cpu": free}).build()


def decide_evicting(table: Table, profile: CompiledProfile = EVICTING, **request: Any) -> Decision:
    wanted = PlacementRequest(
        placement=OWN,
        placement_type=PICK_N,
        wanted=1,
        priority=10,
        requests={"cpu": 4000},
        snapshot=f"{OWN}-0",
        **request,
    )
    inputs = DecisionInput(frame=table.freeze(), request=wanted, bindings=[], profile=profile, now=NOW)
    decision = decide(inputs)
    query = decision.pending_query
    if query is None:
        return decision
    refusing = ExternalResult({"banned": (1, "no licence")})
    return decide(replace(inputs, query_results={query.key: refusing}))


def a_victim(name: str, cpu: int, *, state: str = "") -> PlacedBinding:
    return PlacedBinding(name, 0, 1, state, (("cpu", cpu),), 1)


def test_what_leaves_one_cluster_and_stays_on_another_does_not_hide_a_resident() -> None:
    """`stays` keeps the placement away from c, whoever leaves there."""
    table = Table([sized("c", 8, 0), sized("d", 1, 0)])
    table.settle({build_group("", {"app": "x"}, ""): {"d": frozenset({"goes"}), "c": frozenset({"stays"})}})
    table.set_placed("c", (a_victim("goes", 1000, state=LEAVING), a_victim("low", 4000)))

    decision = decide_evicting(table, affinity=parse_terms(AWAY))

    assert (decision.nomination, decision.evictions) == ((), None)


def test_a_cluster_that_an_extender_refuses_is_not_chosen() -> None:
    asked = ExtenderRef(
        name="licences",
        filters=True,
        prioritizes=False,
        weight=1,
        ignorable=False,
        names_only=True,
        binds=False,
        managed_resources=(),
    )
    table = Table([sized("banned", 8, 6), sized("full", 8, 0)])
    table.set_placed("banned", (a_victim("small", 2000),))
    table.set_placed("full", (a_victim("large", 8000),))

    decision = decide_evicting(table, _compile("DefaultPreemption", extenders=(asked,)))

    assert decision.nomination == ("full",)
    assert decision.evictions is not None
    assert decision.evictions.victims == (("full", "large"),)
