"""Facts about a placement beside its decision: what its status says, and the clusters it gave up."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Final

from api.live.live import LivePlacement
from api.live.placement_status import INVALID_SELECTORS, list_selectors, read_conditions, selects_nothing
from fleet.explain.answer.parts import PastUse, State, StatusNote
from fleet.framework.operations import Action
from fleet.framework.request import SELECTORS_FIELD
from fleet.history import HistoryAttempt
from fleet.kube.scopes import find_scope
from fleet.model.keys import SCHEDULED_CONDITION
from fleet.model.timestamps import format_timestamp

SELECTS_NOTHING: Final = "SelectsNothing"
STATUS_IS_OLDER: Final = "StatusIsOlder"
FOREIGN_SCHEDULER: Final = "ForeignScheduler"
_UNFULFILLED: Final = "SchedulingPolicyUnfulfilled"
_MOST_GIVEN_UP: Final = 20
_SHRINK: Final = "Shrink"


# --- what the status says ---------------------------------------------------------------------------------------------


def list_status_notes(placement: LivePlacement, *, shows_messages: bool) -> Iterator[StatusNote]:
    """The conditions that are False and not about the decision, and a selection without objects. Messages may name any
    cluster."""
    prefix = find_scope(placement.key).condition_prefix
    for condition in read_conditions(placement.placement):
        is_explained = condition.reason in (_UNFULFILLED, INVALID_SELECTORS)
        if condition.status == "False" and not is_explained:
            name = condition.type.removeprefix(prefix)
            message = condition.message if shows_messages else ""
            yield StatusNote(condition=name, reason=condition.reason, message=message)
    if selects_nothing(placement.placement):
        wanted = ", ".join(list_selectors(placement.placement))
        yield StatusNote(reason=SELECTS_NOTHING, message=f"{SELECTORS_FIELD} selects nothing: there is no {wanted}")


def read_published_state(placement: LivePlacement) -> State | None:
    """As the hub shows it; None where no decision on the present policy is published."""
    snapshot = placement.snapshot
    if snapshot is None:
        return None
    status, metadata = snapshot.view.status, snapshot.view.metadata
    for condition in status.conditions:
        is_current = condition.observed_generation == metadata.generation
        if condition.type == SCHEDULED_CONDITION and is_current:
            if status.observed_crp_generation != placement.placement.view.metadata.generation:
                return None
            if condition.status == "True":
                return "Scheduled"
            has_targets = any(target.selected for target in status.target_clusters)
            return "Partial" if has_targets else "Unschedulable"
    return None


# --- clusters it gave up ----------------------------------------------------------------------------------------------


def list_given_up(
    placement: LivePlacement | None, attempts: Sequence[HistoryAttempt], departed: Collection[str]
) -> Iterator[PastUse]:
    """`attempts`: the newest first. Each cluster once, by the last time it was given up. `departed` had left the fleet
    by then."""
    in_use = set() if placement is None else {binding.spec.target_cluster for binding in placement.list_live_bindings()}
    seen = set(in_use)
    for attempt, before in pairwise([*attempts, None]):
        if attempt is None:
            continue
        for write in attempt.writes:
            if write.action == Action.UNSCHEDULE.value and not write.error and write.cluster not in seen:
                seen.add(write.cluster)
                because = _find_cause(attempt, before, has_left=write.cluster in departed)
                yield PastUse(
                    cluster=write.cluster, at=format_timestamp(attempt.started), because=because, n=attempt.number
                )
                if len(seen) - len(in_use) >= _MOST_GIVEN_UP:
                    return


def _find_cause(attempt: HistoryAttempt, before: HistoryAttempt | None, *, has_left: bool) -> str:
    if has_left:
        return "the cluster left the fleet"
    if attempt.outcome == _SHRINK:
        wanted = "" if before is None or before.wanted is None else f" {before.wanted} → {attempt.wanted}"
        return f"numberOfClusters{wanted}: the lowest stored score goes first"
    if before is None or before.snapshot != attempt.snapshot:
        return "the policy changed"
    return "it was not chosen again"
