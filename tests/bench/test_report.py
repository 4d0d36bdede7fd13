"""Figures, baselines and tables: what the benchmark says about what it measured. No test here looks at a clock."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests.bench import __main__ as program
from tests.bench import api, groups, history, hub, kube, measuring, prepared, recording
from tests.bench.controller import group as controller
from tests.bench.controller import joining
from tests.bench.controller.hubs import EMBEDDED, REAL
from tests.bench.controller.runs import Plan, Size
from tests.bench.figures import SENSE, Figure, Kind, Origin, Report, comparisons, violations
from tests.bench.groups import GROUPS, NAMES
from tests.bench.growth import exponent, last_decade
from tests.bench.machine import Machine, this_machine
from tests.bench.measuring import Run
from tests.bench.rows import ROWS, rows_table
from tests.bench.scheduling import group as forms_group
from tests.bench.scheduling.forms import Size as FormSize
from tests.bench.stopwatch import Effort, measure, sample_of, undisturbed
from tests.bench.tables import BEGIN, END, as_json, from_json, heading, page_with, tables

HERE = Machine(cpu="A", cores=2, system="S", python="P", numpy="2", msgspec="0")
ELSEWHERE = msgspec.structs.replace(HERE, cpu="B")
ONCE = Effort(warm_up=1, least=1, most=1, seconds=0)


def a_figure(median: float = 1.0, *, part: str = "decide", kind: Kind = Kind.MILLISECONDS, **changes: Any) -> Figure:
    shape = {"group": "decide", "case": "some case", "p95": None, "tolerance": SENSE[kind].tolerance}
    return Figure(part=part, kind=kind, median=median, **{**shape, **changes})


def a_report(*figures: Figure, machine: Machine = HERE, quick: bool = False) -> Report:
    origin = Origin(day="2026-11-01", machine=machine, load=0.5)
    return Report(origin=origin, quick=quick, picks=43, figures=figures)


# --- targets and baselines ------------------------------------------------------------------------------------------


def test_a_median_over_its_target_is_a_complaint() -> None:
    report = a_report(a_figure(2.1, target=2), a_figure(2.0, target=2, part="other"))

    assert list(violations(report, None)) == ["decide / some case / decide: 2.1 ms is over the target ≤ 2 ms"]


def test_a_rate_under_its_target_is_a_complaint() -> None:
    figures = [a_figure(rate, part=f"{rate:g}", kind=Kind.PER_SECOND, target=3_000) for rate in (2_999, 3_000, 9_000)]

    assert list(violations(a_report(*figures), None)) == [
        "decide / some case / 2999: 2,999 /s is under the target ≥ 3,000 /s"
    ]


@pytest.mark.parametrize(
    "kind, before, now, change",
    [
        (Kind.MILLISECONDS, 2.0, 2.5, 1.25),
        (Kind.BYTES, 200.0, 100.0, 0.5),
        (Kind.TIMES_FASTER, 300.0, 150.0, 2.0),
        (Kind.PER_SECOND, 3000.0, 2000.0, 1.5),
        (Kind.EXPONENT, 0.25, 0.5, 0.25),
        (Kind.COUNT, 0.0, 3.0, 3.0),
    ],
)
def test_a_change_says_how_much_worse_a_figure_became(kind: Kind, before: float, now: float, change: float) -> None:
    (found,) = comparisons(a_report(a_figure(now, kind=kind)), a_report(a_figure(before, kind=kind))).values()

    assert found.change == change


def test_worse_than_tolerated_is_a_complaint_that_names_both_figures() -> None:
    baseline = a_report(a_figure(1.0, tolerance=1.5))

    assert list(violations(a_report(a_figure(1.5)), baseline)) == []
    assert list(violations(a_report(a_figure(1.6)), baseline)) == [
        "decide / some case / decide: 1.6 ms against the baseline's 1 ms: 1.60 times (≤ 1.5)"
    ]


def test_the_tolerance_of_the_baseline_counts() -> None:
    now, baseline = a_report(a_figure(1.6, tolerance=1.5)), a_report(a_figure(1.0, tolerance=3.0))

    assert list(violations(now, baseline)) == []


def test_times_of_another_machine_are_not_compared_but_sizes_are() -> None:
    baseline = a_report(a_figure(1.0), a_figure(1.0, part="size", kind=Kind.BYTES), machine=ELSEWHERE)
    now = a_report(a_figure(9.0), a_figure(9.0, part="size", kind=Kind.BYTES))

    assert list(comparisons(now, baseline)) == ["decide / some case / size"]


def test_figures_without_a_tolerance_or_a_counterpart_are_not_compared() -> None:
    baseline = a_report(a_figure(1.0, tolerance=None))

    assert comparisons(a_report(a_figure(9.0), a_figure(9.0, part="new")), baseline) == {}


def test_recording_keeps_a_tolerance_that_was_changed_by_hand() -> None:
    before = a_report(a_figure(1.0, tolerance=7.0))

    kept = program.keeping_tolerances(a_report(a_figure(2.0), a_figure(3.0, part="new")), before)

    assert [(one.median, one.tolerance) for one in kept.figures] == [(2.0, 7.0), (3.0, 1.5)]


# --- tables and files -----------------------------------------------------------------------------------------------


def test_a_table_has_a_row_per_case_and_a_column_per_part() -> None:
    figures = [a_figure(0.5, p95=0.75, target=1), a_figure(1234, part="size", kind=Kind.BYTES), a_figure(7, case="b")]

    _, _, table = tables(a_report(*figures)).rpartition("\n\n")

    assert table.splitlines() == [
        "| case      | decide            | size    | target     |",
        "| --------- | ----------------- | ------- | ---------- |",
        "| some case | 0.5 ms (p95 0.75) | 1,234 B | ≤ 1 ms met |",
        "| b         | 7 ms              |         |            |",
    ]


def test_a_table_shows_the_baseline_with_the_tolerance_and_what_became_worse() -> None:
    now = a_report(a_figure(3.0, target=2), a_figure(1.0, part="size", kind=Kind.BYTES))

    text = tables(now, a_report(a_figure(1.0), a_figure(1.0, part="size", kind=Kind.BYTES)))

    assert text.splitlines()[-1] == (
        "| some case | 3 ms   | 1 B  | ≤ 2 ms MISSED | 1 ms · 1 B | 3.00 times (≤ 1.5) WORSE · 1.00 times (≤ 1.1) |"
    )


def test_figures_of_another_machine_are_shown_beside_and_not_compared() -> None:
    text = tables(a_report(a_figure(3.0)), a_report(a_figure(1.0), machine=ELSEWHERE))

    assert text.splitlines()[-1] == "| some case | 3 ms   | 1 ms     |        |"


def test_groups_come_in_their_order_with_title_and_note() -> None:
    text = tables(a_report(*(a_figure(group=name) for name in reversed(NAMES))))

    assert [line[4:] for line in text.splitlines() if line.startswith("### ")] == [group.title for group in GROUPS]
    assert all(group.note in text for group in GROUPS)


def test_the_heading_names_the_machine_and_its_load() -> None:
    assert str(HERE) in heading(a_report())
    assert "load before it 0.5" in heading(a_report())


def test_this_machine_is_fully_described() -> None:
    assert all(msgspec.structs.astuple(this_machine()))


def test_a_report_survives_its_json() -> None:
    report = a_report(a_figure(0.5, p95=0.75, target=1), a_figure(3.0, kind=Kind.EXPONENT, tolerance=None))

    assert from_json(as_json(report, report)) == report


def test_the_json_says_how_figures_compare_and_what_is_wrong() -> None:
    report = a_report(a_figure(3.0, target=2))

    content = json.loads(as_json(report, a_report(a_figure(1.0))))

    name = "decide / some case / decide"
    assert content["compared"] == {name: {"before": 1.0, "change": 3.0, "allowed": 1.5}}
    assert [complaint.partition(":")[0] for complaint in content["complaints"]] == [name, name]


def test_only_the_figures_of_a_page_are_renewed() -> None:
    page = page_with(f"before\n{BEGIN}\nold\n{END}\nafter\n", a_report(a_figure()))

    assert page.startswith(f"before\n{BEGIN}\n\nA full run of 2026-11-01")
    assert page.endswith(f"|\n\n{END}\nafter\n")
    assert "old" not in page


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="the page has no <!-- figures -->"):
        page_with("nothing here", a_report())


def test_the_page_shows_the_recorded_baseline() -> None:
    page = program.PAGE.read_text(encoding="utf-8")

    assert page == page_with(page, from_json(program.BASELINE.read_bytes()))


# --- the program ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [["--record", "--quick"], ["--only", "nothing"], ["--baseline", "nowhere.json"]],
    ids=" ".join,
)
def test_what_makes_no_sense_is_refused_before_anything_runs(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(SystemExit, match="2"):
        program.main(arguments)


def test_a_group_can_be_recorded_alone_and_the_others_stay() -> None:
    hub, old = a_figure(1.0, group="hub"), a_figure(2.0, part="gone")
    before, now = a_report(old, hub, machine=ELSEWHERE), a_report(a_figure(3.0))

    recorded = program.with_other_groups(now, before)

    assert recorded == msgspec.structs.replace(before, groups={"decide": now.origin}, figures=(a_figure(3.0), hub))


def test_a_group_that_was_recorded_on_another_machine_is_compared_there_and_says_so() -> None:
    recorded = program.with_other_groups(a_report(a_figure(), machine=ELSEWHERE), a_report(a_figure(group="hub")))
    both = a_figure(9.0), a_figure(9.0, group="hub")

    assert list(comparisons(a_report(*both), recorded)) == ["hub / some case / decide"]
    assert list(comparisons(a_report(*both, machine=ELSEWHERE), recorded)) == ["decide / some case / decide"]
    decide, hub = tables(recorded).split("### ")[1:]
    assert f"\n\nMeasured on 2026-11-01 on {ELSEWHERE}; load before it 0.5.\n\n|" in decide
    assert "Measured on" not in hub


@pytest.mark.parametrize("median, code", [(1.4, 0), (1.6, 1)], ids=["within its tolerance", "beyond it"])
def test_P_15_a_run_fails_where_a_figure_is_worse_than_the_recorded_one(
    median: float, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = tmp_path / "recorded.json"
    recorded.write_bytes(as_json(a_report(a_figure(1.0, target=2), machine=this_machine())))
    monkeypatch.setattr(program, "in_fresh_process", lambda _: [])
    monkeypatch.setattr(program, "measured", lambda *_, **__: [a_figure(median, target=2)])

    assert program.main(["--only", "decide", "--baseline", str(recorded)]) == code
    assert ("against the baseline's 1 ms" in capsys.readouterr().out) is bool(code)


# --- rows of docs/acceptance.md -------------------------------------------------------------------------------------


def recorded(row: str) -> list[Figure]:
    """The figures of the recorded run, all that the row asks for."""
    baseline = from_json(program.BASELINE.read_bytes())
    figures = [baseline.figure(figure_id) for figure_id in ROWS[row]]
    assert None not in figures
    return [figure for figure in figures if figure is not None]


def are_kept(*figures: Figure, within: list[float]) -> bool:
    """The targets are those of the row, and were met."""
    return [one.target for one in figures] == within and not any(one.misses_target for one in figures)


def test_P_03_P_04_P_05_what_goes_on_beside_slows_placements_little() -> None:
    assert are_kept(*recorded("P-03"), *recorded("P-04"), *recorded("P-05"), within=[90, 85, 80])


def test_P_07_placements_stay_away_from_others_at_ninety_a_second() -> None:
    assert are_kept(*recorded("P-07"), within=[90])


def test_P_09_a_cluster_that_joins_costs_no_attempt_and_little_time() -> None:
    assert are_kept(*recorded("P-09"), within=[50, 0])


def test_P_10_a_frame_is_refreshed_in_half_a_millisecond() -> None:
    assert are_kept(*recorded("P-10"), within=[500])


def test_P_12_recording_costs_at_most_a_twentieth() -> None:
    assert are_kept(*recorded("P-12"), within=[95, 95])


def test_P_14_a_restart_binds_within_five_seconds_of_its_lease() -> None:
    assert are_kept(*recorded("P-14"), within=[5_000])


def test_X_24_options_cost_at_most_as_much_again() -> None:
    assert are_kept(*recorded("X-24"), within=[50, 50, 50])


def test_P_16_a_decision_takes_half_a_millisecond() -> None:
    assert are_kept(*recorded("P-16"), within=[0.5, 2])


def test_P_17_the_adapter_takes_a_microsecond_a_row() -> None:
    assert are_kept(*recorded("P-17"), within=[1, 1, 1])


def test_P_18_victims_are_found_in_twenty_milliseconds() -> None:
    assert are_kept(*recorded("P-18"), within=[20])


def test_P_19_many_rules_take_five_milliseconds() -> None:
    assert are_kept(*recorded("P-19"), within=[5])


def test_a_run_says_which_rows_its_figures_answer() -> None:
    (figure_id,) = ROWS["P-19"]
    group, case, part = figure_id.split(" / ")
    report = a_report(a_figure(6, group=group, case=case, part=part, target=5))

    assert rows_table(report).splitlines()[2] == f"| P-19 | {figure_id} | ≤ 5 ms | 6 ms     | MISSED |"
    assert rows_table(a_report(a_figure())) == ""


# --- measuring ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_law_is_found(power: float) -> None:
    points = [(size, 3.7 * size**power) for size in (100, 300, 1_000, 30_000)]

    assert exponent(points) == pytest.approx(power, abs=1e-12)


def test_the_exponent_weighs_all_points_alike() -> None:
    assert exponent([(1, 1), (10, 1), (100, 10)]) == pytest.approx(0.5)


def test_the_last_decade_starts_at_a_tenth_of_the_greatest_size() -> None:
    assert last_decade([(10, 1.0), (100, 2.0), (300, 3.0), (1_000, 4.0)]) == [(100, 2.0), (300, 3.0), (1_000, 4.0)]


def test_a_sample_speaks_of_one_in_twenty_only_where_there_are_twenty() -> None:
    assert sample_of([1, 2, 9]).p95 is None
    assert sample_of(range(101)).p95 == 95


@pytest.mark.parametrize("seconds, expected", [(-1.0, 4), (1e9, 9)], ids=["out of time", "plenty of time"])
def test_repetitions_stay_within_their_bounds_and_the_warm_up_does_not_count(seconds: float, expected: int) -> None:
    numbers: list[int] = []

    def step(number: int) -> tuple[float, float]:
        numbers.append(number)
        return float(number), 2.0 * number

    first, second = measure(step, Effort(warm_up=3, least=4, most=9, seconds=seconds))

    assert numbers == list(range(3 + expected))
    assert (first.count, second.count) == (expected, expected)
    assert second.median == 2 * first.median == 2 * (3 + (expected - 1) / 2)


def test_a_figure_is_told_as_soon_as_it_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = []

    def measure_two(_: Run) -> Iterator[Figure]:
        yield a_figure(2.1, target=2)
        told.append(capsys.readouterr().err)
        yield a_figure(1.0, part="other")

    monkeypatch.setattr(groups, "GROUPS", (groups.Group("two", "Two", "", measure_two),))

    assert len(groups._measure("two", quick=True)) == 2
    assert [*told, capsys.readouterr().err] == [
        "  decide / some case / decide: 2.1 ms, target ≤ 2 ms missed\n",
        "  decide / some case / other: 1 ms\n",
    ]


def test_the_collector_rests_while_something_is_measured_and_not_longer() -> None:
    frozen = gc.get_freeze_count()

    with undisturbed():
        assert not gc.isenabled()
        assert gc.get_freeze_count() > frozen

    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


SMALL: Final = recording.Size(clusters=40, placements=5)
BOTH: Final = {REAL: SMALL, EMBEDDED: SMALL}
SMALL_HISTORY: Final = history.Plan(fleets=(40,), decisions=7, rounds=2, bursts=(SMALL,), paces=BOTH, long=BOTH)
SMALL_FORM: Final = FormSize(clusters=60, placements=12, others=8, every=4)
LARGER_FORM: Final = FormSize(clusters=70, placements=12)
SMALL_FORMS: Final = forms_group.Plan(
    **{**dict.fromkeys(forms_group.Plan.__dataclass_fields__, SMALL_FORM), "large": LARGER_FORM}
)
QUICK_TO_SET_UP = ("hooks", "adapter", "fleet-growth", "picks-growth", "naive", "kube", "hub", "joining")


@pytest.mark.parametrize(
    "name", [name if name in QUICK_TO_SET_UP else pytest.param(name, marks=pytest.mark.long) for name in NAMES]
)
@pytest.mark.servers  # half a minute of measuring
def test_a_group_yields_figures_of_its_own_without_repetition(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "QUICK", ONCE)
    monkeypatch.setattr(measuring, "QUICK_SLOW", ONCE)
    monkeypatch.setattr(kube, "QUICK", prepared.Size(objects=600, events=700, events_of_a_short_watch=50))
    monkeypatch.setattr(hub, "QUICK", hub.Size(creates=64, gets=64, watched=64))
    monkeypatch.setattr(controller, "QUICK", Plan(sizes=(Size(40, 3),), restarted=9, most_bursts=1, alone=1))
    monkeypatch.setattr(controller, "WAITING_QUICK", 5)
    monkeypatch.setattr(joining, "CLUSTERS", 12)
    monkeypatch.setattr(api, "QUICK", api.Size(clusters=40, calls=2, over_http=8))
    monkeypatch.setattr(history, "QUICK", SMALL_HISTORY)
    for turns in ("TURNS", "LONG_TURNS"):
        monkeypatch.setattr(recording, turns, (False, True))
    monkeypatch.setattr(recording, "WARMING_UP", 2)
    monkeypatch.setattr(forms_group, "QUICK", SMALL_FORMS)
    group = next(one for one in GROUPS if one.name == name)

    figures = list(group.measure(Run(name, quick=True)))

    assert figures
    assert {figure.group for figure in figures} == {name}
    assert len({figure.id for figure in figures}) == len(figures)
