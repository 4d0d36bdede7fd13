"""Scheduler: the components between watched objects and written decisions, and their life cycle."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from fleet.clock import Clock
from fleet.framework.profiles.profile import CompiledProfile
from fleet.framework.runtime.framework import with_probe, with_snapshot_lister
from fleet.informers.cache import Caches, FleetTable
from fleet.kube.objects import RetryPolicy
from fleet.kube.scopes import MEMBER_CLUSTERS
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Metadata
from fleet.scheduler.attempt import AttemptRunner
from fleet.scheduler.attempt_record import Recorder
from fleet.scheduler.cleanup import BindingReleases, Cleanup
from fleet.scheduler.dispatch.binding_calls import BindingWriter
from fleet.scheduler.dispatch.dispatcher import Dispatcher
from fleet.scheduler.dispatch.status_calls import StatusWriter
from fleet.scheduler.events.cluster_hints import ClusterHints
from fleet.scheduler.events.event_handlers import EligibilityClock, EventHandlers
from fleet.scheduler.loop import Loop
from fleet.scheduler.profiles import build_configured_frameworks, build_eligibility, close_retired, read_scheduler_name
from fleet.scheduler.queue.item import BACKOFF_POLICY, DEFAULT_POLICY, PlacementTraits
from fleet.scheduler.queue.scheduling_queue import AsyncQueue, SchedulingQueue
from fleet.scheduler.queue.settings import QueueSettings
from fleet.scheduler.requests import RequestCache
from fleet.scheduler.telemetry.kubernetes_events import EventSink, SchedulingEvents
from fleet.scheduler.telemetry.metrics import PluginTimer, SchedulerMetrics
from fleet.settings import Settings

log = structlog.get_logger(__name__)


class Scheduler:
    """Construct it before the caches are filled: its event handlers must receive everything."""

    def __init__(
        self,
        caches: Caches,
        settings: Settings,
        *,
        events: EventSink,
        metrics: SchedulerMetrics,
        recorder: Recorder,
        clock: Clock,
        jitter: Callable[[], float],
    ) -> None:
        self.table = FleetTable(caches.clusters)
        plugin_timer = PluginTimer(metrics)
        self.frameworks = build_configured_frameworks(
            settings, with_snapshot_lister(self.table.frame), with_probe(plugin_timer)
        )
        self.queue = AsyncQueue(_build_queue(settings, self.frameworks.queue_sort.key, self._describe), clock=clock)
        self._caches = caches
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
        self._releases = BindingReleases(bindings, self._enqueue_released, clock=clock, on_problem=_log_release_problem)
        requests, self._sources = RequestCache(), self.frameworks.event_sources
        self._retired: list[tuple[CompiledProfile, set[PlacementKey]]] = []
        """Former profiles, and the placements whose attempts may still use them."""
        hints = ClusterHints(caches, profile_of=self._profile_of, requests=requests, clock=clock)
        self._handlers = EventHandlers(
            caches,
            self.queue,
            sources_of=lambda _: self._sources,
            hints=hints if settings.queue.hints else None,
            eligibility=EligibilityClock(build_eligibility(settings.eligibility), clock),
            release=self._releases.add,
            on_event=metrics.observe_event,
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
                cleanup=Cleanup(bindings=bindings, retry_policy=retry_policy),
                events=SchedulingEvents(events),
                clock=clock,
                reads_live=settings.bindings.read == "List",
                on_decided=plugin_timer.flush,
                requests=requests,
            ),
            track_attempt=self._handlers.track_attempt,
            recorder=recorder,
            metrics=metrics,
            clock=clock,
            max_delay=settings.queue.max_delay.seconds,
        )
        self._attach_metrics(metrics, caches)

    def _attach_metrics(self, metrics: SchedulerMetrics, caches: Caches) -> None:
        kinds = [informer.resource.kind for kinds in caches.kinds for informer in kinds]
        plugins = self.frameworks.judge_names
        metrics.initialize_series(kinds=[MEMBER_CLUSTERS.kind, *kinds], plugins=plugins)
        metrics.watch_queue(
            self.queue.count_items,
            by_plugin=self.queue.count_unschedulable_by_plugin,
            events=self.queue.list_recorded_events,
        )
        metrics.watch_calls(self._dispatcher.count_waiting)
        metrics.watch_caches(caches.sizes)

    def reload(self, settings: Settings) -> tuple[str, ...]:
        """Exchange the profiles that differ: attempts in flight end with theirs, and what waits is tried again. Returns
        what needs a restart. Raises ConfigurationError, and has changed nothing then."""
        self._close_retired()
        prepared = self.frameworks.prepare(settings)
        in_flight = set(self._handlers.in_flight())
        self._retired += [(profile, set(in_flight)) for profile in prepared.install()]
        self._sources = self.frameworks.event_sources
        self._handlers.reload(lambda placement: self._profile_name_of(placement) in prepared.names)
        return prepared.needs_restart

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
        async with asyncio.TaskGroup() as group:
            group.create_task(self._dispatcher.run(), name="sending writes")
            releasing = group.create_task(self._releases.run(), name="releasing bindings")
            working = group.create_task(self._loop.run(self._settings.worker_count), name="scheduling")
            self._handlers.start()
            await stopping.wait()
            self.queue.close()
            self._releases.close()
            await asyncio.wait((working, releasing))
            self._dispatcher.close()

    def in_flight(self) -> set[str]:
        """Placements that are being scheduled, and bindings that are being released."""
        return {*map(str, self._handlers.in_flight()), *self._releases.in_flight()}

    def _profile_of(self, placement: Metadata | None) -> CompiledProfile:
        """The profile that decides about the placement."""
        return self.frameworks.choose("" if placement is None else read_scheduler_name(placement)).profile

    def _profile_name_of(self, placement: Metadata | None) -> str:
        return self._profile_of(placement).scheduler_name

    def _describe(self, key: PlacementKey) -> PlacementTraits:
        placement = self._caches.placement(key)
        backs_off = self._profile_of(None if placement is None else placement.view.metadata).backoff_on_rejection
        return PlacementTraits(uid=str(key), policy=BACKOFF_POLICY if backs_off else DEFAULT_POLICY)

    def _enqueue_released(self, key: PlacementKey) -> None:
        self.queue.add(key, trigger="Binding/Released")


def _build_queue(
    settings: Settings, order: Callable[[Any], Any], describe: Callable[[PlacementKey], PlacementTraits]
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
        describe=describe,
        order=order,
    )


def _log_release_problem(binding: str, error: Exception) -> None:
    log.warning("a binding could not be released and is tried again", binding=binding, error=str(error))
