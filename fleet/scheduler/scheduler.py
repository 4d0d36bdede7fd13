"""Scheduler: the components between watched objects and written decisions, and their life cycle."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final

import structlog

from fleet.clock import Clock, to_nanoseconds
from fleet.errors import StaleInputs
from fleet.external.extender_client import ExtenderClient
from fleet.external.feed_collector import FeedCollector
from fleet.framework.approvals import ApprovalFacts
from fleet.framework.policy.quotas import Quotas
from fleet.framework.profiles.profile import CompiledProfile
from fleet.framework.runtime.framework import (
    with_activation,
    with_approval_facts,
    with_debug,
    with_hook_caller,
    with_hub_client,
    with_locks,
    with_max_permit_wait,
    with_metrics_sampling,
    with_probe,
    with_quotas,
    with_room,
    with_snapshot_lister,
    with_waiting_room,
    with_watch_hub,
)
from fleet.framework.runtime.locks import ReadWriteLock
from fleet.informers.cache import Caches, FleetTable
from fleet.informers.placed_feeds import PlacedLimits, RecentPlacements
from fleet.informers.shared_watches import SharedWatches
from fleet.kube.api import Api, ClassedApi
from fleet.kube.objects import RetryPolicy
from fleet.kube.scopes import MEMBER_CLUSTERS
from fleet.model.placement_key import PlacementKey
from fleet.model.views import ApprovalRule, MemberCluster, Metadata
from fleet.scheduler.attempt import AttemptRunner
from fleet.scheduler.attempt_record import Recorder
from fleet.scheduler.background_compiler import BackgroundCompiler
from fleet.scheduler.binding.approval_watch import ApprovalWatch
from fleet.scheduler.binding.binding_cycle import BindingCycles
from fleet.scheduler.binding.companion_status import CompanionStatus
from fleet.scheduler.binding.hook_calls import HookCalls
from fleet.scheduler.binding.parked_placements import ParkedPlacements
from fleet.scheduler.cleanup import BindingReleases, Cleanup, Orphans
from fleet.scheduler.companions import Companions, list_approval_rules, read_approval_facts
from fleet.scheduler.dispatch.binding_calls import BindingWriter
from fleet.scheduler.dispatch.call_queue import CallType
from fleet.scheduler.dispatch.dispatcher import Dispatcher
from fleet.scheduler.dispatch.status_calls import StatusWriter
from fleet.scheduler.events.cluster_hints import Booked, ClusterHints, Hint
from fleet.scheduler.events.event_handlers import EligibilityClock, EventHandlers
from fleet.scheduler.events.feed_hints import FeedHints
from fleet.scheduler.events.plugin_hints import PluginHints
from fleet.scheduler.events.resident_hints import ResidentHints, is_rejected_by_filters, may_end_rejection
from fleet.scheduler.groups.group_attempt import GroupAttempt
from fleet.scheduler.groups.group_status import GroupStatus
from fleet.scheduler.groups.groups import Groups, list_states
from fleet.scheduler.ledgers.resident_ledger import ResidentLedger
from fleet.scheduler.ledgers.room_ledger import RoomLedger
from fleet.scheduler.load_requests import find_cpu_use, find_limit_excess
from fleet.scheduler.loop import Loop
from fleet.scheduler.pre_enqueue import LARGE, PreEnqueueRunner
from fleet.scheduler.preemption.placed_bindings import PlacedBindings
from fleet.scheduler.preemption.preemptions import Preemptions
from fleet.scheduler.priority_classes import PriorityClasses
from fleet.scheduler.profiles.frameworks import build_configured_frameworks, close_retired, describe_choice
from fleet.scheduler.queue.async_queue import AsyncQueue
from fleet.scheduler.queue.hints import QueueingHints
from fleet.scheduler.queue.item import QueueItem
from fleet.scheduler.queue.scheduling_queue import SchedulingQueue
from fleet.scheduler.queue.settings import QueueSettings
from fleet.scheduler.quotas.quota_ledger import QuotaLedger
from fleet.scheduler.quotas.quota_status import QuotaStatus
from fleet.scheduler.requests import RequestCache
from fleet.scheduler.reservations.shared_room import SharedRoom
from fleet.scheduler.telemetry.kubernetes_events import EventSink, SchedulingEvents
from fleet.scheduler.telemetry.metrics import PluginTimer, SchedulerMetrics
from fleet.scheduler.telemetry.preemption_reports import PreemptionReports
from fleet.settings import Settings
from fleet.snapshot.sidedata import FeedSample, PlacedBinding, ResidentGroup
from fleet.worker_thread import WorkerThread

PRIORITY_CHANGED: Final = "PriorityClass/Changed"
ROOM: Final = "room"
"""In READS of plugins."""
COMPILED: Final = "LargePolicy/Compiled"

log = structlog.get_logger(__name__)


class Scheduler:
    """Construct it before the caches are filled: its event handlers must receive everything."""

    def __init__(
        self,
        caches: Caches,
        settings: Settings,
        *,
        hub: Api,
        events: EventSink,
        metrics: SchedulerMetrics,
        recorder: Recorder,
        clock: Clock,
        jitter: Callable[[], float],
    ) -> None:
        """`hub` refuses writes while this process does not lead."""
        stores = [kinds.bindings.store for kinds in caches.kinds]
        self.recent = RecentPlacements(
            stores,
            loads_of=lambda: self.frameworks.list_loads(),
            use_of=lambda key, cluster: find_cpu_use(caches, self.companions, key, cluster),
            clock=clock,
        )
        limits = PlacedLimits(
            caches.kinds,
            is_read=lambda: self.frameworks.reads_placed_limits,
            excess_of=lambda key, cluster: find_limit_excess(caches, self.companions, key, cluster),
        )
        self.table = FleetTable(caches.clusters, self.recent, limits)
        self.parked = ParkedPlacements()
        self.companions = Companions(caches)
        self._residents = ResidentLedger(caches, self.companions.annotations_of, on_change=self._report_resident)
        self.table.read_residents = self._residents.read
        self._room = RoomLedger(
            caches,
            self.companions.requests_of,
            book=self.table.book,
            on_freed=self._report_freed,
            on_given_back=self._report_given_back,
            residents=self._residents,
        )
        self._shared_room = (
            SharedRoom(caches, self._room, owner=settings.leader_election.key, frame=self.table.frame, clock=clock)
            if settings.capacity.reservation == "Shared"
            else None
        )
        self._short_of_quota: set[PlacementKey] = set()
        """Placements whose last decision lacked quota, also those that take every cluster and do not wait."""
        self._short_of_room: set[PlacementKey] = set()
        """Placements whose last decision was rejected for it, also those that take every cluster and do not wait."""
        self._quotas = QuotaLedger(caches, self.companions.requests_of, on_change=self._report_quota_change)
        self._groups = Groups(
            caches,
            self.table,
            self.companions,
            self._quotas,
            requests_of=self.companions.requests_of,
            is_reserved=lambda cluster, key: self._room.find_reserved(cluster, key) is not None,
            clock=clock,
        )
        self._room.on_reservation = self._groups.note_reservation
        plugin_timer = PluginTimer(metrics)
        self._hook_calls = HookCalls(threads=settings.evaluation.parallelism, observe=metrics.observe_hook)
        self.frameworks = build_configured_frameworks(
            settings,
            with_snapshot_lister(self.table.frame),
            with_probe(plugin_timer),
            with_metrics_sampling(settings.metrics.sample_plugins),
            with_waiting_room(self.parked),
            with_hub_client(ClassedApi(hub, CallType.BIND.call_class)),
            with_watch_hub(SharedWatches(caches)),
            with_approval_facts(self._read_approval_facts),
            with_activation(self._activate),
            with_room(self._room),
            with_quotas(self._quotas),
            with_hook_caller(self._hook_calls),
            with_locks(ReadWriteLock),
            with_max_permit_wait(to_nanoseconds(settings.max_permit_wait_seconds)),
            *([with_debug()] if settings.evaluation.check_plugins else []),
        )
        self._residents.keep(is_wanted=self.frameworks.read_residents)
        self.epoch = 0
        """Of the leadership; set before `run`."""
        self._running_on: asyncio.AbstractEventLoop | None = None
        self._caches = caches
        requests = RequestCache(self.companions.scheduler_name_of, self.read_annotations, self.frameworks.reads_labels)
        self._thread = WorkerThread("decisions")
        self._compiler = BackgroundCompiler(requests, self._thread, self._enqueue_compiled)
        self._priority_classes = PriorityClasses(caches.priority_classes, self._refresh_priorities)
        self._pre_enqueue = PreEnqueueRunner(
            caches=caches,
            frameworks=self.frameworks,
            companions=self.companions,
            classes=self._priority_classes,
            requests=requests,
            compiler=self._compiler,
            find_group_gate=self._groups.find_gate,
            clock=clock,
        )
        self._placed = PlacedBindings(
            caches,
            self.table,
            companions=self.companions,
            classes=self._priority_classes,
            room=self._room,
            quotas=self._quotas,
            waits=self.parked,
            compares_room=self._compares_room,
        )
        self._placed.need(is_needed=self.frameworks.evict)
        hints = ClusterHints(
            caches,
            profile_of=self._profile_of_key,
            requests=requests,
            residents_of=self._residents.read,
            hint_of_quota=self._find_quota_hint,
            seeks_room=lambda key: self._preemptions.seeks_room(key) or self._is_undecided(key),
            clock=clock,
        )
        self._resident_hints = ResidentHints(
            self._residents,
            lambda: self._loop.attempts.list_undecided(),
            lambda key: self._loop.attempts.list_together(key),
            self._profile_of_key,
        )
        self._plugin_hints = PluginHints(
            profile_of=self._profile_of_key,
            compile_request=hints.compile_request,
            observe=metrics.observe_hint,
            clock=clock,
        )
        self._plugin_hints.register(framework.profile for framework in self.frameworks)
        self.queue = AsyncQueue(
            _build_queue(settings, self.frameworks.queue_sort.key, self._pre_enqueue, self._plugin_hints.registered),
            clock=clock,
            on_gated=self._report_gated,
        )
        self._events = SchedulingEvents(events)
        self._settings = settings
        self._dispatcher = Dispatcher(
            clock=clock, concurrency=settings.api.write_concurrency, on_executed=metrics.observe_call
        )
        for kinds in caches.kinds:
            self._dispatcher.follow(kinds.policy_snapshots.store)
            self._dispatcher.follow(kinds.bindings.store)
        retry_policy = RetryPolicy(clock, jitter)
        bindings = BindingWriter(
            dispatcher=self._dispatcher, retry_policy=retry_policy, on_write=metrics.count_binding_write
        )
        statuses = StatusWriter(
            dispatcher=self._dispatcher, retry_policy=retry_policy, clock=clock, on_write=metrics.count_status_write
        )
        self._orphans = Orphans(clock)
        self._releases = BindingReleases(bindings, self._enqueue_released, clock=clock, on_problem=_log_release_problem)
        self._sources = self.frameworks.event_sources
        self._eligibility_rules = self.frameworks.list_eligibility_rules()
        self.feeds = FeedCollector(settings.feeds, hub=hub, clock=clock, apply=self._feed, observe=metrics.count_sample)
        self._extenders = ExtenderClient(settings.extenders, observe=metrics.observe_extender)
        self._retired: list[tuple[CompiledProfile, set[PlacementKey]]] = []
        """Former profiles, and the placements whose attempts may still use them."""
        caches.clusters.subscribe(self._end_waits_for)
        self.companion_status = CompanionStatus(
            caches,
            self.companions,
            is_foreign=self._is_foreign,
            retry_policy=retry_policy,
            clock=clock,
        )
        self._quota_status = QuotaStatus(caches, self._quotas, retry_policy=retry_policy, clock=clock)
        self._group_status = GroupStatus(
            caches,
            self._groups,
            bindings=bindings,
            queue=self.queue,
            report_freed=self._report_room_given_up,
            retry_policy=retry_policy,
            clock=clock,
        )
        self._preemptions = Preemptions(
            caches,
            self.table,
            self._placed,
            evicts=lambda metadata: self._profile_of(metadata).evicts and not self._is_foreign(metadata),
            list_siblings=self._groups.list_siblings,
            bindings=bindings,
            store=self.companion_status,
            reports=PreemptionReports(
                caches=caches,
                enqueue=self._enqueue_answered,
                on_freed=self._report_preemption_ended,
                events=self._events,
                metrics=metrics,
            ),
            clock=clock,
        )
        self._groups.rooms = self._preemptions
        self._placed.on_budget = self._preemptions.resume
        self._placed.on_change, self._placed.call_soon = self._report_placed, self._flush_soon
        self._placed.is_awaited = lambda: bool(self._preemptions.list_seeking() or self._loop.attempts.list_undecided())
        self.parked.on_change = self._preemptions.note_wait
        self.companion_status.find_preemptor = self._preemptions.find
        self._approval_watch = ApprovalWatch(
            caches,
            self.parked,
            facts_of=self._read_approval_facts,
            list_rules=self._list_approval_rules,
            requeue=self._enqueue_answered,
            observe=metrics.count_approval,
            clock=clock,
        )
        self._handlers = EventHandlers(
            caches,
            WaitEndingQueue(self.queue, self.parked),
            sources_of=lambda _: self._sources,
            hints=hints if settings.queue.hints else None,
            feed_hints=FeedHints(self._profile_of_key, self.queue.find_rejectors, clock)
            if settings.queue.hints
            else None,
            offer=partial(self._plugin_hints.offer, self.queue) if settings.queue.hints else None,
            reads_labels=lambda placement: self._profile_of(placement).reads_residents,
            eligibility=EligibilityClock(lambda: self._eligibility_rules, clock),
            room=self._room,
            release=self._releases.add,
            orphans=self._orphans,
            on_event=metrics.observe_event,
            read_placed=self.table.find_placed,
            read_nominations=self.table.list_nominations,
            on_change=self._groups.wake_waiting,
            clock=clock,
            batched=settings.queue.mode == "batched",
        )
        self._loop = Loop(
            queue=self.queue,
            attempts=AttemptRunner(
                caches,
                self.frameworks,
                bindings=bindings,
                statuses=statuses,
                cleanup=Cleanup(bindings=bindings, orphans=self._orphans, retry_policy=retry_policy),
                cycles=BindingCycles(
                    bindings=bindings,
                    parked=self.parked,
                    store=self.companion_status,
                    ask=self._extenders.ask,
                    clock=clock,
                    observe_wait=metrics.observe_permit_wait,
                    hold_room=self._hold,
                    claim_room=None if self._shared_room is None else self._shared_room.claim,
                    requeue=lambda key, trigger: self.queue.add(key, trigger=trigger),
                ),
                events=self._events,
                clock=clock,
                reads_live=settings.bindings.read == "List",
                on_decided=plugin_timer.flush,
                requests=requests,
                companions=self.companions,
                extenders=self._extenders,
                end_hold=self._end_hold,
                note_end=self._note_end,
                note_decision=self._note_decision,
                note_gone=self._note_gone,
                quotas_of=self._read_quotas,
                thread=self._thread,
                recent=self.recent,
                preemptions=self._preemptions,
                groups=self._groups,
            ),
            list_siblings=self._list_siblings,
            begin_group=self._begin_group,
            track_attempt=self._track_attempt,
            recorder=recorder,
            metrics=metrics,
            clock=clock,
            max_delay=settings.queue.max_delay.seconds,
            slots=asyncio.Semaphore(settings.worker_count + settings.api.write_concurrency),
        )
        self._attach_metrics(metrics, caches)
        self._watch_companions()

    def _attach_metrics(self, metrics: SchedulerMetrics, caches: Caches) -> None:
        kinds = [informer.resource.kind for kinds in caches.kinds for informer in kinds]
        plugins = self.frameworks.judge_names
        feeds = [feed.name for feed in self._settings.feeds]
        metrics.initialize_series(kinds=[MEMBER_CLUSTERS.kind, *kinds], plugins=plugins, feeds=feeds)
        metrics.watch_queue(
            self.queue.count_items,
            by_plugin=self.queue.count_unschedulable_by_plugin,
            events=self.queue.list_recorded_events,
        )
        metrics.watch_calls(self._dispatcher.count_waiting)
        metrics.watch_caches(caches.sizes)
        metrics.watch_room(self._room.sum_booked)
        metrics.watch_quotas(self._quotas.list_used)
        metrics.watch_groups(lambda: list_states(self._groups))

    def reload(self, settings: Settings) -> None:
        """Exchange the profiles that differ: attempts in flight end with theirs, and what waits is tried again. Raises
        ConfigurationError, and has changed nothing then."""
        self._close_retired()
        prepared = self.frameworks.prepare(settings)
        self._extenders.reload(settings.extenders)
        self.feeds.reload(settings.feeds)
        in_flight = set(self._handlers.in_flight())
        self._retired += [(profile, set(in_flight)) for profile in prepared.install()]
        self._residents.keep(is_wanted=self.frameworks.read_residents)
        self._watch_companions()
        self._sources = self.frameworks.event_sources
        self._eligibility_rules = self.frameworks.list_eligibility_rules()
        self._plugin_hints.register(framework.profile for framework in self.frameworks)
        self._placed.need(is_needed=self.frameworks.evict)
        self._preemptions.reload()
        names, moved = prepared.names, prepared.moved_names
        self._handlers.reload(
            is_changed=lambda placement: self._profile_name_of(placement) in names,
            is_moved=lambda placement: self._choice_of(placement) in moved,
        )

    def _close_retired(self) -> None:
        still_used = []
        for profile, keys in self._retired:
            keys &= self._handlers.in_flight()
            if keys:
                still_used.append((profile, keys))
            else:
                close_retired(profile)
        self._retired = still_used

    async def run(self, stopping: asyncio.Event) -> None:
        """While this process leads, and after `stopping` until all attempts in flight have finished. That may take any
        time: cancel it to cut them off."""
        self._room.begin()
        if self._shared_room is not None:
            self._shared_room.begin()
        self._running_on = asyncio.get_running_loop()
        self._quotas.begin()
        self._groups.restore()
        self._preemptions.restore()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._dispatcher.run(), name="sending writes")
            releasing = group.create_task(self._releases.run(), name="releasing bindings")
            watching = group.create_task(self._priority_classes.watch.run(), name="priority classes")
            counting = group.create_task(self._placed.budgets.watch.run(), name="disruption budgets")
            compiling = group.create_task(self._compiler.run(), name="compiling large policies")
            scheduling = self._loop.run(self._settings.worker_count, epoch=self.epoch)
            working = group.create_task(scheduling, name="scheduling")
            sampling = group.create_task(self.feeds.run(), name="sampling feeds")
            await self.feeds.wait_until_tried()
            group.create_task(self.companion_status.run(), name="writing the status of options")
            group.create_task(self._approval_watch.run(), name="watching approvals")
            summing = group.create_task(self._quota_status.run(), name="writing the status of quotas")
            group.create_task(self._preemptions.run(), name="making room")
            group.create_task(self._group_status.run(), name="writing the status of groups")
            sharing = None if self._shared_room is None else group.create_task(self._shared_room.run())
            self._handlers.start()
            await stopping.wait()
            sampling.cancel()
            summing.cancel()
            if sharing is not None:
                sharing.cancel()
            compiling.cancel()
            self.queue.close()
            self.parked.close()
            self._releases.close()
            self.companion_status.close()
            self._approval_watch.close()
            self._preemptions.close()
            self._group_status.close()
            await asyncio.wait((working, releasing))
            watching.cancel()
            counting.cancel()
            self._dispatcher.close()

    def close(self) -> None:
        """Plugins and threads are created with the process, whether it ever leads or not."""
        self._thread.close()
        self._hook_calls.close()
        self.frameworks.close()

    def _feed(self, name: str, sample: FeedSample) -> None:
        before = self.table.frame()
        self.table.feed(name, sample)
        self._handlers.on_feed(name, before, self.table.frame())

    def _hold(self, key: PlacementKey) -> None:
        self._room.hold_room(key)
        self._quotas.hold(key)

    def _end_hold(self, key: PlacementKey) -> None:
        self._room.end_hold(key)
        self._quotas.end_hold(key)

    def _note_end(self, key: PlacementKey) -> None:
        self._room.settle(key)
        self._quotas.settle(key)
        for event, helped in self._resident_hints.settle(key):
            self._handlers.on_resident(key, event, helped)

    def _watch_companions(self) -> None:
        """Those that few profiles read."""
        if self.frameworks.reads_quotas:
            self._caches.watch_quotas()
        if self.frameworks.decide_groups:
            self._caches.watch_groups()

    def _list_siblings(self, key: PlacementKey) -> list[PlacementKey]:
        siblings = self._groups.list_siblings(key)
        return siblings if siblings and self._profile_of_key(key).decides_groups else []

    def _begin_group(self, key: PlacementKey, members: Iterable[PlacementKey]) -> GroupAttempt | None:
        group = self._groups.find_group(key)
        if group is None:
            return None
        profile = self._profile_of_key(key)
        if not profile.decides_groups:
            return None
        return GroupAttempt(group, members, store=self._groups, read_frame=self.table.frame, judge=profile.judge_group)

    def _read_quotas(self, key: PlacementKey) -> Quotas:
        if not self._caches.are_quotas_known:
            raise StaleInputs("the quotas were not read yet")
        return self._quotas.list_shares(key)

    def _note_decision(self, key: PlacementKey, profile: CompiledProfile, rejectors: frozenset[str]) -> None:
        self._resident_hints.note_decision(key, profile, rejectors)
        if profile.quota_readers.isdisjoint(rejectors):
            self._short_of_quota.discard(key)
        else:
            self._short_of_quota.add(key)
        if may_end_rejection(profile, rejectors, ROOM):
            self._short_of_room.add(key)
        else:
            self._short_of_room.discard(key)

    def _note_gone(self, key: PlacementKey) -> None:
        self._resident_hints.forget(key)
        self._short_of_quota.discard(key)
        self._short_of_room.discard(key)

    def _report_quota_change(self, giving: PlacementKey | None) -> None:
        self._handlers.on_quota_change(self._list_helped_by_quota(giving))
        self._groups.wake_waiting("PlacementQuota/Update", giving=giving)

    def _list_helped_by_quota(self, giving: PlacementKey | None) -> Iterator[PlacementKey]:
        """`giving` gave back itself what it had reserved."""
        undecided = (key for key in self._loop.attempts.list_undecided() if self._profile_of_key(key).reads_quotas)
        together = frozenset() if giving is None else self._loop.attempts.list_together(giving)
        short = {*self._short_of_quota, *undecided} - together
        yield from sorted(filter(self._quotas.has_room, short), key=str)

    def _report_freed(
        self,
        cluster: str,
        before: Booked,
        after: Booked,
        placement: PlacementKey,
        together: Set[PlacementKey] = frozenset(),
    ) -> None:
        self._handlers.on_freed(
            cluster,
            before,
            after,
            giving=placement,
            together=together,
            seeks=self._seeks_room,
            may_seek=self._may_seek_room,
        )

    def _report_given_back(self, cluster: str, before: Booked, after: Booked, placement: PlacementKey) -> None:
        """Those that are decided with it know what its attempt had reserved: they would give theirs back again."""
        self._report_freed(cluster, before, after, placement, self._loop.attempts.list_together(placement))

    def _report_room_given_up(self, cluster: str, requests: Booked, placement: PlacementKey) -> None:
        """It was kept for this placement."""
        booked = self._room.find_booked(cluster)
        before = {name: booked.get(name, 0) + requests.get(name, 0) for name in (*booked, *requests)}
        self._report_freed(cluster, before, booked, placement)

    def _report_preemption_ended(self, cluster: str, requests: Booked, placement: PlacementKey) -> None:
        """On that cluster."""
        self._groups.note_room(placement)
        self._report_room_given_up(cluster, requests, placement)

    def _flush_soon(self, flush: Callable[[], None]) -> None:
        if self._running_on is not None:
            self._running_on.call_soon(flush)

    def _report_placed(self, cluster: str, before: tuple[PlacedBinding, ...], decided: PlacementKey | None) -> None:
        seeking = dict.fromkeys((*self._preemptions.list_seeking(), *self._loop.attempts.list_undecided()))
        self._handlers.on_placed(cluster, before, [key for key in seeking if key != decided])

    def _is_undecided(self, key: PlacementKey) -> bool:
        return self._loop.attempts.find_rejectors(key) is None

    def _find_quota_hint(self, key: PlacementKey) -> Hint | None:
        """What it lacks of its quotas no cluster gives, except by bindings of others."""
        profile = self._profile_of_key(key)
        if not profile.reads_quotas:
            return None
        shares = self._quotas.list_shares(key)
        if profile.evicts and any(share.may_reclaim(0) for share in shares):
            return Hint.IN_DOUBT
        is_short = key in self._short_of_quota and not self.queue.is_in_flight(key)
        return Hint.NO_USE if shares and is_short and not self._quotas.has_room(key) else None

    def _seeks_room(self, key: PlacementKey) -> bool:
        """What other plugins have refused would be refused again, give its room back, and wake the next."""
        rejectors = self._find_rejectors(key)
        if rejectors is None:
            return key in self._short_of_room or self.queue.is_in_flight(key)
        return may_end_rejection(self._profile_of_key(key), rejectors, ROOM)

    def _may_seek_room(self, key: PlacementKey) -> bool:
        """It may lack room where another filter had refused its last attempt."""
        rejectors = self._find_rejectors(key)
        if not rejectors:
            return not self.queue.is_in_flight(key)
        return is_rejected_by_filters(self._profile_of_key(key), rejectors)

    def _report_resident(self, group: ResidentGroup, placement: PlacementKey, cluster: str, event: str) -> None:
        self._handlers.on_resident(placement, event, self._resident_hints.select(placement, group, cluster, event))
        if self._resident_hints.may_concern(group):
            may_help = partial(self._resident_hints.concerns, group=group)
            self._groups.wake_waiting(f"Resident/{event} {placement}", may_help, giving=placement)

    def _find_rejectors(self, key: PlacementKey) -> frozenset[str] | None:
        rejectors = self.queue.find_rejectors(key)
        if rejectors is None and self.queue.is_in_flight(key):
            return self._loop.attempts.find_rejectors(key)
        return rejectors

    def _compares_room(self, placement: Metadata) -> bool:
        """Whether it is scheduled here, by a profile that looks at room."""
        return not self._is_foreign(placement) and bool(self._profile_of(placement).list_judges_of(ROOM))

    def read_annotations(self, placement: Metadata) -> dict[str, str]:
        """What decisions read beside policies: also priorities, if a profile evicts."""
        annotations = self.companions.annotations_of(placement)
        if self._placed.is_needed:
            annotations |= self._priority_classes.describe(self.companions.find(PlacementKey.of(placement)), placement)
        return annotations

    def _track_attempt(self, key: PlacementKey) -> AbstractContextManager[Set[str]]:
        self.companion_status.report_gate(key, None)
        return self._handlers.track_attempt(key)

    def in_flight(self) -> set[str]:
        """Placements that are being scheduled, and bindings that are being released."""
        return {*map(str, self._handlers.in_flight()), *self._releases.in_flight()}

    def reads_requests(self, placement: Metadata) -> bool:
        """Whether the profile of the placement reads what its workloads request."""
        return self._profile_of(placement).reads_requests and not self._is_foreign(placement)

    def reads_limits(self, placement: Metadata) -> bool:
        """Whether it reads their limits, too."""
        return self._profile_of(placement).reads_limits

    def _profile_of(self, placement: Metadata | None) -> CompiledProfile:
        """The profile that decides about the placement."""
        return self.frameworks.choose("" if placement is None else self.companions.scheduler_name_of(placement)).profile

    def _profile_of_key(self, key: PlacementKey) -> CompiledProfile:
        if (only := self.frameworks.only) is not None:
            return only.profile
        placement = self._caches.placement(key)
        return self._profile_of(None if placement is None else placement.view.metadata)

    def _profile_name_of(self, placement: Metadata | None) -> str:
        return self._profile_of(placement).scheduler_name

    def _choice_of(self, placement: Metadata | None) -> str:
        """The profile that it names, whether that is served here or not."""
        return describe_choice("" if placement is None else self.companions.scheduler_name_of(placement))

    def _refresh_priorities(self, class_name: str) -> None:
        """Of the placements that wait: they rank by it, or are held no longer, and are not tried again otherwise."""
        users = list(self._pre_enqueue.list_users(class_name))
        self._placed.note(users)
        self._handlers.refresh(users)
        self._preemptions.resume()
        self.queue.refresh(users, trigger=PRIORITY_CHANGED)

    def _activate(self, placement: str) -> None:
        """For plugins. A process that begins to lead tries all placements anyway."""
        if self._running_on is not None:
            self._running_on.call_soon_threadsafe(self.queue.activate, (PlacementKey.parse(placement),))

    def _enqueue_compiled(self, key: PlacementKey) -> None:
        """PreEnqueue is run again, if it is still what the placement waits for."""
        self.queue.refresh((key,), trigger=COMPILED)

    def _report_gated(self, item: QueueItem) -> None:
        placement = self._caches.placement(item.key)
        self.companion_status.report_gate(item.key, item.gate)
        if placement is not None and item.gate is not None:
            if item.gate.plugin != LARGE:  # which ends by itself
                self._groups.note_gated(item.key, item.gate.message)
            self._events.report_gated(self._caches.kinds_of(item.key), placement, item.gate.message)

    def _end_waits_for(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        if old is not None and (new is None or new.metadata.deletion_timestamp):
            self.parked.end_departed(old.metadata.name)

    def _is_foreign(self, placement: Metadata) -> bool:
        return self.frameworks.is_foreign(self.companions.scheduler_name_of(placement))

    def _read_approval_facts(self, key: PlacementKey | str) -> ApprovalFacts:
        known = PlacementKey.parse(key) if isinstance(key, str) else key
        return read_approval_facts(self._caches, self.companions, known)

    def _list_approval_rules(self, key: PlacementKey, facts: ApprovalFacts) -> list[ApprovalRule]:
        placement = self._caches.placement(key)
        return list_approval_rules(self._profile_of(None if placement is None else placement.view.metadata), facts)

    def _enqueue_answered(self, key: PlacementKey, trigger: str) -> None:
        self.queue.add(key, trigger=trigger)

    def _enqueue_released(self, key: PlacementKey) -> None:
        self.queue.add(key, trigger="Binding/Released")


class WaitEndingQueue:
    """The queue as event handlers see it: a placement that is added has changed, and does not wait any longer for
    permission to be what it was."""

    def __init__(self, queue: AsyncQueue, parked: ParkedPlacements) -> None:
        self._queue, self._parked = queue, parked

    def __contains__(self, key: PlacementKey) -> bool:
        return key in self._queue

    def add(self, key: PlacementKey, *, trigger: str) -> None:
        self._queue.add(key, trigger=trigger)
        self._parked.end(key, trigger)

    def requeue(self, keys: Iterable[PlacementKey], *, trigger: str, batched: bool = False) -> None:
        self._queue.requeue(keys, trigger=trigger, batched=batched)


def _build_queue(
    settings: Settings,
    order: Callable[[Any], Any],
    pre_enqueue: PreEnqueueRunner,
    hints: QueueingHints,
) -> SchedulingQueue:
    queue = settings.queue
    return SchedulingQueue(
        settings=QueueSettings(
            initial_backoff=queue.initial_backoff_seconds,
            max_backoff=queue.max_backoff_seconds,
            max_in_unschedulable=queue.max_in_unschedulable_seconds,
            early_pop=queue.early_pop,
            base_delay=queue.base_delay.seconds,
            max_delay=queue.max_delay.seconds,
            rate=queue.rate.per_second,
            burst=queue.burst,
            batch_period=queue.batch_period.seconds if queue.mode == "batched" else 0.0,
        ),
        hints=hints,
        describe=pre_enqueue.describe,
        order=order,
        pre_enqueue=pre_enqueue.find_gate,
    )


def _log_release_problem(binding: str, error: Exception) -> None:
    log.warning("a binding could not be released and is tried again", binding=binding, error=str(error))
