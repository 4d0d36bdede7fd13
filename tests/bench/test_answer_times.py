"""W-03: the benchmark times answers on 5,000 clusters, and fails when they take longer than they may."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.bench import __main__ as program
from tests.bench import api
from tests.bench.asking import Answering, Asked
from tests.bench.figures import Origin, Report, violations
from tests.bench.machine import this_machine
from tests.bench.measuring import Run
from tests.bench.tables import from_json

MILLISECOND: Final = 1_000_000
CALLS: Final = 1_000


def waits(slowest: float) -> list[float]:
    """Of each hundred answers two are that slow, in milliseconds; the others take next to nothing."""
    return [slowest * MILLISECOND if number % 50 == 0 else 1.0 for number in range(CALLS)]


def complaints_about(run: Run) -> list[str]:
    figures = tuple(api.api(run))
    origin = Origin(day="2026-11-01", machine=this_machine(), load=0.0)
    report = Report(origin=origin, quick=run.quick, picks=43, figures=figures)
    return [one for one in violations(report, None) if "/s is under" not in one]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """How slow the slowest answers are, and on how many clusters they were asked for."""
    given: dict[str, Any] = {"some": 0.0, "everything": 0.0, "http": 0.0, "served": 0.0005, "clusters": set()}

    def times(_: str, *, everything: bool, calls: int, clusters: int) -> list[float]:
        given["clusters"].add(clusters)
        return waits(given["everything" if everything else "some"])

    async def ask(clusters: int, *, calls: int) -> dict[str, Answering]:
        given["clusters"].add(clusters)
        made = Asked(waits=waits(given["http"]), cpu_seconds=0.01, rate=1.0, size=1)
        served = Asked(waits=[1.0], cpu_seconds=given["served"], rate=1.0, size=1)
        return {"plain, placed": Answering(made, served)}

    monkeypatch.setattr(api, "times", times)
    monkeypatch.setattr(api, "ask", ask)
    return given


@pytest.mark.parametrize("quick", [True, False], ids=["quick", "full"])
@pytest.mark.parametrize(
    "which, slowest, is_too_slow",
    [("some", 50, False), ("some", 50.5, True), ("everything", 1_000, False), ("everything", 1_001, True)],
)
def test_W_03_answers_may_take_50_milliseconds_and_a_second_with_all_verdicts(
    which: str, slowest: float, *, is_too_slow: bool, quick: bool, asked: dict[str, Any]
) -> None:
    asked[which] = slowest

    found = complaints_about(Run("api", quick=quick))

    assert bool(found) == is_too_slow
    assert all("p99" in one for one in found)
    assert asked["clusters"] == {5_000}


@pytest.mark.parametrize("slowest, is_too_slow", [(50, False), (50.5, True)])
def test_W_03_answers_over_http_may_take_as_long(slowest: float, *, is_too_slow: bool, asked: dict[str, Any]) -> None:
    asked["http"] = slowest

    assert bool(complaints_about(Run("api", quick=False))) == is_too_slow


@pytest.mark.parametrize("seconds, is_too_slow", [(0.001, False), (0.00101, True)])
def test_an_answer_that_was_made_before_takes_a_millisecond_of_a_core(
    seconds: float, *, is_too_slow: bool, asked: dict[str, Any]
) -> None:
    asked["served"] = seconds
    figures = tuple(api.api(Run("api", quick=False)))

    assert [one.misses_target for one in figures if one.part == "per core"] == [is_too_slow]


def test_W_03_the_recorded_run_kept_to_all_of_these_times() -> None:
    recorded = from_json(program.BASELINE.read_bytes()).figures
    timed = [one for one in recorded if one.group == "api" and one.part == "p99"]

    assert {one.target for one in timed} == {50, 1_000}
    assert any("over HTTP" in one.case for one in timed)
    assert [one.id for one in timed if one.misses_target] == []
