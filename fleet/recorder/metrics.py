"""What the decision history tells Prometheus: how much it keeps, what it gives up, and whether it is there at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fleet.history import Counts, Health

_NANOSECONDS = 1e9


class RecorderMetrics(Collector):
    """Asks the history when somebody looks."""

    def __init__(
        self, registry: CollectorRegistry, *, counts: Callable[[], Counts], state: Callable[[], Health]
    ) -> None:
        self._counts = counts
        self._state = state
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        return _families(Counts(), Health())

    def collect(self) -> Iterable[Metric]:
        return _families(self._counts(), self._state())


def _families(counts: Counts, health: Health) -> list[Metric]:
    attempts = CounterMetricFamily(
        "fleet_recorder_attempts_total", "Attempts, by what became of them.", labels=("result",)
    )
    for name in ("written", "folded", "failed"):
        attempts.add_metric((name,), getattr(counts, name))
    shed = CounterMetricFamily("fleet_recorder_shed_total", "What was given up to keep up, by part.", labels=("part",))
    for name in ("columns", "inputs", "attempts"):
        shed.add_metric((name,), getattr(counts, f"shed_{name}"))
    waiting = GaugeMetricFamily("fleet_recorder_waiting", "Attempts that wait for the database.", value=counts.waiting)
    since = GaugeMetricFamily(
        "fleet_history_unavailable_since_seconds",
        "Since when the database of the history cannot be written, in seconds since the epoch; 0: it can.",
        value=(health.unavailable_since or 0) / _NANOSECONDS,
    )
    return [attempts, shed, waiting, since]
