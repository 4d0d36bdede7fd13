"""How far a cluster that fits is behind the last one that was picked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from fleet.framework.cycle import DecisionInput
from fleet.framework.decision import Decision, Round
from fleet.framework.inspection import rank_all

Decider = Literal["topology", "affinity", "obsolete", "total", "name"]


class Scores(msgspec.Struct, frozen=True, rename="camel"):
    """The parts of a score in the order they are compared; `total` only where they are added up instead."""

    topology: int
    affinity: int
    obsolete: int = 0
    total: int | None = None


class Margin(msgspec.Struct, frozen=True, rename="camel"):
    """The distance to the last pick. Parts are this cluster's score minus the other's."""

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
        self._weighted = inp.profile.ranking == "weighted"
        ranked = rank_all(decision, inp)
        self.rank_of = {row: rank for rank, row in enumerate(ranked, start=1)}
        self.total = len(ranked)
        scored: Sequence[int] = [] if self._last is None else self._last.scores.rows.tolist()
        self._places = {row: place for place, row in enumerate(scored)}
        self._totals: list[int] = self._last.scores.totals().tolist() if self._last and self._weighted else []

    def scores(self, row: int) -> Scores | None:
        place = self._places.get(row)
        if place is None or self._last is None or not self._last.scores.columns:
            return None
        topology, affinity, obsolete = self._last.scores.components(place)
        return Scores(topology, affinity, obsolete, self._totals[place] if self._weighted else None)

    def margin(self, row: int) -> Margin | None:
        last = _last_pick(self._last)
        if last is None:
            return None
        mine, theirs = self.scores(row), self.scores(last)
        if mine is None or theirs is None:
            return None
        total = None if mine.total is None or theirs.total is None else mine.total - theirs.total
        parts = {
            "topology": mine.topology - theirs.topology,
            "affinity": mine.affinity - theirs.affinity,
            "obsolete": mine.obsolete - theirs.obsolete,
        }
        return Margin(to=self._frame.name(last), decided_by=_decider(parts, total), total=total, **parts)


def _last_pick(last: Round | None) -> int | None:
    return last.picked[-1] if last is not None and last.picked else None


def _decider(parts: dict[str, int], total: int | None) -> Decider:
    if total is not None:
        return "total" if total else "name"
    for part in ("topology", "affinity", "obsolete"):
        if parts[part]:
            return part
    return "name"
