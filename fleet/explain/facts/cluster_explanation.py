"""Everything one decision says about one cluster.

Recorded facts come first: who refused the cluster, which scores and which rank it had. The verdicts of the filters
behind the first refusal are asked for now, of the same hooks and on the same frame, and change nothing.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import msgspec

from fleet.explain.facts.cluster_outcome import Standing, Standings
from fleet.explain.facts.margins import Margin, Ranking, Scores
from fleet.explain.facts.rejections import Refusal, first_refusal
from fleet.explain.facts.verdict_matrix import Matrix
from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.cycle.decision import Decision
from fleet.framework.operations import Operation
from fleet.model.keys import PARENT_PLACEMENT
from fleet.model.views import Binding, ClusterScore
from fleet.snapshot.columns.bitset import each_row, from_rows

Answer = Literal["pass", "reject", "skipped", "unknown"]


class PluginVerdict(msgspec.Struct, frozen=True, rename="camel"):
    """What one filter says about the cluster, whatever the others said."""

    plugin: str
    verdict: Answer
    """`skipped`: the policy gives this plugin nothing to do. `unknown`: the decision ended before anyone was asked."""
    refusal: Refusal | None = None


class BindingFate(msgspec.Struct, frozen=True, rename="camel"):
    """A binding for the cluster, and what the decision does with it."""

    name: str
    state: str
    """As it was; empty for one that does not exist yet."""
    action: str
    """create, refresh, revive, unschedule, dropFinalizer, or `none` for one that stays as it is."""


class ClusterExplanation(msgspec.Struct, frozen=True, rename="camel"):
    cluster: str
    outcome: Standing
    first: Refusal | None = None
    """The refusal that counted."""
    verdicts: tuple[PluginVerdict, ...] = ()
    scores: Scores | None = None
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


def explain_cluster(decision: Decision, inp: DecisionInput, name: str) -> ClusterExplanation:
    return Explainer(decision, inp).cluster(name)


class Explainer:
    """Explains the clusters of one decision; what they share is computed once."""

    def __init__(self, decision: Decision, inp: DecisionInput) -> None:
        self._decision, self._inp, self._frame = decision, inp, decision.frame
        self.standings = Standings(decision)

    @cached_property
    def _fates(self) -> dict[str, tuple[BindingFate, ...]]:
        return _fates(self._decision)

    def strangers(self) -> tuple[str, ...]:
        """Names outside the fleet that the decision has something to say about, sorted."""
        dangling = (one.spec.target_cluster for one in self._decision.bindings.dangling)
        named = {*self._decision.missing, *dangling}
        return tuple(sorted(name for name in named if name not in self._frame.names))

    def not_picked(self) -> list[str]:
        """Names of the clusters that fit and were not picked, best first."""
        fit = self.standings.fit
        ranked = self.ranking.order.among(fit)
        others = sorted(self._frame.name(row) for row in each_row(fit & ~from_rows(ranked)))
        return [*(self._frame.name(row) for row in ranked), *others]

    def cluster(self, name: str, *, everything: bool = True) -> ClusterExplanation:
        """A name outside the fleet and outside `strangers` is a KeyError. Without `everything`, the verdicts of the
        filters are left out, which cost the most."""
        row = self._frame.row_of(name)
        if row is None:
            return self._stranger(name)
        standing = self.standings.of(row)
        target = self.standings.targets.get(row)
        verdicts = self._decision.verdicts
        return ClusterExplanation(
            cluster=name,
            outcome=standing,
            first=first_refusal(self.standings, row),
            verdicts=self._verdicts(row) if everything else (),
            scores=self._scores(row),
            rank=self.ranking.rank_of(row) if standing is Standing.NOT_PICKED else None,
            ranked=len(self.ranking.order),
            margin=self.ranking.margin(row) if standing is Standing.NOT_PICKED else None,
            step=(target.step or None) if target else None,
            retained=verdicts is not None and bool(verdicts.retained >> row & 1),
            bindings=self._fates.get(name, ()),
        )

    def _stranger(self, name: str) -> ClusterExplanation:
        if name not in self.strangers():
            raise KeyError(name)
        missing = name in self._decision.missing
        outcome = Standing.MISSING if missing else Standing.DANGLING
        return ClusterExplanation(cluster=name, outcome=outcome, bindings=self._fates.get(name, ()))

    @cached_property
    def ranking(self) -> Ranking:
        return Ranking(self._decision, self._inp)

    def _scores(self, row: int) -> Scores | None:
        target = self.standings.targets.get(row)
        if target is not None:
            found = target.scores
            return None if found is None else Scores(found.topology, found.affinity, target.obsolete)
        if self.standings.of(row) is Standing.KEPT:
            return _stored_scores(self._decision.bindings.bound.get(row) or self._decision.bindings.scheduled.get(row))
        return self.ranking.scores(row)

    # --- verdicts -----------------------------------------------------------------------------------------------

    @cached_property
    def matrix(self) -> Matrix:
        return Matrix(self._decision, self._inp)

    def _verdicts(self, row: int) -> tuple[PluginVerdict, ...]:
        first = first_refusal(self.standings, row)
        chosen = row in self.standings.targets
        found = [self._verdict(one.name, row, first, chosen=chosen) for one in self._inp.profile.filters]
        if first is not None and first.plugin not in {one.plugin for one in found}:
            found.insert(0, PluginVerdict(first.plugin, "reject", first))
        return tuple(found)

    def _verdict(self, plugin: str, row: int, first: Refusal | None, *, chosen: bool) -> PluginVerdict:
        if not self.matrix.is_known:
            return PluginVerdict(plugin, "unknown")
        if plugin not in self.matrix.asked:
            return PluginVerdict(plugin, "skipped")
        if chosen or self._passed(plugin, row, first):
            return PluginVerdict(plugin, "pass")
        refused = first if first is not None and first.plugin == plugin else self.matrix.refusal(plugin, row)
        return PluginVerdict(plugin, "pass" if refused is None else "reject", refused)

    def _passed(self, plugin: str, row: int, first: Refusal | None) -> bool:
        """On record: whoever stands before the first refusal, and everybody where there is none."""
        if self.standings.fit >> row & 1:
            return True
        asked = self.matrix.asked
        if first is None or first.plugin not in asked:
            return False
        return asked.index(plugin) < asked.index(first.plugin)


def _stored_scores(binding: Binding | None) -> Scores | None:
    stored = None if binding is None else binding.spec.cluster_decision.cluster_score
    return Scores(stored.topology, stored.affinity) if isinstance(stored, ClusterScore) else None


def _fates(decision: Decision) -> dict[str, tuple[BindingFate, ...]]:
    """Per cluster its bindings, those that exist by name, then those that are created."""
    changes = {one.name: one for one in decision.operations}
    placement = decision.request.placement
    fates: dict[str, list[BindingFate]] = {}
    own = (one for one in decision.bindings.holders.values() if one.metadata.label(PARENT_PLACEMENT) == placement)
    for binding in own:
        change = changes.pop(binding.metadata.name, None)
        fates.setdefault(binding.spec.target_cluster, []).append(_fate(binding, change))
    for change in changes.values():
        fates.setdefault(change.cluster, []).append(BindingFate(change.name, "", change.action.value))
    return {cluster: tuple(found) for cluster, found in fates.items()}


def _fate(binding: Binding, change: Operation | None) -> BindingFate:
    state = "Deleting" if binding.metadata.deletion_timestamp else binding.spec.state
    return BindingFate(binding.metadata.name, state, change.action.value if change else "none")
