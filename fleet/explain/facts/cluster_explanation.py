"""Explanation of one cluster in one decision.

Recorded facts come first: the plugin that rejected the cluster, its scores and its rank. The verdicts of the filters
behind the first rejection are computed now, by the same hooks on the same frame, and change nothing.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import msgspec

from fleet.explain.facts.cluster_outcome import ClusterOutcome, ClusterOutcomes
from fleet.explain.facts.margins import Margin, Ranking, ScoreParts
from fleet.explain.facts.rejections import ClusterRejection, find_first_rejection
from fleet.explain.facts.verdict_matrix import VerdictMatrix
from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.cycle.decision import Decision
from fleet.framework.operations import Operation
from fleet.model.keys import PARENT_PLACEMENT
from fleet.model.views import Binding, ClusterScore

Answer = Literal["pass", "reject", "skipped", "unknown"]


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
    bindings: tuple[BindingFate, ...] = ()


class Explainer:
    """Explains the clusters of one decision; what they share is computed once."""

    def __init__(self, decision: Decision, inp: DecisionInput) -> None:
        self._decision, self._inp, self._frame = decision, inp, decision.frame
        self.outcomes = ClusterOutcomes(decision)

    @cached_property
    def _fates(self) -> dict[str, tuple[BindingFate, ...]]:
        return _collect_binding_fates(self._decision)

    def list_strangers(self) -> tuple[str, ...]:
        """Names outside the fleet that appear in the decision, sorted."""
        dangling = (binding.spec.target_cluster for binding in self._decision.bindings.dangling)
        named = {*self._decision.missing, *dangling}
        return tuple(sorted(name for name in named if name not in self._frame.names))

    def explain(self, name: str, *, everything: bool = True) -> ClusterExplanation:
        """A name outside the fleet and outside `list_strangers` is a KeyError. Without `everything`, the costly
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
            scores=self._find_scores(row),
            rank=self.ranking.find_rank(row) if outcome is ClusterOutcome.NOT_PICKED else None,
            ranked=len(self.ranking.order),
            margin=self.ranking.compute_margin(row) if outcome is ClusterOutcome.NOT_PICKED else None,
            step=(target.step or None) if target else None,
            retained=verdicts is not None and bool(verdicts.retained >> row & 1),
            bindings=self._fates.get(name, ()),
        )

    def _explain_stranger(self, name: str) -> ClusterExplanation:
        if name not in self.list_strangers():
            raise KeyError(name)
        missing = name in self._decision.missing
        outcome = ClusterOutcome.MISSING if missing else ClusterOutcome.DANGLING
        return ClusterExplanation(cluster=name, outcome=outcome, bindings=self._fates.get(name, ()))

    @cached_property
    def ranking(self) -> Ranking:
        return Ranking(self._decision, self._inp)

    def _find_scores(self, row: int) -> ScoreParts | None:
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

    def _judge_all(self, row: int) -> tuple[PluginVerdict, ...]:
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
