"""Placement groups as text: for `Accept: text/plain`, and for the command line."""

from __future__ import annotations

from collections.abc import Iterator

from api.group_models import GroupList, GroupMemberModel, GroupModel, GroupTrial, GroupWhy
from api.text.tables import render_plain_table
from api.text.waiting import describe_rooms
from fleet.explain.answer.sentences import format_moment, join_names
from fleet.text_table import Page, finish, render_table

_HEAD = ("GROUP", "STATE", "MEMBERS", "PLACED", "NEEDED", "DOMAIN", "SINCE", "UNTIL", "WHY")
_MEMBERS = ("MEMBER", "STATE", "CLUSTERS", "REMARK")
_TRIALS = ("NO PLACE FOR", "DOMAIN", "CLUSTERS", "PLUGIN", "REASON", "REJECTED", "NAMES")


def render_groups(answer: GroupList) -> str:
    rows = [
        (
            _name(group),
            group.state,
            str(group.members),
            str(group.placed),
            str(group.needed),
            group.domain or "-",
            format_moment(group.since) if group.since else "-",
            format_moment(group.deadline) if group.deadline else "-",
            group.message or group.reason,
        )
        for group in answer.items
    ]
    return render_plain_table(_HEAD, rows) if rows else "there are no placement groups\n"


def render_group(group: GroupModel) -> str:
    return render_groups(GroupList(items=(group,)))


def render_group_why(answer: GroupWhy, *, page: Page | None = None) -> str:
    page, group = page or Page(), answer.group
    parts = [
        "\n".join([*_describe_head(answer), *([answer.note] if answer.note else [])]),
        _render_members(answer, page),
        _render_trials(answer, page),
        "\n".join(_describe_next(answer)),
    ]
    hidden = f"\nand {group.hidden} members that you may not read" if group.hidden else ""
    parts[1] += hidden if parts[1] else hidden.lstrip("\n")
    return finish("\n\n".join(filter(None, parts)), page) + "\n"


def describe_group(group: GroupModel) -> str:
    """In one line, for a member of it."""
    said = f": {group.message}" if group.message else f": {group.reason}" if group.reason else ""
    until = f", until {format_moment(group.deadline)}" if group.deadline and group.state == "Waiting" else ""
    match group.state:
        case "Scheduled":
            return f"its group {_name(group)} is scheduled: {group.placed} of {group.members} members are bound"
        case "Missing":
            return f"its group {_name(group)} is missing{said}"
        case "Waiting":
            since = f" since {format_moment(group.since)}" if group.since else ""
            return f"its group {_name(group)} waits{since}{until}{said}"
    return f"its group {_name(group)} is {group.state}{said}"


def _describe_head(answer: GroupWhy) -> Iterator[str]:
    group = answer.group
    yield f"{group.kind} {_name(group)}: {group.state}" + (f", {group.reason}" if group.reason else "")
    if group.message:
        yield group.message
    fitting = "" if answer.fitting is None else f", {answer.fitting} fit in the best place that was found"
    yield f"{group.members} members, {group.placed} bound, {group.needed} needed{fitting}"
    if group.same_clusters:
        yield "all members on the same clusters"
    if group.topology_key:
        yield f"all members in one domain of {group.topology_key}" + (f": {group.domain}" if group.domain else "")
    if group.since:
        until = f", until {format_moment(group.deadline)}" if group.deadline else ", with no end"
        yield f"waits since {format_moment(group.since)}{until}"


def _render_members(answer: GroupWhy, page: Page) -> str:
    rows = [(member.key, member.state, _list_clusters(member), _describe_member(member)) for member in answer.members]
    more = [f"and {answer.more} more members"] if answer.more else []
    return "\n".join([*([render_table(_MEMBERS, rows, width=page.width)] if rows else []), *more])


def _list_clusters(member: GroupMemberModel) -> str:
    names = join_names([*member.clusters, *(f"({name})" for name in member.planned)])
    hidden = f"{member.redacted} you may not read" if member.redacted else ""
    return ", ".join(filter(None, (names, hidden))) or "-"


def _describe_member(member: GroupMemberModel) -> str:
    if member.gate is not None:
        return f"held by {member.gate.by}: {member.gate.message}"
    if member.waiting is not None and member.waiting.waiting:
        return "; ".join(f"{each.rule or each.plugin} on {each.cluster}" for each in member.waiting.waiting)
    if member.preempting is not None:
        return "; ".join(describe_rooms(member.preempting))
    if member.answers:
        return "; ".join(
            f"{each.plugin} refuses {each.target or 'it'}" + (f": {each.message}" if each.message else "")
            for each in member.answers
        )
    if member.error:
        return member.error
    fits = [trial for trial in member.trials if trial.fits]
    if member.state == "WaitingForGroup":
        where = f" in {join_names([trial.domain for trial in fits if trial.domain])}" if _names_domains(fits) else ""
        return f"fits{where}" if fits else "not looked at: the others cannot reach the minimum"
    return ""


def _names_domains(trials: list[GroupTrial]) -> bool:
    return any(trial.domain for trial in trials)


def _render_trials(answer: GroupWhy, page: Page) -> str:
    rows = [
        (
            member.key,
            trial.domain or "-",
            str(trial.clusters),
            rejection.plugin,
            rejection.reason,
            str(rejection.count) if rejection.count else "-",
            ", ".join(rejection.clusters) + (f": {rejection.message}" if rejection.message else ""),
        )
        for member in answer.members
        for trial in member.trials
        for rejection in trial.rejections
    ]
    if not rows:
        return ""
    more = sum(member.more_trials for member in answer.members)
    left = f"\nand {more} more trials, in which fewer members fit" if more else ""
    return render_table(_TRIALS, rows, width=page.width) + left


def _describe_next(answer: GroupWhy) -> Iterator[str]:
    if answer.group.state == "TimedOut":
        yield "it is tried again when its spec is edited"
    for member in answer.blocking[:1]:
        yield f"`fleet why {member}` tells what would help {member}"


def _name(group: GroupModel) -> str:
    return f"{group.namespace}/{group.name}" if group.namespace else group.name
