"""Random worlds, once with hints and once with attempts for everybody after every report: the same bindings all along.

What is tried are the real parts, from the event of a store to the queue and the decision; only sending is left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import pytest

from fleet.clock import SECOND, to_nanoseconds
from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.cycle.decision import Decision
from fleet.framework.profiles.profile import CompiledProfile
from fleet.informers.cache import Caches, FleetTable
from fleet.kube.cache.store import Store
from fleet.kube.informer import InformerConfig
from fleet.model.keys import (
    IS_LATEST_SNAPSHOT,
    NUMBER_OF_CLUSTERS,
    PARENT_PLACEMENT,
    PICK_FIXED,
    PLACEMENT_GENERATION,
    SCHEDULED,
)
from fleet.model.placement_key import PlacementKey
from fleet.model.timestamps import parse_timestamp
from fleet.model.views import Binding, MemberCluster, Metadata, PolicySnapshot, PolicySnapshotSpec, PolicySnapshotStatus
from fleet.scheduler.cleanup import Orphans
from fleet.scheduler.events.cluster_hints import ClusterHints
from fleet.scheduler.events.event_handlers import EligibilityClock, EventHandlers
from fleet.scheduler.ledgers.room_ledger import RoomLedger
from fleet.scheduler.queue.scheduling_queue import SchedulingQueue
from fleet.scheduler.requests import RequestCache
from fleet.snapshot.columns.signals import Eligibility
from plugins.default_profile import compile_default
from tests.doubles import carried_out
from tests.fake_clock import FakeClock
from tests.property.test_history_replay import heard
from tests.property.test_scheduler_interests import edited
from tests.unit.scheduler.watching import NoApi, observed, with_metadata
from tests.vectors.generation import vocabulary as words
from tests.vectors.generation.clusters import random_cluster
from tests.vectors.generation.dice import Dice
from tests.vectors.generation.policies import random_policy

PROFILE: Final = compile_default()
RULE: Final = Eligibility.parse(heartbeat_timeout="5m", unhealthy_timeout="5m")
START: Final = parse_timestamp(words.NOW)
WORLDS: Final = {"normal": 40, "long": 1000}
PLACEMENTS: Final = 8
NAMES: Final = tuple(f"c{number}" for number in range(8))
STEPS: Final = 14
ZONE: Final = "zone"

Change = Callable[["Site"], None]


# --- a scheduler without its hub --------------------------------------------------------------------------------------


class Site:
    def __init__(self, *, hinted: bool) -> None:
        self.clock = FakeClock(START)
        self.queue = SchedulingQueue()
        access = InformerConfig(reads=NoApi(), writes=NoApi(), clock=self.clock, jitter=lambda: 0.0)
        self.caches = Caches(access)
        self.table = FleetTable(self.caches.clusters)
        self.requests = RequestCache()
        hints = ClusterHints(self.caches, profile_of=lambda _: PROFILE, requests=self.requests, clock=self.clock)
        self.handlers = EventHandlers(
            self.caches,
            self,
            sources_of=lambda _: PROFILE.event_sources,
            eligibility=EligibilityClock(lambda: (RULE.of,), self.clock),
            room=RoomLedger(self.caches, lambda _: None, book=self.table.book),
            release=lambda *_: None,
            orphans=Orphans(self.clock),
            clock=self.clock,
            hints=hints if hinted else None,
        )
        self.handlers.start()
        self.hinted = hinted
        self.attempts: list[Attempt] = []
        self.meanwhile: dict[PlacementKey, list[Change]] = {}
        """What happens between the next decision about a placement and its writes."""
        self._version = 0

    # the part of the queue that event handlers use

    def __contains__(self, key: PlacementKey) -> bool:
        return key in self.queue

    def add(self, key: PlacementKey, *, trigger: str) -> None:
        self.queue.add(key, self.now, trigger=trigger)

    def requeue(self, keys: Iterable[PlacementKey], *, trigger: str, batched: bool = False) -> None:
        self.queue.requeue(keys, self.now, trigger=trigger, batched=batched)

    @property
    def now(self) -> int:
        return to_nanoseconds(self.clock.monotonic())

    # attempts

    def settle(self) -> None:
        while (item := self.queue.pop(self.now)) is not None:
            with self.handlers.track_attempt(item.key):
                decision = self._attempt(item.key, item.triggers)
            if decision is None or decision.fulfilled or decision.request.problems:
                self.queue.mark_succeeded(item.key, self.now)
            else:
                self.queue.mark_unschedulable(item.key, self.now, rejectors=decision.rejectors)

    def _attempt(self, key: PlacementKey, triggers: tuple[str, ...]) -> Decision | None:
        latest = self.caches.latest_snapshots(key)
        if len(latest) != 1:
            return None
        snapshot, bindings = latest[0], tuple(one.view for one in self.caches.bindings(key))
        decision = decide(
            DecisionInput(
                frame=self.table.frame(),
                request=self.requests.get(snapshot, placement=Metadata()),
                bindings=bindings,
                profile=PROFILE,
                now=self.clock.moment,
                previous=snapshot.view.status,
            )
        )
        before = decision.previous.conditions
        for change in self.meanwhile.pop(key, ()):
            change(self)
        self._write(key, decision)
        published = decision.published
        altered = bool(decision.operations)
        if published is not None:
            status = PolicySnapshotStatus(published.observed_generation, (published.condition,), published.decisions)
            altered |= [one.status for one in before] != [published.condition.status]
            self._publish(key, snapshot.view.metadata.name, status)
        self.attempts.append(Attempt(key, triggers, decision, altered))
        return decision

    def _write(self, key: PlacementKey, decision: Decision) -> None:
        store = self.caches.kinds_of(key).bindings.store
        held = {one.view.metadata.name: one.view for one in self.caches.bindings(key)}
        written = {one.metadata.name: one for one in carried_out(held.values(), decision)}
        for name, binding in written.items():
            if held.get(name) != binding:
                self.put(store, binding)
        for name in held.keys() - written.keys():
            self.remove(store, f"{key.namespace}/{name}" if key.namespace else name)

    def _publish(self, key: PlacementKey, name: str, status: PolicySnapshotStatus) -> None:
        current = self.caches.policy_snapshot(key, name)
        if current is not None:
            self.put_snapshot(msgspec.structs.replace(current.view, status=status))

    def bindings(self) -> dict[str, set[str]]:
        """The clusters that each placement uses."""
        found: dict[str, set[str]] = {}
        for kinds in self.caches.kinds:
            for one in kinds.bindings.store.values():
                if one.view.spec.state == SCHEDULED:
                    owner = (one.view.metadata.labels or {})[PARENT_PLACEMENT]
                    found.setdefault(owner, set()).add(one.view.spec.target_cluster)
        return found

    # what is seen

    def put_cluster(self, cluster: MemberCluster) -> None:
        self._version += 1
        self.caches.clusters.apply_event(with_metadata(cluster, resource_version=str(self._version)))
        self._wake_everybody()

    def remove_cluster(self, name: str) -> None:
        self._version += 1
        self.caches.clusters.apply_delete_event(name, uid="", version=str(self._version))
        self._wake_everybody()

    def put_snapshot(self, snapshot: PolicySnapshot) -> None:
        self.put(self.caches.kinds[1 if snapshot.metadata.namespace else 0].policy_snapshots.store, snapshot)

    def put(self, store: Store[Any], view: PolicySnapshot | Binding) -> None:
        self._version += 1
        store.apply_event(observed(with_metadata(view, resource_version=str(self._version))))

    def remove(self, store: Store[Any], key: str) -> None:
        self._version += 1
        store.apply_delete_event(key, uid="", version=str(self._version))

    def _wake_everybody(self) -> None:
        if not self.hinted:
            owners = {
                PlacementKey(one.view.metadata.namespace, (one.view.metadata.labels or {})[PARENT_PLACEMENT])
                for kinds in self.caches.kinds
                for one in kinds.policy_snapshots.store.values()
            }
            self.requeue(sorted(owners), trigger="everybody")


@dataclass(frozen=True)
class Attempt:
    key: PlacementKey
    triggers: tuple[str, ...]
    decision: Decision
    altered: bool
    """Bindings, or whether the placement has all its clusters."""


# --- what happens -----------------------------------------------------------------------------------------------------


@dataclass
class Story:
    """The same for both sites."""

    dice: Dice
    now: int = START
    clusters: dict[str, MemberCluster] = field(default_factory=dict)
    snapshots: dict[str, PolicySnapshot] = field(default_factory=dict)
    spreads: bool = False
    """All placements spread over zones, and healthy clusters move between these."""

    def __post_init__(self) -> None:
        self.spreads = self.dice.chance(0.3)

    def opening(self) -> list[Change]:
        most = len(NAMES) if self.spreads else 5
        changes = [self._joins(name) for name in NAMES[: self.dice.randint(most - 5, most)]]
        for number in range(PLACEMENTS):
            changes.append(self._asks(f"p{number}"))
        return changes

    def step(self) -> tuple[list[Change], dict[PlacementKey, list[Change]]]:
        """Changes, and those that happen while placements are in flight that have just been edited."""
        self.now += self.dice.choice((1, 2, 3) if self.spreads else (1, 10, 60, 290, 310, 900)) * SECOND
        if self.dice.chance(0.2):
            name = self.dice.choice(sorted(self.snapshots))
            key = PlacementKey(self.snapshots[name].metadata.namespace, name)
            edit = self._asks(name) if self.dice.chance(0.5) else self._counts(name)
            return [edit], {key: [self._cluster_change() for _ in range(self.dice.randint(0, 2))]}
        return [self._cluster_change() for _ in range(self.dice.choice((1, 1, 1, 2, 3)))], {}

    # placements

    def _asks(self, name: str) -> Change:
        """A placement with a new policy."""
        before = self.snapshots.get(name)
        number = 0 if before is None else int(before.metadata.name.rpartition("-")[2]) + 1
        if before is None:
            namespace = self.dice.choice(words.NAMESPACES) if self.dice.chance(0.3) else ""
        else:
            namespace = before.metadata.namespace
        metadata = Metadata(
            name=f"{name}-{number}",
            namespace=namespace,
            generation=1,
            labels={PARENT_PLACEMENT: name, IS_LATEST_SNAPSHOT: "true"},
            annotations={PLACEMENT_GENERATION: "1", NUMBER_OF_CLUSTERS: str(self.dice.randint(0, 9))},
        )
        policy = self._spread_policy() if self.spreads else random_policy(self.dice, list(NAMES))
        spec = msgspec.convert({"policy": policy}, PolicySnapshotSpec)
        after = self.snapshots[name] = PolicySnapshot(metadata=metadata, spec=spec)

        def change(site: Site) -> None:
            if before is not None:
                store = site.caches.kinds[1 if namespace else 0].policy_snapshots.store
                old = before.metadata.name
                site.remove(store, f"{namespace}/{old}" if namespace else old)
            site.put_snapshot(after)

        return change

    def _spread_policy(self) -> dict[str, Any]:
        whenever = self.dice.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"))
        constraint = {"topologyKey": ZONE, "maxSkew": self.dice.choice((1, 1, 2)), "whenUnsatisfiable": whenever}
        return {"placementType": "PickN", "topologySpreadConstraints": [constraint]}

    def _counts(self, name: str) -> Change:
        before = self.snapshots[name]
        annotations = {**(before.metadata.annotations or {}), NUMBER_OF_CLUSTERS: str(self.dice.randint(0, 9))}
        after = self.snapshots[name] = with_metadata(before, annotations=annotations)

        def change(site: Site) -> None:
            owner = PlacementKey(after.metadata.namespace, name)
            current = site.caches.policy_snapshot(owner, after.metadata.name)
            assert current is not None
            site.put_snapshot(msgspec.structs.replace(after, status=current.view.status))

        return change

    # clusters

    def _cluster_change(self) -> Change:
        away = [name for name in NAMES if name not in self.clusters]
        if not self.clusters or (away and self.dice.chance(0.2)):
            return self._joins(self.dice.choice(away))
        name = self.dice.choice(sorted(self.clusters))
        kinds = {"beats": 3, "changes": 8, "becomes another": 1, "leaves": 1, "moves": 40 if self.spreads else 0}
        match self.dice.weighed(kinds):
            case "moves":
                return self._moves(name)
            case "leaves":
                return self._leaves(name)
            case "changes":
                document = edited(self.dice, msgspec.to_builtins(self.clusters[name]))
                return self._puts(name, msgspec.convert(document, MemberCluster))
            case "becomes another":
                return self._joins(name)
        return self._puts(name, self.clusters[name])

    def _joins(self, name: str) -> Change:
        troubled = 0.0 if self.spreads else self.dice.choice((0.0, 0.0, 0.3))
        document = random_cluster(self.dice, name, troubled=troubled, namespaces=True)
        if self.spreads and self.dice.chance(0.8):
            document["spec"].pop("taints", None)
        self.clusters[name] = msgspec.convert(document, MemberCluster)
        return self._moves(name) if self.spreads else self._puts(name, self.clusters[name])

    def _moves(self, name: str) -> Change:
        """To a zone, or out of all."""
        labels = dict(self.clusters[name].metadata.labels or {})
        labels.pop(ZONE, None)
        zone = self.dice.choice(("z1", "z1", "z2", "z2", "z3", "z3", ""))
        return self._puts(name, with_metadata(self.clusters[name], labels=labels | ({ZONE: zone} if zone else {})))

    def _puts(self, name: str, cluster: MemberCluster) -> Change:
        """Nearly every report comes with a heartbeat, of now or late. No cluster is seen leaving: whoever happens to be
        attempted then gives up its bindings early."""
        cluster = with_metadata(cluster, deletion_timestamp=None)
        late = 0 if self.spreads else self.dice.choice((0, 0, 3, 200, 400))
        seen = self.clusters[name] = heard(cluster, self.now - late * SECOND) if self.dice.chance(0.9) else cluster
        return lambda site: site.put_cluster(seen)

    def _leaves(self, name: str) -> Change:
        del self.clusters[name]
        return lambda site: site.remove_cluster(name)


# --- worlds -----------------------------------------------------------------------------------------------------------


def play(seed: int) -> tuple[int, int, list[Attempt]]:
    """How many attempts there were with hints and without, and those with hints that were in vain."""
    story, sites = Story(Dice(seed)), (Site(hinted=True), Site(hinted=False))
    hinted, everybody = sites
    in_vain: list[Attempt] = []
    changes = story.opening()
    meanwhile: dict[PlacementKey, list[Change]] = {}
    for number in range(STEPS):
        begun = len(hinted.attempts)
        for site in sites:
            passed = story.now - site.clock.moment
            site.clock.set(story.now)
            site.clock.seconds += passed / SECOND
            for change in changes:
                change(site)
            site.meanwhile = dict(meanwhile)
            site.settle()
        assert hinted.bindings() == everybody.bindings(), f"world {seed}, step {number}"
        if len(changes) == 1 and not meanwhile:
            in_vain += [one for one in hinted.attempts[begun:] if is_in_vain(one)]
        changes, meanwhile = story.step()
    return len(hinted.attempts), len(everybody.attempts), in_vain


def is_in_vain(attempt: Attempt) -> bool:
    """Nothing that compares clusters, no mistake, and a change of one cluster that altered nothing. A list of names is
    reported name by name, and each cluster counts there."""
    request = attempt.decision.request
    by_cluster = all(trigger.startswith("MemberCluster/") for trigger in attempt.triggers)
    judged = not request.constraints and not request.problems and request.placement_type != PICK_FIXED
    return by_cluster and judged and not attempt.altered


@pytest.mark.parametrize("part", range(4))
def test_with_hints_the_bindings_are_those_of_waking_everybody(part: int, *, long: bool) -> None:
    hinted = everybody = 0
    in_vain: list[Attempt] = []
    for seed in range(part, WORLDS["long" if long else "normal"], 4):
        more_hinted, more_everybody, more_in_vain = play(seed)
        hinted, everybody = hinted + more_hinted, everybody + more_everybody
        in_vain += more_in_vain
    assert [(str(one.key), one.triggers) for one in in_vain] == []
    assert hinted < everybody / 2


def test_a_hint_that_forgets_what_compares_clusters_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or else the worlds would prove nothing: clusters move between domains in them, and that makes room elsewhere."""
    monkeypatch.setattr(CompiledProfile, "cluster_comparers", property(lambda _: frozenset()))
    with pytest.raises(AssertionError, match="world"):
        deque(map(play, range(WORLDS["normal"])), maxlen=0)
