"""The hints of a profile that evicts against deciding for everybody after every event: a placement that has got
nothing is requeued if, and only if, there is a cluster for it now, or room that it can make; and one that takes every
cluster if, and only if, there is one more.

The events are those that the scheduler hears of: clusters that join, change and leave, room that is given back or kept
no longer, and bindings that may be evicted from now on. Attempts are decisions; what they write is left out, so that a
placement on every cluster books no room.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import pytest

from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.cycle.decision import Decision
from fleet.framework.handle import OfflineHandle
from fleet.framework.profiles.profile import METHODS, PluginRef, Profile, compile_profile
from fleet.informers.cache import Caches, FleetTable
from fleet.kube.informer import InformerConfig
from fleet.model.keys import MIN_TARGETS, PREEMPTION_POLICY, PRIORITY, REQUESTS
from fleet.model.placement_key import PlacementKey
from fleet.model.views import MemberCluster, Metadata, Placement, PolicySnapshot
from fleet.scheduler.cleanup import Orphans
from fleet.scheduler.events import cluster_hints
from fleet.scheduler.events.cluster_hints import Booked, ClusterHints, SideData
from fleet.scheduler.events.event_handlers import EligibilityClock, EventHandlers
from fleet.scheduler.events.resident_hints import is_rejected_by_filters, may_end_rejection
from fleet.scheduler.groups.growing_overlay import ABOVE_ALL
from fleet.scheduler.ledgers.room_ledger import RoomLedger
from fleet.scheduler.requests import RequestCache
from fleet.snapshot.columns.signals import Eligibility
from fleet.snapshot.frame import Frame
from fleet.snapshot.sidedata import LEAVING, Nomination, PlacedBinding, Residents
from fleet.snapshot.table import Table
from plugins import in_tree_registry
from plugins.extended_profile import EXTENDED_PLUGINS
from tests.builders import NOW, PolicyBuilder, a_cluster, a_policy, label
from tests.conftest import LONG
from tests.fake_clock import FakeClock
from tests.unit.scheduler.watching import NoApi, a_snapshot, observed, with_metadata

V = TypeVar("V", Placement, PolicySnapshot, MemberCluster)

WORLDS: Final = 600 if LONG else 12
STEPS: Final = 25
NAMES: Final = ("c0", "c1", "c2", "c3")
RULE: Final = Eligibility.parse(heartbeat_timeout="24h", unhealthy_timeout="5m")


def _compile() -> Profile:
    registry = in_tree_registry()
    refs = (*EXTENDED_PLUGINS, PluginRef("DefaultPreemption"))
    plugins = {
        hook: [ref for ref in refs if hasattr(registry[ref.name](None, OfflineHandle()), method)]
        for hook, method in METHODS.items()
    }
    return Profile(scheduler_name="", plugins=plugins, ranking="weighted", tie_break="nameAscending")


PROFILE: Final = compile_profile(in_tree_registry(), _compile(), OfflineHandle())


class World:
    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        clock = FakeClock(NOW)
        self.caches = Caches(InformerConfig(reads=NoApi(), writes=NoApi(), clock=clock, jitter=lambda: 0.0))
        self.table = FleetTable(self.caches.clusters)
        self.room = RoomLedger(self.caches, lambda _: None, book=self.table.book, on_freed=self._report_freed)
        self.requests = RequestCache(annotations_of=lambda metadata: metadata.annotations or {})
        hints = ClusterHints(
            self.caches,
            profile_of=lambda _: PROFILE,
            requests=self.requests,
            clock=clock,
            seeks_room=lambda key: key in self.seeking,
        )
        self.handlers = EventHandlers(
            self.caches,
            self,
            sources_of=lambda _: PROFILE.event_sources,
            eligibility=EligibilityClock(lambda: (RULE.of,), clock),
            room=self.room,
            release=lambda *_: None,
            orphans=Orphans(clock),
            clock=clock,
            hints=hints,
            read_placed=self.table.find_placed,
            read_nominations=self.table.list_nominations,
            on_change=lambda _, concern, __: self.concerns.append(concern),
        )
        self.handlers.start()
        self.requeued: set[PlacementKey] = set()
        self.concerns: list[Callable[[Iterable[PlacementKey]], bool]] = []
        self.decisions: dict[PlacementKey, Decision] = {}
        """The last one about each placement that has got nothing."""
        self.everywhere: dict[PlacementKey, set[str]] = {}
        """Placements that take every cluster, with those that they have."""
        self.refused: set[PlacementKey] = set()
        """Of these, those that lacked room in their last attempt."""
        self.copies: dict[PlacementKey, int] = {}
        """How many copies of each placement fit beside each other."""
        self.nominations: list[Nomination] = []
        self.reserved: list[tuple[str, str]] = []
        self.outcomes: list[str] = []
        self._version = self._number = 0
        self._asked = self._draw_pick()

    @property
    def seeking(self) -> set[PlacementKey]:
        return {key for key, decision in self.decisions.items() if decision.request.may_evict}

    # the queue

    def __contains__(self, key: PlacementKey) -> bool:
        return False

    def add(self, key: PlacementKey, *, trigger: str) -> None:
        del key, trigger

    def requeue(self, keys: Iterable[PlacementKey], *, trigger: str, batched: bool = False) -> None:
        del trigger, batched
        self.requeued.update(keys)

    # placements

    def ask(self) -> None:
        self._number += 1
        name, dice = f"p{self._number}", self.dice
        policy, annotations = self._asked if dice.random() < 0.3 else self._draw_pick()
        self._asked = policy, dict(annotations)
        if dice.random() < 0.15:
            annotations[MIN_TARGETS] = "2"
        if dice.random() < 0.1:
            annotations[PREEMPTION_POLICY] = "Never"
        self.put(name, policy, annotations)

    def ask_for_all(self) -> None:
        self._number += 1
        policy, annotations = self._draw_policy(a_policy())
        annotations[PRIORITY] = "0"  # room that is kept counts for it
        key = self.create(f"p{self._number}", policy, annotations)
        self._spread(key)

    def put(self, name: str, policy: PolicyBuilder, annotations: dict[str, str]) -> None:
        self._attempt(self.create(name, policy, annotations))

    def create(self, name: str, policy: PolicyBuilder, annotations: dict[str, str]) -> PlacementKey:
        kinds, metadata = self.caches.kinds[0], Metadata(name=name, annotations=annotations)
        kinds.placements.store.apply_event(observed(self._renew(Placement(metadata=metadata))))
        kinds.policy_snapshots.store.apply_event(observed(self._renew(a_snapshot(policy, of=name))))
        return PlacementKey("", name)

    def _spread(self, key: PlacementKey) -> None:
        decision = self.decide(key)
        self.everywhere.setdefault(key, set()).update(target.cluster for target in decision.targets)
        self.refused.discard(key)
        if may_end_rejection(PROFILE, frozenset(decision.rejectors), "room"):
            self.refused.add(key)

    def list_clusters(self, key: PlacementKey) -> set[str]:
        return {target.cluster for target in self.decide(key).targets}

    def _draw_pick(self) -> tuple[PolicyBuilder, dict[str, str]]:
        return self._draw_policy(a_policy().pick_n(self.dice.choice((1, 1, 2))))

    def _draw_policy(self, policy: PolicyBuilder) -> tuple[PolicyBuilder, dict[str, str]]:
        """With what the placement says beside it."""
        dice = self.dice
        if dice.random() < 0.3:
            policy = policy.require(label("zone", "In", dice.choice("ab")))
        if dice.random() < 0.3:
            policy = policy.tolerate("gpu", operator="Exists")
        annotations = {PRIORITY: str(dice.choice((0, 0, 5, 10)))}
        if dice.random() < 0.9:
            annotations[REQUESTS] = f"cpu={dice.choice((2, 4, 6))}"
        return policy, annotations

    def decide(self, key: PlacementKey, table: Table | None = None) -> Decision:
        (snapshot,) = self.caches.latest_snapshots(key)
        placement = self.caches.placement(key)
        assert placement is not None
        request = self.requests.get(snapshot, placement=placement.view.metadata)
        frame = self.table.frame() if table is None else table.freeze()
        return decide(DecisionInput(frame=frame, request=request, bindings=(), profile=PROFILE, now=NOW))

    def count_copies(self, key: PlacementKey) -> int:
        """Up to three, as a group decides them: each beside what those before it have got."""
        kept = list(self.table.list_nominations())
        for number in range(3):
            table = Table.fork(self.table.frame())
            table.nominate(kept)
            decision = self.decide(key, table)
            if not decision.targets or not decision.fulfilled:
                return number
            needs = dict(decision.request.requests)
            kept += [Nomination(target.cluster, f"copy{number}", ABOVE_ALL, needs) for target in decision.targets]
        return 3

    def _attempt(self, key: PlacementKey) -> None:
        decision = self.decide(key)
        self.decisions.pop(key, None)
        if decision.nomination:
            needs, victims = dict(decision.request.requests), decision.evictions.victims if decision.evictions else ()
            for name in decision.nomination:
                leaving = tuple(victim for cluster, victim in victims if cluster == name)
                kept = Nomination(name, str(key), decision.request.priority, needs, leaving, leaving)
                self.nominations.append(kept)
            self.table.nominate(tuple(self.nominations))
        elif decision.targets:
            for target in decision.targets:
                self.room.reserve_room(target.cluster, str(key), decision.request.requests)
                self.reserved.append((target.cluster, str(key)))
        else:
            self.decisions[key] = decision
            return
        self.copies.pop(key, None)
        self.outcomes.append("makes room" if decision.nomination else "is placed")

    # events

    def happen(self) -> None:
        dice = self.dice
        events = [self.put_cluster] * 4 + [self.evictable] * 3 + [self.leave, self.release, self.drop]
        dice.choice(events)()

    def put_cluster(self) -> None:
        name, dice = self.dice.choice(NAMES), self.dice
        size = dice.choice((4, 6, 8))
        cluster = a_cluster(name).labelled(zone=dice.choice("ab"))
        cluster = cluster.having(allocatable={"cpu": size}, available={"cpu": dice.randint(0, size)})
        if dice.random() < 0.2:
            cluster = cluster.tainted("gpu")
        self.caches.clusters.apply_event(self._renew(cluster.build()))

    def leave(self) -> None:
        name = self.dice.choice(NAMES)
        if name in self.caches.clusters:
            self._version += 1
            self.table.set_placed(name, ())
            self.caches.clusters.apply_delete_event(name, uid="", version=str(self._version))
            for clusters in self.everywhere.values():
                clusters.discard(name)

    def evictable(self) -> None:
        name, dice = self.dice.choice(NAMES), self.dice
        waiting = [str(key) for key in self.decisions]
        bindings = tuple(
            PlacedBinding(
                dice.choice(waiting) if waiting and dice.random() < 0.2 else f"on-{name}-{number}",
                dice.choice((-5, 0, 5, 10)),
                number,
                LEAVING if dice.random() < 0.2 else "",
                (("cpu", dice.choice((1, 2, 4)) * 1000),),
                1,
            )
            for number in range(dice.randint(0, 3))
        )
        before = self.table.find_placed(name)
        self.table.set_placed(name, bindings)
        self.handlers.on_placed(name, before, sorted(self.seeking, key=str))

    def release(self) -> None:
        if self.reserved:
            cluster, key = self.reserved.pop(self.dice.randrange(len(self.reserved)))
            self.room.release_room(cluster, key)

    def drop(self) -> None:
        """Room is kept no longer."""
        if self.nominations:
            dropped = self.nominations.pop(self.dice.randrange(len(self.nominations)))
            self.table.nominate(tuple(self.nominations))
            booked = self.room.find_booked(dropped.cluster)
            before = {
                name: booked.get(name, 0) + dropped.requests.get(name, 0) for name in (*booked, *dropped.requests)
            }
            self._report_freed(dropped.cluster, before, booked, PlacementKey.parse(dropped.placement))

    def _report_freed(self, cluster: str, before: Booked, after: Booked, key: PlacementKey) -> None:
        self.handlers.on_freed(cluster, before, after, giving=key, seeks=self._seeks_room, may_seek=self._may_seek_room)

    def _seeks_room(self, key: PlacementKey) -> bool:
        decision = self.decisions.get(key)
        if decision is None:
            return key in self.refused
        return may_end_rejection(PROFILE, frozenset(decision.rejectors), "room")

    def _may_seek_room(self, key: PlacementKey) -> bool:
        decision = self.decisions.get(key)
        if decision is None:
            return key in self.everywhere
        return is_rejected_by_filters(PROFILE, frozenset(decision.rejectors))

    def _renew(self, view: V) -> V:
        self._version += 1
        return with_metadata(view, resource_version=str(self._version))

    # the comparison

    def step(self) -> list[PlacementKey]:
        """Raises for a placement that was not requeued and has something to get; returns those requeued in vain."""
        while len(self.decisions) < 6:
            self.ask()
            if len(self.outcomes) > 200:
                break
        while len(self.everywhere) < 3:
            self.ask_for_all()
        self.copies = {key: self.count_copies(key) for key in self.decisions}
        before = {key: self.list_clusters(key) for key in self.everywhere}
        self.requeued.clear()
        self.concerns.clear()
        self.happen()
        decisions = {key: self.decide(key) for key in self.decisions}
        helped = {key for key, decision in decisions.items() if decision.targets or decision.nomination}
        growing = {key for key, clusters in before.items() if self.list_clusters(key) - clusters - self.everywhere[key]}
        self.outcomes += ["grows"] * len(growing)
        helped |= growing
        assert helped <= self.requeued, f"not requeued: {sorted(map(str, helped - self.requeued))}"
        for key, count in self.copies.items():
            is_woken = any(concern([key]) for concern in self.concerns)
            assert is_woken or self.count_copies(key) <= count, f"a group of {key} is not woken"
        useless = (self.requeued & (decisions.keys() | before.keys())) - helped
        leaving = {name for each in self.nominations for name in each.victims}  # a cluster refuses those it evicts
        in_vain = [
            key
            for key in useless
            if str(key) not in leaving
            and (self.list_clusters(key) <= before[key] if key in before else not decisions[key].request.min_targets)
        ]
        for key in sorted(self.requeued & decisions.keys(), key=str):
            self._attempt(key)
        for key in sorted(self.requeued & before.keys(), key=str):
            self._spread(key)
        return in_vain


def play(seed: int) -> tuple[World, list[PlacementKey]]:
    world = World(seed)
    for _ in range(3):
        world.put_cluster()
        world.evictable()
    in_vain: list[PlacementKey] = []
    for _ in range(STEPS):
        in_vain += world.step()
    return world, in_vain


@pytest.mark.parametrize("part", range(2))
def test_who_is_helped_is_requeued_and_nobody_else(part: int) -> None:
    outcomes: set[str] = set()
    for seed in range(part, WORLDS, 2):
        world, in_vain = play(seed)
        assert in_vain == [], f"world {seed}"
        outcomes |= set(world.outcomes)
    assert outcomes == {"is placed", "makes room", "grows"}


def test_a_hint_that_forgets_room_that_can_be_made_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or else the worlds would prove nothing."""
    monkeypatch.setattr(cluster_hints._ClusterAlone, "makes_room", lambda *_: False)
    with pytest.raises(AssertionError, match="not requeued"):
        deque(map(play, range(WORLDS)), maxlen=0)


@pytest.mark.parametrize("forgotten", ["placed", "nominations"])
def test_a_hint_that_forgets_what_stands_beside_the_cluster_is_caught(
    monkeypatch: pytest.MonkeyPatch, forgotten: str
) -> None:
    freeze = cluster_hints._freeze

    def forget(cluster: MemberCluster | None, beside: SideData, residents: Residents) -> Frame:
        placed = () if forgotten == "placed" else beside.placed
        nominations = () if forgotten == "nominations" else beside.nominations
        return freeze(cluster, SideData(beside.booked, placed, nominations), residents)

    monkeypatch.setattr(cluster_hints, "_freeze", forget)
    with pytest.raises(AssertionError, match="not requeued"):
        deque(map(play, range(WORLDS)), maxlen=0)


# --- what equal placements do not share -------------------------------------------------------------------------------

VICTIM: Final = PlacedBinding("less", -5, 0, "", (("cpu", 4000),), 1)


@pytest.mark.parametrize("apart", ["p1", "p2"])
@pytest.mark.parametrize("what", ["it is there", "room is kept for it", "it never preempts", "it needs two clusters"])
def test_of_equal_placements_one_is_judged_apart_by_what_is_its_own(
    monkeypatch: pytest.MonkeyPatch, apart: str, what: str
) -> None:
    """Whichever of them is asked first."""
    monkeypatch.setattr(World, "seeking", property(lambda world: set(world.decisions)))
    world, other = World(0), "p2" if apart == "p1" else "p1"
    cluster = a_cluster("c0").having(allocatable={"cpu": 4}, available={"cpu": 0})
    world.caches.clusters.apply_event(world._renew(cluster.build()))
    own = {"it never preempts": {PREEMPTION_POLICY: "Never"}, "it needs two clusters": {MIN_TARGETS: "2"}}.get(what, {})
    for name in ("p1", "p2"):
        alone = own if name == apart else {}
        world.put(name, a_policy().pick_n(2), {PRIORITY: "10", REQUESTS: "cpu=4", **alone})
    before = (VICTIM,) if what == "it needs two clusters" else ()
    after: tuple[PlacedBinding, ...] = (VICTIM, VICTIM._replace(placement="none"))
    if what == "it is there":
        after = (VICTIM._replace(placement=apart, state=LEAVING),)
    if what == "room is kept for it":
        world.table.nominate((Nomination("c1", apart, 10, {}),))
    world.table.set_placed("c0", after)
    world.handlers.on_placed("c0", before, sorted(world.seeking, key=str))
    assert set(map(str, world.requeued)) == {apart if what == "it needs two clusters" else other}
