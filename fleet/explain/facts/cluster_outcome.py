"""Outcome of each cluster in a decision: one word per cluster, and counts per kind.

Only recorded facts are read here: targets, bindings, operations and first rejections.
"""

from __future__ import annotations

import enum

import msgspec

from fleet.framework.cycle.decision import Decision
from fleet.framework.operations import Action, Target
from fleet.snapshot.columns.bitset import from_rows


class ClusterOutcome(enum.StrEnum):
    SELECTED = "selected"
    """Chosen now, by a new binding."""
    REFRESHED = "refreshed"
    """Chosen again: its binding of an earlier policy is kept."""
    REVIVED = "revived"
    """Chosen again: its unscheduled binding is reused."""
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
    """Given up because fewer clusters are desired."""
    NOT_EVALUATED = "not-evaluated"
    DANGLING = "dangling"
    """Not in the fleet any more, but a binding still names it."""
    MISSING = "missing"
    """PickFixed: the policy names it, and no such cluster exists."""


_BY_ACTION = {
    Action.CREATE: ClusterOutcome.SELECTED,
    Action.REFRESH: ClusterOutcome.REFRESHED,
    Action.REVIVE: ClusterOutcome.REVIVED,
    None: ClusterOutcome.KEPT,
}


class ClusterCounts(msgspec.Struct, frozen=True, rename="camel"):
    """Every cluster of the fleet is counted once: the rest adds up to `total`."""

    total: int
    selected: int
    """Chosen by this decision."""
    fit: int
    already_selected: int
    rejected: int
    not_evaluated: int


class ClusterOutcomes:
    """The rows of one decision by outcome. Bit i of a set is row i."""

    def __init__(self, decision: Decision) -> None:
        self.decision, self.frame = decision, decision.frame
        self.targets: dict[int, Target] = {target.row: target for target in decision.targets}
        removed = {operation.name for operation in decision.operations if operation.action is Action.UNSCHEDULE}
        self._refreshed = {operation.cluster for operation in decision.operations if operation.action is Action.REFRESH}
        self._is_fixed = decision.fixed_verdicts is not None
        self.removed, self._active = self._split_active(removed)
        self.chosen = from_rows(row for row, target in self.targets.items() if target.operation is not None)
        self.kept = (from_rows(self.targets) & ~self.chosen) | (0 if self._is_fixed else self._active)
        self.in_use = self.chosen | self.kept
        self.rejected = self._find_rejected() & ~self.in_use
        self.fit = self._find_fitting() & ~self.in_use & ~self.rejected
        self.idle = self.frame.valid & ~self.in_use & ~self.rejected & ~self.fit

    def _split_active(self, removed: set[str]) -> tuple[int, int]:
        """Rows that lose their active binding, and those that keep it."""
        bindings = self.decision.bindings
        active = {**bindings.scheduled, **bindings.bound}
        lost = from_rows(row for row, binding in active.items() if binding.metadata.name in removed)
        return lost, from_rows(active) & ~lost

    def _find_rejected(self) -> int:
        verdicts = self.decision.verdicts
        if verdicts is None:
            return 0
        if self._is_fixed:
            return self.frame.valid  # also the clusters that the policy does not name
        if verdicts.fill is not None:
            return self.frame.valid
        return verdicts.rejected & ~verdicts.already_selected()

    def _find_fitting(self) -> int:
        """Also rows that were picked and given back because too few others could be found."""
        verdicts = self.decision.verdicts
        return 0 if verdicts is None else verdicts.alive | verdicts.already_selected()

    def find(self, row: int) -> ClusterOutcome:
        target = self.targets.get(row)
        if target is not None:
            return _BY_ACTION[target.action]
        bit = 1 << row
        if self.kept & bit:
            return ClusterOutcome.KEPT
        if self.fit & bit:
            return ClusterOutcome.NOT_PICKED
        if not self.rejected & bit:
            return ClusterOutcome.REMOVED if self.removed & bit else ClusterOutcome.NOT_EVALUATED
        return self._find_fixed(row) if self._is_fixed else ClusterOutcome.FILTERED

    def _find_fixed(self, row: int) -> ClusterOutcome:
        if self.frame.name(row) not in self.decision.request.cluster_names:
            return ClusterOutcome.NOT_LISTED
        return ClusterOutcome.RETAINED if self.frame.name(row) in self._refreshed else ClusterOutcome.FILTERED

    def count(self) -> ClusterCounts:
        return ClusterCounts(
            total=self.frame.count,
            selected=self.chosen.bit_count(),
            fit=self.fit.bit_count(),
            already_selected=self.kept.bit_count(),
            rejected=self.rejected.bit_count(),
            not_evaluated=self.idle.bit_count(),
        )


def count_clusters(decision: Decision) -> ClusterCounts:
    return ClusterOutcomes(decision).count()
