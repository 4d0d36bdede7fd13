"""Event handlers: enqueue the placements that a change of a watched object may affect.

Every change is handled at once and in memory, so none can be lost on the way. No placement is enqueued before `start`:
a standby only keeps its interest index up to date. `cluster_diff` decides what counts as a change of a cluster,
`interest_index` which placements read it, `cluster_hints` whose decision it can alter, and the queue when they run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Set
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any, Final, Protocol

import structlog

from fleet.clock import Clock, epoch_nanoseconds
from fleet.framework.explaining import ClusterEventKind
from fleet.informers.cache import Caches, PlacementKinds
from fleet.kube.cache.store import Store
from fleet.kube.resource import Resource, key_of
from fleet.kube.scopes import MEMBER_CLUSTERS, owner_key
from fleet.model.keys import (
    BY_SCHEDULER,
    IS_LATEST_SNAPSHOT,
    MADE_BY,
    NUMBER_OF_CLUSTERS,
    PLACEMENT_ANNOTATIONS,
    PLACEMENT_GENERATION,
    SCHEDULER_BINDING_CLEANUP,
    SCHEDULER_CLEANUP,
    SCHEDULER_NAME,
    WORKLOAD_REQUESTS,
)
from fleet.model.placement_key import PlacementKey
from fleet.model.views import (
    Binding,
    MemberCluster,
    Metadata,
    Observed,
    Placement,
    PlacementOptions,
    PlacementOptionsSpec,
    PolicySnapshot,
)
from fleet.scheduler.cleanup import Orphans
from fleet.scheduler.events.cluster_diff import ClusterDiff, diff_clusters
from fleet.scheduler.events.cluster_hints import Booked, ClusterHints, Concern, SideData
from fleet.scheduler.events.feed_hints import FeedHints
from fleet.scheduler.events.interest_index import InterestIndex, SourcesOf, lacks_clusters
from fleet.scheduler.ledgers.room_ledger import RoomLedger, differ_in_needs, frees_room
from fleet.snapshot.frame import Frame
from fleet.snapshot.sidedata import Nomination, PlacedBinding

FEED: Final = "Feed"
RESIDENT: Final = "Resident"
START_UP: Final = "StartUp"
RELOADED: Final = "Configuration/Reload"
CLOCK_SET_BACK: Final = "ClockSetBack"
_TRUE: Final = frozenset(("1", "t", "T", "TRUE", "true", "True"))

log = structlog.get_logger(__name__)


class PlacementQueue(Protocol):
    """The part of the scheduling queue that event handlers use."""

    def __contains__(self, key: PlacementKey) -> bool: ...

    def add(self, key: PlacementKey, *, trigger: str) -> None: ...

    def requeue(self, keys: Iterable[PlacementKey], *, trigger: str, batched: bool = False) -> None: ...


ReleaseBinding = Callable[[PlacementKinds, Observed[Binding]], None]
"""Removes our finalizer from a binding that is being deleted, then enqueues its placement. Returns at once and retries
by itself."""

OfferChange = Callable[
    [Collection[PlacementKey], ClusterDiff, MemberCluster | None, MemberCluster | None], Collection[PlacementKey]
]

ObserveEvent = Callable[[str, int, float], None]
"""Called with the kind of the changed object, the number of placements enqueued, and the seconds that took."""


IsEligible = Callable[[MemberCluster, int], bool]
"""The rule of a profile: whether a cluster may take new work at a moment."""


class EligibilityClock:
    """Clusters that became eligible for any profile, also because the clock was set back.

    Decisions judge heartbeats by the time of day, and that can be set. While it is ahead, healthy clusters look stale;
    when it is corrected, they are eligible again without any change of their objects. A diff of two reports cannot show
    that, so the latest time at which anything was decided is kept here.
    """

    def __init__(self, rules: Callable[[], Collection[IsEligible]], clock: Clock) -> None:
        """The rules are those of the profiles in use."""
        self._rules = rules
        self._clock = clock
        self._decided_at = 0

    def became_eligible(self, old: MemberCluster | None, new: MemberCluster) -> bool:
        now = self._read_time()
        return any((old is None or not rule(old, now)) and rule(new, now) for rule in self._rules())

    def note_decision(self) -> None:
        """From now on a decision relies on what is eligible at this moment."""
        self._decided_at = max(self._decided_at, self._read_time())

    def find_regained(self, clusters: Store[MemberCluster]) -> list[str]:
        """Names of the clusters that were stale for a decision and are no longer, because the clock was set
        back. Each is returned once. The store is read only when that has happened."""
        before, now = self._decided_at, self._read_time()
        if now >= before:
            return []
        self._decided_at = now
        return [
            cluster.metadata.name
            for cluster in clusters.values()
            if any(rule(cluster, now) and not rule(cluster, before) for rule in self._rules())
        ]

    def _read_time(self) -> int:
        return epoch_nanoseconds(self._clock)


QUOTA: Final = "PlacementQuota"


class EventHandlers:
    def __init__(
        self,
        caches: Caches,
        queue: PlacementQueue,
        *,
        sources_of: SourcesOf,
        eligibility: EligibilityClock,
        release: ReleaseBinding,
        orphans: Orphans,
        clock: Clock,
        room: RoomLedger,
        hints: ClusterHints | None = None,
        feed_hints: FeedHints | None = None,
        offer: OfferChange | None = None,
        reads_labels: Callable[[Metadata], bool] = lambda _: False,
        on_event: ObserveEvent = lambda *_: None,
        read_placed: Callable[[str], tuple[PlacedBinding, ...]] = lambda _: (),
        read_nominations: Callable[[], tuple[Nomination, ...]] = tuple,
        on_change: Callable[[str, Concern, PlacementKey | None], None] = lambda *_: None,
        batched: bool = False,
    ) -> None:
        """Without hints, every change of what a placement reads requeues it. `offer` is called with the keys that a
        change affects, and returns those to requeue; `reads_labels` says of a placement whether its decision looks at
        its labels; `on_change` is called with changes of clusters, for what is decided together, and with the placement
        that gave room back. With `batched`, changes of clusters are requeued in batches."""
        self._caches = caches
        self._queue = queue
        self._eligibility = eligibility
        self._release = release
        self._orphans = orphans
        self._room = room
        self._clock = clock
        self._on_event = on_event
        self._event_started = 0.0
        self._batched = batched
        self._read_placed, self._read_nominations = read_placed, read_nominations
        self._on_change = on_change
        self._interests = InterestIndex(sources_of)
        self._hints = hints
        self._feed_hints = feed_hints
        self._offer = offer
        self._reads_labels = reads_labels
        self._in_flight: dict[PlacementKey, set[str]] = {}
        """Placements, and the bindings that have appeared since their attempts began."""
        self._passed_over: set[PlacementKey] = set()
        """Placements that read what has changed of clusters, not only of their usage, since their attempts began."""
        self._started = False
        caches.clusters.subscribe(self._on_cluster)
        for kinds in caches.kinds:
            kinds.placements.store.subscribe(partial(self._on_placement, kinds))
            kinds.policy_snapshots.store.subscribe(partial(self._on_snapshot, kinds))
            kinds.bindings.store.subscribe(partial(self._on_binding, kinds))
            kinds.options.store.subscribe(partial(self._on_options, kinds))
            kinds.options.reflector.on_unreadable_gone = partial(self._on_unreadable_options_gone, kinds)

    def start(self) -> None:
        """Once, when all caches are synced and this process leads: enqueues all that may have been left undone. Those
        that lack clusters are first."""
        self._started = True
        for kinds in self._caches.kinds:
            for binding in kinds.bindings.store.values():
                if _is_terminating(binding.view.metadata, SCHEDULER_BINDING_CLEANUP):
                    self._release(kinds, binding)
        keys = chain.from_iterable(map(self._list_initial_keys, self._caches.kinds))
        for key in sorted(keys, key=lambda key: not self._interests.lacks_clusters(key)):
            self._queue.add(key, trigger=START_UP)

    def reload(
        self, *, is_changed: Callable[[Metadata | None], bool], is_moved: Callable[[Metadata | None], bool]
    ) -> None:
        """Profiles were exchanged: what placements read is listed anew. Those of a changed profile that wait are tried
        again, and all of one that is new or gone."""
        for key in self._interests.list_keys():
            self._interests.forget_spec(key)
            self._index(self._caches.kinds_of(key), key)
            placement = self._caches.placement(key)
            metadata = None if placement is None else placement.view.metadata
            waits = self._interests.is_waiting(key) or key in self._queue
            if self._started and (is_moved(metadata) or (waits and is_changed(metadata))):
                self._queue.add(key, trigger=RELOADED)

    def refresh(self, keys: Iterable[PlacementKey]) -> None:
        """Their priorities have changed."""
        for key in keys:
            self._index(self._caches.kinds_of(key), key)

    def _list_initial_keys(self, kinds: PlacementKinds) -> Iterable[PlacementKey]:
        snapshots = kinds.policy_snapshots.store.values()
        owners = dict.fromkeys(owner_key(snapshot.view.metadata) for snapshot in snapshots)
        yield from (key for key in owners if key is not None and self._caches.latest_snapshots(key))
        yield from self._list_missing_owners(kinds)
        for placement in kinds.placements.store.values():
            if _is_terminating(placement.view.metadata, SCHEDULER_CLEANUP):
                yield PlacementKey.of(placement.view.metadata)

    def _list_missing_owners(self, kinds: PlacementKinds) -> Iterable[PlacementKey]:
        """Placements that the cache lacks although it has bindings of them."""
        owners: dict[PlacementKey, None] = {}
        for binding in kinds.bindings.store.values():
            key = owner_key(binding.view.metadata)
            if key is not None and self._orphans.includes(key, binding.view):
                owners[key] = None
        return (key for key in owners if kinds.get_placement(key) is None)

    @contextmanager
    def track_attempt(self, key: PlacementKey) -> Iterator[Set[str]]:
        """During an attempt a placement counts as one that lacks clusters, because it may turn out to.

        Yields the names of the bindings that appear meanwhile. Only the attempt can recognize its own.
        """
        self._eligibility.note_decision()
        self._interests.begin_attempt(key)
        self._passed_over.discard(key)
        appeared = self._in_flight[key] = set()
        try:
            yield appeared
        finally:
            del self._in_flight[key]
            self._interests.end_attempt(key)
            if self._hints is not None:
                self._hints.prepare(key)

    def in_flight(self) -> Set[PlacementKey]:
        """Placements that are being scheduled."""
        return self._in_flight.keys()

    # --- clusters -----------------------------------------------------------------------------------------------------

    def _on_cluster(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        if not self._started:
            return
        self._event_started = self._clock.monotonic()
        self._check_clock()
        cluster = _name_either(old, new)
        before, booked = self._room.find_booked_before(cluster), self._room.find_booked(cluster)
        diff = diff_clusters(
            old,
            new,
            became_eligible=self._eligibility.became_eligible,
            any_update=self._interests.reads_any_update,
            freed=frees_room(before, booked),
        )
        if diff:
            beside = self._read_beside(cluster, before), self._read_beside(cluster, booked)
            affected = self._interests.find_affected(diff)
            if not diff.deleted and diff.events != (ClusterEventKind.UPDATE_CAPACITY.value,):
                self._passed_over.update(affected)
            keys = self._select(affected, diff, old, new, *beside)
            if self._offer is not None and keys and not self._batched:
                keys = self._offer(keys, diff, old, new)
            self._requeue_affected(keys, trigger=str(diff))
            self._on_change(str(diff), self._build_concern(diff.cluster, old, new, *beside), None)

    def on_freed(
        self,
        cluster: str,
        before: Booked,
        booked: Booked,
        *,
        giving: PlacementKey,
        together: Set[PlacementKey] = frozenset(),
        seeks: Callable[[PlacementKey], bool],
        may_seek: Callable[[PlacementKey], bool] = lambda _: False,
    ) -> None:
        """A placement gave room back, which may help some of those that seek it, but not those `together` with it.
        Those that only may seek it, since clusters have changed, are requeued where the filters accept the cluster now,
        and did not before."""
        present = self._caches.clusters.get(cluster)
        if not self._started or present is None:
            return
        self._event_started = self._clock.monotonic()
        diff = ClusterDiff(cluster=cluster, freed=True)
        reading = (key for key in self._interests.find_affected(diff) if key != giving and key not in together)
        affected = [key for key in reading if seeks(key) or (key in self._passed_over and may_seek(key))]
        beside = self._read_beside(cluster, before), self._read_beside(cluster, booked)
        keys = self._select(affected, diff, present, present, *beside, trusts_doubt=seeks)
        self._requeue_affected(keys, trigger=str(diff))
        self._on_change(f"Room/Freed {cluster}", self._build_concern(cluster, present, present, *beside), giving)

    def on_placed(self, cluster: str, before: tuple[PlacedBinding, ...], seeking: Collection[PlacementKey]) -> None:
        """Other bindings than before may be evicted there, or leave. `seeking` are the placements that look for
        such."""
        present = self._caches.clusters.get(cluster)
        if not self._started or present is None:
            return
        self._event_started = self._clock.monotonic()
        diff = ClusterDiff(cluster=cluster, freed=True)
        after = self._read_beside(cluster, self._room.find_booked(cluster))
        keys = self._select(seeking, diff, present, present, after._replace(placed=before), after)
        self._requeue_affected(keys, trigger=f"Binding/Evictable {cluster}")

    def _read_beside(self, cluster: str, booked: Booked) -> SideData:
        return SideData(booked, self._read_placed(cluster), self._read_nominations())

    def _select(
        self,
        keys: Collection[PlacementKey],
        diff: ClusterDiff,
        old: MemberCluster | None,
        new: MemberCluster | None,
        before: SideData,
        after: SideData,
        trusts_doubt: Callable[[PlacementKey], bool] = lambda _: True,
    ) -> Collection[PlacementKey]:
        if self._hints is None or self._moves_kept_room(diff.cluster, old, new):
            return list(filter(trusts_doubt, keys))
        return self._hints.select(
            keys,
            diff,
            old,
            new,
            in_flight=self._in_flight,
            is_waiting=self._interests.is_waiting,
            before=before,
            after=after,
            trusts_doubt=trusts_doubt,
        )

    def _build_concern(
        self, cluster: str, old: MemberCluster | None, new: MemberCluster | None, before: SideData, after: SideData
    ) -> Concern:
        if self._hints is None or self._moves_kept_room(cluster, old, new):
            return lambda _: True
        return self._hints.build_concern(old, new, before=before, after=after)

    def _moves_kept_room(self, cluster: str, old: MemberCluster | None, new: MemberCluster | None) -> bool:
        """How much is kept there for placements depends on what has changed."""
        kept = [each.placement for each in self._read_nominations() if each.cluster == cluster]
        varies = any(self._room.find_needs(PlacementKey.parse(key)).vary for key in kept)
        return varies and differ_in_needs(old, new)

    def _check_clock(self) -> None:
        # Checked at every status report: they are frequent, and a changed clock sends no notification.
        regained = self._eligibility.find_regained(self._caches.clusters)
        if regained:
            log.warning("the clock was set back: clusters that looked silent are not", clusters=len(regained))
            keys = self._interests.find_affected_by_eligible(regained)
            self._requeue_affected(keys, trigger=f"{MEMBER_CLUSTERS.kind}/{CLOCK_SET_BACK}")

    def _requeue_affected(self, keys: Collection[PlacementKey], *, trigger: str) -> None:
        if keys:
            self._queue.requeue(keys, trigger=trigger, batched=self._batched)
        self._observe(MEMBER_CLUSTERS, len(keys))

    # --- feeds --------------------------------------------------------------------------------------------------------

    def on_feed(self, feed: str, before: Frame, after: Frame) -> None:
        """It was sampled: frames from before and after."""
        if not self._started:
            return
        self._event_started = self._clock.monotonic()
        waiting = self.list_waiting()
        keys = waiting if self._feed_hints is None else list(self._feed_hints.select(waiting, before, after))
        if keys:
            self._queue.requeue(keys, trigger=f"{FEED}/Update {feed}", batched=self._batched)
        self._on_event(FEED, len(keys), self._clock.monotonic() - self._event_started)

    # --- residents ----------------------------------------------------------------------------------------------------

    def on_resident(self, placement: PlacementKey, event: str, helped: Iterable[PlacementKey]) -> None:
        """A placement came to a cluster or left one, which may help others, as far as they wait."""
        if not self._started:
            return
        self._event_started = self._clock.monotonic()
        keys = [key for key in helped if self._interests.is_waiting(key)]
        if keys:
            self._queue.requeue(keys, trigger=f"{RESIDENT}/{event} {placement}", batched=self._batched)
        self._on_event(RESIDENT, len(keys), self._clock.monotonic() - self._event_started)

    # --- quotas -------------------------------------------------------------------------------------------------------

    def on_quota_change(self, helped: Iterable[PlacementKey]) -> None:
        """There may be more room in a quota. Before the start `helped` is not read."""
        if not self._started:
            return
        self._event_started = self._clock.monotonic()
        keys = list(helped)
        if keys:
            self._queue.requeue(keys, trigger=f"{QUOTA}/Update", batched=self._batched)
        self._on_event(QUOTA, len(keys), self._clock.monotonic() - self._event_started)

    def list_waiting(self) -> list[PlacementKey]:
        """The placements that lack clusters."""
        return [key for key in self._interests.list_keys() if self._interests.is_waiting(key)] if self._started else []

    # --- placements ---------------------------------------------------------------------------------------------------

    def _on_placement(
        self, kinds: PlacementKinds, old: Observed[Placement] | None, new: Observed[Placement] | None
    ) -> None:
        self._event_started = self._clock.monotonic()
        key = _key_of_either(old, new)
        if old is None or new is None:
            self._index(kinds, key)
            self._note_existence(key, old)
        if not self._started:
            return
        if new is not None and _starts_terminating(old, new, SCHEDULER_CLEANUP):
            self._enqueue(key, kinds.scope.placement, "Terminating", new.view.metadata)
        elif old is not None and new is not None and (changed := _find_changed_annotation(old, new)):
            self._index(kinds, key)
            event = "UpdateScheduler" if changed == SCHEDULER_NAME else "UpdateOptions"
            self._enqueue(key, kinds.scope.placement, event, new.view.metadata)
        elif old is not None and new is not None and old.view.metadata.labels != new.view.metadata.labels:
            if self._reads_labels(new.view.metadata):
                self._index(kinds, key)
                if self._interests.is_waiting(key):
                    self._enqueue(key, kinds.scope.placement, "UpdateLabels", new.view.metadata)
        elif old is None and new is not None and key in self._queue:  # its snapshot came first: now its gates are known
            self._enqueue(key, kinds.scope.placement, "Add", new.view.metadata)
        elif old is not None and new is None and (key in self._queue or self._leaves_bindings(key)):
            self._enqueue(key, kinds.scope.placement, "Delete", old.view.metadata)  # the attempt cleans up

    def _note_existence(self, key: PlacementKey, gone: Observed[Placement] | None) -> None:
        if gone is None:
            self._orphans.note_appeared(key)
        else:
            self._orphans.note_vanished(key, gone.view.metadata)

    def _leaves_bindings(self, key: PlacementKey) -> bool:
        return any(self._orphans.includes(key, binding.view) for binding in self._caches.bindings(key))

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def _on_snapshot(
        self, kinds: PlacementKinds, old: Observed[PolicySnapshot] | None, new: Observed[PolicySnapshot] | None
    ) -> None:
        self._event_started = self._clock.monotonic()
        for owner in _list_owners(old, new):
            self._index(kinds, owner)
        if not self._started or new is None:
            return
        event = classify_snapshot_event(None if old is None else old.view, new.view)
        if event is not None:
            self._enqueue_owner(kinds.scope.policy_snapshot, event, new.view.metadata)

    def _index(self, kinds: PlacementKinds, key: PlacementKey) -> None:
        """With none or several latest snapshots, what the placement reads is known when one of them changes."""
        latest = self._caches.latest_snapshots(key)
        if len(latest) == 1:
            self._interests.put(key, latest[0].view, short=lacks_clusters(latest[0].view))
            if self._hints is not None:
                self._hints.put(key, latest[0].view)
            return
        if self._hints is not None:
            self._hints.forget(key)
        if latest or kinds.get_placement(key) is not None:
            self._interests.put(key, None, short=True)
        else:
            self._interests.forget(key)
            self._passed_over.discard(key)

    # --- bindings -----------------------------------------------------------------------------------------------------

    def _on_binding(self, kinds: PlacementKinds, old: Observed[Binding] | None, new: Observed[Binding] | None) -> None:
        if not self._started:
            return
        self._event_started = self._clock.monotonic()
        if new is not None and _starts_terminating(old, new, SCHEDULER_BINDING_CLEANUP):
            self._release(kinds, new)
            self._observe(kinds.scope.binding, 1)
        elif old is not None and new is None and _vanished_with_finalizer(old):
            self._enqueue_owner(kinds.scope.binding, "Delete", old.view.metadata)
        elif old is None and new is not None:
            self._on_new_binding(kinds, new.view.metadata)

    def _on_new_binding(self, kinds: PlacementKinds, metadata: Metadata) -> None:
        """Outside an attempt it is the late result of a create that was given up on, and may be surplus."""
        owner = owner_key(metadata)
        appeared = None if owner is None else self._in_flight.get(owner)
        if appeared is None:
            self._enqueue_owner(kinds.scope.binding, "Add", metadata)
        else:
            appeared.add(metadata.name)

    # --- companions ---------------------------------------------------------------------------------------------------

    def _on_options(
        self, kinds: PlacementKinds, old: Observed[PlacementOptions] | None, new: Observed[PlacementOptions] | None
    ) -> None:
        """Changes of the status are the scheduler's own, and options without a placement do nothing."""
        self._event_started = self._clock.monotonic()
        key = _key_of_either(old, new)
        changed = _read_options(old) != _read_options(new)
        if not changed or not self._caches.latest_snapshots(key):
            return
        self._index(kinds, key)
        self._enqueue_for_options(kinds, key, "Add" if old is None else "Delete" if new is None else "Update")

    def _on_unreadable_options_gone(self, kinds: PlacementKinds, key: str) -> None:
        """They held their placement, and the cache never had them."""
        self._event_started = self._clock.monotonic()
        placement = PlacementKey.parse(key)
        if self._caches.latest_snapshots(placement):
            self._enqueue_for_options(kinds, placement, "Delete")

    def _enqueue_for_options(self, kinds: PlacementKinds, key: PlacementKey, event: str) -> None:
        if self._started:
            self._queue.add(key, trigger=f"{kinds.scope.options.kind}/{event} {key.name}")
            self._observe(kinds.scope.options, 1)

    # --- enqueueing ---------------------------------------------------------------------------------------------------

    def _enqueue_owner(self, resource: Resource, event: str, metadata: Metadata) -> None:
        owner = owner_key(metadata)
        if owner is None:
            log.warning(
                "the object has no tracking label, so no placement is enqueued",
                kind=resource.kind,
                name=key_of(metadata),
            )
            self._observe(resource, 0)
        else:
            self._enqueue(owner, resource, event, metadata)

    def _enqueue(self, key: PlacementKey, resource: Resource, event: str, metadata: Metadata) -> None:
        self._queue.add(key, trigger=f"{resource.kind}/{event} {metadata.name}")
        self._observe(resource, 1)

    def _observe(self, resource: Resource, enqueued: int) -> None:
        self._on_event(resource.kind, enqueued, self._clock.monotonic() - self._event_started)


def _read_options(options: Observed[PlacementOptions] | None) -> PlacementOptionsSpec | None:
    """None for those that only have a status, because the scheduler made them."""
    if options is None:
        return None
    spec, is_made_here = options.view.spec, options.view.metadata.label(MADE_BY) == BY_SCHEDULER
    return None if is_made_here and spec == PlacementOptionsSpec() else spec


def classify_snapshot_event(old: PolicySnapshot | None, new: PolicySnapshot) -> str | None:
    """The event that requires a new decision, None without one. Changes of the status never do."""
    if new.metadata.deletion_timestamp or not _is_true(new.metadata.label(IS_LATEST_SNAPSHOT)):
        return None
    if old is None:
        return "Add"
    if old.metadata.annotation(NUMBER_OF_CLUSTERS) != new.metadata.annotation(NUMBER_OF_CLUSTERS):
        return "UpdateCount"
    if old.metadata.annotation(PLACEMENT_GENERATION) != new.metadata.annotation(PLACEMENT_GENERATION):
        return "UpdateGeneration"
    if old.metadata.annotation(WORKLOAD_REQUESTS) != new.metadata.annotation(WORKLOAD_REQUESTS):
        return "UpdateRequests"
    return None if _is_true(old.metadata.label(IS_LATEST_SNAPSHOT)) else "UpdateLatest"


def _is_true(label: str | None) -> bool:
    return label in _TRUE


def _is_terminating(metadata: Metadata, finalizer: str) -> bool:
    return metadata.deletion_timestamp is not None and finalizer in metadata.finalizers


def _starts_terminating(old: Observed[Any] | None, new: Observed[Any], finalizer: str) -> bool:
    """Also where the object was not in the cache: it may have been created and deleted between two watches."""
    return _is_terminating(new.view.metadata, finalizer) and (
        old is None or old.view.metadata.deletion_timestamp is None
    )


def _find_changed_annotation(old: Observed[Placement], new: Observed[Placement]) -> str | None:
    """The first of those that the scheduler reads."""
    before, after = old.view.metadata.annotations or {}, new.view.metadata.annotations or {}
    return next((key for key in PLACEMENT_ANNOTATIONS if before.get(key) != after.get(key)), None)


def _vanished_with_finalizer(binding: Observed[Binding]) -> bool:
    """Gone with our finalizer on it: another client removed that, and the watch missed the last versions."""
    metadata = binding.view.metadata
    return metadata.deletion_timestamp is None and SCHEDULER_BINDING_CLEANUP in metadata.finalizers


def _list_owners(*versions: Observed[PolicySnapshot] | None) -> list[PlacementKey]:
    """Each once. The label of a snapshot may change."""
    owners: list[PlacementKey] = []
    for snapshot in versions:
        owner = None if snapshot is None else owner_key(snapshot.view.metadata)
        if owner is not None and owner not in owners:
            owners.append(owner)
    return owners


def _name_either(old: MemberCluster | None, new: MemberCluster | None) -> str:
    known = old if new is None else new
    assert known is not None
    return known.metadata.name


def _key_of_either(old: Observed[Any] | None, new: Observed[Any] | None) -> PlacementKey:
    known = old if new is None else new
    assert known is not None
    return PlacementKey.of(known.view.metadata)
