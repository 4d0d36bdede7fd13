"""Where a cluster stands after a decision: one word per cluster, and how many clusters each word applies to.

Only recorded facts are read here: targets, bindings, operations and first rejections.
"""

from __future__ import annotations

import enum

import msgspec

from fleet.framework.cycle.decision import Decision
from fleet.framework.operations import Action, Target
from fleet.snapshot.columns.bitset import from_rows


class Standing(enum.StrEnum):
    SELECTED = "selected"
    """Chosen now, by a new binding."""
    REFRESHED = "refreshed"
    """Chosen again: its binding of an earlier policy is kept."""
    REVIVED = "revived"
    """Chosen again: its unscheduled binding comes back."""
    KEPT = "kept"
    """In use before, and still."""
    NOT_PICKED = "not-picked"
    """Fits, but others rank higher or enough were found."""
    FILTERED = "filtered"
    RETAINED = "retained"
    """PickFixed: not eligible at the moment, but its binding stays."""
    NOT_LISTED = "not-listed"
    """PickFixed: the policy does not name it."""
    REMOVED = "removed"
    """Given up because fewer clusters are wanted."""
    NOT_EVALUATED = "not-evaluated"
    DANGLING = "dangling"
    """Not in the fleet any more, but a binding still names it."""
    MISSING = "missing"
    """PickFixed: the policy names it, and no such cluster exists."""


_BY_ACTION = {
    Action.CREATE: Standing.SELECTED,
    Action.REFRESH: Standing.REFRESHED,
    Action.REVIVE: Standing.REVIVED,
    None: Standing.KEPT,
}


class Counts(msgspec.Struct, frozen=True, rename="camel"):
    """Every cluster of the fleet is counted once: the rest adds up to `total`."""

    total: int
    selected: int
    """Chosen by this decision."""
    fit: int
    already_selected: int
    rejected: int
    not_evaluated: int


class Standings:
    """The rows of one decision by where they stand. Bit i of a set is row i."""

    def __init__(self, decision: Decision) -> None:
        self.decision, self.frame = decision, decision.frame
        self.targets: dict[int, Target] = {one.row: one for one in decision.targets}
        removed = {one.name for one in decision.operations if one.action is Action.UNSCHEDULE}
        self._refreshed = {one.cluster for one in decision.operations if one.action is Action.REFRESH}
        self._is_fixed = decision.fixed_verdicts is not None
        self.removed, self._active = self._by_fate(removed)
        self.chosen = from_rows(row for row, one in self.targets.items() if one.operation is not None)
        self.kept = (from_rows(self.targets) & ~self.chosen) | (0 if self._is_fixed else self._active)
        self.in_use = self.chosen | self.kept
        self.rejected = self._rejected() & ~self.in_use
        self.fit = self._fitting() & ~self.in_use & ~self.rejected
        self.idle = self.frame.valid & ~self.in_use & ~self.rejected & ~self.fit

    def _by_fate(self, removed: set[str]) -> tuple[int, int]:
        """Rows that lose their active binding, and those that keep it."""
        bindings = self.decision.bindings
        active = {**bindings.scheduled, **bindings.bound}
        lost = from_rows(row for row, binding in active.items() if binding.metadata.name in removed)
        return lost, from_rows(active) & ~lost

    def _rejected(self) -> int:
        verdicts = self.decision.verdicts
        if verdicts is None:
            return 0
        if self._is_fixed:
            return self.frame.valid  # also the clusters that nobody named
        if verdicts.fill is not None:
            return self.frame.valid
        return verdicts.rejected & ~verdicts.already_selected()

    def _fitting(self) -> int:
        """Also rows that were picked and given back because too few others could be found."""
        verdicts = self.decision.verdicts
        return 0 if verdicts is None else verdicts.alive | verdicts.already_selected()

    def of(self, row: int) -> Standing:
        target = self.targets.get(row)
        if target is not None:
            return _BY_ACTION[target.action]
        bit = 1 << row
        if self.kept & bit:
            return Standing.KEPT
        if self.fit & bit:
            return Standing.NOT_PICKED
        if not self.rejected & bit:
            return Standing.REMOVED if self.removed & bit else Standing.NOT_EVALUATED
        return self._fixed(row) if self._is_fixed else Standing.FILTERED

    def _fixed(self, row: int) -> Standing:
        if self.frame.name(row) not in self.decision.request.cluster_names:
            return Standing.NOT_LISTED
        return Standing.RETAINED if self.frame.name(row) in self._refreshed else Standing.FILTERED

    def counts(self) -> Counts:
        return Counts(
            total=self.frame.count,
            selected=self.chosen.bit_count(),
            fit=self.fit.bit_count(),
            already_selected=self.kept.bit_count(),
            rejected=self.rejected.bit_count(),
            not_evaluated=self.idle.bit_count(),
        )


def counts(decision: Decision) -> Counts:
    return Standings(decision).counts()
