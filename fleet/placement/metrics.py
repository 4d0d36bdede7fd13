"""Prometheus metrics of the placement controller, named as in KubeFleet where its dashboards use them.

Gauges about the hub are computed from the caches at scrape time.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from fleet.clock import Clock, epoch_nanoseconds
from fleet.informers.cache import Caches
from fleet.model.timestamps import SECOND
from fleet.placement.controller import ERROR, REQUEUE_AFTER, SUCCESS
from fleet.placement.snapshots.resource_snapshots import ResourceSnapshots
from fleet.scheduler.telemetry.metrics import Children
from fleet.scheduler.telemetry.scrape_gauges import Read, ScrapeGauges, Values
from fleet.snapshot.columns.signals import HEARTBEAT_KNOWN, signals_of

_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_MINUTES: Final = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200)
_SNAPSHOTS: Final = "fleet_snapshots"
_SNAPSHOT_BYTES: Final = "fleet_snapshot_bytes"
_SCRAPED: Final = (
    ("fleet_bindings", "Bindings on the hub, by state.", ("state",)),
    (_SNAPSHOTS, "Policy and resource snapshots on the hub, by kind.", ("kind",)),
    (_SNAPSHOT_BYTES, "Size of policy and resource snapshots on the hub, by kind.", ("kind",)),
    (
        "fleet_placed_objects",
        "Placed objects that are failed, drifted or different, as the statuses of placements list them.",
        ("state",),
    ),
    ("fleet_cluster_heartbeat_age_seconds", "Time since the last heartbeat of a member cluster.", ("cluster",)),
)

_Series = tuple[str, str, str, str, str, str]


@dataclass(frozen=True, slots=True)
class SnapshotTotals:
    count: int
    bytes: int


class PlacementMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._conditions = Gauge(
            "fleet_workload_placement_status_last_timestamp_seconds",
            "When a placement was last seen at the first condition that is not True yet.",
            ("namespace", "name", "generation", "conditionType", "status", "reason"),
            registry=registry,
        )
        self._series: defaultdict[tuple[str, str], set[_Series]] = defaultdict(set)
        self._reconciled = Children(
            Counter("fleet_workload_reconcile_total", "Reconciliations.", ("controller", "result"), registry=registry)
        )
        self._errors = Children(
            Counter(
                "fleet_workload_reconcile_errors_total", "Failed reconciliations.", ("controller",), registry=registry
            )
        )
        self._seconds = Children(
            Histogram(
                "fleet_workload_reconcile_time_seconds",
                "Duration of a reconciliation.",
                ("controller",),
                registry=registry,
                buckets=_BUCKETS,
            )
        )
        self._worker_limit = Children(
            Gauge(
                "fleet_workload_max_concurrent_reconciles",
                "Maximum number of concurrent workers.",
                ("controller",),
                registry=registry,
            )
        )
        self._active = Children(
            Gauge("fleet_workload_active_workers", "Workers that are reconciling.", ("controller",), registry=registry)
        )
        self._available = Children(
            Histogram(
                "fleet_placement_available_duration_seconds",
                "From a change of a placement until it is available on all its clusters.",
                ("kind",),
                registry=registry,
                buckets=_MINUTES,
            )
        )
        self._readings = ScrapeGauges(registry, _SCRAPED)

    # --- placements ---------------------------------------------------------------------------------------------------

    def set_condition(
        self,
        *,
        namespace: str,
        name: str,
        generation: int,
        condition_type: str,
        status: str,
        reason: str,
        timestamp: float,
    ) -> None:
        """At the end of a reconcile: the first condition that is not True, or `Completed`.

        Removes the series of earlier generations of the placement."""
        series = (namespace, name, str(generation), condition_type, status, reason)
        known = self._series[namespace, name]
        for old in [labels for labels in known if labels[2] != series[2]]:
            self._conditions.remove(*old)
            known.discard(old)
        known.add(series)
        self._conditions.labels(*series).set(timestamp)

    def remove_placement(self, namespace: str, name: str) -> None:
        """The placement is gone."""
        for series in self._series.pop((namespace, name), ()):
            self._conditions.remove(*series)

    def observe_available(self, *, kind: str, seconds: float) -> None:
        """A change of a placement of that kind is available everywhere."""
        self._available(kind).observe(seconds)

    # --- reconciliations ----------------------------------------------------------------------------------------------

    def observe_reconcile(self, controller: str, result: str, seconds: float) -> None:
        """`result`: success, requeue_after or error."""
        self._reconciled(controller, result).inc()
        self._seconds(controller).observe(seconds)
        if result == ERROR:
            self._errors(controller).inc()

    @contextmanager
    def track_worker(self, controller: str) -> Iterator[None]:
        """Counts the worker as active."""
        with self._active(controller).track_inprogress():
            yield

    def set_workers(self, controller: str, count: int) -> None:
        self._worker_limit(controller).set(count)
        # Created here, so that the first count of each is an increase for Prometheus.
        self._errors(controller)
        self._reconciled.initialize((controller,), (SUCCESS, REQUEUE_AFTER, ERROR))

    # --- computed at scrape time --------------------------------------------------------------------------------------

    def watch_bindings(self, by_state: Callable[[], Mapping[str, int]]) -> None:
        self._readings.attach("fleet_bindings", _label_by_name(by_state))

    def watch_snapshots(self, by_kind: Callable[[], Mapping[str, SnapshotTotals]]) -> None:
        def read() -> Mapping[str, Values]:
            totals = by_kind()
            return {
                _SNAPSHOTS: {(kind,): total.count for kind, total in totals.items()},
                _SNAPSHOT_BYTES: {(kind,): total.bytes for kind, total in totals.items()},
            }

        self._readings.attach_together((_SNAPSHOTS, _SNAPSHOT_BYTES), read)

    def watch_placed_objects(self, by_state: Callable[[], Mapping[str, int]]) -> None:
        self._readings.attach("fleet_placed_objects", _label_by_name(by_state))

    def watch_heartbeats(self, ages: Callable[[], Mapping[str, float]]) -> None:
        """Seconds by cluster."""
        self._readings.attach("fleet_cluster_heartbeat_age_seconds", _label_by_name(ages))


def _label_by_name(read: Callable[[], Mapping[str, float]]) -> Read:
    return lambda: {(name,): value for name, value in read().items()}


_NO_STATE: Final = ""


def count_bindings_by_state(caches: Caches) -> Mapping[str, int]:
    """Of both scopes; a binding without a state counts under the empty string."""
    bindings = (binding for kinds in caches.kinds for binding in kinds.bindings.store.values())
    return Tally(binding.view.spec.state or _NO_STATE for binding in bindings)


def total_snapshots_by_kind(caches: Caches, groups: ResourceSnapshots) -> Mapping[str, SnapshotTotals]:
    """Number and size of policy and resource snapshots; the size as the API server sends them."""
    return {kind: SnapshotTotals(len(sizes), sum(sizes)) for kind, sizes in _iter_snapshot_sizes(caches, groups)}


def _iter_snapshot_sizes(caches: Caches, groups: ResourceSnapshots) -> Iterator[tuple[str, list[int]]]:
    for kinds in caches.kinds:
        policies = kinds.policy_snapshots
        yield policies.resource.kind, [len(snapshot.raw) for snapshot in policies.store.values()]
    for resource, snapshots in groups.snapshots():
        yield resource.kind, [snapshot.size for snapshot in snapshots]


def compute_heartbeat_ages(caches: Caches, clock: Clock) -> Mapping[str, float]:
    """Seconds by cluster. A cluster without a heartbeat is left out."""
    now = epoch_nanoseconds(clock)
    seen = {cluster.metadata.name: signals_of(cluster) for cluster in caches.clusters.values()}
    return {
        name: (now - signals.last_seen) / SECOND for name, signals in seen.items() if signals.flags & HEARTBEAT_KNOWN
    }
