"""Moves that a change of objects would cause: where every placement runs now, and where it would run.

What runs now are the live bindings, not a decision. What would run are these bindings after the operations of the
decision on the changed objects, which are the writes of the scheduler.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import msgspec

from fleet.cached import cached_property
from fleet.explain.facts.clusters import VerdictMatrix
from fleet.explain.facts.outcomes import (
    UNDECIDED,
    ClusterOutcome,
    ClusterOutcomes,
    describe_error,
    name_outcome,
    rate_outcome,
)
from fleet.explain.facts.rejections import ClusterRejection, describe_lack, find_first_rejection
from fleet.explain.whatif.compare import InputChange, compare_inputs
from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.cycle.decision import Decision
from fleet.framework.operations import Action
from fleet.model.keys import BOUND, PARENT_PLACEMENT, SCHEDULED
from fleet.model.views import Binding

Change = Literal["new", "changed", "deleted", "same"]

_NOT_OF_THE_POLICY: Final = frozenset({"configHash", "generation"})
"""They differ after every edit, and say nothing about it."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    pass


class FieldChange(_Part, frozen=True):
    field: str
    before: Any
    after: Any


class ObjectChange(_Part, frozen=True):
    """An object in the files, or one that is deleted."""

    kind: str
    key: str
    change: Change
    place: str
    """File and line; empty for a deletion."""
    fields: tuple[FieldChange, ...] = ()
    """Of the spec and the labels; of a changed object only."""


class ClusterMove(_Part, frozen=True):
    cluster: str
    why: str
    """In a few words; empty if nothing more is known than that it was chosen."""


class PlacementMoves(_Part, frozen=True):
    kind: str
    key: str
    change: Change
    """What the files do to the placement itself."""
    outcome_before: str
    """SELECTED, PARTIAL, UNSCHEDULABLE or ERROR; empty for a new placement."""
    outcome_after: str
    """Empty for a deleted placement."""
    wanted: int | None
    """PickN: how many clusters."""
    before: tuple[str, ...]
    """Clusters with a live binding."""
    after: tuple[str, ...]
    gained: tuple[ClusterMove, ...]
    lost: tuple[ClusterMove, ...]
    inputs: tuple[InputChange, ...]
    """Parts of the policy that change, with the policy snapshot."""
    moves_anyway: bool
    """Whether it would move alike without the files, at its next decision."""

    @property
    def is_moved(self) -> bool:
        return bool(self.gained or self.lost)

    @property
    def is_moved_by_change(self) -> bool:
        return self.is_moved and (self.change != "same" or not self.moves_anyway)


class ClusterMoves(_Part, frozen=True):
    cluster: str
    gained: tuple[str, ...]
    """Placements."""
    lost: tuple[str, ...]


class UndecidedPlacement(_Part, frozen=True):
    kind: str
    key: str
    message: str


class MoveReport(_Part, frozen=True):
    placements: tuple[PlacementMoves, ...]
    """Those that the files contain, and all others with a difference."""
    clusters: tuple[ClusterMoves, ...]
    """Those that gain or lose a placement."""
    undecided: tuple[UndecidedPlacement, ...]

    @property
    def has_moves(self) -> bool:
        """Whether the change moves anything."""
        return any(placement.is_moved_by_change for placement in self.placements)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPlacement:
    """A placement with the inputs of its decisions before and after the change."""

    kind: str
    key: str
    change: Change
    before: DecisionInput | None
    """None for a new placement."""
    after: DecisionInput | None
    """None for a deleted one."""


Decide = Callable[[DecisionInput], tuple[DecisionInput, Decision]]
"""With the inputs that the decision was made from: they may have more answers of extenders."""


def report_moves(placements: Iterable[ChangedPlacement], decide: Decide) -> MoveReport:
    """A placement about which nothing changes is not decided."""
    moves: list[PlacementMoves] = []
    undecided: list[UndecidedPlacement] = []
    for placement in placements:
        if placement.change == "same" and _is_same_question(placement):
            continue
        result = _find_moves(placement, decide)
        if isinstance(result, UndecidedPlacement):
            undecided.append(result)
        elif result is None:
            continue
        elif result.change != "same" or result.is_moved or result.outcome_before != result.outcome_after:
            moves.append(result)
    return MoveReport(placements=tuple(moves), clusters=_sum_clusters(moves), undecided=tuple(undecided))


def _is_same_question(placement: ChangedPlacement) -> bool:
    before, after = placement.before, placement.after
    if before is None or after is None or before.frame is not after.frame:
        return False
    return (before.request, before.nominated) == (after.request, after.nominated)


def _sum_clusters(moves: Sequence[PlacementMoves]) -> tuple[ClusterMoves, ...]:
    gained, lost = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for placement in moves:
        for move in placement.gained:
            gained[move.cluster].append(placement.key)
        for move in placement.lost:
            lost[move.cluster].append(placement.key)
    return tuple(
        ClusterMoves(cluster=name, gained=tuple(gained[name]), lost=tuple(lost[name]))
        for name in sorted({*gained, *lost})
    )


# --- one placement ----------------------------------------------------------------------------------------------------


def _find_moves(placement: ChangedPlacement, decide: Decide) -> PlacementMoves | UndecidedPlacement | None:
    """None for a placement that cannot be decided and could not be before, either."""
    before: Decision | None = None
    if placement.before is not None:
        inputs, before = decide(placement.before)
        placement = replace(placement, before=inputs)
    if placement.after is None:
        now = () if placement.before is None else _list_active(placement.before)
        return _build_moves(placement, now, (), before, None)
    _, after = decide(placement.after)
    if rate_outcome(after) == UNDECIDED:
        if placement.change == "same" and before is not None and rate_outcome(before) == UNDECIDED:
            return None
        return UndecidedPlacement(kind=placement.kind, key=placement.key, message=_describe_failure(after))
    now = _list_active(placement.after)
    return _build_moves(placement, now, _apply_operations(placement.after, after), before, after)


def _list_active(question: DecisionInput) -> tuple[str, ...]:
    return tuple(sorted(set(_map_active(question).values())))


def _map_active(question: DecisionInput) -> dict[str, str]:
    """Cluster by the name of the live binding."""
    request = question.request
    return {
        binding.metadata.name: binding.spec.target_cluster
        for binding in question.bindings
        if binding.metadata.namespace == request.namespace
        and binding.metadata.label(PARENT_PLACEMENT) == request.placement
        and _is_active(binding)
    }


def _is_active(binding: Binding) -> bool:
    return binding.spec.state in (SCHEDULED, BOUND) and not binding.metadata.deletion_timestamp


def _apply_operations(question: DecisionInput, decision: Decision) -> tuple[str, ...]:
    """The clusters with a live binding once the operations were written."""
    active = _map_active(question)
    for operation in decision.operations:
        if operation.action is Action.UNSCHEDULE:
            active.pop(operation.name, None)
        elif operation.action in (Action.CREATE, Action.REVIVE):
            active[operation.name] = operation.cluster
    return tuple(sorted(set(active.values())))


def _build_moves(
    placement: ChangedPlacement,
    now: tuple[str, ...],
    then: tuple[str, ...],
    before: Decision | None,
    after: Decision | None,
) -> PlacementMoves:
    anyway = () if before is None or placement.before is None else _apply_operations(placement.before, before)
    return PlacementMoves(
        kind=placement.kind,
        key=placement.key,
        change=placement.change,
        outcome_before="" if before is None else name_outcome(before),
        outcome_after="" if after is None else name_outcome(after),
        wanted=None if after is None else after.request.wanted,
        before=now,
        after=then,
        gained=tuple(_explain_gains(placement, [name for name in then if name not in now], before, after, anyway)),
        lost=tuple(ClusterMove(cluster=name, why=_explain_loss(name, after)) for name in now if name not in then),
        inputs=tuple(_compare_policies(before, after)),
        moves_anyway=before is not None and after is not None and anyway == then,
    )


def _compare_policies(before: Decision | None, after: Decision | None) -> Iterator[InputChange]:
    if before is not None and after is not None:
        yield from (change for change in compare_inputs(before, after) if change.what not in _NOT_OF_THE_POLICY)


def _describe_failure(decision: Decision) -> str:
    problems = [f"{problem.field}: {problem.message}" for problem in decision.request.problems]
    return "; ".join(problems) or describe_error(decision)


# --- reasons ----------------------------------------------------------------------------------------------------------


def _explain_gains(
    placement: ChangedPlacement,
    clusters: Sequence[str],
    before: Decision | None,
    after: Decision | None,
    anyway: tuple[str, ...],
) -> Iterator[ClusterMove]:
    """A new placement was not kept out by anything."""
    reasons = None
    if placement.before is not None and before is not None and after is not None:
        reasons = _GainReasons(placement.before, before, after, anyway)
    for name in clusters:
        yield ClusterMove(cluster=name, why="" if reasons is None else reasons.explain(name))


class _GainReasons:
    """Why clusters are gained: what kept them out before, as the plugins of then judge them."""

    def __init__(self, question: DecisionInput, before: Decision, after: Decision, anyway: tuple[str, ...]) -> None:
        self._before, self._after, self._anyway = before, after, anyway
        self._question = question

    @cached_property
    def _matrix(self) -> VerdictMatrix:
        return VerdictMatrix(self._before, self._question)

    def explain(self, cluster: str) -> str:
        row = self._before.frame.row_of(cluster)
        if row is None:
            return "new in the fleet"
        if cluster in self._anyway:
            return "free, also without the change"
        rejection = self._find_rejection(row)
        if rejection is not None:
            return f"before: {describe_lack(rejection)}"
        before, after = self._before.request.wanted, self._after.request.wanted
        if before is not None and after is not None and before < after:
            return f"{after} wanted, not {before}"
        return "takes the place of another cluster" if after is not None else "fits"

    def _find_rejection(self, row: int) -> ClusterRejection | None:
        first = find_first_rejection(ClusterOutcomes(self._before), row)
        if first is not None or not self._matrix.is_known:
            return first
        rejections = (
            self._matrix.find_rejection(plugin, row)
            for plugin in self._matrix.judging
            if plugin in self._matrix.rejected
        )
        return next((rejection for rejection in rejections if rejection is not None), None)


def _explain_loss(cluster: str, after: Decision | None) -> str:
    if after is None:
        return "the placement is deleted"
    row = after.frame.row_of(cluster)
    if row is None or after.frame.cluster(row).metadata.deletion_timestamp:
        return "leaves the fleet"
    outcomes = ClusterOutcomes(after)
    rejection = find_first_rejection(outcomes, row)
    if rejection is not None:
        return describe_lack(rejection)
    if outcomes.find(row) is ClusterOutcome.NOT_PICKED:
        return "others rank higher"
    return f"only {after.request.wanted} wanted" if after.request.wanted is not None else ""
