"""The controller: what is watched, who works on it, and when it may write.

Watching starts at once; work starts when this process leads, after everything has been read anew. It ends in order:
nothing new is taken, what runs is finished or, after a grace period, cut off, then the lease is given back. It is not
given back while the server may yet carry out a write of ours: then it expires. Losing the lease ends the process:
whoever starts it again starts from what the hub has.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Set
from typing import Final, Protocol

import structlog

from fleet.clock import Clock, SystemClock
from fleet.errors import Unreachable
from fleet.informers.cache import Caches
from fleet.kube.api import Api
from fleet.kube.backoff import JITTER, Jitter
from fleet.kube.cache.reflector import UnreadableObject, WatchProblem
from fleet.kube.events import EventRecorder
from fleet.kube.informer import InformerConfig, WriteGate
from fleet.kube.leader_election import LeaderElector, Leadership, LeaseDurations, unique_identity
from fleet.kube.resource import Resource
from fleet.manager.leader_metrics import LeadershipMetrics
from fleet.placement.metrics import PlacementMetrics
from fleet.placement.setup import build_placement_controller
from fleet.scheduler.attempt_record import NoRecorder, Recorder
from fleet.scheduler.loop import shorten_names
from fleet.scheduler.profiles import close_plugins
from fleet.scheduler.scheduler import Scheduler
from fleet.scheduler.telemetry.metrics import SchedulerMetrics, new_registry
from fleet.settings import Settings

PLACEMENT: Final = "placement"
SCHEDULER: Final = "scheduler"
CONTROLLERS: Final = frozenset({PLACEMENT, SCHEDULER})

SCHEDULER_COMPONENT: Final = "fleet-scheduler"
PLACEMENT_COMPONENT: Final = "fleet-placement-controller"
"""Who events come from."""

log = structlog.get_logger(__name__)


class Worker(Protocol):
    async def run(self, stopping: asyncio.Event) -> None:
        """Until `stopping` is set and what was begun is finished."""

    def in_flight(self) -> Set[str]:
        """What was begun."""


class Manager:
    """One candidate for the lease, or, without `elects`, the only one there is."""

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
        """Whether work had to be abandoned at the end."""
        self._tell_leadership()
        access = InformerConfig(
            reads=api, writes=self._gate, clock=self._clock, jitter=jitter, on_problem=_tell_problem
        )
        self.caches = Caches(access, namespaced_placements=settings.resource_placements.enabled)
        self.events = EventRecorder(self._gate, clock=self._clock, component=SCHEDULER_COMPONENT)
        self._placement_events = EventRecorder(self._gate, clock=self._clock, component=PLACEMENT_COMPONENT)
        self.scheduler = (
            Scheduler(
                self.caches,
                settings,
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
            )
            if PLACEMENT in controllers
            else None
        )

    async def run(self) -> None:
        """Until `stop` is called, or the lease is lost (LeadershipLost)."""
        try:
            await self._run()
        finally:
            if self.scheduler is not None:  # its plugins were made with the process, whether it ever led or not
                close_plugins(self.scheduler.framework)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            beside = [
                group.create_task(self.caches.run(), name="watching"),
                group.create_task(self.events.run(), name="sending events"),
                group.create_task(self._placement_events.run(), name="sending events of placements"),
            ]
            try:
                await self._lead()
            finally:
                for task in beside:
                    task.cancel()

    def stop(self) -> None:
        """Finish what runs, and end."""
        self._stopping.set()

    async def ready(self) -> None:
        """Returns once everything is synced and work has begun."""
        await self._working.wait()

    @property
    def is_working(self) -> bool:
        return self._working.is_set()

    def missing(self) -> list[str]:
        """What is not there yet before this process could work at once; empty when it is ready."""
        return self.caches.list_unsynced()

    # --- leading ------------------------------------------------------------------------------------------------------

    def _tell_leadership(self) -> None:
        metrics = LeadershipMetrics(self.registry)
        metrics.watch_work(self._working.is_set)
        if self._elects:
            metrics.watch_lease(self.settings.leader_election.key, self._holds_lease)

    def _holds_lease(self) -> bool:
        return self._leadership is not None and self._leadership.remaining > 0

    async def _lead(self) -> None:
        if not self._elects:
            await self._work(None)
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
            may_release=self._is_settled,
        )
        await self._unless_stopping(election.lead(self._work), only_while=lambda: not self._leads)

    async def _work(self, leadership: Leadership | None) -> None:
        self._leads = True
        self._leadership = leadership
        if not await self._unless_stopping(self._caught_up()):
            return
        self._gate.open(leadership)
        log.info("working", identity=self._identity)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(worker.run(self._stopping)) for worker in self._workers()]
                self._working.set()
                await self._stopping.wait()
                await self._finish(tasks)
        finally:
            self._working.clear()
            self._gate.close()

    def _workers(self) -> Iterator[Worker]:
        if self.scheduler is not None:
            yield self.scheduler
        if self.placements is not None:
            yield self.placements

    async def _finish(self, tasks: Iterable[asyncio.Task[None]]) -> None:
        """Within the grace period, whatever the server does."""
        grace = self.settings.shutdown.grace_period.seconds
        try:
            async with asyncio.timeout(grace):
                for task in tasks:
                    await asyncio.wait((task,))
                await asyncio.gather(self.events.flush(), self._placement_events.flush())
        except TimeoutError:
            self._cut_off(tasks, after=grace)

    def _cut_off(self, tasks: Iterable[asyncio.Task[None]], *, after: float) -> None:
        placements = sorted({key for worker in self._workers() for key in worker.in_flight()})
        if placements:
            self.is_cut_off = True
            log.warning(
                "the grace period is over: what was begun is cut off, and whoever leads next takes it up again",
                after_seconds=after,
                placements=shorten_names(placements),
                writes=shorten_names(self._gate.list_unsettled()),
            )
        for task in tasks:
            task.cancel()

    def _is_settled(self) -> bool:
        writes = self._gate.list_unsettled()
        if writes:
            log.warning(
                "the lease is left to expire: the server may yet carry out what it was asked for",
                writes=shorten_names(writes),
                seconds=self.settings.leader_election.lease_duration.seconds,
            )
        return not writes

    async def _caught_up(self) -> None:
        """What a former leader wrote a moment ago is seen before anything is decided: a list that was begun before we
        had the lease proves nothing."""
        await (self.caches.refresh() if self._elects else self.caches.wait_until_synced())
        gc.collect()
        gc.freeze()  # what was read stays for long: later collections need not look at it

    async def _unless_stopping(
        self, work: Coroutine[None, None, None], *, only_while: Callable[[], bool] = lambda: True
    ) -> bool:
        """The work, cut short when we are asked to stop; says whether it came to its end."""
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


def _tell_problem(resource: Resource, problem: WatchProblem) -> None:
    if isinstance(problem, UnreadableObject):
        log.error("an object cannot be read", kind=resource.kind, object=problem.key, error=str(problem.error))
    elif isinstance(problem, Unreachable):
        log.warning(
            "the API server cannot be reached and is tried again: see whether it runs, and which server the kubeconfig "
            "names",
            kind=resource.kind,
            error=str(problem),
        )
    else:
        log.warning("watching failed and is tried again", kind=resource.kind, error=str(problem))
