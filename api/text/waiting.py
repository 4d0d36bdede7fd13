"""Placements that wait for approval, as a table; and those that room is made for, in words."""

from __future__ import annotations

from collections.abc import Iterator

from api.text.tables import render_plain_table
from api.waiting_models import MakingRoomModel, PreemptingModel, WaitingList, WaitingTargetModel

_HEAD = ("PLACEMENT", "CLUSTER", "RULE", "WAITS FOR", "SINCE", "UNTIL", "UID")


def render_waiting(answer: WaitingList) -> str:
    rows = [
        (
            item.key,
            target.cluster,
            target.rule or target.plugin,
            describe_approvers(target),
            target.since,
            target.deadline or "answered",
            item.uid,
        )
        for item in answer.items
        for target in item.waiting
    ]
    hidden = sum(item.redacted for item in answer.items)
    more = f"and {hidden} clusters that you may not read\n" if hidden else ""
    return (render_plain_table(_HEAD, rows) if rows else "nothing waits for approval\n") + more


def describe_approvers(target: WaitingTargetModel) -> str:
    who = [*target.users, *(f"group {group}" for group in target.groups)]
    missing = max(target.count - len(target.approved_by), 0)
    return f"{missing} of {' or '.join(who) if who else 'all with the right'}"


def describe_rooms(preempting: PreemptingModel) -> Iterator[str]:
    for room in preempting.clusters:
        victims = list_victims(room)
        leaving = f": {', '.join(victims)} to leave" if victims and room.phase != "Drained" else ""
        yield f"room is {'made' if leaving else 'kept'} on {room.cluster}{leaving}"
    if preempting.redacted:
        yield f"room is made on clusters you may not read: {preempting.redacted}"


def list_victims(room: MakingRoomModel) -> list[str]:
    return [*room.victims, *([f"{room.hidden} you may not read"] if room.hidden else [])]
