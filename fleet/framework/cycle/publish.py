"""The part of a decision that is published in the status of the policy snapshot, for users and other controllers.

Selected clusters come first, then, within a budget, those that were not picked and those that were filtered. The
order inside each part is fixed, so an unchanged situation publishes an unchanged status and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

import numpy as np

from fleet.framework.bindings import stored_rank
from fleet.framework.cycle.decision import Decision, Outcome, Published, Round
from fleet.framework.operations import Action, selected_reason
from fleet.framework.status import message_of, published_text
from fleet.framework.types import Component
from fleet.model.keys import PICK_FIXED, POLICY_FULFILLED, POLICY_UNFULFILLED, SCHEDULED_CONDITION
from fleet.model.views import Binding, ClusterDecision, ClusterScore, Condition
from fleet.snapshot.columns.bitset import Rows, from_rows, to_rows

FULFILLED: Final = "found all cluster needed as specified by the scheduling policy, found {} cluster(s)"
UNFULFILLED: Final = (
    "could not find all clusters needed as specified by the scheduling policy, found {} cluster(s) instead"
)
STOPPED: Final = "scheduling stopped: {}"


def publish(decision: Decision) -> Published | None:
    request = decision.request
    if request.generation is None:
        return None
    if request.problems:
        causes = "; ".join(str(problem) for problem in request.problems)
        condition = _build_condition(decision, fulfilled=False, message=STOPPED.format(causes))
        return Published(request.generation, condition, decision.previous.target_clusters)
    if decision.active is None:
        return None
    text = FULFILLED if decision.fulfilled else UNFULFILLED
    condition = _build_condition(decision, fulfilled=decision.fulfilled, message=text.format(decision.active))
    return Published(request.generation, condition, tuple(_list_decisions(decision)))


def _build_condition(decision: Decision, *, fulfilled: bool, message: str) -> Condition:
    return Condition(
        type=SCHEDULED_CONDITION,
        status="True" if fulfilled else "False",
        reason=POLICY_FULFILLED if fulfilled else POLICY_UNFULFILLED,
        message=message,
        observed_generation=decision.request.snapshot_generation,
    )


def _list_decisions(decision: Decision) -> Iterator[ClusterDecision]:
    limits = decision.limits
    if decision.request.placement_type == PICK_FIXED:
        yield from islice(_list_fixed(decision), limits.max_decisions)
        return
    selected = list(islice(_first_per_cluster(_list_selected(decision)), limits.max_decisions))
    yield from selected
    budget = min(limits.unselected_budget, limits.max_decisions - len(selected))
    listed = {entry.cluster_name for entry in selected}
    yield from islice(
        (entry for entry in _list_unselected(decision, budget) if entry.cluster_name not in listed), budget
    )


def _list_selected(decision: Decision) -> Iterator[ClusterDecision]:
    operations = [operation for operation in decision.operations if operation.scores is not None]
    for wanted in ((Action.CREATE,), (Action.REFRESH, Action.REVIVE)):
        yield from (operation.decision() for operation in operations if operation.action in wanted)
    removed = {operation.name for operation in decision.operations if operation.action is Action.UNSCHEDULE}
    groups = [list(decision.bindings.scheduled.values()), list(decision.bindings.bound.values())]
    for group in reversed(groups) if decision.outcome is Outcome.UNCHANGED else groups:
        yield from (binding.spec.cluster_decision for binding in _in_published_order(group, removed))


def _list_unselected(decision: Decision, budget: int) -> Iterator[ClusterDecision]:
    last = decision.round
    if decision.outcome is Outcome.UNCHANGED:
        still_there = (
            entry for entry in decision.previous.target_clusters if entry.cluster_name in decision.frame.names
        )
        yield from (entry for entry in still_there if not entry.selected)
    elif last is not None:
        yield from _list_not_picked(last, decision, budget)
        yield from _list_filtered(last, decision, budget)


def _list_not_picked(last: Round, decision: Decision, budget: int) -> Iterator[ClusterDecision]:
    taken = set(last.picked)
    rows = [row for row in last.order[: budget + len(taken)].tolist() if row not in taken]
    positions = np.searchsorted(last.scores.rows, rows)
    affinity, topology = (
        _component_at(last, component, positions) for component in (Component.AFFINITY, Component.TOPOLOGY)
    )
    for place, row in enumerate(rows):
        name = decision.frame.name(row)
        reason = not_picked_reason(name, affinity=affinity[place], topology=topology[place])
        yield ClusterDecision(name, False, reason, ClusterScore(affinity[place], topology[place]))


def _component_at(last: Round, component: Component, positions: Rows) -> list[int]:
    column = last.scores.component(component, positions)
    parts: list[int] = [0] * len(positions) if column is None else column.tolist()
    return parts


def _list_filtered(last: Round, decision: Decision, budget: int) -> Iterator[ClusterDecision]:
    verdicts, frame = last.verdicts, decision.frame
    in_use = decision.bindings.active_rows | from_rows(target.row for target in decision.targets)
    rejected = verdicts.rejected & ~verdicts.already_selected() & ~in_use
    if verdicts.fill is not None:
        rejected = frame.valid & ~in_use
    rows = to_rows(rejected, frame.size)
    ranks = frame.names.rank[rows]
    if len(rows) > budget:
        rows = rows[np.argpartition(ranks, budget)[:budget]] if budget else rows[:0]
        ranks = frame.names.rank[rows]
    for row in rows[np.argsort(ranks)].tolist():
        status = verdicts.status(row, is_brief=True)
        if status is not None:
            yield ClusterDecision(frame.name(row), False, published_text(status))


def _list_fixed(decision: Decision) -> Iterator[ClusterDecision]:
    """Targets, not bindings: an ineligible cluster is not selected even while its binding stays."""
    for target in decision.targets:
        yield ClusterDecision(target.cluster, True, selected_reason(target.cluster, None))
    for name in decision.invalid:
        verdicts = decision.fixed_verdicts
        status = None if verdicts is None else verdicts.status_by_name(name, is_brief=True)
        yield ClusterDecision(name, False, invalid_reason(name, message_of(status)))
    for name in decision.missing:
        yield ClusterDecision(name, False, missing_reason(name))


def _in_published_order(group: list[Binding], removed: set[str]) -> list[Binding]:
    """By name; a group that lost some of its members is listed in the order in which they go."""
    kept = [binding for binding in group if binding.metadata.name not in removed]
    if len(kept) < len(group):
        return sorted(kept, key=stored_rank)
    return sorted(kept, key=lambda binding: binding.metadata.name)


def _first_per_cluster(decisions: Iterator[ClusterDecision]) -> Iterator[ClusterDecision]:
    seen = set()
    for decision in decisions:
        if decision.cluster_name not in seen:
            seen.add(decision.cluster_name)
            yield decision


# --- texts ------------------------------------------------------------------------------------------------------------


def not_picked_reason(cluster: str, *, affinity: int, topology: int) -> str:
    return (
        f'Cluster "{cluster}" does not score high enough '
        f"(affinity score: {affinity}, topology spread score: {topology})"
    )


def invalid_reason(cluster: str, cause: str) -> str:
    return f'Cluster "{cluster}" is not eligible for resource placement yet: {cause}'


def missing_reason(cluster: str) -> str:
    return f'Specified cluster "{cluster}" is not found'
