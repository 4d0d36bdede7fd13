"""Per-cluster plugins: run as if they were columnar, and named with the cluster when they fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fleet.framework.context import HookContext
from fleet.framework.cycle.decision import Decision, Outcome
from fleet.framework.profiles.adapter import adapt
from fleet.framework.scalar import ClusterView, ScalarPlugin
from fleet.framework.scores import NamedScore
from fleet.framework.status import Code, Status
from fleet.framework.types import Component, ExternalQuery, ExternalResult
from fleet.snapshot import Frame
from tests.builders import NOW, a_cluster, a_frame, a_policy, a_table, clusters
from tests.doubles import Answering, Rejecting, RejectingOneByOne, Scoring, chosen, decided, inputs, profile_of


@pytest.fixture
def frame() -> Frame:
    return a_frame(*clusters("a", "b", "c"))


class Scalar(ScalarPlugin):
    """Filter, Score and NormalizeScore by functions of the cluster."""

    ROW_LOCAL = True

    def __init__(self, **methods: Any) -> None:
        for method, answer in methods.items():
            setattr(self, method, answer)


def error_of(decision: Decision) -> str:
    assert (decision.outcome, decision.targets) == (Outcome.ERROR, ())
    assert decision.error is not None
    return ", ".join(decision.error.reasons)


# --- what a cluster looks like ----------------------------------------------------------------------------------------


def test_a_cluster_is_shown_read_only_with_what_is_known_of_it() -> None:
    table = a_table(a_cluster("a").labelled(region="eu").measured({"cost": "1500m", "version": "v1.31"}))
    table.book("quota", "a", 7)
    table.feed("load", {"cpu": {"a": 0.5}}, sampled_at={"a": NOW})
    view = ClusterView(table.freeze(), 0)

    assert (view.name, view.labels, view.properties) == ("a", {"region": "eu"}, {"cost": 1.5})
    assert (view.feed("load", "cpu"), view.ledger("quota"), view.ledger("unheard of")) == (0.5, 7, 0)
    with pytest.raises(AttributeError):
        view.name = "b"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        view.colour = "red"  # type: ignore[attr-defined]


def test_a_cluster_without_labels_and_properties_has_none() -> None:
    view = ClusterView(a_frame(a_cluster("a")), 0)

    assert (view.labels, view.properties) == ({}, {})


# --- equality ---------------------------------------------------------------------------------------------------------


def test_F3_130_so_do_a_score_with_normalising_and_its_twin(frame: Frame) -> None:
    points = {"a": 300, "b": 100, "c": 200}

    def normalize_list(ctx: Any, state: Any, placement: Any, scores: list[NamedScore]) -> list[NamedScore]:
        return [NamedScore(one.name, one.score // 3) for one in scores]

    scalar = Scalar(score_one=lambda ctx, state, placement, one: points[one.name], normalize_list=normalize_list)
    vector = Scoring("Scalar", points)
    vector.normalize = lambda ctx, state, req, raw: raw // 3  # type: ignore[attr-defined]

    found = [
        decided(frame, a_policy().pick_n(3), profile=profile_of(one, ranking="weighted")) for one in (scalar, vector)
    ]

    assert found[0].digest == found[1].digest
    assert chosen(found[0]) == ["a", "c", "b"]
    tables = [one.round.scores.columns[0] for one in found if one.round is not None]
    assert tables[0].normalized.tolist() == tables[1].normalized.tolist() == [100, 33, 66]


def test_a_score_may_come_with_a_status(frame: Frame) -> None:
    fine = Scalar(score_one=lambda ctx, state, placement, one: (len(one.name), None))
    failing = Scalar(score_one=lambda ctx, state, placement, one: (0, Status.new(Code.ERROR, "no price")))

    assert chosen(decided(frame, a_policy().pick_n(1), profile=profile_of(fine))) == ["c"]
    assert error_of(decided(frame, a_policy().pick_n(1), profile=profile_of(failing))).endswith(
        "score of a failed: no price"
    )


def test_traits_and_other_hooks_of_the_plugin_stay_visible(frame: Frame) -> None:
    plugin = Scalar(filter_one=lambda *_: None)
    plugin.SCORE_COMPONENT = Component.OBSOLETE  # type: ignore[misc]
    plugin.reserve = lambda *_: None  # type: ignore[attr-defined]

    adapted = adapt(plugin)

    assert (adapted.SCORE_COMPONENT, adapted.ROW_LOCAL, adapted.name()) == (Component.OBSOLETE, True, "Scalar")
    assert callable(adapted.reserve)
    assert callable(adapted.filter)
    assert not hasattr(adapted, "score")


def test_a_vector_plugin_is_left_alone() -> None:
    plugin = Rejecting("Door")

    assert adapt(plugin) is plugin


def test_one_form_per_hook_is_enough(frame: Frame) -> None:
    mixed = Scoring("Mixed", {"a": 9})
    mixed.filter_one = lambda ctx, state, placement, one: None  # type: ignore[attr-defined]

    assert chosen(decided(frame, a_policy().pick_n(1), profile=profile_of(mixed))) == ["a"]


# --- statuses ---------------------------------------------------------------------------------------------------------


def test_equal_statuses_are_kept_once_per_attempt(frame: Frame) -> None:
    def filter_one(ctx: Any, state: Any, placement: Any, one: Any) -> Status:
        return Status(Code.UNSCHEDULABLE, ("no",), details={"first": one.name == "a"})

    decision = decided(frame, profile=profile_of(Scalar(filter_one=filter_one)))

    (rejection,) = decision.verdicts.rejections if decision.verdicts else []
    assert rejection.verdict.statuses is not None
    assert len(rejection.verdict.statuses) == 2
    assert isinstance(rejection.verdict.reason, np.ndarray)
    assert rejection.verdict.reason.tolist() == [1, 2, 2]


def test_many_different_statuses_are_told_apart() -> None:
    frame = a_frame(*clusters(*(f"c{number:03d}" for number in range(300))))
    plugin = Scalar(filter_one=lambda ctx, state, placement, one: Status.new(Code.UNSCHEDULABLE, f"not {one.name}"))

    decision = decided(frame, profile=profile_of(plugin))

    assert decision.verdicts is not None
    assert [decision.verdicts.status(row).reasons for row in (0, 299)] == [("not c000",), ("not c299",)]  # type: ignore[union-attr]


# --- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method, answer, text",
    [
        (
            "filter_one",
            lambda ctx, state, placement, one: 1 // (one.name != "b") and None,
            "cluster b: ZeroDivisionError",
        ),
        ("score_one", lambda ctx, state, placement, one: {"a": 1, "c": 2}[one.name], "cluster b: KeyError: 'b'"),
        ("filter_one", lambda ctx, state, placement, one: one.name == "b" or None, "answered bool, not a Status"),
        ("score_one", lambda ctx, state, placement, one: 0.5 if one.name == "b" else 0, "score of b is 0.5"),
        ("score_one", lambda ctx, state, placement, one: 2**70 if one.name == "b" else 0, "score of b is 1180"),
        ("filter_one", lambda ctx, state, placement, one: Status.new(Code.WAIT, "hm"), "invalid code Wait at Filter"),
    ],
    ids=["filter raises", "score raises", "no status", "no whole number", "too great a number", "illegal code"],
)
def test_F3_130_a_mistake_names_plugin_and_cluster(frame: Frame, method: str, answer: Any, text: str) -> None:
    decision = decided(frame, a_policy().pick_n(2), profile=profile_of(Scalar(**{method: answer})))

    found = error_of(decision)
    assert found.startswith("Scalar at ")
    assert text in found


def test_F3_130_so_does_a_mistake_in_a_correction_or_a_list(frame: Frame) -> None:
    listing = Scalar(pre_filter_names=lambda *_: 1 // 0)
    normalizing = Scalar(score_one=lambda *_: 1, normalize_list=lambda *_: 1 // 0)

    assert error_of(decided(frame, profile=profile_of(listing))).startswith("Scalar at preFilter: ZeroDivisionError")
    weighted = profile_of(normalizing, ranking="weighted")
    assert error_of(decided(frame, a_policy().pick_n(1), profile=weighted)).startswith("Scalar at score: ZeroDivision")


def test_normalising_must_not_lose_clusters(frame: Frame) -> None:
    losing = Scalar(score_one=lambda *_: 1, normalize_list=lambda ctx, state, placement, scores: scores[1:])

    decision = decided(frame, a_policy().pick_n(1), profile=profile_of(losing, ranking="weighted"))

    assert error_of(decision) == "Scalar at normalizeScore: scores should be int64[3], not [2]"


# --- questions --------------------------------------------------------------------------------------------------------


def asking(ctx: HookContext, state: Any, placement: Any, cluster: ClusterView) -> Status | None:
    answer = ctx.query(ExternalQuery(f"may {cluster.name}", {"cluster": cluster.name}))
    return None if answer.value else Status.new(Code.UNSCHEDULABLE, "told not to")


def test_F3_135_a_per_cluster_plugin_may_ask(frame: Frame) -> None:
    inp = inputs(frame, profile=profile_of(Scalar(filter_one=asking)))

    decision = decided(frame, profile=inp.profile)
    answered = decided(
        frame,
        profile=inp.profile,
        query_results={f"may {name}": ExternalResult(value=name != "b") for name in ("a", "b", "c")},
    )

    assert decision.outcome is Outcome.NEEDS_ANSWER
    assert decision.pending_query == ExternalQuery("may a", {"cluster": "a"})
    assert chosen(answered) == ["a", "c"]


# --- order of filters -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "forms, named",
    [
        ("sv", ["P0", "P1"]),
        ("vs", []),
        ("vsv", ["P1", "P2"]),
        ("ssvv", ["P0", "P2"]),
        ("ss", []),
        ("vv", []),
        ("", []),
    ],
)
def test_F3_140_a_scalar_filter_before_a_vector_one_is_one_warning_that_names_both(
    forms: str, named: list[str]
) -> None:
    kinds = {"s": RejectingOneByOne, "v": Rejecting}
    plugins = [kinds[form](f"P{number}") for number, form in enumerate(forms)]

    warnings = profile_of(*plugins).warnings

    assert len(warnings) == (1 if named else 0)
    assert all(name in warnings[0] for name in named)


def test_F3_140_only_filters_count(frame: Frame) -> None:
    scoring = Scalar(score_one=lambda *_: 1)

    assert profile_of(scoring, Rejecting("Door"), Answering("P", pre_filter=lambda *_: (None, None))).warnings == ()
