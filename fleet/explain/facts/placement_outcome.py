"""Outcome of a placement, in the few facts by which one outcome is better than another."""

from __future__ import annotations

from typing import Final

import msgspec

from fleet.explain.facts.cluster_outcome import ClusterOutcomes
from fleet.framework.cycle.decision import Decision, Outcome
from fleet.snapshot.columns.bitset import each_row

TARGETS_SHOWN: Final = 20

UNDECIDED, UNSCHEDULABLE, PARTIAL, SELECTED = range(4)
_NAMES: Final = ("ERROR", "UNSCHEDULABLE", "PARTIAL", "SELECTED")


def rate_outcome(decision: Decision) -> int:
    """How far the policy is fulfilled: from fully, the best, to no cluster at all, the worst."""
    if decision.outcome in (Outcome.ERROR, Outcome.NEEDS_ANSWER):
        return UNDECIDED
    if decision.fulfilled:
        return SELECTED
    least = decision.request.min_targets
    have = decision.active or 0
    return PARTIAL if have and have >= (least or 0) else UNSCHEDULABLE


def name_outcome(decision: Decision) -> str:
    return _NAMES[rate_outcome(decision)]


def list_clusters_in_use(decision: Decision) -> list[str]:
    """The clusters the placement is on once the decision is carried out: newly chosen ones first, others by name."""
    outcomes = ClusterOutcomes(decision)
    chosen = [target.cluster for target in decision.targets]
    kept = (decision.frame.name(row) for row in each_row(outcomes.kept) if row not in outcomes.targets)
    return [*chosen, *sorted(kept)]


def count_fitting(outcomes: ClusterOutcomes) -> int:
    """How many clusters qualify, those in use included."""
    return (outcomes.in_use | outcomes.fit).bit_count()


class Effect(msgspec.Struct, frozen=True, rename="camel"):
    """What edits lead to."""

    before: str
    after: str
    fit: int
    """Clusters that qualify after the edits, those in use included."""
    selected: int
    """Clusters in use after the edits."""
    targets: tuple[str, ...]
    """The first of them: newly chosen ones in the order of choice, others by name."""
    more: int = 0


def build_effect(before: str, after: str, decision: Decision) -> Effect:
    names = list_clusters_in_use(decision)
    return Effect(
        before=before,
        after=after,
        fit=count_fitting(ClusterOutcomes(decision)),
        selected=len(names),
        targets=tuple(names[:TARGETS_SHOWN]),
        more=max(len(names) - TARGETS_SHOWN, 0),
    )
