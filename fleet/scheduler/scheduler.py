"""The scheduler, put together: from watched objects to written decisions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from fleet.clock import Clock
from fleet.framework.runtime.options import with_probe, with_snapshot_lister
from fleet.informers.cache import Caches
from fleet.informers.cluster_table import FleetTable
from fleet.kube.patch import RetryPolicy
from fleet.kube.scopes import MEMBER_CLUSTERS
from fleet.scheduler.attempt import Attempts
from fleet.scheduler.attempt_record import Recorder
from fleet.scheduler.cleanup import BindingReleases, Cleanup
from fleet.scheduler.dispatch.binding_writes import BindingWrites
from fleet.scheduler.dispatch.dispatcher import Dispatcher
from fleet.scheduler.dispatch.status_writes import StatusWrites
from fleet.scheduler.dispatch.writing import Writing
from fleet.scheduler.events.eligibility_clock import EligibilityClock
from fleet.scheduler.events.event_handlers import EventHandlers
from fleet.scheduler.loop import Loop
from fleet.scheduler.profiles import build_framework
from fleet.scheduler.queue.async_queue import AsyncQueue
from fleet.scheduler.queue.scheduling_queue import SchedulingQueue
from fleet.scheduler.queue.timing import QueueSettings
from fleet.scheduler.telemetry.kubernetes_events import EventSink, SchedulingEvents
from fleet.scheduler.telemetry.metrics import PluginTimer, SchedulerMetrics
from fleet.settings import Settings
from fleet.snapshot.eligibility import Eligibility

log = structlog.get_logger(__name__)


class Scheduler:
    """Make it before the caches are read: it has to hear of everything."""

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
        self.framework = build_framework(settings, with_snapshot_lister(self.table.frame), with_probe(plugin_timer))
        self.queue = AsyncQueue(_queue_of(settings, self.framework.queue_sort_func().key), clock=clock)
        self._settings = settings
        retry_policy = RetryPolicy(clock, jitter)
        self._dispatcher = Dispatcher(
            clock=clock, concurrency=settings.api.write_concurrency, on_executed=metrics.observe_call
        )
        for kinds in caches.kinds:
            self._dispatcher.follow(kinds.policy_snapshots.store)
            self._dispatcher.follow(kinds.bindings.store)
        bindings = BindingWrites(
            dispatcher=self._dispatcher, retry_policy=retry_policy, on_write=metrics.count_binding_write
        )
        writing = Writing(
            bindings=bindings,
            statuses=StatusWrites(
                dispatcher=self._dispatcher, retry_policy=retry_policy, clock=clock, on_write=metrics.count_status_write
            ),
            cleanup=Cleanup(dispatcher=self._dispatcher, retry_policy=retry_policy),
            retry_policy=retry_policy,
        )
        chosen = settings.eligibility.model_dump(include={"heartbeat_timeout", "unhealthy_timeout"})
        self._releases = BindingReleases(bindings, self._released, clock=clock, on_problem=_tell_release)
        self._handlers = EventHandlers(
            caches,
            self.queue,
            eligibility=EligibilityClock(Eligibility.parse(**chosen), clock),
            release=self._releases.add,
            on_event=metrics.observe_event,
            clock=clock,
            batched=settings.queue.mode == "batched",
        )
        self._loop = Loop(
            queue=self.queue,
            attempts=Attempts(
                caches,
                self.framework,
                writing,
                reports=SchedulingEvents(events),
                clock=clock,
                reads_live=settings.bindings.read == "List",
                on_decided=plugin_timer.flush,
            ),
            track_attempt=self._handlers.track_attempt,
            recorder=recorder,
            metrics=metrics,
            clock=clock,
            max_delay=settings.queue.max_delay.seconds,
        )
        metrics.initialize_series(
            kinds=_kinds_of(caches), plugins=[plugin.name for plugin in self.framework.profile.judges]
        )
        metrics.watch_queue(
            self.queue.count_items,
            by_plugin=self.queue.count_unschedulable_by_plugin,
            events=self.queue.list_recorded_events,
        )
        metrics.watch_calls(self._dispatcher.counts)
        metrics.watch_caches(caches.sizes)

    async def run(self, stopping: asyncio.Event) -> None:
        """From the moment this process leads until it is asked to stop and what was begun is finished. It may take any
        time to finish: cancel it, and everything under way is cut off."""
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

    def in_work(self) -> set[str]:
        """Placements that are being decided, and bindings that are being released."""
        return {*self._handlers.in_flight(), *self._releases.in_work()}

    def _released(self, key: str) -> None:
        self.queue.add(key, trigger="Binding/Released")


def _queue_of(settings: Settings, order: Callable[[Any], Any]) -> SchedulingQueue:
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
        order=order,
    )


def _kinds_of(caches: Caches) -> list[str]:
    return [MEMBER_CLUSTERS.kind, *(watched.resource.kind for kinds in caches.kinds for watched in kinds)]


def _tell_release(binding: str, error: Exception) -> None:
    log.warning("a binding could not be released and is tried again", binding=binding, error=str(error))
