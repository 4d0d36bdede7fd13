"""What an edit makes of the clusters of a fleet."""

from __future__ import annotations

import msgspec

from fleet.errors import InputError
from fleet.explain.facts.redaction import Veil
from fleet.explain.whatif.edits import (
    AddCluster,
    AddTaint,
    Edit,
    LabelCluster,
    RemoveCluster,
    RemoveTaint,
    SetProperty,
    SetReady,
)
from fleet.model.keys import HEALTHY, JOINED, MEMBER_AGENT
from fleet.model.labels import is_label_value, is_qualified_name, is_subdomain
from fleet.model.quantity import quantity_or_none
from fleet.model.timestamps import format_timestamp
from fleet.model.views import AgentStatus, Condition, MemberCluster, MemberClusterSpec, PropertyValue, Taint
from fleet.snapshot.table import Table

LONG_AGO = 0
"""1970: before any cluster was healthy."""
_TAINT_EFFECT = "NoSchedule"


def edit_fleet(table: Table, edit: Edit, *, now: int, place: str, veil: Veil) -> None:
    """Carry out one edit on a table. `veil` is over the fleet the edits began with, for hints about misspelt names."""
    match edit:
        case RemoveCluster():
            _known(table, edit.cluster, f"{place}.cluster", veil)
            table.remove(edit.cluster)
        case AddCluster():
            _add(table, edit, place, veil)
        case LabelCluster() | AddTaint() | RemoveTaint() | SetReady() | SetProperty():
            before = _known(table, edit.cluster, f"{place}.cluster", veil)
            table.put(_changed(before, edit, now=now, place=place))
        case _:
            raise InputError(f"{edit.op} does not change a cluster", field=f"{place}.op", value=edit.op)


def _known(table: Table, name: str, field: str, veil: Veil) -> MemberCluster:
    found = table.get(name)
    if found is None:
        near = veil.closest(name)
        hint = f"; did you mean {near}?" if near else "; use the name of a member cluster"
        raise InputError(f"no cluster is named {name!r}{hint}", field=field, value=name)
    return found


def _add(table: Table, edit: AddCluster, place: str, veil: Veil) -> None:
    like = _known(table, edit.like, f"{place}.like", veil)
    if edit.name in table:
        raise InputError(f"a cluster named {edit.name!r} exists already", field=f"{place}.name", value=edit.name)
    if not is_subdomain(edit.name):
        is_no_name = f"{edit.name!r} is no name of a cluster; use lower-case letters, digits, dashes and dots"
        message = is_no_name if edit.name else "the new cluster needs a name"
        raise InputError(message, field=f"{place}.name", value=edit.name)
    metadata = msgspec.structs.replace(like.metadata, name=edit.name, uid="", deletion_timestamp=None)
    table.put(msgspec.structs.replace(like, metadata=metadata))


def _changed(
    cluster: MemberCluster,
    edit: LabelCluster | AddTaint | RemoveTaint | SetReady | SetProperty,
    *,
    now: int,
    place: str,
) -> MemberCluster:
    match edit:
        case LabelCluster():
            return _labelled(cluster, edit, place)
        case AddTaint():
            return _tainted(cluster, edit, place)
        case RemoveTaint():
            return _untainted(cluster, edit, place)
        case SetReady():
            return _ready(cluster, now) if edit.value else _unready(cluster)
        case SetProperty():
            return _measured(cluster, edit, now=now, place=place)


def _labelled(cluster: MemberCluster, edit: LabelCluster, place: str) -> MemberCluster:
    _check_pair("label", edit.key, edit.value or "", place)
    labels = {key: value for key, value in (cluster.metadata.labels or {}).items() if key != edit.key}
    if edit.value is not None:
        labels[edit.key] = edit.value
    metadata = msgspec.structs.replace(cluster.metadata, labels=labels or None)
    return msgspec.structs.replace(cluster, metadata=metadata)


def _tainted(cluster: MemberCluster, edit: AddTaint, place: str) -> MemberCluster:
    if edit.effect != _TAINT_EFFECT:
        message = f"{edit.effect!r} is no effect of a member cluster's taint; use NoSchedule"
        raise InputError(message, field=f"{place}.effect", value=edit.effect)
    _check_pair("taint", edit.key, edit.value, place)
    others = (one for one in cluster.spec.taints if (one.key, one.effect) != (edit.key, edit.effect))
    return _with_taints(cluster, (*others, Taint(edit.key, edit.value, edit.effect)))


def _check_pair(what: str, key: str, value: str, place: str) -> None:
    """What no API server would take, no cluster can have."""
    if not is_qualified_name(key):
        raise InputError(
            f"{key!r} is no key of a {what}, such as env or example.com/env", field=f"{place}.key", value=key
        )
    if not is_label_value(value):
        message = f"{value!r} is no value of a {what}; use at most 63 letters, digits, dashes, dots and underscores"
        raise InputError(message, field=f"{place}.value", value=value)


def _untainted(cluster: MemberCluster, edit: RemoveTaint, place: str) -> MemberCluster:
    left = tuple(one for one in cluster.spec.taints if not _is_meant(one, edit))
    if len(left) == len(cluster.spec.taints):
        has = ", ".join(f"{one.key}={one.value}:{one.effect}" for one in left) or "none"
        message = f"cluster {edit.cluster} has no such taint; its taints: {has}"
        raise InputError(message, field=f"{place}.key", value=edit.key)
    return _with_taints(cluster, left)


def _is_meant(taint: Taint, edit: RemoveTaint) -> bool:
    return (
        taint.key == edit.key
        and (edit.value is None or edit.value == taint.value)
        and (edit.effect is None or edit.effect == taint.effect)
    )


def _with_taints(cluster: MemberCluster, taints: tuple[Taint, ...]) -> MemberCluster:
    return msgspec.structs.replace(cluster, spec=MemberClusterSpec(taints=taints))


# --- signals and properties -----------------------------------------------------------------------------------------


def _ready(cluster: MemberCluster, now: int) -> MemberCluster:
    agent = _agent(cluster)
    joined, healthy = (_condition(agent, kind, "True", moment=now) for kind in (JOINED, HEALTHY))
    heard = msgspec.structs.replace(agent, last_received_heartbeat=format_timestamp(now))
    return _with_agent(cluster, heard, joined, healthy)


def _unready(cluster: MemberCluster) -> MemberCluster:
    agent = _agent(cluster)
    return _with_agent(cluster, agent, _condition(agent, HEALTHY, "False", moment=LONG_AGO))


def _agent(cluster: MemberCluster) -> AgentStatus:
    return next((one for one in cluster.status.agent_status if one.type == MEMBER_AGENT), AgentStatus(MEMBER_AGENT))


def _condition(agent: AgentStatus, kind: str, status: str, *, moment: int) -> Condition:
    """The condition as it is, where it says so already and for long enough."""
    known = next((one for one in agent.conditions if one.type == kind), Condition(kind))
    if known.status == status == "True":
        return known
    return msgspec.structs.replace(known, status=status, last_transition_time=format_timestamp(moment))


def _with_agent(cluster: MemberCluster, agent: AgentStatus, *conditions: Condition) -> MemberCluster:
    changed = {one.type for one in conditions}
    kept = (one for one in agent.conditions if one.type not in changed)
    agent = msgspec.structs.replace(agent, conditions=(*kept, *conditions))
    others = (one for one in cluster.status.agent_status if one.type != MEMBER_AGENT)
    status = msgspec.structs.replace(cluster.status, agent_status=(agent, *others))
    return msgspec.structs.replace(cluster, status=status)


def _measured(cluster: MemberCluster, edit: SetProperty, *, now: int, place: str) -> MemberCluster:
    if quantity_or_none(edit.value) is None:
        message = f"{edit.value!r} is no quantity such as 4, 500m or 16Gi"
        raise InputError(message, field=f"{place}.value", value=edit.value)
    values = {**(cluster.status.properties or {}), edit.property: PropertyValue(edit.value, format_timestamp(now))}
    status = msgspec.structs.replace(cluster.status, properties=values)
    return msgspec.structs.replace(cluster, status=status)
