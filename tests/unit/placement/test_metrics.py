"""The placement controller's figures, under the names that dashboards know."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from fleet.placement.controller import ERROR, REQUEUE_AFTER, SUCCESS
from fleet.placement.metrics import PlacementMetrics, SnapshotTotals

STATUS = "fleet_workload_placement_status_last_timestamp_seconds"
PAGE = (Path(__file__).resolve().parents[3] / "docs" / "controller.md").read_text(encoding="utf-8")
LABELS = {
    STATUS: {"namespace", "name", "generation", "conditionType", "status", "reason"},
    "fleet_workload_reconcile_total": {"controller", "result"},
    "fleet_workload_reconcile_errors_total": {"controller"},
    "fleet_workload_reconcile_time_seconds": {"controller"},
    "fleet_workload_max_concurrent_reconciles": {"controller"},
    "fleet_workload_active_workers": {"controller"},
    "fleet_bindings": {"state"},
    "fleet_snapshots": {"kind"},
    "fleet_snapshot_bytes": {"kind"},
    "fleet_placed_objects": {"state"},
    "fleet_placement_available_duration_seconds": {"kind"},
    "fleet_cluster_heartbeat_age_seconds": {"cluster"},
}


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> PlacementMetrics:
    return PlacementMetrics(registry)


def stand(metrics: PlacementMetrics, **changes: Any) -> None:
    values: dict[str, Any] = {
        "namespace": "",
        "name": "web",
        "generation": 1,
        "condition_type": "ClusterResourcePlacementScheduled",
        "status": "False",
        "reason": "SchedulingPolicyUnfulfilled",
        "timestamp": 5.0,
    }
    metrics.set_condition(**values | changes)


def series(registry: CollectorRegistry) -> dict[tuple[str, str, str], float]:
    return {
        (one.labels["name"], one.labels["generation"], one.labels["conditionType"]): one.value
        for family in registry.collect()
        if family.name == STATUS
        for one in family.samples
    }


@pytest.mark.parametrize("name", LABELS)
def test_every_metric_has_its_labels(name: str, metrics: PlacementMetrics, registry: CollectorRegistry) -> None:
    stand(metrics)
    metrics.observe_reconcile("placement", ERROR, 0.1)
    metrics.set_workers("placement", 4)
    with metrics.track_worker("placement"):
        pass
    metrics.watch_bindings(lambda: {"Bound": 1})
    metrics.watch_snapshots(lambda: {"ClusterResourceSnapshot": SnapshotTotals(1, 100)})
    metrics.watch_heartbeats(lambda: {"c1": 3.5})
    metrics.watch_placed_objects(lambda: {"failed": 2})
    metrics.observe_available(kind="ResourcePlacement", seconds=4.0)
    family = next(one for one in registry.collect() if name in (one.name, f"{one.name}_total"))
    assert family.samples
    assert {frozenset(one.labels.keys() - {"le"}) for one in family.samples if not one.name.endswith("_created")} == {
        frozenset(LABELS[name])
    }


@pytest.mark.parametrize("name", LABELS)
def test_the_documentation_lists_every_metric_with_its_labels(name: str) -> None:
    row = re.search(rf"^\| `{name}` \| (?:counter|gauge|histogram) \| (.+?) \|", PAGE, re.MULTILINE)
    assert row is not None
    assert set(re.findall(r"`(\w+)`", row[1])) == set(LABELS[name])


def test_where_a_placement_stands_has_the_time_it_was_seen(
    metrics: PlacementMetrics, registry: CollectorRegistry
) -> None:
    stand(metrics, timestamp=5.0)
    stand(metrics, timestamp=9.0)
    labels = {
        "namespace": "",
        "name": "web",
        "generation": "1",
        "conditionType": "ClusterResourcePlacementScheduled",
        "status": "False",
        "reason": "SchedulingPolicyUnfulfilled",
    }
    assert registry.get_sample_value(STATUS, labels) == 9.0


def test_series_of_one_generation_stay_beside_each_other(
    metrics: PlacementMetrics, registry: CollectorRegistry
) -> None:
    stand(metrics)
    stand(metrics, condition_type="ClusterResourcePlacementRolloutStarted")
    assert len(series(registry)) == 2


def test_series_of_earlier_generations_end(metrics: PlacementMetrics, registry: CollectorRegistry) -> None:
    stand(metrics, generation=1)
    stand(metrics, generation=1, condition_type="ClusterResourcePlacementRolloutStarted")
    stand(metrics, generation=2)
    assert list(series(registry)) == [("web", "2", "ClusterResourcePlacementScheduled")]


def test_series_of_a_deleted_placement_end_and_no_others(
    metrics: PlacementMetrics, registry: CollectorRegistry
) -> None:
    stand(metrics)
    stand(metrics, namespace="team-a")
    stand(metrics, name="other")
    metrics.remove_placement("", "web")
    metrics.remove_placement("", "never seen")
    assert sorted(series(registry)) == [
        ("other", "1", "ClusterResourcePlacementScheduled"),
        ("web", "1", "ClusterResourcePlacementScheduled"),
    ]


def test_passes_count_by_result_and_errors_once_more(metrics: PlacementMetrics, registry: CollectorRegistry) -> None:
    metrics.observe_reconcile("placement", SUCCESS, 0.5)
    metrics.observe_reconcile("placement", ERROR, 1.5)
    assert registry.get_sample_value("fleet_workload_reconcile_errors_total", {"controller": "placement"}) == 1
    assert registry.get_sample_value("fleet_workload_reconcile_time_seconds_sum", {"controller": "placement"}) == 2
    for result in (SUCCESS, ERROR):
        labels = {"controller": "placement", "result": result}
        assert registry.get_sample_value("fleet_workload_reconcile_total", labels) == 1


@pytest.mark.parametrize("result", [SUCCESS, REQUEUE_AFTER, ERROR])
def test_passes_are_counted_from_0_once_there_are_workers(
    result: str, metrics: PlacementMetrics, registry: CollectorRegistry
) -> None:
    metrics.set_workers("placement", 4)
    labels = {"controller": "placement", "result": result}
    assert registry.get_sample_value("fleet_workload_reconcile_total", labels) == 0
    assert registry.get_sample_value("fleet_workload_reconcile_errors_total", {"controller": "placement"}) == 0


def test_snapshots_are_looked_at_once_whenever_somebody_asks(
    metrics: PlacementMetrics, registry: CollectorRegistry
) -> None:
    looks: list[None] = []

    def look() -> dict[str, SnapshotTotals]:
        looks.append(None)
        return {"ClusterResourceSnapshot": SnapshotTotals(2, 100 * len(looks))}

    metrics.watch_snapshots(look)
    for asked in (1, 2):
        found = {one.name: one.samples[0].value for one in registry.collect() if one.name.startswith("fleet_snapshot")}
        assert found == {"fleet_snapshots": 2, "fleet_snapshot_bytes": 100 * asked}


def test_snapshots_that_cannot_be_counted_cost_no_other_figure(
    metrics: PlacementMetrics, registry: CollectorRegistry
) -> None:
    metrics.watch_snapshots(lambda: {"ClusterResourceSnapshot": SnapshotTotals(1, 1 // 0)})
    metrics.watch_bindings(lambda: {"Bound": 1})
    assert registry.get_sample_value("fleet_snapshots", {"kind": "ClusterResourceSnapshot"}) is None
    assert registry.get_sample_value("fleet_bindings", {"state": "Bound"}) == 1


def test_workers_are_active_inside_a_pass_only(metrics: PlacementMetrics, registry: CollectorRegistry) -> None:
    labels = {"controller": "placement"}
    with metrics.track_worker("placement"):
        assert registry.get_sample_value("fleet_workload_active_workers", labels) == 1
    assert registry.get_sample_value("fleet_workload_active_workers", labels) == 0


def test_bindings_are_counted_when_somebody_asks(metrics: PlacementMetrics, registry: CollectorRegistry) -> None:
    states = {"Bound": 1}
    metrics.watch_bindings(lambda: states)
    states["Bound"] = 7
    assert registry.get_sample_value("fleet_bindings", {"state": "Bound"}) == 7
