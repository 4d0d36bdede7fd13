"""Observation: runs one plugin alone, with all results by cluster name, so that they do not depend on rows.

For conformance checks. The plugin runs at every decision hook it implements, behind the same runner as in production;
simple stand-ins fill the hooks that a profile cannot do without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np

from fleet.errors import PluginError
from fleet.framework.arguments import PluginFactory, RawArgs
from fleet.framework.bindings import classify
from fleet.framework.context import HookContext, QueryPending
from fleet.framework.cycle.runner import Narrowing, Runner
from fleet.framework.handle import Handle
from fleet.framework.profiles.adapter import adapt
from fleet.framework.profiles.profile import METHODS, CompiledProfile, PluginRef, Profile, compile_profile
from fleet.framework.profiles.registry import Registry
from fleet.framework.scores import ScoreTable
from fleet.framework.state import CycleState
from fleet.framework.status import message_of
from fleet.framework.testing.specimens import Specimen
from fleet.framework.types import ExternalResult, PluginTraits, Ranking
from fleet.framework.verdicts import Verdicts
from fleet.snapshot.columns.bitset import Int64Array, Rows, to_rows
from fleet.snapshot.frame import Frame

_STAND_IN: Final = "ConformanceStandIn"
_POINTS: Final = "ConformancePoints"
_STAND_IN_HOOKS: Final = ("queueSort", "batch", "sort", "bind")
_DESIRED: Final = 7


class _StandIn(PluginTraits):
    """Fills the hooks that every profile needs."""

    ROW_LOCAL = True

    def name(self) -> str:
        return _STAND_IN

    def key(self, item: Any) -> tuple[int, ...]:
        del item
        return ()

    def batch(self, ctx: HookContext, state: CycleState, req: Any, frame: Frame) -> int:
        del ctx, state, frame
        return req.wanted or 0

    def sort(self, ctx: HookContext, state: CycleState, req: Any, frame: Frame, rows: Rows, scores: ScoreTable) -> Rows:
        del ctx, state, req
        ranked: Rows = rows[np.lexsort((frame.names.rank[rows], -scores.totals()))]
        return ranked

    def bind(self, *args: Any) -> None:
        del args


class _Points(_StandIn):
    """Scores to rank by, for a plugin that only sorts."""

    def name(self) -> str:
        return _POINTS

    def score(self, ctx: HookContext, state: CycleState, req: Any, frame: Frame, rows: Rows) -> Int64Array:
        del ctx, state, req
        return (frame.names.hash[rows] % np.uint64(5)).astype(np.int64)


class PluginHarness:
    """A plugin under test, in profiles of its own."""

    def __init__(self, factory: PluginFactory, args: RawArgs | None, handle: Handle) -> None:
        self._factory, self._args, self._handle = factory, args, handle
        self.original = factory(args, handle)
        self.plugin = adapt(self.original)
        self.name: str = self.plugin.name()
        self.lexicographic = self._profile("lexicographic")
        self.weighted = self._profile("weighted") if hasattr(self.plugin, "normalize") else None

    def new_context(self, frame: Frame, case: Specimen, query_results: Mapping[str, ExternalResult]) -> HookContext:
        bindings = classify(case.bindings, frame, case.request)
        ctx = HookContext(now=case.now, bindings=bindings, query_results=query_results, uid=case.request.uid)
        ctx.need = ctx.desired = ctx.shortfall = frame.size
        return ctx

    def _profile(self, ranking: Ranking) -> CompiledProfile:
        hooks = {hook: [self.name] for hook, method in METHODS.items() if callable(getattr(self.plugin, method, None))}
        hooks = {hook: [_STAND_IN] for hook in _STAND_IN_HOOKS} | hooks
        if hooks["sort"] == [self.name]:
            hooks.setdefault("score", [_POINTS])
        registry = Registry({plugin.name(): _factory_of(plugin) for plugin in (self.original, _StandIn(), _Points())})
        plugins = {hook: [PluginRef(name) for name in names] for hook, names in hooks.items()}
        profile = Profile(scheduler_name="conformance", plugins=plugins, ranking=ranking)
        return compile_profile(registry, profile, self._handle)


def _factory_of(plugin: Any) -> PluginFactory:
    def factory(raw: RawArgs | None, handle: Handle) -> Any:
        del raw, handle
        return plugin

    return factory


# --- results ----------------------------------------------------------------------------------------------------------


class ClusterVerdict(NamedTuple):
    """The verdict on one cluster."""

    code: str = ""
    """Empty while it qualifies."""
    text: str = ""
    details: str = ""
    retained: bool = False
    broken: str = ""
    """The error that prevented rendering the reason."""

    def __str__(self) -> str:
        return f"{self.code} ({self.text}) {self.details}" if self.code else "accepted"


@dataclass(frozen=True, slots=True)
class Observation:
    verdicts: Mapping[str, ClusterVerdict]
    raw: Mapping[str, int]
    """Scores as the plugin gave them, for the clusters that qualify."""
    normalized: Mapping[str, int]
    order: list[str]
    others: Mapping[str, Any]
    """Results of the other hooks, by hook."""

    def parts(self) -> dict[str, Any]:
        scores = {"score": self.raw, "normalizeScore": self.normalized}
        return {"filter": self.verdicts, **scores, "sort": self.order, **self.others}


def observe(
    harness: PluginHarness, frame: Frame, case: Specimen, *, query_results: Mapping[str, ExternalResult]
) -> Observation:
    """All of a plugin's results for a frame. Raises the PluginError that would end an attempt."""
    try:
        ctx = harness.new_context(frame, case, query_results)
        observed = _observe(harness.lexicographic, frame, case, ctx)
        if harness.weighted is None:
            return observed
        again = _observe(harness.weighted, frame, case, harness.new_context(frame, case, query_results))
        return replace(observed, normalized=again.normalized)
    except QueryPending as pending:
        text = f"asks {pending.query.key!r}, to which the world has no answer"
        raise PluginError(text, plugin=harness.name, hook="question") from pending


def _observe(profile: CompiledProfile, frame: Frame, case: Specimen, ctx: HookContext) -> Observation:
    runner = Runner(profile, ctx, CycleState(), case.request)
    others: dict[str, Any] = {"postBatch": runner.run_post_batch(frame, _DESIRED)}
    if profile.batch.name != _STAND_IN:
        others["batch"] = runner.run_batch(frame)
    narrowing = runner.run_pre_filter(frame)
    others["preFilter"] = _describe_narrowing(narrowing, frame)
    verdicts = runner.run_filter(frame, narrowing)
    rows = to_rows(verdicts.alive, frame.size)
    scores, order = ScoreTable(rows), rows
    if len(rows):
        runner.run_pre_score(frame, rows, verdicts)
        scores = runner.run_score(frame, rows)
        order = runner.run_sort(frame, rows, scores)
    plan = runner.run_post_filter(frame, verdicts)
    others["postFilter"] = None if plan is None else (plan.nomination, plan.evictions)
    others["warnings"] = {
        (warning.kind, warning.subject): verdicts.names(warning.rows) for warning in ctx.warnings.values()
    }
    others["notes"] = ctx.notes
    others["skipped"] = runner.skipped
    return Observation(
        verdicts=_cluster_verdicts(verdicts),
        raw=_by_cluster(frame, scores, "raw"),
        normalized=_by_cluster(frame, scores, "normalized"),
        order=[frame.name(row) for row in order.tolist()],
        others=others,
    )


def _describe_narrowing(narrowing: Narrowing, frame: Frame) -> Any:
    if narrowing.refusal is not None:
        return str(narrowing.refusal.code), message_of(narrowing.refusal)
    return {
        name: [frame.name(row) for row in frame.names.order.tolist() if mask >> row & 1]
        for name, mask in narrowing.masks
    }


def _cluster_verdicts(verdicts: Verdicts) -> dict[str, ClusterVerdict]:
    frame = verdicts.frame
    judged = (row for row in frame.names.order.tolist() if not frame.excluded >> row & 1)
    return {frame.name(row): _cluster_verdict(verdicts, row) for row in judged}


def _cluster_verdict(verdicts: Verdicts, row: int) -> ClusterVerdict:
    retained = bool(verdicts.retained >> row & 1)
    try:
        status = verdicts.status(row)
    except Exception as error:
        return ClusterVerdict(code="rejected", broken=f"{type(error).__name__}: {error}")
    if status is None:
        return ClusterVerdict(retained=retained)
    details = repr(sorted(status.details.items(), key=repr))
    return ClusterVerdict(str(status.code), message_of(status), details, retained)


def _by_cluster(frame: Frame, scores: ScoreTable, form: str) -> dict[str, int]:
    if not scores.columns:
        return {}
    column: list[int] = getattr(scores.columns[0], form).tolist()
    return dict(zip((frame.name(row) for row in scores.rows.tolist()), column, strict=True))


# --- tampering --------------------------------------------------------------------------------------------------------


def find_tampered_columns(frame: Frame, fresh: Frame) -> Iterator[str]:
    """Columns of a frame that were changed or made writable; `fresh` has the same clusters."""
    for key, column in frame._columns.items():
        other = fresh._column(key)
        for name in column.__slots__:
            array = getattr(column, name)
            if not isinstance(array, np.ndarray):
                continue
            if array.flags.writeable or not np.array_equal(array, getattr(other, name), equal_nan=True):
                yield "/".join(key)
