"""Room for groups at the expense of others: the same as with fleets in which what was decided before is carried out."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.cycle.decision import Decision
from fleet.framework.policy.resource_requests import read_requests
from fleet.framework.request import PlacementRequest
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.groups.group_attempt import GroupAttempt, GroupMember, GroupRules
from fleet.scheduler.groups.growing_overlay import ABOVE_ALL, Overlay
from fleet.snapshot.sidedata import LEAVING, Nomination, ResidentGroup, Residents
from tests.builders import NOW
from tests.conftest import LONG
from tests.property.test_preemption_search import EVICTING, Fleet

FLEETS: Final = 1000 if LONG else 60
GROUP: Final = PlacementKey("", "group")
Plan = dict[str, dict[str, tuple[str, ...]]]
"""By member, its clusters, with the placements that leave them."""


class Changing(Fleet):
    """Decisions are carried out in it."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        dice = random.Random(-seed)
        self.requests = [self._vary(dice, number) for number in range(dice.randint(2, 4))]
        self.needed = dice.randint(1, len(self.requests))
        self.came: list[tuple[ResidentGroup, str, str]] = []
        self.left: dict[str, list[str]] = {}

    def _vary(self, dice: random.Random, number: int) -> PlacementRequest:
        needs = read_requests({"cpu": str(dice.randint(1, 6)), "memory": str(dice.randint(0, 4))})
        wanted, least = dice.choice(((1, None), (1, None), (2, 2)))
        return replace(
            self.request,
            placement=f"m{number}",
            snapshot=f"m{number}-0",
            requests=needs,
            wanted=wanted,
            min_targets=least,
            priority=dice.choice((1, 5, 20)),
        )

    def ask(self, request: PlacementRequest) -> Decision:
        return decide(DecisionInput(frame=self.build(), request=request, bindings=(), profile=EVICTING, now=NOW))

    def evict(self, cluster: str, placement: str) -> None:
        gone = [each for each in self.placed[cluster] if each.placement == placement]
        self.placed[cluster] = [each for each in self.placed[cluster] if each.placement != placement]
        self.left.setdefault(cluster, []).append(placement)
        for binding in gone:
            for resource, amount in binding.requests:
                self.booked[cluster][resource] = self.booked[cluster].get(resource, 0) - amount
        live = sum(each.state != LEAVING for each in gone)
        for name, placed in self.placed.items():
            self.placed[name] = [
                each._replace(disruptions=each.disruptions - live) if each.placement == placement else each
                for each in placed
            ]

    def put(self, request: PlacementRequest, clusters: Iterable[str]) -> None:
        for cluster in clusters:
            self.nominations.append(Nomination(cluster, request.key, ABOVE_ALL, dict(request.requests)))
            self.came.append((request.resident_group, cluster, request.key))

    def _list_residents(self, without: Any) -> Residents:
        residents = {group: dict(on) for group, on in super()._list_residents(without).items()}
        for group, cluster, placement in self.came:
            on = residents.setdefault(group, {})
            on[cluster] = on.get(cluster, frozenset()) | {placement}
        return residents


def search(seed: int) -> Plan:
    """One member after the other, each with a fleet of its own to look at."""
    fleet = Changing(seed)
    order = sorted(fleet.requests, key=lambda each: (-each.priority, each.key))
    plan: Plan = {}
    for request in order:
        decision = fleet.ask(request)
        if fits(decision):
            clusters = [target.cluster for target in decision.newly_chosen]
            plan[request.key] = dict.fromkeys(clusters, ())
            fleet.put(request, clusters)
    if len(plan) >= fleet.needed:
        return {}
    for request in order:
        if request.key in plan or len(plan) >= fleet.needed:
            continue
        decision = fleet.ask(request)
        clusters = [target.cluster for target in decision.newly_chosen] if fits(decision) else [*decision.nomination]
        if len(clusters) < (request.min_targets or 1):
            continue
        for cluster, victim in () if decision.evictions is None else decision.evictions.victims:
            fleet.evict(cluster, victim)
        plan[request.key] = {cluster: tuple(fleet.left.get(cluster, ())) for cluster in clusters}
        fleet.put(request, clusters)
    return plan if len(plan) >= fleet.needed else {}


def fits(decision: Decision) -> bool:
    return (decision.active or 0) >= (decision.request.min_targets or decision.request.wanted or 1)


class Store:
    def __init__(self, fleet: Changing) -> None:
        self._fleet = fleet

    def read_rules(self, group: PlacementKey) -> GroupRules:
        members = frozenset(PlacementKey.parse(request.key) for request in self._fleet.requests)
        return GroupRules(group, self._fleet.needed, members, False, "", placed={}, planned={})

    def list_in_flight(self, group: PlacementKey) -> set[PlacementKey]:
        return set()

    def note_rejection(self, group: PlacementKey, message: str, *, is_split: bool) -> None: ...

    async def commit(self, group: PlacementKey, plan: Any) -> None: ...


async def plan_evictions(seed: int) -> Plan:
    fleet, lock = Changing(seed), asyncio.Lock()
    frame, plan = fleet.build(), Plan()
    keys = [PlacementKey.parse(request.key) for request in fleet.requests]
    attempt = GroupAttempt(GROUP, keys, store=Store(fleet), read_frame=lambda: frame, judge=lambda _: None)

    async def choose(request: PlacementRequest, so_far: Overlay, nominated: Iterable[str]) -> Any:
        given = DecisionInput(frame=frame, request=request, bindings=(), profile=EVICTING, now=NOW)
        inputs = so_far.apply(given, nominated)
        return inputs, decide(inputs)

    def keep_room(key: str, victims: Mapping[str, Collection[str]]) -> None:
        plan[key] = {cluster: tuple(leaving) for cluster, leaving in victims.items()}

    async def never(*_: Any) -> Any:
        raise AssertionError("it fits")

    members = [
        GroupMember(
            PlacementKey.parse(request.key),
            request.priority,
            partial(choose, request),
            never,
            never,
            lambda: None,
            lambda _: None,
            lambda *_: None,
            may_evict=request.may_evict,
            keep_room=partial(keep_room, request.key),
            seek_room=lambda: None,
        )
        for request in fleet.requests
    ]
    await asyncio.gather(*(attempt.decide(member, lock) for member in members), return_exceptions=True)
    return plan


def test_victims_of_a_group_equal_those_of_a_naive_search() -> None:
    found = several = 0
    for seed in range(FLEETS):
        expected = search(seed)
        assert asyncio.run(plan_evictions(seed)) == expected, seed
        found += bool(expected)
        several += sum(any(on.values()) for on in expected.values()) > 1
    assert found > FLEETS // 20
    assert several > 0
