"""Margins: the score that a feasible cluster lacks, compared with the last one that was picked."""

from __future__ import annotations

from typing import Literal

import msgspec

from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.cycle.decision import Decision, Round
from fleet.framework.cycle.inspection import rank_all
from fleet.framework.types import Component
from fleet.snapshot.row_order import RowOrder

Decider = Literal["topology", "affinity", "obsolete", "total", "name"]


class ScoreParts(msgspec.Struct, frozen=True, rename="camel"):
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
        last = _find_last_pick(self._last)
        if last is None:
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


def _find_last_pick(last: Round | None) -> int | None:
    return last.picked[-1] if last is not None and last.picked else None


def find_decider(difference: ScoreParts) -> Decider:
    """The part in which two clusters differ."""
    if difference.total is not None:
        return "total" if difference.total else "name"
    if difference.topology:
        return "topology"
    if difference.affinity:
        return "affinity"
    return "obsolete" if difference.obsolete else "name"
