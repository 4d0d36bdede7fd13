"""The beginning of an answer whose decision is not carried out: without it the answer would read as if it were."""

from __future__ import annotations

from typing import Final

from api.group_models import GroupModel
from api.waiting_models import GateModel, PreemptingModel, WaitingModel
from fleet.explain.answer.parts import StatusNote
from fleet.explain.answer.sentences import format_moment, join_names
from fleet.scheduler.profiles.frameworks import Frameworks, describe_choice

_FOREIGN_SCHEDULER: Final = "ForeignScheduler"
_HIDDEN: Final = "clusters you may not read"


def describe_gated(gate: GateModel) -> str:
    since = f" since {format_moment(gate.since)}" if gate.since else ""
    said = f": {gate.message}" if gate.message else ""
    return f"held by {gate.by}{since}{said}; if it were let in"


def describe_preempted(preempting: PreemptingModel) -> str:
    where = _join_clusters([each.cluster for each in preempting.clusters], preempting.redacted)
    is_made = preempting.redacted or any(room.victims or room.hidden for room in preempting.clusters)
    return f"nothing is bound yet, room is {'made' if is_made else 'kept'} on {where}; as the fleet is"


def describe_waited(waiting: WaitingModel) -> str:
    """Of several deadlines the first ends the wait."""
    if not waiting.waiting and not waiting.redacted:
        where = _join_clusters(waiting.targets, waiting.redacted_targets)
        return f"nothing is bound yet, {where} chosen and being prepared; the choice"
    asked = ", ".join(dict.fromkeys(target.rule or target.plugin for target in waiting.waiting)) or "approval"
    where = _join_clusters(list(dict.fromkeys(target.cluster for target in waiting.waiting)), waiting.redacted)
    deadlines = [target.deadline for target in waiting.waiting if target.deadline]
    until = f" until {format_moment(min(deadlines))}" if deadlines else ""
    return f"nothing is bound yet, waits for {asked} on {where}{until}; the choice"


def describe_grouped(group: GroupModel) -> str:
    """Empty once the group has been placed."""
    if group.state != "Waiting" or group.placed >= group.needed:
        return ""
    return f"nothing is bound before its group {group.name} has places for {group.needed} members; by itself"


def describe_foreign(frameworks: Frameworks, scheduler_name: str) -> str:
    name = describe_choice(scheduler_name)
    return f"left alone, its scheduler is {name}; {frameworks.default.scheduler_name} would decide"


def note_foreign(frameworks: Frameworks, scheduler_name: str) -> StatusNote:
    message = (
        f"its scheduler is {describe_choice(scheduler_name)}, which is no profile here: it is left alone. The profiles "
        f"here are {', '.join(frameworks.names)}; what follows is how {frameworks.default.scheduler_name} would decide"
    )
    return StatusNote(reason=_FOREIGN_SCHEDULER, message=message)


def _join_clusters(names: tuple[str, ...] | list[str], hidden: int) -> str:
    return join_names(names, hidden) if names else _HIDDEN
