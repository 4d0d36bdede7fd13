"""Room for groups at the expense of others: the same as with fleets in which what was decided before is carried out."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.cycle.decision import Decision
from fleet.framework.policy.quotas import CLUSTERS, QuotaShare
from fleet.framework.policy.resource_requests import read_requests
from fleet.framework.request import PlacementRequest
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.groups.group_attempt import GroupAttempt, GroupMember, GroupRules
from fleet.scheduler.groups.growing_overlay import ABOVE_ALL, Overlay
from fleet.snapshot.sidedata import LEAVING, Nomination, PlacedBinding, ResidentGroup, Residents
from tests.builders import NOW
from tests.conftest import LONG
from tests.property.test_preemption_search import EVICTING, Fleet

FLEETS: Final = 1000 if LONG else 24
GROUP: Final = PlacementKey("", "group")
Plan = dict[str, dict[str, tuple[str, ...]]]
"""By member, its clusters, with the placements that leave them."""


class Quota(NamedTuple):
    min: Mapping[str, int]
    max: Mapping[str, int]


class Changing(Fleet):
    """Decisions are carried out in it."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        dice = random.Random(-seed)
        self.requests = [self._vary(dice, number) for number in range(dice.randint(2, 4))]
        self.needed = dice.randint(1, len(self.requests))
        self.came: list[tuple[ResidentGroup, str, str]] = []
        self.left: dict[str, list[str]] = {}
        self.quotas = {f"q{number}": Quota({}, {}) for number in range(dice.choice((0, 2, 3)))}
        self.quotas_of = {request.key: self._pick_quotas(dice) for request in self.requests}
        for cluster, placed in self.placed.items():
            self.placed[cluster] = [each._replace(quotas=self._quotas_of(each, dice)) for each in placed]
        self.used = {name: self._sum_used(name) for name in self.quotas}
        self.used_before = {name: used.copy() for name, used in self.used.items()}
        self.quotas = {name: _vary_quota(dice, used) for name, used in self.used.items()}

    def _pick_quotas(self, dice: random.Random) -> tuple[str, ...]:
        return tuple(sorted(dice.sample(sorted(self.quotas), min(len(self.quotas), dice.choice((0, 1, 1, 1, 2))))))

    def _quotas_of(self, binding: PlacedBinding, dice: random.Random) -> tuple[str, ...]:
        """What is being deleted counts in none any more."""
        quotas = self.quotas_of.setdefault(binding.placement, self._pick_quotas(dice))
        return () if binding.state == LEAVING and dice.random() < 0.5 else quotas

    def _sum_used(self, quota: str) -> Counter[str]:
        used = Counter[str]()
        for each in chain.from_iterable(self.placed.values()):
            if quota in each.quotas:
                used.update({**dict(each.requests), CLUSTERS: 1})
        return used

    def list_shares(self, key: str) -> Iterator[QuotaShare]:
        """What has left counts as long as it was within the guarantee of another quota."""
        for name, resource in ((name, resource) for name in self.quotas_of[key] for resource in (CLUSTERS, "cpu")):
            quota = self.quotas[name]
            pool = [each for each in self.quotas if resource in self.quotas[each].min and resource in quota.min]
            least = {each: self.quotas[each].min[resource] for each in pool}
            own = self.used[name][resource]
            beyond = {each: self.used[each][resource] - least[each] for each in pool if each != name}
            others = (
                max(self.used[each][resource], min(self.used_before[each][resource], least[each])) for each in beyond
            )
            yield QuotaShare(
                name,
                resource,
                used=own,
                max=quota.max.get(resource),
                min=quota.min.get(resource),
                pool_used=own + sum(others) if pool else 0,
                pool_min=sum(least.values()),
                borrowers=tuple(sorted((each, amount) for each, amount in beyond.items() if amount > 0)),
            )

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
            priority=dice.choice((0, 1, 5, 20)),
        )

    def read_request(self, request: PlacementRequest) -> PlacementRequest:
        return replace(request, quotas=tuple(self.list_shares(request.key)))

    def ask(self, request: PlacementRequest) -> Decision:
        asked = self.read_request(request)
        return decide(DecisionInput(frame=self.build(), request=asked, bindings=(), profile=EVICTING, now=NOW))

    def evict(self, cluster: str, placement: str) -> None:
        gone = [each for each in self.placed[cluster] if each.placement == placement]
        self.placed[cluster] = [each for each in self.placed[cluster] if each.placement != placement]
        self.left.setdefault(cluster, []).append(placement)
        for binding in gone:
            for resource, amount in binding.requests:
                self.booked[cluster][resource] = self.booked[cluster].get(resource, 0) - amount
            for quota in binding.quotas:
                self.used[quota].subtract({**dict(binding.requests), CLUSTERS: 1})
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
            for quota in self.quotas_of[request.key]:
                self.used[quota].update({**request.requests, CLUSTERS: 1})

    def _list_residents(self, without: Any) -> Residents:
        residents = {group: dict(on) for group, on in super()._list_residents(without).items()}
        for group, cluster, placement in self.came:
            on = residents.setdefault(group, {})
            on[cluster] = on.get(cluster, frozenset()) | {placement}
        return residents


def _vary_quota(dice: random.Random, used: Mapping[str, int]) -> Quota:
    """Around what is in use."""
    least = {"cpu": used["cpu"] + 1000 * dice.randint(-6, 9), CLUSTERS: used[CLUSTERS] + dice.randint(-2, 4)}
    most = {"cpu": used["cpu"] + 1000 * dice.randint(0, 9), CLUSTERS: used[CLUSTERS] + dice.randint(0, 4)}
    return Quota(
        {name: max(amount, 0) for name, amount in least.items() if dice.random() < 0.8},
        {name: amount for name, amount in most.items() if dice.random() < 0.4},
    )


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

    def begin_decision(self, group: PlacementKey) -> None: ...

    def note_rejection(self, group: PlacementKey, message: str, *, is_split: bool) -> None: ...

    async def commit(self, group: PlacementKey, plan: Any) -> None: ...


async def plan_evictions(seed: int) -> Plan:
    fleet, lock = Changing(seed), asyncio.Lock()
    read = fleet.read_request
    frame, plan = fleet.build(), Plan()
    keys = [PlacementKey.parse(request.key) for request in fleet.requests]
    attempt = GroupAttempt(GROUP, keys, store=Store(fleet), read_frame=lambda: frame, judge=lambda _: None)

    async def choose(request: PlacementRequest, so_far: Overlay, nominated: Iterable[str]) -> Any:
        given = DecisionInput(frame=frame, request=read(request), bindings=(), profile=EVICTING, now=NOW)
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
            may_evict=read(request).may_evict,
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
