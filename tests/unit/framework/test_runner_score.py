"""Score: columns checked before they count, weighted once, kept for whoever asks; and the arithmetic behind them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.framework.cycle.decision import Outcome
from fleet.framework.cycle.runner import Narrowing
from fleet.framework.scores import (
    ScoreTable,
    clamp,
    default_normalize,
    min_max,
    round_half_away,
    round_half_away_array,
)
from fleet.framework.types import Component
from fleet.snapshot import Frame
from tests.builders import a_frame, a_policy, clusters
from tests.doubles import (
    Answering,
    Rejecting,
    RejectingOneByOne,
    Scoring,
    a_runner,
    chosen,
    decided,
    profile_of,
)


@pytest.fixture
def frame() -> Frame:
    return a_frame(*clusters("c", "a", "b"))


def table_of(frame: Frame, *plugins: Any, **changes: Any) -> ScoreTable:
    runner = a_runner(profile_of(*plugins, **changes), frame)
    verdicts = runner.run_filter(frame, Narrowing())
    rows = np.flatnonzero(frame.valid_mask)
    runner.run_pre_score(frame, rows, verdicts)
    return runner.run_score(frame, rows)


def error_of(frame: Frame, *plugins: Any, **changes: Any) -> str:
    decision = decided(frame, a_policy().pick_n(2), profile=profile_of(*plugins, **changes))
    assert (decision.outcome, decision.targets, decision.operations) == (Outcome.ERROR, (), ())
    assert decision.error is not None
    return ", ".join(decision.error.reasons)


# --- running ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer, text",
    [
        (lambda ctx, state, req, frame, rows: np.zeros(len(rows)), "scores should be int64, not float64"),
        (lambda ctx, state, req, frame, rows: [0] * len(rows), "scores should be int64[3], not list"),
        (lambda *_: None, "scores should be int64[3], not NoneType"),
    ],
    ids=["float", "list", "nothing"],
)
def test_F3_125_a_column_of_the_wrong_shape_aborts_the_attempt_and_names_plugin_and_hook(
    frame: Frame, answer: Any, text: str
) -> None:
    assert error_of(frame, Answering("Odd", score=answer)) == f"Odd at score: {text}"


def test_F3_125_so_does_a_normalised_column(frame: Frame) -> None:
    odd = Scoring("Odd")
    odd.normalize = lambda ctx, state, req, raw: raw / 2  # type: ignore[attr-defined]

    assert error_of(frame, odd, ranking="weighted") == "Odd at normalizeScore: scores should be int64, not float64"


@pytest.mark.parametrize("score", [-1, 101, -(2**63), 2**63 - 1])
def test_F3_061_a_weighted_score_outside_of_0_to_100_aborts_the_attempt_and_names_the_cluster(
    frame: Frame, score: int
) -> None:
    text = f"Wild at score: score {score} of cluster b is not in 0 … 100"
    assert error_of(frame, Scoring("Wild", {"a": 100, "b": score}), ranking="weighted") == text


def test_F3_061_lexicographic_ranking_neither_normalises_nor_checks(frame: Frame) -> None:
    wild = Scoring("Wild", {"a": 5000, "b": -7})
    wild.normalize = lambda *_: 1 // 0  # type: ignore[attr-defined]

    (column,) = table_of(frame, wild).columns

    assert column.raw.tolist() == column.normalized.tolist() == column.final.tolist() == [0, 5000, -7]


def test_F3_093_components_are_summed_apart(frame: Frame) -> None:
    affinity, obsolete = Scoring("Affinity", {"a": 7}), Scoring("Old", {"a": 1, "b": 1})
    obsolete.SCORE_COMPONENT = Component.OBSOLETE  # type: ignore[misc]

    table = table_of(frame, affinity, Scoring("More", {"a": 2}), obsolete)

    assert [table.components(position) for position in range(3)] == [(0, 0, 0), (0, 9, 1), (0, 0, 1)]
    assert table.component(Component.TOPOLOGY) is None


def test_F3_057_before_scoring_plugins_are_told_who_passed_and_what_was_said_of_the_others(frame: Frame) -> None:
    told: list[Any] = []

    def pre_score(ctx: Any, state: Any, req: Any, frame: Frame, feasible: Any, verdicts: Any) -> None:
        told.append(([frame.name(row) for row in feasible], verdicts.status_by_name("b").reasons))

    decided(
        frame, a_policy().pick_n(1), profile=profile_of(Rejecting("Door", ["b"]), Answering("P", pre_score=pre_score))
    )

    assert told == [(["c", "a"], ("refused by Door",))]


# --- nobody scores ----------------------------------------------------------------------------------------------------


def test_F3_089_without_scores_every_qualifying_cluster_totals_one(frame: Frame) -> None:
    assert table_of(frame, Rejecting("Door")).totals().tolist() == [1, 1, 1]


def test_F3_089_vector_filters_then_look_at_everybody_and_names_decide(frame: Frame) -> None:
    door = Rejecting("Door")

    decision = decided(frame, a_policy().pick_n(2), profile=profile_of(door))

    assert door.seen == [{"a", "b", "c"}]
    assert chosen(decision) == ["c", "b"]


def test_F3_089_a_search_cluster_by_cluster_stops_at_the_number_wanted() -> None:
    frame = a_frame(*clusters(*(f"c{number:02d}" for number in range(40))))
    door = RejectingOneByOne("Door", ["c00", "c02"])

    decision = decided(frame, a_policy().pick_n(3), profile=profile_of(door))

    assert sorted(chosen(decision)) == ["c01", "c03", "c04"]
    assert decision.verdicts is not None
    assert decision.verdicts.examined.bit_count() == 5
    assert decision.next_cursor == 5


# --- arithmetic -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value, rounded",
    [
        (62.5, 63),
        (92.5, 93),
        (-0.5, -1),
        (0.5, 1),
        (-62.5, -63),
        (0.49999999999999994, 0),
        (2.0, 2),
        (-2.4, -2),
        (0.0, 0),
    ],
)
def test_F3_138_a_half_goes_away_from_zero(value: float, rounded: int) -> None:
    assert round_half_away(value) == rounded
    assert round_half_away_array(np.array([value])).tolist() == [rounded]


@given(st.floats(-1e15, 1e15))
def test_F3_138_arrays_round_as_single_values_do(value: float) -> None:
    rounded = round_half_away(value)

    assert round_half_away_array(np.array([value])).tolist() == [rounded]
    assert abs(rounded) == math.floor(abs(value)) + (abs(value) - math.floor(abs(value)) >= 0.5)


def test_F3_138_weighted_totals_never_wrap(frame: Frame) -> None:
    """Two plugins at the greatest weights the build accepts."""
    greatest = (2**63 - 1) // 100
    points = {"a": 100}
    weights = {"One": greatest - 1, "Two": 1}

    table = table_of(frame, Scoring("One", points), Scoring("Two", points), weights=weights, ranking="weighted")

    assert table.totals().tolist() == [0, greatest * 100, 0]


def test_F3_138_lexicographic_sums_never_wrap_either(frame: Frame) -> None:
    """Components are int32 on the wire: what does not fit is an error of the plugin that went too far."""
    assert "One at score: " in error_of(frame, Scoring("One", {"a": 2**31}), Scoring("Two"))
    assert "One at score: " in error_of(frame, Scoring("One", {"a": -(2**31) - 1}))

    table = table_of(frame, *(Scoring(name, {"a": 2**31 - 1}) for name in ("One", "Two")))
    assert table.components(1) == (0, 2**32 - 2, 0)


@pytest.mark.parametrize(
    "raw, want",
    [
        ([0, 5, 10], [0, 50, 100]),
        ([7, 7], [0, 0]),
        ([], []),
        ([-3, 0, 5], [0, 38, 100]),
        ([-(2**63), 0, 2**63 - 1], [0, 50, 100]),
        ([2**62, 2**62 + 1], [0, 100]),
        ([0, 1, 200], [0, 1, 100]),
    ],
)
def test_L_04_min_max_spreads_any_integers_over_the_range(raw: list[int], want: list[int]) -> None:
    assert min_max(np.array(raw, dtype=np.int64)).tolist() == want


def test_L_04_clamp_cuts_any_integers_to_the_range() -> None:
    assert clamp(np.array([-(2**63), -1, 0, 57, 100, 101, 2**63 - 1])).tolist() == [0, 0, 0, 57, 100, 100, 100]


@pytest.mark.parametrize(
    "raw, reverse, want",
    [
        ([0, 5, 10], False, [0, 50, 100]),
        ([0, 5, 10], True, [100, 50, 0]),
        ([0, 0], False, [0, 0]),
        ([0, 0], True, [100, 100]),
        ([1, 3], False, [33, 100]),
        ([2**61, 2**62], False, [50, 100]),
        ([], False, []),
    ],
)
def test_F3_062_the_default_way_of_normalising_scales_by_the_greatest(
    raw: list[int], *, reverse: bool, want: list[int]
) -> None:
    assert default_normalize(np.array(raw, dtype=np.int64), reverse=reverse).tolist() == want


def test_a_score_table_without_columns_has_no_components() -> None:
    table = ScoreTable(np.arange(2))

    assert table.components(1) == (0, 0, 0)
    assert table.as_dict() == {}
    assert not [one for one in Component if table.component(one) is not None]
