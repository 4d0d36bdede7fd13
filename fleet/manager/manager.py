"""The manager: runs informers, leader election and controllers, and gates writes.

Informers start at once; controllers start when this process leads, after all caches have been refreshed. Shutdown is
ordered: controllers take no new keys and finish those in flight, or are cancelled after a grace period, then the lease
is released. It is not released while the server may still apply one of our writes: then it expires. Losing the lease
ends the process; after a restart it continues from the state on the hub.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Set
from typing import Final, Protocol

import structlog
from prometheus_client import CollectorRegistry

from fleet.clock import Clock, SystemClock, epoch_nanoseconds
from fleet.errors import Unreachable
from fleet.eventloop import leave_out_present_objects
from fleet.informers.cache import Caches
from fleet.kube.api import Api, WriteGate
from fleet.kube.backoff import JITTER, Jitter
from fleet.kube.cache.reflector import UnreadableObject, WatchProblem
from fleet.kube.events import EventRecorder
from fleet.kube.informer import InformerConfig
from fleet.kube.leader_election import FencedApi, LeaderElector, Leadership, LeaseDurations, unique_identity
from fleet.kube.resource import Resource, key_of
from fleet.model.views import Metadata
from fleet.placement.metrics import PlacementMetrics
from fleet.placement.setup import build_placement_controller
from fleet.scheduler.attempt_record import NoRecorder, Recorder
from fleet.scheduler.loop import shorten_names
from fleet.scheduler.profiles.description import render_profile_page
from fleet.scheduler.scheduler import Scheduler
from fleet.scheduler.telemetry.metrics import SchedulerMetrics, new_registry
from fleet.scheduler.telemetry.scrape_gauges import ScrapeGauges
from fleet.settings import Settings

PLACEMENT: Final = "placement"
SCHEDULER: Final = "scheduler"
CONTROLLERS: Final = frozenset({PLACEMENT, SCHEDULER})

SCHEDULER_COMPONENT: Final = "fleet-scheduler"
PLACEMENT_COMPONENT: Final = "fleet-placement-controller"
"""Reporting components of Kubernetes events."""

log = structlog.get_logger(__name__)


class Runnable(Protocol):
    async def run(self, stopping: asyncio.Event) -> None:
        """Runs until `stopping` is set and the keys in flight are finished."""

    def in_flight(self) -> Set[str]:
        """Keys being processed."""


_LEADER: Final = "fleet_leader"
_WORKING: Final = "fleet_working"
_SCRAPED: Final = (
    (_LEADER, "Whether this process holds the lease: 1 or 0.", ("lease",)),
    (_WORKING, "Whether its controllers are running: 1 or 0.", ()),
)


class LeadershipMetrics:
    """Gauges about leadership and running controllers, for an alert on a hub without a leader.

    Probes do not show this: a standby is as ready as the leader, and a leader that still waits for its caches holds the
    lease.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._gauges = ScrapeGauges(registry, _SCRAPED)

    def watch_lease(self, key: str, is_held: Callable[[], bool]) -> None:
        """With leader election only. `key` is the namespace and name of the lease."""
        self._gauges.attach(_LEADER, lambda: {(key,): float(is_held())})

    def watch_work(self, is_working: Callable[[], bool]) -> None:
        self._gauges.attach(_WORKING, lambda: {(): float(is_working())})


class Manager:
    """One candidate for the lease or, without `elects`, the only instance."""

    def __init__(
        self,
        api: Api,
        settings: Settings,
        *,
        controllers: Collection[str] = CONTROLLERS,
        elects: bool = True,
        recorder: Recorder | None = None,
        clock: Clock | None = None,
        jitter: Jitter = JITTER,
        identity: str | None = None,
    ) -> None:
        self.settings = settings
        self.registry = new_registry()
        self._clock = clock or SystemClock()
        self._elects = elects
        self._identity = identity or unique_identity()
        self._api = api
        self._jitter = jitter
        self._gate = WriteGate(api, clock=self._clock)
        self._leads = False
        self._leadership: Leadership | None = None
        self._stopping = asyncio.Event()
        self._working = asyncio.Event()
        self.is_cut_off = False
        """Whether keys in flight were cancelled at shutdown."""
        self._register_metrics()
        access = InformerConfig(
            reads=api, writes=self._gate, clock=self._clock, jitter=jitter, on_problem=_log_watch_problem
        )
        self.caches = Caches(
            access,
            namespaced_placements=settings.resource_placements.enabled,
            watches_reservations=SCHEDULER in controllers and settings.capacity.reservation == "Shared",
            cluster_selector=settings.capacity.cluster_selector,
        )
        self.events = EventRecorder(self._gate, clock=self._clock, component=SCHEDULER_COMPONENT)
        self._placement_events = EventRecorder(self._gate, clock=self._clock, component=PLACEMENT_COMPONENT)
        self.scheduler = (
            Scheduler(
                self.caches,
                settings,
                hub=self._gate,
                events=self.events,
                metrics=SchedulerMetrics(self.registry, clock=self._clock),
                recorder=recorder or NoRecorder(),
                clock=self._clock,
                jitter=jitter,
            )
            if SCHEDULER in controllers
            else None
        )
        self.placements = (
            build_placement_controller(
                self.caches,
                access,
                settings,
                events=self._placement_events,
                metrics=PlacementMetrics(self.registry),
                reads_requests=self._reads_requests,
                reads_limits=self._reads_limits,
            )
            if PLACEMENT in controllers
            else None
        )

    def find_page(self, path: str) -> bytes | None:
        """Of `/v1/profiles`, where a scheduler runs."""
        return None if self.scheduler is None else render_profile_page(self.scheduler.frameworks, path)

    def reload(self, settings: Settings) -> None:
        """Exchange the profiles that differ. Raises ConfigurationError, and has changed nothing then."""
        if self.scheduler is None:
            return
        before = self.scheduler.frameworks.list_request_readers()
        self.scheduler.reload(settings)
        if self.placements is not None and self.scheduler.frameworks.list_request_readers() != before:
            for kinds in self.caches.kinds:
                for placement in kinds.placements.store.values():
                    self.placements.enqueue(key_of(placement.view.metadata))

    def _reads_requests(self, placement: Metadata) -> bool:
        return self.scheduler is not None and self.scheduler.reads_requests(placement)

    def _reads_limits(self, placement: Metadata) -> bool:
        return self.scheduler is not None and self.scheduler.reads_limits(placement)

    async def run(self) -> None:
        """Until `stop` is called, or the lease is lost (LeadershipLost)."""
        try:
            await self._run()
        finally:
            if self.scheduler is not None:
                self.scheduler.close()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            background = [
                group.create_task(self.caches.run(), name="informers"),
                group.create_task(self.events.run(), name="sending events"),
                group.create_task(self._placement_events.run(), name="sending events of placements"),
            ]
            try:
                await self._run_elected()
            finally:
                for task in background:
                    task.cancel()

    def stop(self) -> None:
        """Starts an ordered shutdown."""
        self._stopping.set()

    async def ready(self) -> None:
        """Returns once the caches are synced and the controllers run."""
        await self._working.wait()

    @property
    def is_working(self) -> bool:
        return self._working.is_set()

    def list_unsynced(self) -> list[str]:
        """Kinds whose informers are not synced yet; empty when the process is ready."""
        return self.caches.list_unsynced()

    # --- leading ------------------------------------------------------------------------------------------------------

    def _register_metrics(self) -> None:
        metrics = LeadershipMetrics(self.registry)
        metrics.watch_work(self._working.is_set)
        if self._elects:
            metrics.watch_lease(self.settings.leader_election.key, self._holds_lease)

    @property
    def api(self) -> Api:
        """For answers of callers, which are written whether this process leads or not."""
        return self._api

    @property
    def hub(self) -> Api:
        """For reads; writes need the lease."""
        return self._gate

    def _holds_lease(self) -> bool:
        return self._leadership is not None and self._leadership.remaining > 0

    async def _run_elected(self) -> None:
        if not self._elects:
            await self._run_controllers(None)
            return
        leading = self.settings.leader_election
        election = LeaderElector(
            self._api,
            leading.key,
            identity=self._identity,
            clock=self._clock,
            jitter=self._jitter,
            terms=LeaseDurations(*leading.terms()),
            on_problem=lambda error: log.warning("the lease could not be read or written", error=str(error)),
            may_release=self._may_release,
        )
        await self._run_unless_stopping(election.lead(self._run_controllers), only_while=lambda: not self._leads)

    async def _run_controllers(self, leadership: Leadership | None) -> None:
        self._leads = True
        self._leadership = leadership
        if not await self._run_unless_stopping(self._catch_up()):
            return
        self._gate.open(None if leadership is None else FencedApi(self._api, leadership))
        if self.scheduler is not None:
            self.scheduler.epoch = epoch_nanoseconds(self._clock) // 1000 if leadership is None else leadership.epoch
        log.info("leader: controllers started", identity=self._identity)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(worker.run(self._stopping)) for worker in self._iter_controllers()]
                self._working.set()
                await self._stopping.wait()
                await self._wait_for_controllers(tasks)
        finally:
            self._working.clear()
            self._gate.close()

    def _iter_controllers(self) -> Iterator[Runnable]:
        if self.scheduler is not None:
            yield self.scheduler
        if self.placements is not None:
            yield self.placements

    async def _wait_for_controllers(self, tasks: Iterable[asyncio.Task[None]]) -> None:
        """Takes at most the grace period, even if the server does not respond."""
        grace = self.settings.shutdown.grace_period.seconds
        try:
            async with asyncio.timeout(grace):
                for task in tasks:
                    await asyncio.wait((task,))
                await asyncio.gather(self.events.flush(), self._placement_events.flush())
        except TimeoutError:
            self._cancel_in_flight(tasks, after=grace)

    def _cancel_in_flight(self, tasks: Iterable[asyncio.Task[None]], *, after: float) -> None:
        placements = sorted({key for worker in self._iter_controllers() for key in worker.in_flight()})
        if placements:
            self.is_cut_off = True
            log.warning(
                "grace period exceeded: placements in flight are cancelled, and the next leader reconciles them",
                after_seconds=after,
                placements=shorten_names(placements),
                writes=shorten_names(self._gate.list_unsettled()),
            )
        for task in tasks:
            task.cancel()

    def _may_release(self) -> bool:
        writes = self._gate.list_unsettled()
        if writes:
            log.warning(
                "not releasing the lease: writes may still be in flight",
                writes=shorten_names(writes),
                seconds=self.settings.leader_election.lease_duration.seconds,
            )
        return not writes

    async def _catch_up(self) -> None:
        """Refreshes the caches after winning the lease: a list begun earlier may lack the last writes of the former
        leader."""
        await (self.caches.refresh() if self._elects else self.caches.wait_until_synced())
        leave_out_present_objects(completely=True)  # a standby may have waited for days

    async def _run_unless_stopping(
        self, work: Coroutine[None, None, None], *, only_while: Callable[[], bool] = lambda: True
    ) -> bool:
        """Runs the work, cancelled on `stop`; returns whether it completed."""
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and only_while():
                task.cancel()
            await asyncio.wait({task})
        finally:
            stop.cancel()
            task.cancel()
            await asyncio.wait({task})
        if task.cancelled():
            return False
        task.result()
        return True


def _log_watch_problem(resource: Resource, problem: WatchProblem) -> None:
    if isinstance(problem, UnreadableObject):
        log.error("cannot decode object", kind=resource.kind, object=problem.key, error=str(problem.error))
    elif isinstance(problem, Unreachable):
        log.warning(
            "cannot reach the API server, retrying: check that it runs, and the server in the kubeconfig",
            kind=resource.kind,
            error=str(problem),
        )
    else:
        log.warning("watch failed, retrying", kind=resource.kind, error=str(problem))
