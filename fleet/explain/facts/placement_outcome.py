"""What became of a placement, in the few facts by which one outcome is better than another."""

from __future__ import annotations

from typing import Final

import msgspec

from fleet.explain.facts.cluster_outcome import Standings
from fleet.framework.cycle.decision import Decision, Outcome
from fleet.snapshot.columns.bitset import each_row

TARGETS_SHOWN: Final = 20

UNDECIDED, UNSCHEDULABLE, PARTIAL, SELECTED = range(4)
_NAMES: Final = ("ERROR", "UNSCHEDULABLE", "PARTIAL", "SELECTED")


def level(decision: Decision) -> int:
    """How well the policy is served: a fulfilled one best, one that got nothing worst."""
    if decision.outcome in (Outcome.ERROR, Outcome.NEEDS_ANSWER):
        return UNDECIDED
    if decision.fulfilled:
        return SELECTED
    least = decision.request.min_targets
    have = decision.active or 0
    return PARTIAL if have and have >= (least or 0) else UNSCHEDULABLE


def level_name(decision: Decision) -> str:
    return _NAMES[level(decision)]


def in_use(decision: Decision) -> list[str]:
    """The clusters the placement is on once the decision is carried out: newly chosen ones first, others by name."""
    standings = Standings(decision)
    chosen = [target.cluster for target in decision.targets]
    kept = (decision.frame.name(row) for row in each_row(standings.kept) if row not in standings.targets)
    return [*chosen, *sorted(kept)]


def fitting(standings: Standings) -> int:
    """How many clusters qualify, those in use included."""
    return (standings.in_use | standings.fit).bit_count()


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


def effect_of(before: str, after: str, decision: Decision) -> Effect:
    names = in_use(decision)
    return Effect(
        before=before,
        after=after,
        fit=fitting(Standings(decision)),
        selected=len(names),
        targets=tuple(names[:TARGETS_SHOWN]),
        more=max(len(names) - TARGETS_SHOWN, 0),
    )
