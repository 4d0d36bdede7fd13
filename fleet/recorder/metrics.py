"""Prometheus metrics of the decision history: recorded and shed attempts, and availability of the database."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fleet.history import HistoryCounts, HistoryHealth

_NANOSECONDS = 1e9


class RecorderMetrics(Collector):
    def __init__(
        self, registry: CollectorRegistry, *, counts: Callable[[], HistoryCounts], state: Callable[[], HistoryHealth]
    ) -> None:
        self._counts = counts
        self._state = state
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        return _families(HistoryCounts(), HistoryHealth())

    def collect(self) -> Iterable[Metric]:
        return _families(self._counts(), self._state())


class HistoryMetrics(Collector):
    """For a process that only reads the history."""

    def __init__(self, registry: CollectorRegistry, *, state: Callable[[], HistoryHealth]) -> None:
        self._state = state
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        return [_describe_outage(HistoryHealth())]

    def collect(self) -> Iterable[Metric]:
        return [_describe_outage(self._state())]


def _families(counts: HistoryCounts, health: HistoryHealth) -> list[Metric]:
    attempts = CounterMetricFamily(
        "fleet_recorder_attempts_total", "Attempts, by result of recording them.", labels=("result",)
    )
    for name in ("written", "folded", "failed"):
        attempts.add_metric((name,), getattr(counts, name))
    shed = CounterMetricFamily(
        "fleet_recorder_shed_total", "Parts dropped to keep up with the scheduler.", labels=("part",)
    )
    for name in ("columns", "inputs", "attempts"):
        shed.add_metric((name,), getattr(counts, f"shed_{name}"))
    waiting = GaugeMetricFamily(
        "fleet_recorder_waiting", "Attempts that wait to be written to the database.", value=counts.waiting
    )
    return [attempts, shed, waiting, _describe_outage(health)]


def _describe_outage(health: HistoryHealth) -> Metric:
    return GaugeMetricFamily(
        "fleet_history_unavailable_since_seconds",
        "Since when the history database cannot be written or read, in seconds since the epoch; 0 if it can.",
        value=(health.unavailable_since or 0) / _NANOSECONDS,
    )
