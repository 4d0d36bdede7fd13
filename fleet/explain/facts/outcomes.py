"""Outcomes in a decision: one word per cluster, counts per kind, and how far the placement is fulfilled.

Only recorded facts are read here: targets, bindings, operations and first rejections.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from fleet.framework.cycle.decision import Decision, Outcome
from fleet.framework.operations import Action, Target
from fleet.framework.status import message_of
from fleet.snapshot.columns.bitset import each_row, from_rows

TARGETS_SHOWN: Final = 20
UNDECIDED, UNSCHEDULABLE, PARTIAL, SELECTED = range(4)
_NAMES: Final = ("ERROR", "UNSCHEDULABLE", "PARTIAL", "SELECTED")


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
        self.is_fixed = decision.fixed_verdicts is not None
        self.removed, self._active = self._split_active(removed)
        self.chosen = from_rows(row for row, target in self.targets.items() if target.operation is not None)
        self.kept = (from_rows(self.targets) & ~self.chosen) | (0 if self.is_fixed else self._active)
        self.in_use = self.chosen | self.kept
        self.leaving = self.removed | self._find_obsolete(removed) if decision.outcome is Outcome.SHRINK else 0
        """Of a decision that only gives up clusters: those."""
        taken = self.in_use | self.leaving
        self.rejected = self._find_rejected() & ~taken
        self.fit = self._find_fitting() & ~taken & ~self.rejected
        self.idle = self.frame.valid & ~self.in_use & ~self.rejected & ~self.fit

    def _split_active(self, removed: set[str]) -> tuple[int, int]:
        """Rows that lose their active binding, and those that keep it."""
        bindings = self.decision.bindings
        active = {**bindings.scheduled, **bindings.bound}
        lost = from_rows(row for row, binding in active.items() if binding.metadata.name in removed)
        return lost, from_rows(active) & ~lost

    def _find_obsolete(self, removed: set[str]) -> int:
        obsolete = self.decision.bindings.obsolete.items()
        return from_rows(row for row, binding in obsolete if binding.metadata.name in removed)

    def _find_rejected(self) -> int:
        verdicts = self.decision.verdicts
        if verdicts is None:
            return 0
        if self.is_fixed:
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
        return self._find_fixed(row) if self.is_fixed else ClusterOutcome.FILTERED

    def _find_fixed(self, row: int) -> ClusterOutcome:
        if self.frame.name(row) not in self.decision.request.cluster_names:
            return ClusterOutcome.NOT_LISTED
        stays = self.frame.name(row) in self._refreshed or self._active >> row & 1
        return ClusterOutcome.RETAINED if stays else ClusterOutcome.FILTERED

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


# --- the placement ----------------------------------------------------------------------------------------------------


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


def describe_error(decision: Decision) -> str:
    if decision.pending_query is not None:
        extender = decision.pending_query.payload.get("extender")
        if extender is not None:
            return f"extender {extender} was not asked about this"
        return f"a plugin waits for an answer to {decision.pending_query.key}"
    return message_of(decision.error)
