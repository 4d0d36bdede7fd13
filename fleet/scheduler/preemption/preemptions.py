"""Preemptions: room that is being made, from the decision until the placement is there or has lost it.

A decision names clusters and the bindings that have to leave them. From that moment the room is kept, in the frame that
the next decision reads. Then, in the background: what is to be done is written to the status of the placement's
options, only after that the victims are given up, as if they had been scaled down, and those that wait in Permit are
refused. The placement is tried again when the last of their objects, or of their waits, is gone. Each step follows from
the state of the hub, so the next leader continues with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Final, Protocol

import structlog

from fleet.clock import SECOND, Clock, epoch_nanoseconds
from fleet.framework.cycle.decision import Decision
from fleet.framework.operations import unschedule
from fleet.framework.request import PlacementRequest
from fleet.informers.cache import Caches, FleetTable
from fleet.kube.scopes import owner_key
from fleet.kube.workqueue import WorkQueue
from fleet.model.placement_key import PlacementKey
from fleet.model.timestamps import parse_timestamp
from fleet.model.views import Binding, MemberCluster, Metadata, Observed, Placement, PlacementOptions
from fleet.scheduler.attempt_record import AttemptRecord, AttemptResult
from fleet.scheduler.dispatch.binding_calls import BindingWriter, raise_failure
from fleet.scheduler.ledgers.room_ledger import differ_in_needs, needs_on, read_applied
from fleet.scheduler.preemption.placed_bindings import PlacedBindings, Standing, is_leaving
from fleet.scheduler.preemption.preemptor import DRAINED, EVICTING, SELECTED, Preemption, Preemptor
from fleet.snapshot.sidedata import Nomination

CLAIM_TIMEOUT: Final = 600
"""Seconds from the departure of the last victim, of a group that of the last of all. Reports of members are a minute
apart; room that is not there by then went elsewhere."""
REPLAN_DELAY: Final = 10
"""Seconds in which nothing is begun for a group whose plan was refused."""
VICTIMS_GONE: Final = "Preemption/Drained"
ROOM_LOST: Final = "Preemption/Lost"
ROOM_CLOSED: Final = "Preemption/Ended"
EVICTION_FAILED: Final = "Preemption/EvictionFailed"
EVICTED: Final = "Preemption/Evicted"
REFUSED: Final = "Preemption/Refused"
_PLUGIN: Final = "DefaultPreemption"

_ENDED: Final = (AttemptResult.DECIDED, AttemptResult.BAD_INPUT, AttemptResult.FOREIGN)

log = structlog.get_logger(__name__)


class PreemptionStore(Protocol):
    async def publish_preemptions(self, key: PlacementKey) -> None:
        """As `Preemptions.find` has them. Returns when they are stored; retries by itself."""


class Reports(Protocol):
    """What becomes of placements, for the queue, events and metrics."""

    def requeue(self, key: PlacementKey, trigger: str) -> None: ...

    def report_freed(self, cluster: str, requests: Mapping[str, int], key: PlacementKey) -> None: ...

    def report_search(self, victims: int | None) -> None: ...

    def report_preempting(self, key: PlacementKey, targets: tuple[Preemption, ...]) -> None: ...

    def report_evicted(self, victim: PlacementKey, cluster: str, preemptor: PlacementKey) -> None: ...


class Preemptions:
    def __init__(
        self,
        caches: Caches,
        table: FleetTable,
        placed: PlacedBindings,
        *,
        evicts: Callable[[Metadata], bool],
        list_siblings: Callable[[PlacementKey], Iterable[PlacementKey]],
        bindings: BindingWriter,
        store: PreemptionStore,
        reports: Reports,
        clock: Clock,
    ) -> None:
        """`evicts`: whether a placement is scheduled here, by a profile that makes room. `list_siblings`: the other
        members of its group."""
        self._caches, self._table, self._placed, self._evicts = caches, table, placed, evicts
        self._bindings, self._store, self._reports, self._clock = bindings, store, reports, clock
        self._open: dict[PlacementKey, Preemptor] = {}
        self._seeking: set[PlacementKey] = set()
        self._list_siblings = list_siblings
        self._refused: dict[PlacementKey, int] = {}
        """Members of groups whose plan was refused, and until when nothing is begun for them."""
        self._queue: WorkQueue[PlacementKey] = WorkQueue(clock=clock)
        caches.clusters.subscribe(self._on_cluster, when=differ_in_needs)
        for kinds in caches.kinds:
            kinds.bindings.store.subscribe(self._on_binding)
            kinds.placements.store.subscribe(self._on_placement)

    # --- for attempts -------------------------------------------------------------------------------------------------

    def prepare(self, key: PlacementKey, request: PlacementRequest) -> None:
        """Before a decision. Room that was meant for a former request is given up."""
        self._placed.flush(for_attempt=key)
        preemptor = self._open.get(key)
        if preemptor is None:
            return
        wanted = (request.uid, request.priority, request.needs, request.generation)
        generation = request.generation if preemptor.generation is None else preemptor.generation
        if wanted != (preemptor.uid, preemptor.priority, preemptor.needs, generation):
            self._end(key)

    def list_nominated(self, key: PlacementKey) -> tuple[str, ...]:
        preemptor = self._open.get(key)
        return () if preemptor is None else tuple(target.cluster for target in preemptor.targets)

    def begin(self, key: PlacementKey, decision: Decision) -> None:
        """Right after a decision: if it evicts, the next one sees the room as taken. Makes no request."""
        request = decision.request
        victims = decision.evictions.victims if decision.evictions else ()
        has_searched = bool(decision.rounds) and _is_short(decision)
        if has_searched:
            self._reports.report_search(len(victims) if decision.nomination else None)
        if not decision.nomination:
            self._note_seeking(key, has_searched=has_searched and request.may_evict)
            return
        by_cluster = {
            name: tuple(victim for cluster, victim in victims if cluster == name) for name in decision.nomination
        }
        self._open_for(key, request, by_cluster)

    def begin_with_group(
        self, key: PlacementKey, request: PlacementRequest, victims: Mapping[str, Collection[str]]
    ) -> None:
        """The same for a member: on some clusters nothing has to leave, and room is kept until all have theirs."""
        self._reports.report_search(len({*chain.from_iterable(victims.values())}) if victims else None)
        if victims and self._refused.get(key, 0) <= epoch_nanoseconds(self._clock):
            self._open_for(key, request, victims)
        else:
            self._note_seeking(key, has_searched=True)

    def _open_for(self, key: PlacementKey, request: PlacementRequest, victims: Mapping[str, Collection[str]]) -> None:
        now = epoch_nanoseconds(self._clock)
        self._note_seeking(key, has_searched=False)
        targets = tuple(Preemption(name, tuple(leaving), SELECTED, now) for name, leaving in victims.items())
        for other, preemptor in list(self._open.items()):
            if preemptor.priority < request.priority:
                self._lose(other, victims)
        self._open[key] = Preemptor(request.uid, request.priority, request.needs, request.generation, targets)
        self._nominate()
        self._reports.report_preempting(key, targets)
        self._queue.add(key)

    def _note_seeking(self, key: PlacementKey, *, has_searched: bool) -> None:
        if has_searched:
            self._seeking.add(key)
            self._placed.flush_soon()  # what has changed since the decision was begun
        else:
            self._seeking.discard(key)

    def note_result(self, record: AttemptRecord) -> None:
        """After an attempt: it has got its room, found other, or lost it to a more important one."""
        key, result, decision = record.key, record.result, record.decision
        if result is AttemptResult.DECIDED and decision is not None and not _is_short(decision):
            self._seeking.discard(key)
        if key not in self._open:
            return
        if decision is not None and result in (AttemptResult.DECIDED, AttemptResult.SHORT):
            self._drop_targets(key, {target.cluster for target in decision.targets})
        if result is AttemptResult.SHORT:
            self._lose(key, self._list_taken(key))
        elif result in _ENDED:
            self._end(key)

    # --- for groups ---------------------------------------------------------------------------------------------------

    def list_kept(self, keys: Iterable[PlacementKey]) -> list[PlacementKey]:
        """Those that room is kept for."""
        return [key for key in keys if key in self._open]

    def end(self, keys: Iterable[PlacementKey]) -> None:
        """No room is kept for them any more, and nothing is evicted."""
        for key in keys:
            self._end(key)

    # --- for the frame and the status ---------------------------------------------------------------------------------

    def seeks_room(self, key: PlacementKey) -> bool:
        """Whether it would evict if it could: its last search was in vain."""
        return key in self._seeking

    def list_seeking(self) -> list[PlacementKey]:
        return sorted(self._seeking, key=str)

    def find(self, key: PlacementKey, uid: str) -> Preemptor | None:
        preemptor = self._open.get(key)
        return preemptor if preemptor is not None and preemptor.uid == uid else None

    def resume(self) -> None:
        """Budgets or priorities are known, or have changed."""
        for key in self._open:
            self._queue.add(key)

    def reload(self) -> None:
        """Profiles were exchanged. If none evicts any more, room is kept for no placement."""
        if not self._placed.is_needed:
            for key in list(self._open):
                self._end(key)

    def restore(self) -> None:
        """This process leads from now on: what its predecessor had written goes on."""
        self._open.clear()
        self._seeking.clear()
        self._refused.clear()
        if self._placed.is_needed:
            for kinds in self._caches.kinds:
                for options in kinds.options.store.values():
                    self._restore(options.view)
        self._nominate()

    async def run(self) -> None:
        """While this process leads, until closed."""
        await self._queue.work(self._reconcile, report=self._report_failure)

    def _report_failure(self, key: PlacementKey, error: Exception) -> None:
        log.warning("a binding could not be evicted", placement=str(key), error=str(error))
        self._reports.requeue(key, EVICTION_FAILED)

    def close(self) -> None:
        self._queue.close()

    # --- inside -------------------------------------------------------------------------------------------------------

    async def _reconcile(self, key: PlacementKey) -> None:
        preemptor = self._open.get(key)
        if preemptor is None:
            await self._store.publish_preemptions(key)
            self._resume_refused(key)
            return
        if any(target.phase == SELECTED for target in preemptor.targets):
            await self._store.publish_preemptions(key)  # before anything is evicted
            self._move(key, SELECTED, EVICTING)
        await self._evict_all(key)
        self._finish_drained(key)
        await self._store.publish_preemptions(key)

    async def _evict_all(self, key: PlacementKey) -> None:
        """One binding of a placement after the other, so that its budget is asked each time. Nothing leaves for a group
        once a victim of any of its members may not."""
        while victims := self._list_live(key):
            party = self._list_party(key)
            live = {other: self._list_live(other) for other in party}
            names = {victim for pairs in live.values() for _, victim in pairs}
            standings = {name: self._placed.find_standing(PlacementKey.parse(name)) for name in names}
            if None in standings.values():
                return  # `resume` goes on
            refused = self._find_refused(live, standings)
            if refused is not None:
                log.info("a binding may not be evicted any more", placement=str(key), victim=refused)
                self._refuse(key, party)
                return
            first = {victim: cluster for cluster, victim in reversed(victims)}
            await asyncio.gather(*(self._evict(key, PlacementKey.parse(name), first[name]) for name in first))

    def _find_refused(
        self, live: Mapping[PlacementKey, Iterable[tuple[str, str]]], standings: Mapping[str, Standing | None]
    ) -> str | None:
        """A victim that none may evict of those that need it."""
        claims: dict[tuple[str, str], list[PlacementKey]] = {}
        for key, pairs in live.items():
            for pair in pairs:
                claims.setdefault(pair, []).append(key)
        for (cluster, victim), keys in claims.items():
            if not any(self._may_evict(standings[victim], key, victim, cluster) for key in keys):
                return victim
        return None

    def _refuse(self, key: PlacementKey, party: Iterable[PlacementKey]) -> None:
        """A group that makes the same plan again does so after a delay."""
        siblings = list(self._list_siblings(key))
        for member in (key, *siblings) if siblings else ():
            self._refused[member] = epoch_nanoseconds(self._clock) + REPLAN_DELAY * SECOND
            self._queue.add(member)
        for other in party:
            self._lose(other, self.list_nominated(other))

    def _resume_refused(self, key: PlacementKey) -> None:
        due = self._refused.get(key)
        if due is None:
            return
        left = (due - epoch_nanoseconds(self._clock)) / SECOND
        if left > 0:
            self._queue.add_after(key, left)
        else:
            del self._refused[key]
            self._reports.requeue(key, ROOM_LOST)

    def _list_party(self, key: PlacementKey) -> list[PlacementKey]:
        """With the members of its group that room is kept for, too."""
        return [key, *self.list_kept(self._list_siblings(key))]

    async def _evict(self, key: PlacementKey, victim: PlacementKey, cluster: str) -> None:
        if cluster in self._placed.waits.list_waits(victim):
            message = "its room is needed for a more important placement"
            self._placed.waits.refuse(victim, cluster, plugin=_PLUGIN, message=message)
            self._reports.requeue(victim, REFUSED)
            return
        kinds = self._caches.kinds_of(victim)
        held = [each for each in self._find_bindings(str(victim), cluster) if not is_leaving(each)]
        request = PlacementRequest(placement=victim.name, namespace=victim.namespace)
        raise_failure(await self._bindings.write_operations(kinds, request, map(unschedule, held)))
        self._reports.report_evicted(victim, cluster, key)
        self._reports.requeue(victim, EVICTED)

    def _may_evict(self, standing: Standing | None, key: PlacementKey, victim: str, cluster: str) -> bool:
        preemptor = self._open.get(key)
        waits = cluster in self._placed.waits.list_waits(PlacementKey.parse(victim))
        if preemptor is None or standing is None or not (standing.may_leave if waits else standing.disruptions > 0):
            return False
        matters_less = standing.priority < preemptor.priority
        return matters_less or self._placed.may_reclaim(key, PlacementKey.parse(victim), cluster)

    def _list_live(self, key: PlacementKey) -> list[tuple[str, str]]:
        """Clusters, and victims that have not been given up or refused there."""
        preemptor = self._open.get(key)
        return [
            (target.cluster, victim)
            for target in (preemptor.targets if preemptor is not None else ())
            for victim in target.victims
            if not all(map(is_leaving, self._find_bindings(victim, target.cluster)))
            or target.cluster in self._placed.waits.list_waits(PlacementKey.parse(victim))
        ]

    def _find_bindings(self, placement: str, cluster: str) -> list[Binding]:
        """Also those that are being deleted."""
        held = (binding.view for binding in self._caches.bindings_on(cluster))
        return [binding for binding in held if str(owner_key(binding.metadata)) == placement]

    def _list_remaining(self, target: Preemption) -> tuple[str, ...]:
        return tuple(
            victim
            for victim in target.victims
            if self._find_bindings(victim, target.cluster)
            or self._placed.waits.holds(PlacementKey.parse(victim), target.cluster)
        )

    def _finish_drained(self, key: PlacementKey) -> None:
        """The victims are gone; and those whose room went elsewhere give up."""
        preemptor = self._open.get(key)
        if preemptor is None:
            return
        now = epoch_nanoseconds(self._clock)
        drained = {
            target.cluster
            for target in preemptor.targets
            if target.phase == EVICTING and not self._list_remaining(target)
        }
        gone = {target.cluster for target in preemptor.targets if target.cluster not in self._caches.clusters}
        self._replace(
            key,
            tuple(
                replace(target, phase=DRAINED, since=now) if target.cluster in drained else target
                for target in preemptor.targets
            ),
        )
        if drained:
            self._resume_siblings(key)
            self._reports.requeue(key, VICTIMS_GONE)
        left = self._find_time_left(key)
        if left is not None and left > 0:
            self._queue.add_after(key, left)
        self._lose(key, gone if left is None or left > 0 else self.list_nominated(key))

    def _find_time_left(self, key: PlacementKey) -> float | None:
        """Seconds until its room is given up; None until the last victim has left, also that of others of its group."""
        targets = [target for other in self._list_party(key) for target in self._open[other].targets]
        if any(target.phase != DRAINED for target in targets):
            return None
        return CLAIM_TIMEOUT - (epoch_nanoseconds(self._clock) - max(target.since for target in targets)) / SECOND

    def _resume_siblings(self, key: PlacementKey) -> None:
        """Their time may begin now."""
        for other in self.list_kept(self._list_siblings(key)):
            self._queue.add(other)

    def _list_taken(self, key: PlacementKey) -> set[str]:
        """The clusters where something was bound after the victims had left, when there still is too little room."""
        preemptor = self._open.get(key)
        return {
            target.cluster
            for target in (preemptor.targets if preemptor is not None else ())
            if preemptor and target.phase == DRAINED and self._was_taken(target, key, preemptor.priority)
        }

    def _was_taken(self, target: Preemption, key: PlacementKey, priority: int) -> bool:
        for binding in self._caches.bindings_on(target.cluster):
            created = read_applied(binding.raw).created_at or 0
            owner = owner_key(binding.view.metadata)
            if owner is None or owner == key or created + SECOND <= target.since:
                continue
            if self._placed.takes_room(owner, priority):
                return True
        return False

    # --- changes ------------------------------------------------------------------------------------------------------

    def _move(self, key: PlacementKey, before: str, after: str) -> None:
        preemptor, now = self._open.get(key), epoch_nanoseconds(self._clock)
        if preemptor is not None:
            moved = (
                replace(target, phase=after, since=now) if target.phase == before else target
                for target in preemptor.targets
            )
            self._replace(key, tuple(moved))

    def _replace(self, key: PlacementKey, targets: tuple[Preemption, ...]) -> None:
        self._open[key] = replace(self._open[key], targets=targets)
        self._nominate()

    def _drop_targets(self, key: PlacementKey, clusters: Iterable[str]) -> bool:
        """Whether there were any. That may help others, also if the placement has claimed the room: until now it
        counted twice."""
        preemptor = self._open.get(key)
        names = set(clusters).intersection(self.list_nominated(key))
        if preemptor is None or not names:
            return False
        kept = tuple(target for target in preemptor.targets if target.cluster not in names)
        if kept:
            self._open[key] = replace(preemptor, targets=kept)
        else:
            del self._open[key]
        self._nominate()
        self._queue.add(key)
        self._resume_siblings(key)
        for victim in sorted({name for each in preemptor.targets if each.cluster in names for name in each.victims}):
            self._reports.requeue(PlacementKey.parse(victim), ROOM_CLOSED)
        for cluster in sorted(names):
            self._reports.report_freed(cluster, self._read_requests(preemptor, cluster), key)
        return True

    def _lose(self, key: PlacementKey, clusters: Iterable[str]) -> None:
        """It is tried again, and may look for other room."""
        if self._drop_targets(key, clusters):
            self._reports.requeue(key, ROOM_LOST)

    def _end(self, key: PlacementKey) -> None:
        self._drop_targets(key, self.list_nominated(key))

    def _nominate(self) -> None:
        nominations = tuple(self._list_nominations())
        self._table.nominate(nominations)
        self._placed.keep_quota(nominations)

    def _list_nominations(self) -> Iterator[Nomination]:
        for key, preemptor in self._open.items():
            for target in preemptor.targets:
                requests, remaining = dict(self._read_requests(preemptor, target.cluster)), self._list_remaining(target)
                yield Nomination(target.cluster, str(key), preemptor.priority, requests, target.victims, remaining)

    def _read_requests(self, preemptor: Preemptor, cluster: str) -> Mapping[str, int]:
        return needs_on(preemptor.needs, self._caches.clusters.get(cluster))

    def _on_binding(self, old: Observed[Binding] | None, new: Observed[Binding] | None) -> None:
        known = old if new is None else new
        owner = None if known is None else owner_key(known.view.metadata)
        if owner is not None:
            self._note_victim(owner, is_gone=new is None)

    def note_wait(self, victim: PlacementKey) -> None:
        """It has begun to wait in Permit, or waits no longer."""
        self._placed.note((victim,))
        self._note_victim(victim, is_gone=True)

    def _note_victim(self, owner: PlacementKey, *, is_gone: bool) -> None:
        for key, preemptor in list(self._open.items()):
            if any(str(owner) in target.victims for target in preemptor.targets):
                self._nominate()
                self._queue.add(key)
                if is_gone and any(not self._list_remaining(target) for target in preemptor.targets):
                    self._reports.requeue(key, VICTIMS_GONE)

    def _on_cluster(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        """The room that is kept there is what would be needed there now."""
        if self._open:
            self._nominate()
            if old is not None and new is None:
                for key in [key for key in self._open if old.metadata.name in self.list_nominated(key)]:
                    self._queue.add(key)

    def _on_placement(self, old: Observed[Placement] | None, new: Observed[Placement] | None) -> None:
        known = old if new is None else new
        if known is not None and (new is None or new.view.metadata.deletion_timestamp):
            self._seeking.discard(PlacementKey.of(known.view.metadata))
            self._refused.pop(PlacementKey.of(known.view.metadata), None)
            if self._open:
                self._end(PlacementKey.of(known.view.metadata))

    def _restore(self, options: PlacementOptions) -> None:
        key, status = PlacementKey.of(options.metadata), options.status
        placement = self._caches.placement(key)
        if not status.preemptions or placement is None or placement.view.metadata.uid != status.placement_uid:
            return
        if not self._evicts(placement.view.metadata):
            self._queue.add(key)  # what this process has written is cleared, what is foreign stays
            return
        targets = tuple(
            Preemption(each.cluster, each.victims, each.phase, parse_timestamp(each.since))
            for each in status.preemptions
        )
        priority, needs = status.preemptions[0].priority, self._placed.find_needs(key)
        self._open[key] = Preemptor(status.placement_uid, priority, needs, None, targets)
        self._queue.add(key)


def _is_short(decision: Decision) -> bool:
    return (decision.active or 0) < (decision.request.min_targets or 1)
