"""Prometheus metrics of the scheduler.

Names and labels are an interface: dashboards and alerts rest on them. Callers report events, the names of metrics stay
here, and children of a metric are looked up once. Counters begin at 0 for every known value of their labels: an
increase is the difference of two samples, so alerts would miss the first event of a series that begins at 1.
"""

from __future__ import annotations

import threading
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
from fleet.scheduler.attempt_record import AttemptRecord, AttemptResult
from fleet.scheduler.dispatch.call_queue import CallResult
from fleet.scheduler.queue.item import QueueItem
from fleet.scheduler.telemetry.scrape_gauges import ScrapeGauges
from fleet.scheduler.telemetry.throughput import Throughput
from fleet.snapshot.capacity import MILLI

if TYPE_CHECKING:
    from fleet.framework.cycle.decision import Decision
    from fleet.model.placement_key import PlacementKey
    from fleet.scheduler.dispatch.call_queue import CallType
    from fleet.scheduler.queue.hints import QueueEvent
    from fleet.scheduler.queue.item import QueueCounts

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

_CLASSES: Final[Mapping[AttemptResult, str]] = {
    AttemptResult.TRANSIENT: "transient",
    AttemptResult.BAD_INPUT: "input",
    AttemptResult.INTERNAL: "internal",
    AttemptResult.BIND_FAILED: "internal",
}
_RESULTS: Final[Mapping[AttemptResult, str]] = {
    AttemptResult.DECIDED: "scheduled",
    AttemptResult.SHORT: "unschedulable",
    AttemptResult.REJECTED: "unschedulable",
    AttemptResult.BIND_FAILED: "error",
    AttemptResult.BAD_INPUT: "error",
    AttemptResult.TRANSIENT: "error",
    AttemptResult.INTERNAL: "error",
}
_CALL_TYPES: Final = {"status": "status_patch", "bind": "bind", "evict": "evict"}
_OPERATIONS: Final = {action: "finalizer" if action is Action.DROP_FINALIZER else action.value for action in Action}
_WRITTEN: Final = ("written", "skipped", "conflict", "failed")
_TRUTHS: Final = ("true", "false")
_FAILED: Final = "AttemptFailed"
_REJECTED: Final = "AttemptRejected"

_GRAVITY: Final = (
    Code.SKIP,  # another plugin of the same hook may have had something to do
    Code.SUCCESS,
    Code.WAIT,
    Code.PENDING,
    Code.UNSCHEDULABLE,
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    Code.ERROR,
)

_SCRAPED: Final = (
    ("workqueue_depth", "Placements that a worker could take now.", ("name",)),
    ("fleet_pending_placements", "Pending placements, by the part of the queue they are in.", ("queue",)),
    ("fleet_unschedulable_placements", "Rejected placements that wait for an event, by plugin.", ("plugin",)),
    ("fleet_inflight_events", "Events kept for placements that are being scheduled.", ("event",)),
    ("fleet_async_api_call_pending", "Writes that are not sent yet.", ("type", "result")),
    ("fleet_cache_size", "Objects held in memory.", ("type",)),
    ("fleet_room_booked", "Room that is taken and in no report of a member yet, in cores or bytes.", ("resource",)),
    ("fleet_quota_used", "What placements use of a quota, in cores, bytes or clusters.", ("quota", "resource")),
    ("fleet_placement_groups", "Placement groups by state.", ("state",)),
    ("fleet_throughput_per_second", "Placements bound per second while some were pending.", ()),
    ("fleet_throughput_quantile_per_second", "Quantiles of it over windows of a second.", ("quantile",)),
    ("fleet_arrivals_per_second", "Placements that became due per second.", ()),
)
_QUANTILES: Final = (0.5, 0.9, 0.95, 0.99)


def new_registry() -> CollectorRegistry:
    """A registry with the metrics of the process. Creation times of counters are left out: they double the output."""
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

    def initialize(self, *values: Iterable[str]) -> None:
        """Creates a series for every combination of these values of the labels."""
        for labels in product(*values):
            self(*labels)


class SchedulerMetrics:
    def __init__(self, registry: CollectorRegistry, *, clock: Clock | None = None) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def histogram(name: str, text: str, *labels: str, buckets: tuple[float, ...] = _SECONDS) -> Histogram:
            return Histogram(name, text, labels, registry=registry, buckets=buckets)

        self._clock = clock or SystemClock()
        self._throughput = Throughput()
        self._taken: dict[PlacementKey, tuple[int, float | None]] = {}
        self._counts: Callable[[], QueueCounts] | None = None
        self._define_cycle(counter, histogram, registry)
        self._define_queue(counter, histogram)
        self._define_framework(counter, histogram)
        self._searches = counter("fleet_preemption_attempts_total", "Searches for bindings to evict.")
        self._victims = histogram(
            "fleet_preemption_victims", "Bindings chosen by a search that found room.", buckets=_VICTIMS
        )
        self._gauges = ScrapeGauges(registry, _SCRAPED)
        self._attach_throughput()
        self._initialize_series()

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
                "fleet_scheduler_unreadable_properties_total", "Cluster properties that are not quantities.", "property"
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
                "Relevant changes of objects, by kind and by whether they enqueued a placement.",
                "source",
                "woken",
            )
        )
        self._incoming = Children(
            counter("fleet_queue_incoming_placements_total", "Placements put into the queue.", "queue", "event")
        )
        self._approvals = Children(
            counter("fleet_placement_approvals_total", "Answers to placements that wait for approval.", "decision")
        )
        for decision in ("Approved", "Denied"):
            self._approvals(decision)
        self._adds = counter("workqueue_adds_total", "Keys put into a queue.", "name").labels(QUEUE)
        self._retries = counter("workqueue_retries_total", "Keys that came back after a failure.", "name").labels(QUEUE)
        self._queue_seconds = histogram(
            "workqueue_queue_duration_seconds", "Time an item waits in the queue before a worker takes it.", "name"
        ).labels(QUEUE)
        self._event_seconds = histogram(
            "fleet_event_handling_duration_seconds",
            "Handling of a relevant change, until the affected placements are enqueued.",
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
        self._samples = Children(
            counter("fleet_feed_samples_total", "Attempts to sample the feeds of the configuration.", "feed", "result")
        )
        self._hint_seconds = Children(
            histogram(
                "fleet_queueing_hint_execution_duration_seconds",
                "Queueing hints of plugins: whether an event can make a rejected placement schedulable.",
                "plugin",
                "event",
                "hint",
                buckets=_SHORT,
            )
        )
        self._extender_seconds = Children(
            histogram("fleet_extender_duration_seconds", "Requests to extenders.", "extender", "verb", "result")
        )
        self._permit_seconds = Children(
            histogram("fleet_permit_wait_duration_seconds", "Waiting for permission to bind.", "result", buckets=_LONG)
        )
        self._calls = Children(
            counter("fleet_async_api_call_executed_total", "Writes that left the dispatcher.", "type", "result")
        )
        self._call_seconds = Children(
            histogram("fleet_async_api_call_duration_seconds", "Those that were sent.", "type", "result")
        )

    # --- initial series -----------------------------------------------------------------------------------------------

    def _initialize_series(self) -> None:
        self._requeues.initialize(_CLASSES.values())
        self._attempts.initialize(set(_RESULTS.values()), (PROFILE,))
        self._incoming.initialize(("backoff",), (_FAILED,))
        self._incoming.initialize(("unschedulable",), (_REJECTED,))
        self._binding_writes.initialize(_OPERATIONS.values(), _WRITTEN)
        self._status_writes.initialize(_WRITTEN)
        self._calls.initialize(_CALL_TYPES.values(), (result.value for result in CallResult))

    def initialize_series(self, *, kinds: Collection[str], plugins: Iterable[str], feeds: Iterable[str] = ()) -> None:
        """`kinds`: the watched kinds of objects. `plugins`: those that may reject clusters."""
        self._samples.initialize(feeds, ("success", "error"))
        self._triggers.initialize(kinds, _TRUTHS)
        self._incoming.initialize(("active",), kinds)
        self._filtered.initialize(plugins)

    # --- the queue ----------------------------------------------------------------------------------------------------

    def observe_event(self, kind: str, enqueued: int, seconds: float) -> None:
        """A relevant change of an object, the number of placements enqueued, and the seconds that took."""
        self._triggers(kind, _truth(enqueued > 0)).inc()
        self._event_seconds.observe(seconds)
        if enqueued:
            self._count_enqueued("active", kind, enqueued)

    def observe_dequeue(self, item: QueueItem) -> None:
        """A worker has just taken the item."""
        self._queue_seconds.observe(max(0, item.popped_at - item.active_since) / _NANOSECONDS)
        due = item.initial_attempt_timestamp
        self._taken[item.key] = (item.attempts, None if due is None else due / _NANOSECONDS)

    def _count_enqueued(self, queue: str, event: str, count: int = 1) -> None:
        now = self._clock.monotonic()
        self._incoming(queue, event).inc(count)
        self._adds.inc(count)
        self._throughput.add_arrivals(now, count)
        self._throughput.set_pending(now, is_pending=True)

    # --- attempts -----------------------------------------------------------------------------------------------------

    @contextmanager
    def track_worker(self) -> Iterator[None]:
        """Entered while a worker runs an attempt."""
        with self._active.track_inprogress():
            yield

    def observe_search(self, victims: int | None) -> None:
        """For bindings to evict; None if it found no room."""
        self._searches.inc()
        if victims is not None:
            self._victims.observe(victims)

    def observe_attempt(self, record: AttemptRecord, seconds: float) -> None:
        self._observe_result(record, seconds)
        if record.inputs is not None and record.result is not AttemptResult.BAD_INPUT:
            self._observe_cycle(record)
        if record.decision is not None:
            self._observe_decision(record.decision)
        self._observe_throughput(record)

    def _observe_result(self, record: AttemptRecord, seconds: float) -> None:
        if (result := _RESULTS.get(record.result)) is not None:
            self._attempts(result, PROFILE).inc()
            self._attempt_seconds.observe(seconds)
        if "decide" in record.seconds:
            self._algorithm_seconds.observe(record.seconds["decide"])
        if (failure := _CLASSES.get(record.result)) is not None:
            self._requeues(failure).inc()
            self._retries.inc()
            self._count_enqueued("backoff", _FAILED)
        elif record.result in (AttemptResult.SHORT, AttemptResult.REJECTED):
            self._incoming("unschedulable", _REJECTED).inc()

    def _observe_cycle(self, record: AttemptRecord) -> None:
        failed = _truth(record.result.is_failure)
        milliseconds = 1000 * sum(seconds for phase, seconds in record.seconds.items() if phase != "finalizer")
        self._cycles(failed, failed).observe(milliseconds)

    def _observe_decision(self, decision: Decision) -> None:
        if decision.verdicts is not None:
            for rejection in decision.verdicts.rejections:
                self._filtered(decision.verdicts.judges[rejection.plugin].name).inc(rejection.rows.bit_count())
        for warning in decision.warnings:
            if warning.kind == UNREADABLE_PROPERTY:
                self._unreadable(warning.subject).inc(warning.rows.bit_count())

    def _observe_throughput(self, record: AttemptRecord) -> None:
        now = self._clock.monotonic()
        attempts, due = self._taken.pop(record.key, (0, None))
        if record.result is AttemptResult.DECIDED and (record.writes or record.status_written):
            self._throughput.add_bound(now)
            if due is not None:
                self._sli_seconds(_attempts(attempts)).observe(max(0.0, now - due))
        if self._counts is not None:
            counts = self._counts()
            self._throughput.set_pending(now, is_pending=bool(counts.active or counts.backoff or counts.in_flight))

    # --- writes -------------------------------------------------------------------------------------------------------

    def count_binding_write(self, action: Action, result: str) -> None:
        """`result`: written, skipped, conflict or failed."""
        self._binding_writes(_OPERATIONS[action], result).inc()

    def count_status_write(self, result: str) -> None:
        """`result`: written, skipped, conflict or failed."""
        self._status_writes(result).inc()

    def observe_call(self, type: CallType, result: CallResult, seconds: float) -> None:
        labels = _CALL_TYPES[type.call_class], result.value
        self._calls(*labels).inc()
        self._call_seconds(*labels).observe(seconds)

    # --- plugins ------------------------------------------------------------------------------------------------------

    def observe_extension_point(self, *, point: str, status: str, seconds: float) -> None:
        self._point_seconds(point, status, PROFILE).observe(seconds)

    def observe_plugin(self, *, plugin: str, point: str, status: str, seconds: float) -> None:
        self._plugin_seconds(plugin, point, status).observe(seconds)

    def count_sample(self, feed: str, result: str) -> None:
        self._samples(feed, result).inc()

    def observe_hint(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        self._hint_seconds(plugin, event, hint).observe(seconds)

    def observe_extender(self, extender: str, verb: str, result: str, seconds: float) -> None:
        self._extender_seconds(extender, verb, result).observe(seconds)

    def observe_hook(self, hook: str, plugin: str, code: Code, seconds: float) -> None:
        """A plugin that acts on a decision."""
        self.observe_plugin(plugin=plugin, point=hook, status=str(code), seconds=seconds)

    def observe_permit_wait(self, result: str, seconds: float) -> None:
        """`result`: allowed, rejected, timeout or ended."""
        self._permit_seconds(result).observe(seconds)

    def count_approval(self, decision: str) -> None:
        """`decision`: Approved or Denied."""
        self._approvals(decision).inc()

    # --- gauges -------------------------------------------------------------------------------------------------------

    def watch_queue(
        self,
        counts: Callable[[], QueueCounts],
        *,
        by_plugin: Callable[[], Mapping[str, int]] | None = None,
        events: Callable[[], Iterable[QueueEvent]] | None = None,
    ) -> None:
        """`by_plugin`: rejected placements by plugin. `events`: those kept for in-flight placements."""
        self._counts = counts
        self._gauges.attach("workqueue_depth", lambda: {(QUEUE,): counts().active})
        self._gauges.attach("fleet_pending_placements", lambda: _count_pending(counts()))
        if by_plugin is not None:
            self._gauges.attach("fleet_unschedulable_placements", lambda: _label_by_name(by_plugin()))
        if events is not None:
            self._gauges.attach(
                "fleet_inflight_events", lambda: _label_by_name(Counted(str(event.kind) for event in events()))
            )

    def watch_calls(self, waiting: Callable[[], Mapping[CallType, int]]) -> None:
        self._gauges.attach(
            "fleet_async_api_call_pending",
            lambda: {(_CALL_TYPES[type.call_class], "waiting"): count for type, count in waiting().items()},
        )

    def watch_caches(self, sizes: Callable[[], Mapping[str, int]]) -> None:
        """By kind of object."""
        self._gauges.attach("fleet_cache_size", lambda: _label_by_name(sizes()))

    def watch_room(self, booked: Callable[[], Mapping[str, int]]) -> None:
        """In whole units, by resource."""
        self._gauges.attach(
            "fleet_room_booked",
            lambda: {(name,): amount / (1000 if name in MILLI else 1) for name, amount in booked().items()},
        )

    def watch_quotas(self, used: Callable[[], Mapping[tuple[str, str], int]]) -> None:
        """In whole units, by quota and resource."""
        self._gauges.attach(
            "fleet_quota_used",
            lambda: {key: amount / (1000 if key[1] in MILLI else 1) for key, amount in used().items()},
        )

    def watch_groups(self, count: Callable[[], Mapping[str, int]]) -> None:
        """By state."""
        self._gauges.attach("fleet_placement_groups", lambda: _label_by_name(count()))

    def _attach_throughput(self) -> None:
        rate, elapsed = self._throughput, self._clock.monotonic
        self._gauges.attach("fleet_throughput_per_second", lambda: {(): rate.per_second(elapsed())})
        self._gauges.attach("fleet_arrivals_per_second", lambda: {(): rate.arrivals_per_second(elapsed())})
        self._gauges.attach(
            "fleet_throughput_quantile_per_second",
            lambda: {(f"{share:g}",): rate.quantile(elapsed(), share) for share in _QUANTILES},
        )


class PluginTimer:
    """A `Probe` for the framework: measures plugins from outside and returns their results unchanged."""

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._metrics = metrics
        self._measured = _MeasuredPoints()

    def flush(self) -> None:
        """Reports the extension points of a decision that was measured; to be called after every decision, in the
        thread that made it."""
        points = self._measured.points
        for point, (seconds, code) in points.items():
            self._metrics.observe_extension_point(point=point, status=str(code), seconds=seconds)
        points.clear()

    def measure(self, hook: str, plugin: str, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        started = time.perf_counter()
        code = Code.ERROR
        try:
            answer = call(*args, **named)
            code = _code_in(answer)
            return answer
        finally:
            seconds = time.perf_counter() - started
            self._metrics.observe_plugin(plugin=plugin, point=hook, status=str(code), seconds=seconds)
            points = self._measured.points
            before, worst = points.get(hook, (0.0, Code.SUCCESS))
            points[hook] = before + seconds, max(worst, code, key=_GRAVITY.index)


class _MeasuredPoints(threading.local):
    """Of the decision that a thread makes, by extension point: seconds, and the most severe status of its plugins."""

    def __init__(self) -> None:
        self.points: dict[str, tuple[float, Code]] = {}


def _code_in(answer: object) -> Code:
    """Hooks return a status, alone or in a tuple, or columns."""
    parts = answer if isinstance(answer, tuple) else (answer,)
    return code_of(next((part for part in parts if isinstance(part, Status)), None))


def _count_pending(counts: QueueCounts) -> dict[tuple[str, ...], float]:
    return {(place,): getattr(counts, place) for place in ("active", "backoff", "unschedulable", "gated")}


def _label_by_name(counts: Mapping[str, int]) -> dict[tuple[str, ...], float]:
    return {(name,): count for name, count in counts.items()}


def _attempts(count: int) -> str:
    return str(max(count, 1)) if count < _MOST_ATTEMPTS else f"{_MOST_ATTEMPTS}+"


def _truth(value: bool) -> str:  # noqa: FBT001
    return "true" if value else "false"
