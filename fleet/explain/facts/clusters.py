"""Explanation of one cluster in one decision.

Recorded facts come first: the plugin that rejected the cluster, its scores and its rank. The verdicts of the filters
behind the first rejection are computed now, by the same hooks on the same frame, and change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

import msgspec

from fleet.cached import cached_property
from fleet.explain.facts.outcomes import ClusterOutcome, ClusterOutcomes
from fleet.explain.facts.rejections import ClusterRejection, find_first_rejection, find_rejection
from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.cycle.decision import Decision, Outcome
from fleet.framework.cycle.inspection import judge_all, judge_unplaced, rank_all
from fleet.framework.operations import Operation
from fleet.framework.status import Status
from fleet.framework.types import Component
from fleet.framework.verdicts import FilterRejection, Verdicts
from fleet.model.keys import PARENT_PLACEMENT, PICK_FIXED
from fleet.model.views import Binding, ClusterScore
from fleet.snapshot.columns.rows import RowOrder

Answer = Literal["pass", "reject", "skipped", "unknown"]
Decider = Literal["topology", "affinity", "obsolete", "total", "name"]
_STAYING: Final = (ClusterOutcome.KEPT, ClusterOutcome.REFRESHED)
_UNDECIDED: Final = (Outcome.ERROR, Outcome.NEEDS_ANSWER)


# --- ranks ------------------------------------------------------------------------------------------------------------


class ScoreParts(msgspec.Struct, frozen=True, rename="camel"):
    """The parts of a score in the order they are compared; `total` only where they are added up instead."""

    topology: int
    affinity: int
    obsolete: int = 0
    total: int | None = None


class Margin(msgspec.Struct, frozen=True, rename="camel"):
    """The distance to the last pick, or to the next cluster where none was picked. Parts are this cluster's score
    minus the other's."""

    to: str
    decided_by: Decider
    """The first part that differs; the name where all are equal."""
    topology: int
    affinity: int
    obsolete: int
    total: int | None = None


class Ranking:
    """Ranks and scores of the last round, looked up by row."""

    def __init__(self, decision: Decision, inp: DecisionInput) -> None:
        self._frame, self._last = decision.frame, decision.round
        self._is_idle = decision.outcome in (Outcome.UNCHANGED, Outcome.SHRINK)
        self._weighted = inp.profile.ranking == "weighted"
        self.order = RowOrder(rank_all(decision, inp), self._frame.size)
        self._places = RowOrder(() if self._last is None else self._last.scores.rows, self._frame.size)
        self._known: dict[int, ScoreParts | None] = {}
        self._totals = self._last.scores.totals() if self._last and self._weighted else None
        self._parts = [
            None if self._last is None else self._last.scores.component(component) for component in Component
        ]

    def find_rank(self, row: int) -> int | None:
        place = self.order.of(row)
        return None if place is None else place + 1

    def find_scores(self, row: int) -> ScoreParts | None:
        """Cached: a row is compared with the adjacent rows and with the last pick."""
        if row not in self._known:
            self._known[row] = self._read_scores(row)
        return self._known[row]

    def _read_scores(self, row: int) -> ScoreParts | None:
        place = self._places.of(row)
        if place is None or self._last is None or not self._last.scores.columns:
            return None
        topology, affinity, obsolete = (0 if part is None else int(part[place]) for part in self._parts)
        return ScoreParts(topology, affinity, obsolete, None if self._totals is None else int(self._totals[place]))

    def compute_margin(self, row: int) -> Margin | None:
        last = self._find_reference()
        if last is None or last == row:
            return None
        mine, theirs = self.find_scores(row), self.find_scores(last)
        if mine is None or theirs is None:
            return None
        total = None if mine.total is None or theirs.total is None else mine.total - theirs.total
        parts = {
            "topology": mine.topology - theirs.topology,
            "affinity": mine.affinity - theirs.affinity,
            "obsolete": mine.obsolete - theirs.obsolete,
        }
        return Margin(
            to=self._frame.name(last), decided_by=find_decider(ScoreParts(**parts, total=total)), total=total, **parts
        )

    def _find_reference(self) -> int | None:
        """The last pick; the best cluster where all that were wanted are in use and none was picked."""
        if self._last is None:
            return None
        if self._last.picked:
            return self._last.picked[-1]
        return int(self._last.order[0]) if self._is_idle and len(self._last.order) else None


def find_decider(difference: ScoreParts) -> Decider:
    """The part in which two clusters differ."""
    if difference.total is not None:
        return "total" if difference.total else "name"
    if difference.topology:
        return "topology"
    if difference.affinity:
        return "affinity"
    return "obsolete" if difference.obsolete else "name"


# --- verdicts ---------------------------------------------------------------------------------------------------------


class VerdictMatrix:
    def __init__(self, decision: Decision, inp: DecisionInput, *, unplaced: bool = False) -> None:
        """`unplaced`: as if the placement had no binding yet, for clusters that are in use."""
        self._frame, self._request, self._profile = decision.frame, decision.request, inp.profile
        self.is_known = decision.outcome not in _UNDECIDED
        """False where the attempt ended before the filters."""
        judged = [] if not self.is_known else judge_unplaced(inp) if unplaced else judge_all(decision, inp)
        self._found: Mapping[str, FilterRejection] = dict(judged)
        self._alone: dict[str, Verdicts] = {}

    @cached_property
    def judging(self) -> list[str]:
        """The filters that judge this placement, in order."""
        if self._request.placement_type == PICK_FIXED:
            return [plugin.name for _, plugin in self._profile.fixed_filters]
        return [plugin.name for plugin in self._profile.filters if plugin.name in self._found]

    @property
    def rejected(self) -> Mapping[str, int]:
        """By filter the rows it rejects, in order."""
        return {name: rejection.rows for name, rejection in self._found.items()}

    def split_by_reason(self, plugin: str, rows: int) -> dict[str, int]:
        """Rows that the filter rejects, by the name of the reason."""
        rejection = self._found[plugin]
        return self.compute_verdicts(plugin).split_by_reason(rejection, rows & rejection.rows)

    def find_status(self, plugin: str, row: int) -> Status | None:
        return self.compute_verdicts(plugin).status(row)

    def find_rejection(self, plugin: str, row: int) -> ClusterRejection | None:
        return find_rejection(self.compute_verdicts(plugin), row)

    def compute_verdicts(self, plugin: str) -> Verdicts:
        """Verdicts of one filter, as if it were the only one."""
        known = self._alone.get(plugin)
        if known is None:
            rejection = self._found[plugin]
            known = self._alone[plugin] = Verdicts(self._frame, self._request, self._profile.judges)
            known.reject(rejection.plugin, rejection.verdict)
        return known


# --- one cluster ------------------------------------------------------------------------------------------------------


class PluginVerdict(msgspec.Struct, frozen=True, rename="camel"):
    """Verdict of one filter, independent of the other filters."""

    plugin: str
    verdict: Answer
    """`skipped`: this plugin does not apply to the policy. `unknown`: the decision ended before the filters ran."""
    refusal: ClusterRejection | None = None


class BindingFate(msgspec.Struct, frozen=True, rename="camel"):
    """A binding for the cluster, and what the decision does with it."""

    name: str
    state: str
    """As it was; empty for one that does not exist yet."""
    action: str
    """create, refresh, revive, unschedule, dropFinalizer, or `none` for one that stays as it is."""


class ClusterExplanation(msgspec.Struct, frozen=True, rename="camel"):
    cluster: str
    outcome: ClusterOutcome
    first: ClusterRejection | None = None
    """The rejection that counted."""
    verdicts: tuple[PluginVerdict, ...] = ()
    scores: ScoreParts | None = None
    """Of the moment of picking; for a cluster that was in use before, those stored with its binding."""
    rank: int | None = None
    """Among the clusters of the last round, from 1."""
    ranked: int = 0
    """How many clusters were ranked there."""
    margin: Margin | None = None
    step: int | None = None
    """In which round it was picked, where the policy ranks."""
    retained: bool = False
    """Not eligible as a newcomer; what is there stays over a policy change."""
    concerns: tuple[ClusterRejection, ...] = ()
    """What would keep a cluster that is in use from being chosen now."""
    bindings: tuple[BindingFate, ...] = ()


class Explainer:
    """Explains the clusters of one decision; what they share is computed once."""

    def __init__(self, decision: Decision, inp: DecisionInput) -> None:
        self._decision, self._inp, self._frame = decision, inp, decision.frame
        self.outcomes = ClusterOutcomes(decision)

    @cached_property
    def _fates(self) -> dict[str, tuple[BindingFate, ...]]:
        return _collect_binding_fates(self._decision)

    @cached_property
    def strangers(self) -> Mapping[str, ClusterOutcome]:
        """Names outside the fleet that appear in the decision, sorted."""
        dangling = (binding.spec.target_cluster for binding in self._decision.bindings.dangling)
        named = dict.fromkeys(dangling, ClusterOutcome.DANGLING)
        named |= dict.fromkeys(self._decision.missing, ClusterOutcome.MISSING)
        return {name: named[name] for name in sorted(named) if name not in self._frame.names}

    def explain(self, name: str, *, everything: bool = True) -> ClusterExplanation:
        """A name outside the fleet and outside `strangers` is a KeyError. Without `everything`, the costly
        verdicts of the filters are left out."""
        row = self._frame.row_of(name)
        if row is None:
            return self._explain_stranger(name)
        outcome = self.outcomes.find(row)
        target = self.outcomes.targets.get(row)
        verdicts = self._decision.verdicts
        return ClusterExplanation(
            cluster=name,
            outcome=outcome,
            first=find_first_rejection(self.outcomes, row),
            verdicts=self._judge_all(row) if everything else (),
            scores=self.find_scores(row),
            rank=self.ranking.find_rank(row) if outcome is ClusterOutcome.NOT_PICKED else None,
            ranked=len(self.ranking.order),
            margin=self.ranking.compute_margin(row) if outcome is ClusterOutcome.NOT_PICKED else None,
            step=(target.step or None) if target else None,
            retained=verdicts is not None and bool(verdicts.retained >> row & 1),
            concerns=tuple(self._find_concerns(row)) if outcome in _STAYING else (),
            bindings=self._fates.get(name, ()),
        )

    def _explain_stranger(self, name: str) -> ClusterExplanation:
        return ClusterExplanation(cluster=name, outcome=self.strangers[name], bindings=self._fates.get(name, ()))

    @cached_property
    def ranking(self) -> Ranking:
        return Ranking(self._decision, self._inp)

    def find_scores(self, row: int) -> ScoreParts | None:
        target = self.outcomes.targets.get(row)
        if target is not None:
            scores = target.scores
            return None if scores is None else ScoreParts(scores.topology, scores.affinity, target.obsolete)
        if self.outcomes.find(row) is ClusterOutcome.KEPT:
            return _read_stored_scores(
                self._decision.bindings.bound.get(row) or self._decision.bindings.scheduled.get(row)
            )
        return self.ranking.find_scores(row)

    # --- verdicts -----------------------------------------------------------------------------------------------

    @cached_property
    def matrix(self) -> VerdictMatrix:
        return VerdictMatrix(self._decision, self._inp)

    @cached_property
    def unplaced(self) -> VerdictMatrix:
        """As if the placement had no binding yet: for clusters that are in use."""
        return VerdictMatrix(self._decision, self._inp, unplaced=True)

    def _find_concerns(self, row: int) -> Iterator[ClusterRejection]:
        for plugin in self.unplaced.judging if self.unplaced.is_known else ():
            rejection = self.unplaced.find_rejection(plugin, row)
            if rejection is not None:
                yield rejection

    def _judge_in_use(self, plugin: str, row: int) -> PluginVerdict:
        """Of the cluster by itself: a second binding for it is not in question."""
        if not self.unplaced.is_known:
            return PluginVerdict(plugin, "unknown")
        if plugin not in self.unplaced.judging:
            return PluginVerdict(plugin, "skipped")
        rejection = self.unplaced.find_rejection(plugin, row)
        return PluginVerdict(plugin, "pass" if rejection is None else "reject", rejection)

    def _judge_all(self, row: int) -> tuple[PluginVerdict, ...]:
        if self.outcomes.find(row) is ClusterOutcome.KEPT:
            return tuple(self._judge_in_use(plugin.name, row) for plugin in self._inp.profile.filters)
        first = find_first_rejection(self.outcomes, row)
        chosen = row in self.outcomes.targets
        verdicts = [self._judge(plugin.name, row, first, chosen=chosen) for plugin in self._inp.profile.filters]
        if first is not None and first.plugin not in {verdict.plugin for verdict in verdicts}:
            verdicts.insert(0, PluginVerdict(first.plugin, "reject", first))
        return tuple(verdicts)

    def _judge(self, plugin: str, row: int, first: ClusterRejection | None, *, chosen: bool) -> PluginVerdict:
        if not self.matrix.is_known:
            return PluginVerdict(plugin, "unknown")
        if plugin not in self.matrix.judging:
            return PluginVerdict(plugin, "skipped")
        if chosen or self._has_passed(plugin, row, first):
            return PluginVerdict(plugin, "pass")
        rejection = first if first is not None and first.plugin == plugin else self.matrix.find_rejection(plugin, row)
        return PluginVerdict(plugin, "pass" if rejection is None else "reject", rejection)

    def _has_passed(self, plugin: str, row: int, first: ClusterRejection | None) -> bool:
        """As recorded: every filter before the first rejection passed; without a rejection, all of them."""
        if self.outcomes.fit >> row & 1:
            return True
        judging = self.matrix.judging
        if first is None or first.plugin not in judging:
            return False
        return judging.index(plugin) < judging.index(first.plugin)


def _read_stored_scores(binding: Binding | None) -> ScoreParts | None:
    stored = None if binding is None else binding.spec.cluster_decision.cluster_score
    return ScoreParts(stored.topology, stored.affinity) if isinstance(stored, ClusterScore) else None


def _collect_binding_fates(decision: Decision) -> dict[str, tuple[BindingFate, ...]]:
    """Per cluster its bindings, those that exist by name, then those that are created."""
    changes = {operation.name: operation for operation in decision.operations}
    placement = decision.request.placement
    fates: dict[str, list[BindingFate]] = {}
    own = (
        binding
        for binding in decision.bindings.holders.values()
        if binding.metadata.label(PARENT_PLACEMENT) == placement
    )
    for binding in own:
        change = changes.pop(binding.metadata.name, None)
        fates.setdefault(binding.spec.target_cluster, []).append(_build_fate(binding, change))
    for change in changes.values():
        fates.setdefault(change.cluster, []).append(BindingFate(change.name, "", change.action.value))
    return {cluster: tuple(bindings) for cluster, bindings in fates.items()}


def _build_fate(binding: Binding, change: Operation | None) -> BindingFate:
    state = "Deleting" if binding.metadata.deletion_timestamp else binding.spec.state
    return BindingFate(binding.metadata.name, state, change.action.value if change else "none")
