"""Figures of the history."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry

from fleet.history import HistoryCounts, HistoryHealth
from fleet.recorder.metrics import RecorderMetrics


def test_figures_are_those_of_the_history_when_somebody_looks() -> None:
    registry = CollectorRegistry()
    counts, health = [HistoryCounts()], [HistoryHealth()]
    RecorderMetrics(registry, counts=lambda: counts[0], state=lambda: health[0])
    counts[0] = HistoryCounts(written=5, folded=4, failed=3, shed_columns=2, shed_inputs=1, shed_attempts=7, waiting=6)
    health[0] = HistoryHealth(unavailable_since=1_500_000_000, reason="locked")

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    assert [value("fleet_recorder_attempts_total", result=one) for one in ("written", "folded", "failed")] == [5, 4, 3]
    assert [value("fleet_recorder_shed_total", part=one) for one in ("columns", "inputs", "attempts")] == [2, 1, 7]
    assert value("fleet_recorder_waiting") == 6
    assert value("fleet_history_unavailable_since_seconds") == 1.5


def test_the_documentation_lists_every_figure() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "history.md").read_text(encoding="utf-8")
    registry = CollectorRegistry()
    RecorderMetrics(registry, counts=HistoryCounts, state=HistoryHealth)

    names = {one.name + ("_total" if one.type == "counter" else "") for one in registry.collect()}
    assert {name for name in names if f"| `{name}` |" not in page} == set()
