"""Score: columns checked before they count, weighted once, kept for whoever asks; and the arithmetic behind them."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.framework.cycle.decision import Outcome
from fleet.framework.cycle.runner import Narrowing
from fleet.framework.scores import (
    NamedScore,
    ScoreTable,
    clamp,
    default_normalize,
    min_max,
    round_half_away,
    round_half_away_array,
)
from fleet.framework.status import Code, Status
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
    limited_to,
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


def test_F3_059_all_scores_must_succeed(frame: Frame) -> None:
    failing = Answering("Failing", score=lambda *_: 1 // 0)
    later = Scoring("Later")

    assert error_of(frame, Scoring("First"), failing, later).startswith("Failing at score: ZeroDivisionError")
    assert later.calls == []


@pytest.mark.parametrize(
    "answer, text",
    [
        (
            lambda ctx, state, req, frame, rows: np.zeros(len(rows) + 1, dtype=np.int64),
            "scores should be int64[3], not [4]",
        ),
        (lambda ctx, state, req, frame, rows: np.zeros(len(rows)), "scores should be int64, not float64"),
        (lambda ctx, state, req, frame, rows: np.full(len(rows), np.nan), "scores should be int64, not NaN"),
        (lambda ctx, state, req, frame, rows: np.zeros(len(rows), dtype=np.int32), "scores should be int64, not int32"),
        (lambda ctx, state, req, frame, rows: [0] * len(rows), "scores should be int64[3], not list"),
        (lambda *_: None, "scores should be int64[3], not NoneType"),
    ],
    ids=["length", "float", "NaN", "int32", "list", "nothing"],
)
def test_F3_125_a_column_of_the_wrong_shape_aborts_the_attempt_and_names_plugin_and_hook(
    frame: Frame, answer: Any, text: str
) -> None:
    assert error_of(frame, Answering("Odd", score=answer)) == f"Odd at score: {text}"


def test_F3_125_so_does_a_normalised_column(frame: Frame) -> None:
    odd = Scoring("Odd")
    odd.normalize = lambda ctx, state, req, raw: raw / 2  # type: ignore[attr-defined]

    assert error_of(frame, odd, ranking="weighted") == "Odd at normalizeScore: scores should be int64, not float64"


def test_F3_061_without_normalize_the_raw_column_has_to_be_in_range_already(frame: Frame) -> None:
    fitting, outside = Scoring("Fitting", {"a": 100, "b": 0}), Scoring("Outside", {"a": 101})

    assert chosen(decided(frame, a_policy().pick_n(1), profile=profile_of(fitting, ranking="weighted"))) == ["a"]
    assert "score 101 of cluster a is not in 0 … 100" in error_of(frame, outside, ranking="weighted")


def test_F3_061_lexicographic_ranking_neither_normalises_nor_checks(frame: Frame) -> None:
    wild = Scoring("Wild", {"a": 5000, "b": -7})
    wild.normalize = lambda *_: 1 // 0  # type: ignore[attr-defined]

    (column,) = table_of(frame, wild).columns

    assert column.raw.tolist() == column.normalized.tolist() == column.final.tolist() == [0, 5000, -7]


def test_F3_062_normalize_runs_once_per_plugin_and_round_and_sees_its_own_column_only(frame: Frame) -> None:
    seen: dict[str, list[list[int]]] = {"One": [], "Two": []}

    def normalizing(name: str) -> Any:
        def normalize(ctx: Any, state: Any, req: Any, raw: Any) -> Any:
            seen[name].append(raw.tolist())
            return raw

        return normalize

    one, two = Scoring("One", {"a": 1}), Scoring("Two", {"b": 2})
    one.normalize, two.normalize = normalizing("One"), normalizing("Two")  # type: ignore[attr-defined]
    profile = profile_of(one, two, Answering("OneByOne", post_batch=limited_to(1)), ranking="weighted")

    decided(frame, a_policy().pick_n(2), profile=profile)

    assert seen == {"One": [[0, 1, 0], [0, 1]], "Two": [[0, 0, 2], [0, 0]]}


def test_F3_081_weights_count_after_the_range_check(frame: Frame) -> None:
    heavy = Scoring("Heavy", {"a": 100})
    heavy.normalize = lambda ctx, state, req, raw: raw // 2  # type: ignore[attr-defined]

    table = table_of(frame, heavy, Scoring("Light", {"b": 3}), weights={"Heavy": 10}, ranking="weighted")

    first, second = table.columns
    assert (first.raw.tolist(), first.normalized.tolist(), first.final.tolist()) == (
        [0, 100, 0],
        [0, 50, 0],
        [0, 500, 0],
    )
    assert (second.weight, second.final.tolist()) == (1, [0, 0, 3])


def test_F3_092_columns_are_aligned_with_the_rows_that_qualify(frame: Frame) -> None:
    table = table_of(frame, Scoring("S", {"a": 1, "b": 2, "c": 3}))

    assert [frame.name(row) for row in table.rows.tolist()] == ["c", "a", "b"]
    assert table.columns[0].raw.tolist() == [3, 1, 2]


def test_F3_093_totals_are_the_sum_of_the_weighted_columns(frame: Frame) -> None:
    points = {"a": 10, "b": 20}
    weights = {"One": 3, "Two": 2}

    table = table_of(frame, Scoring("One", points), Scoring("Two", points), weights=weights, ranking="weighted")

    assert table.as_dict() == {"One": [0, 30, 60], "Two": [0, 20, 40]}
    assert table.totals().tolist() == [sum(row) for row in zip(*table.as_dict().values(), strict=True)] == [0, 50, 100]


def test_F3_093_components_are_summed_apart(frame: Frame) -> None:
    affinity, obsolete = Scoring("Affinity", {"a": 7}), Scoring("Old", {"a": 1, "b": 1})
    obsolete.SCORE_COMPONENT = Component.OBSOLETE  # type: ignore[misc]

    table = table_of(frame, affinity, Scoring("More", {"a": 2}), obsolete)

    assert [table.components(position) for position in range(3)] == [(0, 0, 0), (0, 9, 1), (0, 0, 1)]
    assert table.component(Component.TOPOLOGY) is None


def test_F3_091_a_cluster_score_has_a_value_a_text_and_a_json_form() -> None:
    score = NamedScore("a", 7)

    assert score == NamedScore("a", 7) != NamedScore("a", 8)
    assert repr(score) == "NamedScore(name='a', score=7)"
    assert msgspec.json.decode(msgspec.json.encode(score), type=NamedScore) == score
    assert not hasattr(score, "__dict__")


def test_F3_114_skip_before_scoring_switches_that_score_off_for_the_round(frame: Frame) -> None:
    skipping = Scoring("Skipping", {"a": 50})
    skipping.pre_score = lambda *_: Status.new(Code.SKIP)  # type: ignore[attr-defined]

    decision = decided(frame, a_policy().pick_n(1), profile=profile_of(skipping, Scoring("Other", {"b": 1})))

    assert chosen(decision) == ["b"]
    assert skipping.calls == []
    assert decision.skipped == {"score": ("Skipping",)}
    assert decision.round is not None
    assert list(decision.round.scores.as_dict()) == ["Other"]


def test_F3_080_before_scoring_everybody_must_succeed(frame: Frame) -> None:
    first = Answering("First", pre_score=lambda *_: Status.new(Code.UNSCHEDULABLE, "no"))
    second = Answering("Second", pre_score=lambda *_: None)

    assert error_of(frame, first, second) == "First at preScore: invalid code Unschedulable at PreScore"
    assert second.calls == []


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


@pytest.mark.parametrize("adapter", [min_max, clamp])
def test_L_04_one_plugin_serves_both_rankings(frame: Frame, adapter: Any) -> None:
    unbounded = Scoring("Unbounded", {"a": 4000, "b": 40})
    unbounded.normalize = lambda ctx, state, req, raw: adapter(raw)  # type: ignore[attr-defined]

    for ranking in ("weighted", "lexicographic"):
        decision = decided(frame, a_policy().pick_n(1), profile=profile_of(unbounded, ranking=ranking))
        assert chosen(decision) == ["a"]


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
