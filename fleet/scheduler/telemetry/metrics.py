"""What the scheduler tells Prometheus.

Names and labels are an interface: dashboards and alerts rest on them. Everything is told here by what happened, so that
callers know nothing of names, and children of a metric are looked up once. Counters begin at 0 for every value of their
labels that is known before: an increase is between two figures, and the first event must not be lost to alerts.
"""

from __future__ import annotations

import time
from collections import Counter as Counted
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from fleet.clock import Clock, SystemClock
from fleet.framework.context import UNREADABLE_PROPERTY
from fleet.framework.operations import Action
from fleet.framework.status import Code, Status, code_of
from fleet.scheduler.attempt_record import AttemptRecord, Ending
from fleet.scheduler.dispatch.api_calls import Fate
from fleet.scheduler.telemetry.scrape_gauges import Readings
from fleet.scheduler.telemetry.throughput import Throughput

if TYPE_CHECKING:
    from fleet.framework.cycle.decision import Decision
    from fleet.scheduler.dispatch.api_calls import CallType
    from fleet.scheduler.queue.hints import QueueEvent
    from fleet.scheduler.queue.item import QueueCounts, QueueItem

M = TypeVar("M", Counter, Gauge, Histogram)

QUEUE: Final = "scheduler-queue"
PROFILE: Final = "DefaultProfile"
_MILLISECONDS: Final = (10, 50, 100, 500, 1000, 5000, 10000, 50000)
_SECONDS: Final = tuple(0.001 * 2**power for power in range(15))
_SHORT: Final = tuple(0.00001 * 2**power for power in range(15))
_LONG: Final = tuple(0.01 * 2**power for power in range(17))
_VICTIMS: Final = (1, 2, 4, 8, 16, 32, 64)
_MOST_ATTEMPTS: Final = 15
_NANOSECONDS: Final = 1_000_000_000

_CLASSES: Final[Mapping[Ending, str]] = {
    Ending.TRANSIENT: "transient",
    Ending.BAD_INPUT: "input",
    Ending.INTERNAL: "internal",
}
_RESULTS: Final[Mapping[Ending, str]] = {
    Ending.DECIDED: "scheduled",
    Ending.SHORT: "unschedulable",
    Ending.BAD_INPUT: "error",
    Ending.TRANSIENT: "error",
    Ending.INTERNAL: "error",
}
_CALL_TYPES: Final = {"status": "status_patch", "bind": "bind", "evict": "evict"}
_OPERATIONS: Final = {one: "finalizer" if one is Action.DROP_FINALIZER else one.value for one in Action}
_WRITTEN: Final = ("written", "skipped", "conflict", "failed")
_TRUTHS: Final = ("true", "false")
_FAILED: Final = "AttemptFailed"
_REJECTED: Final = "AttemptRejected"

_GRAVITY: Final = (
    Code.SKIP,  # a plugin that had nothing to do says nothing about the others
    Code.SUCCESS,
    Code.WAIT,
    Code.PENDING,
    Code.UNSCHEDULABLE,
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    Code.ERROR,
)

_READ_WHEN_ASKED: Final = (
    ("workqueue_depth", "Placements that a worker could take now.", ("name",)),
    ("fleet_pending_placements", "Placements that wait, by where they wait.", ("queue",)),
    ("fleet_unschedulable_placements", "Rejected placements that wait for a change, by plugin.", ("plugin",)),
    ("fleet_inflight_events", "Events kept for placements that are being decided.", ("event",)),
    ("fleet_async_api_call_pending", "Writes that are not sent yet.", ("type", "result")),
    ("fleet_cache_size", "Objects held in memory.", ("type",)),
    ("fleet_throughput_per_second", "Placements bound per second while some were pending.", ()),
    ("fleet_throughput_quantile_per_second", "Quantiles of it over windows of a second.", ("quantile",)),
    ("fleet_arrivals_per_second", "Placements that became due per second.", ()),
)
_QUANTILES: Final = (0.5, 0.9, 0.95, 0.99)


def new_registry() -> CollectorRegistry:
    """A registry with the figures of the process. Creation times of counters are left out: they double the page."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


class Children(Generic[M]):
    """The children of a metric, each looked up once."""

    def __init__(self, metric: M) -> None:
        self._metric: M = metric
        self._known: dict[tuple[str, ...], M] = {}

    def __call__(self, *labels: str) -> M:
        child = self._known.get(labels)
        if child is None:
            child = self._known[labels] = self._metric.labels(*labels)
        return child

    def begin(self, *values: Iterable[str]) -> None:
        """With a series for every combination of these values of the labels."""
        for labels in product(*values):
            self(*labels)


class SchedulerMetrics:
    def __init__(self, registry: CollectorRegistry, *, clock: Clock | None = None) -> None:
        def counter(name: str, meaning: str, *labels: str) -> Counter:
            return Counter(name, meaning, labels, registry=registry)

        def histogram(name: str, meaning: str, *labels: str, buckets: tuple[float, ...] = _SECONDS) -> Histogram:
            return Histogram(name, meaning, labels, registry=registry, buckets=buckets)

        self._clock = clock or SystemClock()
        self._throughput = Throughput()
        self._taken: dict[str, tuple[int, float | None]] = {}
        self._counts: Callable[[], QueueCounts] | None = None
        self._define_cycle(counter, histogram, registry)
        self._define_queue(counter, histogram)
        self._define_framework(counter, histogram)
        _define_those_without_values(counter, histogram)
        self._readings = Readings(registry, _READ_WHEN_ASKED)
        self._read_throughput()
        self._begin()

    def _define_cycle(
        self, counter: Callable[..., Counter], histogram: Callable[..., Histogram], registry: CollectorRegistry
    ) -> None:
        self._cycles = Children(
            histogram(
                "scheduling_cycle_duration_milliseconds",
                "Scheduling cycles, from their inputs to the last write.",
                "is_failed",
                "needs_requeue",
                buckets=_MILLISECONDS,
            )
        )
        self._active = Gauge("scheduling_active_workers", "Workers inside an iteration.", registry=registry)
        self._requeues = Children(
            counter("fleet_scheduler_requeues_total", "Iterations that failed, by class of error.", "class")
        )
        self._filtered = Children(
            counter("fleet_scheduler_filtered_clusters_total", "Clusters rejected, per cycle and cluster.", "plugin")
        )
        self._unreadable = Children(
            counter(
                "fleet_scheduler_unreadable_properties_total", "Cluster properties that are no quantity.", "property"
            )
        )
        self._binding_writes = Children(
            counter("fleet_scheduler_binding_writes_total", "Writes of bindings.", "operation", "result")
        )
        self._status_writes = Children(
            counter("fleet_scheduler_status_writes_total", "Statuses of policy snapshots.", "result")
        )
        self._attempts = Children(
            counter("fleet_schedule_attempts_total", "Attempts to place a placement.", "result", "profile")
        )
        self._attempt_seconds = histogram("fleet_scheduling_attempt_duration_seconds", "Attempts, writes included.")
        self._algorithm_seconds = histogram(
            "fleet_scheduling_algorithm_duration_seconds", "The decisions in them.", buckets=_SHORT
        )

    def _define_queue(self, counter: Callable[..., Counter], histogram: Callable[..., Histogram]) -> None:
        self._triggers = Children(
            counter(
                "fleet_scheduler_triggers_total",
                "Changes of objects that count, by kind and by whether they woke a placement.",
                "source",
                "woken",
            )
        )
        self._incoming = Children(
            counter("fleet_queue_incoming_placements_total", "Placements put into the queue.", "queue", "event")
        )
        self._adds = counter("workqueue_adds_total", "Keys put into a queue.", "name").labels(QUEUE)
        self._retries = counter("workqueue_retries_total", "Keys that came back after a failure.", "name").labels(QUEUE)
        self._queue_seconds = histogram(
            "workqueue_queue_duration_seconds", "Time that keys were due before a worker took them.", "name"
        ).labels(QUEUE)
        self._event_seconds = histogram(
            "fleet_event_handling_duration_seconds",
            "Handling of a change that counts, until everybody is woken.",
            buckets=_SHORT,
        )
        self._sli_seconds = Children(
            histogram(
                "fleet_scheduling_sli_duration_seconds",
                "From when a placement was due until it was bound, by the attempts it took.",
                "attempts",
                buckets=_LONG,
            )
        )

    def _define_framework(self, counter: Callable[..., Counter], histogram: Callable[..., Histogram]) -> None:
        self._point_seconds = Children(
            histogram(
                "fleet_framework_extension_point_duration_seconds",
                "All plugins of an extension point together, in the attempts that are sampled.",
                "point",
                "status",
                "profile",
                buckets=_SHORT,
            )
        )
        self._plugin_seconds = Children(
            histogram(
                "fleet_plugin_execution_duration_seconds",
                "Single plugins, in the attempts that are sampled.",
                "plugin",
                "point",
                "status",
                buckets=_SHORT,
            )
        )
        self._calls = Children(
            counter("fleet_async_api_call_executed_total", "Writes that left the dispatcher.", "type", "result")
        )
        self._call_seconds = Children(
            histogram("fleet_async_api_call_duration_seconds", "Those that were sent.", "type", "result")
        )

    # --- from the start -----------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._requeues.begin(_CLASSES.values())
        self._attempts.begin(set(_RESULTS.values()), (PROFILE,))
        self._incoming.begin(("backoff",), (_FAILED,))
        self._incoming.begin(("unschedulable",), (_REJECTED,))
        self._binding_writes.begin(_OPERATIONS.values(), _WRITTEN)
        self._status_writes.begin(_WRITTEN)
        self._calls.begin(_CALL_TYPES.values(), (fate.value for fate in Fate))

    def expect(self, *, sources: Collection[str], judges: Iterable[str]) -> None:
        """`sources`: kinds of objects whose changes count. `judges`: who may reject clusters."""
        self._triggers.begin(sources, _TRUTHS)
        self._incoming.begin(("active",), sources)
        self._filtered.begin(judges)

    # --- the queue ----------------------------------------------------------------------------------------------------

    def triggered(self, source: str, woken: int, seconds: float) -> None:
        """A change of a kind of object that counts, how many placements it woke, and how long that took."""
        self._triggers(source, _truth(woken > 0)).inc()
        self._event_seconds.observe(seconds)
        if woken:
            self._enqueued("active", source, woken)

    def taken(self, item: QueueItem) -> None:
        """By a worker, just now."""
        self._queue_seconds.observe(max(0, item.popped_at - item.active_since) / _NANOSECONDS)
        due = item.initial_attempt_timestamp
        self._taken[item.key] = (item.attempts, None if due is None else due / _NANOSECONDS)

    def _enqueued(self, queue: str, event: str, count: int = 1) -> None:
        now = self._clock.elapsed()
        self._incoming(queue, event).inc(count)
        self._adds.inc(count)
        self._throughput.arrived(now, count)
        self._throughput.pending(now, is_pending=True)

    # --- attempts -----------------------------------------------------------------------------------------------------

    @contextmanager
    def working(self) -> Iterator[None]:
        """While a worker is inside an iteration."""
        with self._active.track_inprogress():
            yield

    def attempted(self, record: AttemptRecord, seconds: float) -> None:
        """Tells everything that the record of an attempt says."""
        self._tell_result(record, seconds)
        if record.asked is not None and record.ending is not Ending.BAD_INPUT:
            self._tell_cycle(record)
        if record.decision is not None:
            self._tell_decision(record.decision)
        self._tell_throughput(record)

    def _tell_result(self, record: AttemptRecord, seconds: float) -> None:
        if (result := _RESULTS.get(record.ending)) is not None:
            self._attempts(result, PROFILE).inc()
            self._attempt_seconds.observe(seconds)
        if "decide" in record.seconds:
            self._algorithm_seconds.observe(record.seconds["decide"])
        if (failure := _CLASSES.get(record.ending)) is not None:
            self._requeues(failure).inc()
            self._retries.inc()
            self._enqueued("backoff", _FAILED)
        elif record.ending is Ending.SHORT:
            self._incoming("unschedulable", _REJECTED).inc()

    def _tell_cycle(self, record: AttemptRecord) -> None:
        failed = _truth(record.ending.is_failure)
        milliseconds = 1000 * sum(seconds for phase, seconds in record.seconds.items() if phase != "finalizer")
        self._cycles(failed, failed).observe(milliseconds)

    def _tell_decision(self, decision: Decision) -> None:
        if decision.verdicts is not None:
            for rejection in decision.verdicts.rejections:
                self._filtered(decision.verdicts.judges[rejection.plugin].name).inc(rejection.rows.bit_count())
        for warning in decision.warnings:
            if warning.kind == UNREADABLE_PROPERTY:
                self._unreadable(warning.subject).inc(warning.rows.bit_count())

    def _tell_throughput(self, record: AttemptRecord) -> None:
        now = self._clock.elapsed()
        attempts, due = self._taken.pop(record.key, (0, None))
        if record.ending is Ending.DECIDED and (record.writes or record.status_written):
            self._throughput.bound(now)
            if due is not None:
                self._sli_seconds(_attempts(attempts)).observe(max(0.0, now - due))
        if self._counts is not None:
            counts = self._counts()
            self._throughput.pending(now, is_pending=bool(counts.active or counts.backoff or counts.in_flight))

    # --- writes -------------------------------------------------------------------------------------------------------

    def binding_written(self, action: Action, result: str) -> None:
        """`result`: written, skipped, conflict or failed."""
        self._binding_writes(_OPERATIONS[action], result).inc()

    def status_written(self, result: str) -> None:
        """`result`: written, skipped, conflict or failed."""
        self._status_writes(result).inc()

    def call_executed(self, type: CallType, fate: Fate, seconds: float) -> None:
        labels = _CALL_TYPES[type.call_class], fate.value
        self._calls(*labels).inc()
        self._call_seconds(*labels).observe(seconds)

    # --- plugins ------------------------------------------------------------------------------------------------------

    def point_passed(self, *, point: str, status: str, seconds: float) -> None:
        self._point_seconds(point, status, PROFILE).observe(seconds)

    def plugin_ran(self, *, plugin: str, point: str, status: str, seconds: float) -> None:
        self._plugin_seconds(plugin, point, status).observe(seconds)

    # --- what is read when somebody asks ------------------------------------------------------------------------------

    def watch_queue(
        self,
        counts: Callable[[], QueueCounts],
        *,
        by_plugin: Callable[[], Mapping[str, int]] | None = None,
        events: Callable[[], Iterable[QueueEvent]] | None = None,
    ) -> None:
        """`by_plugin`: rejected placements by who has to change their mind. `events`: those kept for later."""
        self._counts = counts
        self._readings.attach("workqueue_depth", lambda: {(QUEUE,): counts().active})
        self._readings.attach("fleet_pending_placements", lambda: _pending(counts()))
        if by_plugin is not None:
            self._readings.attach("fleet_unschedulable_placements", lambda: _keyed(by_plugin()))
        if events is not None:
            self._readings.attach("fleet_inflight_events", lambda: _keyed(Counted(str(one.kind) for one in events())))

    def watch_calls(self, waiting: Callable[[], Mapping[CallType, int]]) -> None:
        self._readings.attach(
            "fleet_async_api_call_pending",
            lambda: {(_CALL_TYPES[type.call_class], "waiting"): count for type, count in waiting().items()},
        )

    def watch_caches(self, sizes: Callable[[], Mapping[str, int]]) -> None:
        """By kind of object."""
        self._readings.attach("fleet_cache_size", lambda: _keyed(sizes()))

    def _read_throughput(self) -> None:
        rate, elapsed = self._throughput, self._clock.elapsed
        self._readings.attach("fleet_throughput_per_second", lambda: {(): rate.per_second(elapsed())})
        self._readings.attach("fleet_arrivals_per_second", lambda: {(): rate.arrivals_per_second(elapsed())})
        self._readings.attach(
            "fleet_throughput_quantile_per_second",
            lambda: {(f"{share:g}",): rate.quantile(elapsed(), share) for share in _QUANTILES},
        )


def _define_those_without_values(counter: Callable[..., Counter], histogram: Callable[..., Histogram]) -> None:
    """Names that dashboards may rely on already, of what no plugin of the default profile does."""
    histogram(
        "fleet_queueing_hint_execution_duration_seconds",
        "Questions whether an event can help a rejected placement.",
        "plugin",
        "event",
        "hint",
        buckets=_SHORT,
    )
    histogram("fleet_permit_wait_duration_seconds", "Waiting for permission to bind.", "result", buckets=_LONG)
    counter("fleet_preemption_attempts_total", "Searches for bindings to evict.")
    histogram("fleet_preemption_victims", "Bindings chosen by a search.", buckets=_VICTIMS)


class PluginTimes:
    """A `Probe` for the framework: measures from outside, and hands on what plugins answer untouched."""

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._metrics = metrics
        self._points: dict[str, float] = {}
        self._codes: dict[str, Code] = {}
        """By extension point the gravest of its plugins' answers."""

    def decided(self) -> None:
        """The attempt that was measured, if it was, has decided: its extension points are passed."""
        for point, seconds in self._points.items():
            self._metrics.point_passed(point=point, status=str(self._codes[point]), seconds=seconds)
        self._points.clear()
        self._codes.clear()

    def measure(self, hook: str, plugin: str, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        started = time.perf_counter()
        code = Code.ERROR
        try:
            answer = call(*args, **named)
            code = _code_in(answer)
            return answer
        finally:
            seconds = time.perf_counter() - started
            self._metrics.plugin_ran(plugin=plugin, point=hook, status=str(code), seconds=seconds)
            self._points[hook] = self._points.get(hook, 0.0) + seconds
            self._codes[hook] = max(self._codes.get(hook, Code.SUCCESS), code, key=_GRAVITY.index)


def _code_in(answer: object) -> Code:
    """Hooks answer with a status, alone or beside something else, or with columns."""
    parts = answer if isinstance(answer, tuple) else (answer,)
    return code_of(next((one for one in parts if isinstance(one, Status)), None))


def _pending(counts: QueueCounts) -> dict[tuple[str, ...], float]:
    return {(place,): getattr(counts, place) for place in ("active", "backoff", "unschedulable", "gated")}


def _keyed(counts: Mapping[str, int]) -> dict[tuple[str, ...], float]:
    return {(name,): count for name, count in counts.items()}


def _attempts(count: int) -> str:
    return str(max(count, 1)) if count < _MOST_ATTEMPTS else f"{_MOST_ATTEMPTS}+"


def _truth(value: bool) -> str:  # noqa: FBT001
    return "true" if value else "false"
