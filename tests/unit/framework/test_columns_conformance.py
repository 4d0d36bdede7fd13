"""The conformance kit: plugins that keep the rules pass, and each way of breaking one is found out and named.

That in-tree plugins conform is shown by `fleet plugins check`, and on random fleets.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from fleet.framework.arguments import PluginFactory, RawArgs
from fleet.framework.request import PlacementRequest
from fleet.framework.scalar import ScalarPlugin
from fleet.framework.status import Code, Status
from fleet.framework.testing.conformance import OTHER_VALUES, ConformanceError, SpecimenOptions, check
from fleet.framework.types import (
    ExternalQuery,
    ExternalResult,
    PluginTraits,
    Reason,
    ReasonTable,
    RowExplainer,
    Verdict,
)
from fleet.snapshot import Table
from fleet.snapshot.columns.bitset import from_bools, to_bools
from plugins import IN_TREE
from tests.doubles import Answering

Hook = Callable[..., Any]
FEW = SpecimenOptions(cases=12)
ONE_REASON = ReasonTable(Reason("No", Code.UNSCHEDULABLE, "no"))


def plugin(*, reasons: ReasonTable = ONE_REASON, row_local: bool = False, **hooks: Hook) -> PluginFactory:
    """A factory of plugins called X with these hooks; every one a new object."""
    return lambda raw, handle: Answering("X", traits={"REASONS": reasons, "ROW_LOCAL": row_local}, **hooks)


def signing_plugin(**hooks: Hook) -> PluginFactory:
    return lambda raw, handle: Answering("X", traits={"REASONS": ONE_REASON, "READS": ("labels",)}, **hooks)


def broken_rules(factory: PluginFactory, **given: Any) -> dict[str, str]:
    """Acceptance row → what was found."""
    with pytest.raises(ConformanceError) as caught:
        check(factory, **given)
    return {one.row: one.text for one in caught.value.findings}


# --- plugins that keep the rules --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, args",
    [
        ("TopologySpreadConstraints", {"missingKey": "Exclude"}),
        ("ClusterAffinity", {"sorterPopulation": "PassedClusters"}),
        ("ClusterEligibility", {"retention": "0", "heartbeatTimeout": "1m"}),
    ],
    ids=["unlabelled excluded", "range of passed clusters", "no retention"],
)
def test_in_tree_plugins_conform_under_other_arguments(name: str, args: dict[str, str]) -> None:
    check(dict(IN_TREE)[name], args=RawArgs(args))


def test_a_plugin_that_reads_what_only_its_author_knows_is_given_it() -> None:
    seen: set[str | None] = set()

    def filter_rows(ctx: Any, state: Any, req: Any, frame: Any, alive: int) -> Verdict:
        tiers = frame.labels("acme.example/tier")
        seen.update(tiers.value(row) for row in range(frame.size))
        full = frame.feeds["load"].columns["cpu"] > 0.5
        return Verdict(ok=~(tiers.eq("gold") | from_bools(full) | from_bools(frame.ledger("quota") > 5)))

    def prepare(table: Table) -> None:
        names = [name for name in (f"cluster-{number}" for number in range(40)) if name in table]
        table.feed("load", {"cpu": {name: len(name) / 10 for name in names}}, sampled_at=dict.fromkeys(names, 1))
        for name in names[::2]:
            table.book("quota", name, len(name))

    check(
        plugin(filter=filter_rows),
        options=SpecimenOptions(labels={"acme.example/tier": ("gold", "silver")}, prepare=prepare),
    )

    assert seen == {"gold", "silver", None}


def test_a_plugin_that_asks_is_given_the_answer() -> None:
    def filter_rows(ctx: Any, state: Any, req: Any, frame: Any, alive: int) -> Verdict:
        return Verdict(ok=-1 if ctx.query(ExternalQuery("may I", {})).value else 0)

    check(plugin(filter=filter_rows), options=SpecimenOptions(query_results={"may I": ExternalResult(value=False)}))

    assert "may I" in broken_rules(plugin(filter=filter_rows))["F3-125"]


class Thrifty(ScalarPlugin):
    """Per cluster, with all that the adapter offers."""

    ROW_LOCAL = True

    def filter_one(self, ctx: Any, state: Any, placement: Any, cluster: Any) -> Status | None:
        if cluster.properties.get("example.com/cost", 0) > 2:
            return Status.new(Code.UNSCHEDULABLE, "too dear")
        return None

    def score_one(self, ctx: Any, state: Any, placement: Any, cluster: Any) -> int:
        return len(cluster.labels)


def test_a_per_cluster_plugin_conforms() -> None:
    check(lambda raw, handle: Thrifty())


def thrifty_filter(ctx: Any, state: Any, req: Any, frame: Any, alive: int) -> Verdict:
    cost = frame.property("example.com/cost").values
    return Verdict(ok=~from_bools(cost > 2))


def test_F3_129_a_plugin_conforms_to_its_reference() -> None:
    check(plugin(filter=thrifty_filter, row_local=True), reference=lambda raw, handle: Thrifty())


# --- plugins that break one -------------------------------------------------------------------------------------------


def writes_a_column(ctx: Any, state: Any, req: Any, frame: Any, alive: int) -> Verdict:
    frame.labels("region").ids[:] = 0
    return Verdict(ok=-1)


def forces_a_column_open(ctx: Any, state: Any, req: Any, frame: Any, alive: int) -> Verdict:
    last_seen = frame.signals.last_seen
    last_seen.flags.writeable = True
    last_seen[:] = 0
    return Verdict(ok=-1)


def leaves_a_column_open(ctx: Any, state: Any, req: Any, frame: Any, alive: int) -> Verdict:
    frame.property("example.com/cost").values.flags.writeable = True
    return Verdict(ok=-1)


def relabels_a_cluster(ctx: Any, state: Any, req: Any, frame: Any, alive: int) -> Verdict:
    for row in range(frame.size):
        if frame.cluster(row).metadata.labels:
            frame.cluster(row).metadata.labels["seen"] = "yes"
    return Verdict(ok=-1)


@pytest.mark.parametrize(
    "hook",
    [writes_a_column, forces_a_column_open, leaves_a_column_open, relabels_a_cluster],
    ids=lambda one: one.__name__,
)
def test_F3_124_writing_to_the_frame_is_found(hook: Hook) -> None:
    assert "frame" in broken_rules(plugin(filter=hook))["F3-124"]


@pytest.mark.parametrize(
    "hooks, complaint",
    [
        ({"score": lambda *_: np.zeros(100, dtype=np.int64)}, "score: scores should be int64"),
        (
            {"score": lambda ctx, state, req, frame, rows: np.zeros(len(rows))},
            "score: scores should be int64, not float64",
        ),
        ({"score": lambda ctx, state, req, frame, rows: np.full(len(rows), np.nan)}, "should be int64, not NaN"),
        ({"score": lambda *_: [1, 2, 3]}, "not list"),
        ({"filter": lambda *_: Verdict(ok=np.ones(100, dtype=np.bool_))}, "filter: mask should be bool"),
        (
            {"filter": lambda ctx, state, req, frame, alive: Verdict(ok=np.ones(frame.size, dtype=np.int8))},
            "mask should be",
        ),
        ({"filter": lambda *_: True}, "filter: answered bool, not a Verdict"),
        ({"pre_filter": lambda *_: (np.zeros(3, dtype=np.bool_), None)}, "preFilter: mask should be bool"),
        ({"pre_score": lambda *_: Status.new(Code.WAIT, "later")}, "preScore: invalid code Wait at PreScore"),
        ({"post_batch": lambda *_: 3}, "postBatch"),
        (
            {"filter": lambda ctx, state, req, frame, alive: Verdict(ok=1 // (frame.size - 17) and -1)},
            "ZeroDivisionError",
        ),
    ],
    ids=[
        *("length of scores", "dtype of scores", "NaN scores", "list of scores", "length of a mask", "dtype of a mask"),
        *("no verdict", "narrowing mask", "illegal code", "no pair", "exception"),
    ],
)
def test_F3_125_answers_of_the_wrong_shape_are_found(hooks: dict[str, Any], complaint: str) -> None:
    assert complaint in broken_rules(plugin(**hooks))["F3-125"]


def test_F3_125_scores_out_of_range_after_normalising_are_found() -> None:
    factory = plugin(score=lambda ctx, state, req, frame, rows: np.ones(len(rows), dtype=np.int64), normalize=_tenfold)

    assert "score 200 of cluster" in broken_rules(factory)["F3-125"]


def _tenfold(ctx: Any, state: Any, req: Any, raw: Any) -> Any:
    return raw * 200


def test_F3_126_a_filter_that_counts_who_is_left_is_found() -> None:
    def filter_rows(ctx: Any, state: Any, req: Any, frame: Any, alive: int) -> Verdict:
        return Verdict(ok=-1 if alive.bit_count() > 3 else 0)

    assert set(broken_rules(plugin(filter=filter_rows))) == {"F3-126"}


def test_F3_127_a_filter_that_looks_at_row_numbers_is_found() -> None:
    def filter_rows(ctx: Any, state: Any, req: Any, frame: Any, alive: int) -> Verdict:
        return Verdict(ok=~1)

    assert set(broken_rules(plugin(filter=filter_rows))) == {"F3-127"}


def test_F3_127_so_is_a_score_and_so_is_an_order() -> None:
    def score(ctx: Any, state: Any, req: Any, frame: Any, rows: Any) -> Any:
        return rows.astype(np.int64)

    def sort(ctx: Any, state: Any, req: Any, frame: Any, rows: Any, scores: Any) -> Any:
        return rows

    assert broken_rules(plugin(score=score))["F3-127"].startswith("score: ")
    assert broken_rules(plugin(sort=sort))["F3-127"].startswith("sort: ")


def test_F3_127_so_are_domain_numbers_in_explanations_and_notes() -> None:
    reasons = ReasonTable(Reason("No", Code.UNSCHEDULABLE, "domain {domain}"))

    def explain_row(req: Any, frame: Any, row: int, reason: int) -> dict[str, object]:
        return {"domain": int(frame.labels("zone").domains().of_row[row])}

    def noting(ctx: Any, state: Any, req: Any, frame: Any, alive: int) -> Verdict:
        ctx.note("first", alive & -alive and frame.name((alive & -alive).bit_length() - 1))
        return Verdict(ok=-1)

    assert (
        "domain"
        in broken_rules(plugin(reasons=reasons, filter=lambda *_: Verdict(ok=0), explain_row=explain_row))["F3-127"]
    )
    assert broken_rules(plugin(filter=noting))["F3-127"].startswith("notes: ")


def test_F3_128_a_filter_that_is_not_as_local_as_it_says_is_found() -> None:
    def filter_rows(ctx: Any, state: Any, req: Any, frame: Any, alive: int) -> Verdict:
        low, high = frame.property("example.com/cost").bounds()
        return Verdict(ok=from_bools(~(frame.property("example.com/cost").values > (low + high) / 2)))

    assert set(broken_rules(plugin(filter=filter_rows, row_local=True))) == {"F3-128"}
    check(plugin(filter=filter_rows))


def test_F3_128_so_is_a_score() -> None:
    def score(ctx: Any, state: Any, req: Any, frame: Any, rows: Any) -> Any:
        return np.full(len(rows), len(rows), dtype=np.int64)

    assert set(broken_rules(plugin(score=score, row_local=True))) == {"F3-128"}
    check(plugin(score=score))


def test_F3_129_a_difference_to_the_reference_is_found() -> None:
    def too_strict(ctx: Any, state: Any, req: Any, frame: Any, alive: int) -> Verdict:
        return Verdict(ok=~from_bools(frame.property("example.com/cost").values >= 0))

    def unlabelled(ctx: Any, state: Any, req: Any, frame: Any, rows: Any) -> Any:
        return np.zeros(len(rows), dtype=np.int64)

    reference: PluginFactory = lambda raw, handle: Thrifty()  # noqa: E731

    assert "by the reference" in broken_rules(plugin(filter=too_strict), reference=reference)["F3-129"]
    assert broken_rules(plugin(score=unlabelled), reference=reference)["F3-129"].startswith("score: ")


def test_F3_133_an_undeclared_reason_is_found() -> None:
    found = broken_rules(plugin(filter=lambda *_: Verdict(ok=0, reason=2)))

    assert "undeclared reason 2 (it declares 1)" in found["F3-133"]


def test_F3_133_a_message_that_cannot_be_filled_is_found() -> None:
    reasons = ReasonTable(Reason("No", Code.UNSCHEDULABLE, "the {colour} one"))

    assert "KeyError: 'colour'" in broken_rules(plugin(reasons=reasons, filter=lambda *_: Verdict(ok=0)))["F3-133"]


def test_F3_133_a_rejection_without_a_reason_is_found() -> None:
    class Mute(ScalarPlugin):
        def filter_one(self, ctx: Any, state: Any, placement: Any, cluster: Any) -> Status | None:
            return Status.new(Code.UNSCHEDULABLE)

    assert "without a reason" in broken_rules(lambda raw, handle: Mute())["F3-133"]


def test_F3_133_explaining_while_deciding_is_found() -> None:
    class Chatty(PluginTraits):
        REASONS = ONE_REASON

        def name(self) -> str:
            return "Chatty"

        def filter(self, ctx: Any, state: Any, req: Any, frame: Any, alive: int) -> Verdict:
            for row in range(frame.size):
                self.explain_row(req, frame, row, 1)
            return Verdict(ok=-1)

        def explain_row(self, req: Any, frame: Any, row: int, reason: int) -> dict[str, object]:
            return {}

    class Prepared(Chatty):
        def filter(self, ctx: Any, state: Any, req: Any, frame: Any, alive: int) -> Verdict:
            self.build_row_explainer(req, frame)
            return Verdict(ok=-1)

        def build_row_explainer(self, req: Any, frame: Any) -> RowExplainer:
            return lambda *_: {}

    for plugin, method in ((Chatty, "explain_row"), (Prepared, "build_row_explainer")):
        broken = broken_rules(partial(_build, plugin))
        assert set(broken) == {"F3-133"}
        assert broken["F3-133"].startswith(method)


def _build(plugin: Callable[[], Any], raw: RawArgs | None, handle: object) -> Any:
    del raw, handle
    return plugin()


class Rotating:
    """Rejects another cluster every time."""

    def __init__(self, turns: Iterator[int]) -> None:
        self._turns = turns

    def __call__(self, ctx: Any, state: Any, req: Any, frame: Any, alive: int) -> Verdict:
        turn = next(self._turns)
        order = frame.names.order.tolist()
        return Verdict(ok=~(1 << order[turn % len(order)]) if order else -1)


def test_F3_136_a_private_counter_is_found() -> None:
    assert "F3-136" in broken_rules(
        lambda raw, handle: Answering("X", traits={"REASONS": ONE_REASON}, filter=Rotating(itertools.count()))
    )


@pytest.mark.parametrize(
    "method, hook",
    [
        ("filter", lambda ctx, state, req, frame, alive: Verdict(ok=-1 if req.tolerations else 0)),
        ("filter", lambda ctx, state, req, frame, alive: Verdict(ok=-1 if req.gates else 0)),
        ("filter", lambda ctx, state, req, frame, alive: Verdict(ok=from_bools(frame.signals.last_seen < 2**60))),
        ("filter", lambda ctx, state, req, frame, alive: Verdict(ok=-1 if ctx.now % 2**41 > 2**40 else 0)),
        ("score", lambda ctx, state, req, frame, rows: np.full(len(rows), len(req.placement))),
        ("batch", lambda ctx, state, req, frame: req.wanted or 0),
    ],
    ids=["part of the policy", "gates", "signals", "time", "name", "number"],
)
def test_F3_116_a_plugin_that_reads_more_than_it_signs_is_found(method: str, hook: Hook) -> None:
    signing: dict[str, Any] = {"sign": lambda req: (), method: hook}
    assert "F3-116" in broken_rules(signing_plugin(**signing), options=FEW)


def test_F3_116_what_differs_and_is_not_signed_is_named() -> None:
    counting = signing_plugin(sign=lambda req: (), batch=lambda ctx, state, req, frame: len(req.gates))
    broken = broken_rules(counting, options=FEW)
    assert broken == {"F3-116": "batch: 0 became 1 for a request that is signed alike, with another gates"}


def raise_error(request: Any) -> Any:
    raise KeyError("key")


@pytest.mark.parametrize(
    "sign, text", [(lambda req: [], "TypeError: unhashable type: 'list'"), (raise_error, "KeyError: 'key'")]
)
def test_F3_116_a_plugin_that_cannot_sign_is_found(sign: Hook, text: str) -> None:
    broken = broken_rules(signing_plugin(sign=sign, filter=lambda *args: Verdict(ok=-1)), options=FEW)
    assert broken == {"F3-116": f"sign: {text}"}


def test_F3_116_a_plugin_that_signs_declares_what_it_reads() -> None:
    broken = broken_rules(plugin(sign=lambda req: (), filter=lambda *args: Verdict(ok=-1)), options=FEW)
    assert broken == {"F3-116": "sign has no effect: READS must name columns of clusters, and no signals"}


def test_F3_116_every_field_of_a_request_is_tried() -> None:
    fields = {field.name for field in dataclasses.fields(PlacementRequest) if field.init}
    assert fields - {*OTHER_VALUES} == {"placement_type", "problems"}  # others are not ranked


def test_F3_136_a_counter_in_the_module_is_found() -> None:
    assert "F3-136" in broken_rules(plugin(filter=Rotating(itertools.count())))


def test_F3_136_reservations_kept_outside_the_ledger_are_found() -> None:
    class Hoarding(PluginTraits):
        REASONS = ONE_REASON

        def __init__(self) -> None:
            self._taken: set[str] = set()

        def name(self) -> str:
            return "Hoarding"

        def filter(self, ctx: Any, state: Any, req: Any, frame: Any, alive: int) -> Verdict:
            mask = np.array([name not in self._taken for name in frame.names.names], dtype=np.bool_)
            return Verdict(ok=mask)

        def reserve(self, ctx: Any, state: Any, placement: Any, target: Any) -> None:
            self._taken.add(target.cluster)

        def unreserve(self, ctx: Any, state: Any, placement: Any, target: Any) -> None:
            self._taken.discard(target.cluster)

    assert "F3-136" in broken_rules(lambda raw, handle: Hoarding())


# --- what the kit says ------------------------------------------------------------------------------------------------


def test_all_broken_rules_are_listed_once_each() -> None:
    def filter_rows(ctx: Any, state: Any, req: Any, frame: Any, alive: int) -> Verdict:
        return Verdict(ok=~1 if alive.bit_count() > 3 else -1)

    with pytest.raises(ConformanceError) as caught:
        check(plugin(filter=filter_rows))

    assert caught.value.rows == {"F3-126", "F3-127"}
    lines = str(caught.value).splitlines()
    assert lines[0] == "X does not conform:"
    assert [line.strip().split(":")[0] for line in lines[1:]] == ["F3-126", "F3-127"]


def test_a_finding_repeats() -> None:
    def filter_rows(ctx: Any, state: Any, req: Any, frame: Any, alive: int) -> Verdict:
        return Verdict(ok=to_bools(0b101, frame.size) if frame.size else 0)

    assert broken_rules(plugin(filter=filter_rows)) == broken_rules(plugin(filter=filter_rows))


def test_a_conformance_error_is_a_failed_assertion() -> None:
    with pytest.raises(AssertionError):
        check(plugin(filter=lambda *_: None))
