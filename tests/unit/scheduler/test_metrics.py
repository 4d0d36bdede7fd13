"""The scheduler's figures: names and labels as dashboards know them, and what raises which."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry, disable_created_metrics
from prometheus_client.core import Metric, Sample

from fleet.framework.context import UNREADABLE_PROPERTY, Warning
from fleet.framework.operations import Action
from fleet.framework.status import Code, Status
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.attempt_record import AttemptRecord, AttemptResult
from fleet.scheduler.dispatch.call_queue import CallResult, CallType
from fleet.scheduler.queue.hints import EventKind, QueueEvent
from fleet.scheduler.queue.item import ItemState, QueueCounts, QueueItem, QueuePolicy
from fleet.scheduler.telemetry.metrics import PluginTimer, SchedulerMetrics, new_registry
from tests.fake_clock import FakeClock

SECOND = 1_000_000_000
PAGE = (Path(__file__).resolve().parents[3] / "docs" / "controller.md").read_text(encoding="utf-8")
LABELS = {
    "scheduling_cycle_duration_milliseconds": ("is_failed", "needs_requeue"),
    "scheduling_active_workers": (),
    "fleet_scheduler_requeues_total": ("class",),
    "fleet_scheduler_filtered_clusters_total": ("plugin",),
    "fleet_scheduler_unreadable_properties_total": ("property",),
    "fleet_scheduler_binding_writes_total": ("operation", "result"),
    "fleet_scheduler_status_writes_total": ("result",),
    "fleet_scheduler_triggers_total": ("source", "woken"),
    "workqueue_depth": ("name",),
    "workqueue_adds_total": ("name",),
    "workqueue_retries_total": ("name",),
    "workqueue_queue_duration_seconds": ("name",),
    "fleet_schedule_attempts_total": ("result", "profile"),
    "fleet_scheduling_attempt_duration_seconds": (),
    "fleet_scheduling_algorithm_duration_seconds": (),
    "fleet_framework_extension_point_duration_seconds": ("point", "status", "profile"),
    "fleet_feed_samples_total": ("feed", "result"),
    "fleet_extender_duration_seconds": ("extender", "verb", "result"),
    "fleet_placement_approvals_total": ("decision",),
    "fleet_plugin_execution_duration_seconds": ("plugin", "point", "status"),
    "fleet_pending_placements": ("queue",),
    "fleet_queue_incoming_placements_total": ("queue", "event"),
    "fleet_unschedulable_placements": ("plugin",),
    "fleet_inflight_events": ("event",),
    "fleet_queueing_hint_execution_duration_seconds": ("plugin", "event", "hint"),
    "fleet_event_handling_duration_seconds": (),
    "fleet_scheduling_sli_duration_seconds": ("attempts",),
    "fleet_preemption_attempts_total": (),
    "fleet_preemption_victims": (),
    "fleet_async_api_call_pending": ("type", "result"),
    "fleet_async_api_call_executed_total": ("type", "result"),
    "fleet_async_api_call_duration_seconds": ("type", "result"),
    "fleet_permit_wait_duration_seconds": ("result",),
    "fleet_cache_size": ("type",),
    "fleet_room_booked": ("resource",),
    "fleet_placement_groups": ("state",),
    "fleet_quota_used": ("quota", "resource"),
    "fleet_throughput_per_second": (),
    "fleet_throughput_quantile_per_second": ("quantile",),
    "fleet_arrivals_per_second": (),
}
WITHOUT_VALUES = {
    "fleet_queueing_hint_execution_duration_seconds",  # where plugins have hints
    "fleet_preemption_attempts_total",
    "fleet_preemption_victims",
    "fleet_permit_wait_duration_seconds",
}
BUCKETS = ["10.0", "50.0", "100.0", "500.0", "1000.0", "5000.0", "10000.0", "50000.0", "+Inf"]


class StoppedClock(FakeClock):
    def now(self) -> Any:
        raise AssertionError("figures are about time that passes, not about the time of day")

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody waits for figures")


class Bench:
    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self.clock = StoppedClock(monotonic=100.0)
        self.metrics = SchedulerMetrics(self.registry, clock=self.clock)

    def value(self, metric: str, /, **labels: str) -> float | None:
        return self.registry.get_sample_value(metric, labels)

    def collectors(self) -> list[Any]:
        return list(self.registry._collector_to_names)

    def family(self, name: str) -> Metric:
        return next(one for one in self.registry.collect() if name in (one.name, f"{one.name}_total"))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def use_everything(metrics: SchedulerMetrics) -> None:
    metrics.observe_event("MemberCluster", 1, 0.1)
    metrics.observe_dequeue(an_item())
    with metrics.track_worker():
        metrics.observe_attempt(a_record(AttemptResult.TRANSIENT, decide=0.1), 0.2)
    metrics.observe_dequeue(an_item(initial_attempt_timestamp=0))
    metrics.observe_attempt(a_record(AttemptResult.DECIDED, decide=0.1, decision=a_decision(ClusterAffinity=1)), 0.2)
    metrics.count_binding_write(Action.CREATE, "written")
    metrics.count_status_write("written")
    metrics.observe_call(CallType.STATUS, CallResult.DONE, 0.1)
    metrics.observe_extension_point(point="filter", status="Success", seconds=0.1)
    metrics.observe_plugin(plugin="A", point="filter", status="Success", seconds=0.1)
    metrics.observe_extender("budget", "filter", "success", 0.1)
    metrics.count_sample("prices", "success")
    metrics.watch_queue(
        lambda: QueueCounts(1, 2, 3, 4, 5, 6),
        by_plugin=lambda: {"A": 1},
        events=lambda: [QueueEvent(EventKind("MemberCluster", "Add"))],
    )
    metrics.watch_calls(lambda: {CallType.BIND: 1})
    metrics.watch_caches(lambda: {"MemberCluster": 1})
    metrics.watch_room(lambda: {"cpu": 1500})
    metrics.watch_quotas(lambda: {("team-a", "cpu"): 1500})
    metrics.watch_groups(lambda: {"waiting": 1})


def an_item(**changes: Any) -> QueueItem:
    item = QueueItem(
        key=PlacementKey("", "web"),
        uid="u",
        priority=0,
        policy=QueuePolicy(immediate=True, timed_retry=False),
        added_at=0,
        timestamp=0,
        state=ItemState.IN_FLIGHT,
    )
    for name, value in changes.items():
        setattr(item, name, value)
    return item


def a_decision(**rejected: int) -> Any:
    """`rejected`: by plugin, how many clusters it rejected."""
    rejections = [
        SimpleNamespace(plugin=number, rows=(1 << count) - 1) for number, count in enumerate(rejected.values())
    ]
    judges = [SimpleNamespace(name=name) for name in rejected]
    return SimpleNamespace(
        verdicts=SimpleNamespace(rejections=rejections, judges=judges),
        warnings=(Warning(UNREADABLE_PROPERTY, "resources.kubernetes-fleet.io/cpu", 0b101), Warning("Other", "x", 0b1)),
    )


def a_record(ending: AttemptResult, *, decision: Any = None, wrote: bool = True, **seconds: float) -> AttemptRecord:
    return AttemptRecord(
        key=PlacementKey("", "web"),
        result=ending,
        inputs=cast("Any", decision or seconds or None),
        decision=decision,
        status_written=wrote,
        seconds=seconds,
    )


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LABELS)
def test_Q_45_every_metric_exists_with_its_labels(name: str, bench: Bench) -> None:
    use_everything(bench.metrics)
    samples = bench.family(name).samples
    assert samples or name in WITHOUT_VALUES
    for sample in samples:
        assert set(sample.labels) - {"le"} == set(LABELS[name])


@pytest.mark.parametrize("name", sorted(WITHOUT_VALUES))
def test_Q_45_metrics_without_values_have_their_labels_all_the_same(name: str, bench: Bench) -> None:
    collectors = {one.name: collector for collector in bench.collectors() for one in collector.collect()}
    assert collectors[name.removesuffix("_total")]._labelnames == LABELS[name]


def test_Q_45_there_are_no_others(bench: Bench) -> None:
    found = {one.name + ("_total" if one.type == "counter" else "") for one in bench.registry.collect()}
    assert found == set(LABELS)


@pytest.mark.parametrize("name", LABELS)
def test_every_metric_says_what_it_means(name: str, bench: Bench) -> None:
    assert bench.family(name).documentation.endswith(".")


@pytest.mark.parametrize("name", LABELS)
def test_the_documentation_lists_every_metric_with_its_labels(name: str) -> None:
    row = re.search(rf"^\| `{name}` \| (?:counter|gauge|histogram) \| (.+?) \|", PAGE, re.MULTILINE)
    assert row is not None
    assert set(re.findall(r"`(\w+)`", row[1])) == set(LABELS[name])


def test_cycles_have_the_buckets_that_dashboards_expect(bench: Bench) -> None:
    bench.metrics.observe_attempt(a_record(AttemptResult.DECIDED, decision=a_decision(), decide=0.04), 1)
    samples = bench.family("scheduling_cycle_duration_milliseconds").samples
    assert [one.labels["le"] for one in samples if one.name.endswith("_bucket")] == BUCKETS


def test_a_registry_has_the_figures_of_the_process_and_no_creation_times() -> None:
    registry = new_registry()
    SchedulerMetrics(registry, clock=StoppedClock()).count_status_write("written")
    names = {sample.name for family in registry.collect() for sample in family.samples}
    assert "python_info" in names
    assert not [name for name in names if name.endswith("_created")]


# --- from the start ---------------------------------------------------------------------------------------------------


def zeros(bench: Bench, name: str) -> set[tuple[str, ...]]:
    """Labels of the series that are at 0."""
    samples = (one for one in bench.family(name).samples if one.name == name)
    return {tuple(one.labels.values()) for one in samples if one.value == 0}


def test_counters_begin_at_0_where_their_labels_are_known(bench: Bench) -> None:
    """Alerts look for an increase, and what begins has not increased."""
    results = {"written", "skipped", "conflict", "failed"}
    writes = {"create", "refresh", "revive", "unschedule", "finalizer"}
    fates = {"done", "skipped", "overwritten", "failed"}
    assert zeros(bench, "fleet_scheduler_requeues_total") == {("transient",), ("input",), ("internal",)}
    assert zeros(bench, "fleet_schedule_attempts_total") == {
        (result, "DefaultProfile") for result in ("scheduled", "unschedulable", "error")
    }
    assert zeros(bench, "fleet_scheduler_status_writes_total") == {(one,) for one in results}
    assert zeros(bench, "fleet_scheduler_binding_writes_total") == set(product(writes, results))
    calls = set(product({"status_patch", "bind", "evict"}, fates))
    assert zeros(bench, "fleet_async_api_call_executed_total") == calls


def test_every_counter_of_attempts_that_is_used_has_begun_before(bench: Bench) -> None:
    begun = {(one.name, *sorted(one.labels.items())) for one in series_of(bench)}
    use_everything(bench.metrics)
    new = {one.name for one in series_of(bench) if (one.name, *sorted(one.labels.items())) not in begun}
    assert new == {
        "fleet_scheduler_unreadable_properties_total",  # whose label nobody knows before
        "fleet_scheduler_filtered_clusters_total",
        "fleet_scheduler_triggers_total",
        "fleet_queue_incoming_placements_total",
        "fleet_feed_samples_total",
    }


def series_of(bench: Bench) -> list[Sample]:
    return [one for family in bench.registry.collect() if family.type == "counter" for one in family.samples]


def test_what_a_scheduler_expects_begins_at_0_as_well(bench: Bench) -> None:
    bench.metrics.initialize_series(
        kinds=["MemberCluster", "ResourcePlacement"], plugins=["ClusterAffinity"], feeds=["prices"]
    )
    assert zeros(bench, "fleet_feed_samples_total") == {("prices", "success"), ("prices", "error")}
    kinds = ("MemberCluster", "ResourcePlacement")
    assert zeros(bench, "fleet_scheduler_triggers_total") == set(product(kinds, ("true", "false")))
    assert zeros(bench, "fleet_queue_incoming_placements_total") == {
        *product(("active",), kinds),
        ("backoff", "AttemptFailed"),
        ("unschedulable", "AttemptRejected"),
    }
    assert zeros(bench, "fleet_scheduler_filtered_clusters_total") == {("ClusterAffinity",)}


# --- attempts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ending, failure",
    [(AttemptResult.TRANSIENT, "transient"), (AttemptResult.BAD_INPUT, "input"), (AttemptResult.INTERNAL, "internal")],
)
def test_a_failed_attempt_counts_by_its_class(ending: AttemptResult, failure: str, bench: Bench) -> None:
    bench.metrics.observe_attempt(a_record(ending), 1)
    assert bench.value("fleet_scheduler_requeues_total", **{"class": failure}) == 1
    assert bench.value("workqueue_retries_total", name="scheduler-queue") == 1
    assert bench.value("fleet_schedule_attempts_total", result="error", profile="DefaultProfile") == 1


@pytest.mark.parametrize(
    "ending",
    [
        AttemptResult.DECIDED,
        AttemptResult.SHORT,
        AttemptResult.GONE,
        AttemptResult.NO_SNAPSHOT,
        AttemptResult.CLEANED_UP,
    ],
)
def test_other_attempts_are_no_retries(ending: AttemptResult, bench: Bench) -> None:
    bench.metrics.observe_attempt(a_record(ending), 1)
    assert bench.value("workqueue_retries_total", name="scheduler-queue") == 0


def test_a_cycle_lasts_from_its_inputs_to_its_last_write(bench: Bench) -> None:
    record = a_record(
        AttemptResult.DECIDED, decision=a_decision(), finalizer=9, read=0.001, decide=0.002, write=0.1, publish=0.02
    )
    bench.metrics.observe_attempt(record, 10)
    labels = {"is_failed": "false", "needs_requeue": "false"}
    assert bench.value("scheduling_cycle_duration_milliseconds_sum", **labels) == pytest.approx(123)


def test_a_failed_cycle_says_so(bench: Bench) -> None:
    bench.metrics.observe_attempt(a_record(AttemptResult.TRANSIENT, decide=0.1), 1)
    labels = {"is_failed": "true", "needs_requeue": "true"}
    assert bench.value("scheduling_cycle_duration_milliseconds_count", **labels) == 1


@pytest.mark.parametrize(
    "ending", [AttemptResult.GONE, AttemptResult.CLEANED_UP, AttemptResult.NO_SNAPSHOT, AttemptResult.BAD_INPUT]
)
def test_an_iteration_that_does_not_reach_the_cycle_is_none(ending: AttemptResult, bench: Bench) -> None:
    bench.metrics.observe_attempt(a_record(ending), 1)
    assert not bench.family("scheduling_cycle_duration_milliseconds").samples


def test_rejected_clusters_count_by_plugin(bench: Bench) -> None:
    for _ in range(2):
        decision = a_decision(ClusterAffinity=3, TaintToleration=1)
        bench.metrics.observe_attempt(a_record(AttemptResult.SHORT, decision=decision), 1)
    assert bench.value("fleet_scheduler_filtered_clusters_total", plugin="ClusterAffinity") == 6
    assert bench.value("fleet_scheduler_filtered_clusters_total", plugin="TaintToleration") == 2


def test_unreadable_properties_count_by_cluster(bench: Bench) -> None:
    bench.metrics.observe_attempt(a_record(AttemptResult.DECIDED, decision=a_decision()), 1)
    name = "resources.kubernetes-fleet.io/cpu"
    assert bench.value("fleet_scheduler_unreadable_properties_total", property=name) == 2


def test_workers_are_active_inside_an_iteration_only(bench: Bench) -> None:
    with bench.metrics.track_worker(), bench.metrics.track_worker():
        assert bench.value("scheduling_active_workers") == 2
    assert bench.value("scheduling_active_workers") == 0


def test_a_worker_that_fails_is_no_longer_active(bench: Bench) -> None:
    with pytest.raises(ZeroDivisionError), bench.metrics.track_worker():
        raise ZeroDivisionError
    assert bench.value("scheduling_active_workers") == 0


# --- the queue --------------------------------------------------------------------------------------------------------


def test_triggers_count_changes_and_whom_they_woke(bench: Bench) -> None:
    bench.metrics.observe_event("MemberCluster", 0, 0.25)
    bench.metrics.observe_event("MemberCluster", 30, 0.5)
    assert bench.value("fleet_scheduler_triggers_total", source="MemberCluster", woken="false") == 1
    assert bench.value("fleet_scheduler_triggers_total", source="MemberCluster", woken="true") == 1
    assert bench.value("fleet_queue_incoming_placements_total", queue="active", event="MemberCluster") == 30
    assert bench.value("workqueue_adds_total", name="scheduler-queue") == 30
    assert bench.value("fleet_event_handling_duration_seconds_sum") == 0.75


def test_waiting_in_the_queue_is_measured_from_when_a_placement_was_due(bench: Bench) -> None:
    bench.metrics.observe_dequeue(an_item(added_at=0, active_since=5 * SECOND, popped_at=7 * SECOND))
    assert bench.value("workqueue_queue_duration_seconds_sum", name="scheduler-queue") == 2


@pytest.mark.parametrize("attempts, label", [(0, "1"), (1, "1"), (14, "14"), (15, "15+"), (99, "15+")])
def test_how_long_it_took_until_bound_is_told_by_attempts(attempts: int, label: str, bench: Bench) -> None:
    bench.metrics.observe_dequeue(an_item(attempts=attempts, initial_attempt_timestamp=90 * SECOND))
    bench.metrics.observe_attempt(a_record(AttemptResult.DECIDED), 1)
    assert bench.value("fleet_scheduling_sli_duration_seconds_sum", attempts=label) == 10


def test_a_placement_that_was_not_bound_is_not_in_it(bench: Bench) -> None:
    for ending in (AttemptResult.SHORT, AttemptResult.TRANSIENT):
        bench.metrics.observe_dequeue(an_item(attempts=1, initial_attempt_timestamp=0))
        bench.metrics.observe_attempt(a_record(ending), 1)
    bench.metrics.observe_dequeue(an_item(attempts=1, initial_attempt_timestamp=0))
    bench.metrics.observe_attempt(a_record(AttemptResult.DECIDED, wrote=False), 1)
    assert not bench.family("fleet_scheduling_sli_duration_seconds").samples


def test_the_spaces_of_the_queue_are_read_when_somebody_asks(bench: Bench) -> None:
    counts = [QueueCounts(1, 2, 3, 4, 5, 6), QueueCounts(7, 0, 0, 0, 0, 0)]
    bench.metrics.watch_queue(lambda: counts[0], by_plugin=lambda: {"TaintToleration": 3})
    places = ("active", "backoff", "unschedulable", "gated")
    assert [bench.value("fleet_pending_placements", queue=place) for place in places] == [1, 2, 3, 4]
    assert bench.value("fleet_unschedulable_placements", plugin="TaintToleration") == 3
    counts.pop(0)
    assert bench.value("workqueue_depth", name="scheduler-queue") == 7


def test_a_figure_that_cannot_be_read_costs_only_itself(bench: Bench) -> None:
    bench.metrics.watch_caches(lambda: {"MemberCluster": 1 // 0})
    bench.metrics.watch_calls(lambda: {CallType.BIND: 3})
    assert bench.value("fleet_cache_size", type="MemberCluster") is None
    assert bench.value("fleet_async_api_call_pending", type="bind", result="waiting") == 3


# --- throughput -------------------------------------------------------------------------------------------------------


def test_throughput_counts_what_was_bound_while_something_was_pending(bench: Bench) -> None:
    counts = [QueueCounts(0, 0, 0, 0, 0, 0)]
    bench.metrics.watch_queue(lambda: counts[0])
    bench.metrics.observe_event("ClusterSchedulingPolicySnapshot", 4, 0.1)
    for _ in range(4):
        bench.metrics.observe_attempt(a_record(AttemptResult.DECIDED), 0.1)
    bench.clock.advance(30)
    assert bench.value("fleet_throughput_per_second") == 4
    assert bench.value("fleet_throughput_quantile_per_second", quantile="0.99") == 4
    assert bench.value("fleet_arrivals_per_second") == pytest.approx(4 / 30)


# --- writes and plugins -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "action, operation",
    [
        (Action.CREATE, "create"),
        (Action.REFRESH, "refresh"),
        (Action.REVIVE, "revive"),
        (Action.UNSCHEDULE, "unschedule"),
        (Action.DROP_FINALIZER, "finalizer"),
    ],
)
def test_writes_of_bindings_count_by_operation_and_result(action: Action, operation: str, bench: Bench) -> None:
    bench.metrics.count_binding_write(action, "conflict")
    assert bench.value("fleet_scheduler_binding_writes_total", operation=operation, result="conflict") == 1


@pytest.mark.parametrize(
    "type, label", [(CallType.STATUS, "status_patch"), (CallType.BIND, "bind"), (CallType.EVICT, "evict")]
)
def test_calls_count_by_type(type: CallType, label: str, bench: Bench) -> None:
    bench.metrics.observe_call(type, CallResult.SKIPPED, 2)
    assert bench.value("fleet_async_api_call_executed_total", type=label, result="skipped") == 1
    assert bench.value("fleet_async_api_call_duration_seconds_sum", type=label, result="skipped") == 2


def test_a_plugin_is_measured_from_outside(bench: Bench) -> None:
    answer = PluginTimer(bench.metrics).measure("filter", "A", lambda one, *, two: (one, two), 1, two=2)
    assert answer == (1, 2)
    labels = {"plugin": "A", "point": "filter", "status": "Success"}
    assert bench.value("fleet_plugin_execution_duration_seconds_count", **labels) == 1


def test_a_plugin_that_raises_is_measured_too(bench: Bench) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        PluginTimer(bench.metrics).measure("filter", "A", fail)
    labels = {"plugin": "A", "point": "filter", "status": "Error"}
    assert bench.value("fleet_plugin_execution_duration_seconds_count", **labels) == 1


def point(bench: Bench, status: str) -> float | None:
    labels = {"point": "filter", "status": status, "profile": "DefaultProfile"}
    return bench.value("fleet_framework_extension_point_duration_seconds_count", **labels)


def test_an_extension_point_is_passed_once_by_all_its_plugins(bench: Bench) -> None:
    times = PluginTimer(bench.metrics)
    for plugin in ("A", "B", "C"):
        times.measure("filter", plugin, int)
    assert point(bench, "Success") is None
    times.flush()
    times.flush()
    assert point(bench, "Success") == 1


def test_a_decision_in_another_thread_is_told_by_that_thread(bench: Bench) -> None:
    times = PluginTimer(bench.metrics)
    with ThreadPoolExecutor(1) as other:
        other.submit(times.measure, "filter", "A", int).result()
        times.flush()
        assert point(bench, "Success") is None
        other.submit(times.flush).result()
    assert point(bench, "Success") == 1


def test_an_extension_point_fails_with_any_of_its_plugins(bench: Bench) -> None:
    times = PluginTimer(bench.metrics)
    times.measure("filter", "A", int)
    with pytest.raises(ValueError, match="invalid literal"):
        times.measure("filter", "B", int, "two")
    times.flush()
    assert (point(bench, "Success"), point(bench, "Error")) == (None, 1)


@pytest.mark.parametrize("code", list(Code))
def test_F3_012_a_plugin_is_told_by_the_name_of_the_code_it_answers(code: Code, bench: Bench) -> None:
    times = PluginTimer(bench.metrics)
    times.measure("reserve", "Alone", lambda: Status.new(code, "because"))
    times.measure("preFilter", "Beside", lambda: (None, Status.new(code, "because")))

    for plugin, hook in (("Alone", "reserve"), ("Beside", "preFilter")):
        labels = {"plugin": plugin, "point": hook, "status": str(code)}
        assert bench.value("fleet_plugin_execution_duration_seconds_count", **labels) == 1


@pytest.mark.parametrize(
    "answers, status",
    [
        ((Code.SKIP, Code.SKIP), "Success"),
        ((Code.UNSCHEDULABLE, Code.SUCCESS, Code.SKIP), "Unschedulable"),
        ((Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE), "UnschedulableAndUnresolvable"),
        ((Code.PENDING, Code.ERROR, Code.UNSCHEDULABLE), "Error"),
        ((Code.WAIT, Code.SUCCESS), "Wait"),
    ],
)
def test_F3_012_an_extension_point_is_told_by_the_gravest_code_of_its_plugins(
    answers: tuple[Code, ...], status: str, bench: Bench
) -> None:
    times = PluginTimer(bench.metrics)
    for number, code in enumerate(answers):
        times.measure("filter", f"P{number}", lambda code=code: Status.new(code, "because"))
    times.flush()

    assert point(bench, status) == 1
