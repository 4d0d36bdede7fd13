"""Effect of edits on the clusters of a fleet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from fleet.checkpoint import check
from fleet.errors import InputError
from fleet.explain.facts.redaction import Redaction
from fleet.explain.whatif.edits import (
    AddCapacity,
    AddCluster,
    AddTaint,
    Edit,
    LabelCluster,
    RemoveCluster,
    RemoveTaint,
    SetProperty,
    SetReady,
)
from fleet.framework.policy.resource_requests import find_request_problems, format_amount, read_amount
from fleet.model.keys import HEALTHY, JOINED, MEMBER_AGENT
from fleet.model.labels import is_label_value, is_qualified_name, is_subdomain
from fleet.model.quantity import quantity_or_none
from fleet.model.timestamps import format_timestamp
from fleet.model.views import (
    AgentStatus,
    Condition,
    MemberCluster,
    MemberClusterSpec,
    Metadata,
    PropertyValue,
    QuantityText,
    ResourceUsage,
    Taint,
)
from fleet.snapshot.table import Table

LONG_AGO = 0
"""1970: before any cluster was healthy."""
_TAINT_EFFECT = "NoSchedule"
_USAGE: Final = ("capacity", "allocatable", "available")


def apply_to_fleet(table: Table, edit: Edit, *, now: int, place: str, redaction: Redaction) -> None:
    """Apply one edit to a table. `redaction` is that of the fleet before the edits, for hints about misspelt names."""
    match edit:
        case RemoveCluster():
            _find_cluster(table, edit.cluster, f"{place}.cluster", redaction)
            table.remove(edit.cluster)
        case AddCluster():
            _add_cluster(table, edit, now, place, redaction)
        case LabelCluster() | AddTaint() | RemoveTaint() | SetReady() | SetProperty() | AddCapacity():
            before = _find_cluster(table, edit.cluster, f"{place}.cluster", redaction)
            table.put(_apply_to_cluster(before, edit, now=now, place=place))
        case _:
            raise InputError(f"{edit.op} does not change a cluster", field=f"{place}.op", value=edit.op)


def _find_cluster(table: Table, name: str, field: str, redaction: Redaction) -> MemberCluster:
    cluster = table.get(name)
    if cluster is None:
        near = redaction.suggest_name(name)
        hint = f"; did you mean {near}?" if near else "; use the name of a member cluster"
        raise InputError(f"no cluster is named {name!r}{hint}", field=field, value=name)
    return cluster


def _add_cluster(table: Table, edit: AddCluster, now: int, place: str, redaction: Redaction) -> None:
    like = _find_cluster(table, edit.like, f"{place}.like", redaction) if edit.like else _build_cluster(now)
    if edit.name in table:
        raise InputError(f"a cluster named {edit.name!r} exists already", field=f"{place}.name", value=edit.name)
    if not is_subdomain(edit.name):
        is_no_name = f"{edit.name!r} is not a valid name of a cluster; use lower-case letters, digits, dashes and dots"
        message = is_no_name if edit.name else "the new cluster needs a name"
        raise InputError(message, field=f"{place}.name", value=edit.name)
    metadata = msgspec.structs.replace(like.metadata, name=edit.name, uid="", deletion_timestamp=None)
    table.put(_describe_further(msgspec.structs.replace(like, metadata=metadata), edit, now=now, place=place))


def _build_cluster(now: int) -> MemberCluster:
    """Joined, healthy, and nothing else."""
    return _make_ready(MemberCluster(metadata=Metadata()), now)


def _describe_further(cluster: MemberCluster, edit: AddCluster, *, now: int, place: str) -> MemberCluster:
    """Each label, property and taint as the edit of its own would add it."""
    name = edit.name
    for key, value in edit.labels.items():
        check()
        _check_pair("label", key, value, f"{place}.labels")
    for value in edit.properties.values():
        check()
        _check_quantity(value, f"{place}.properties")
    labels = {**(cluster.metadata.labels or {}), **edit.labels}
    moment = format_timestamp(now)
    added = {key: PropertyValue(value, moment) for key, value in edit.properties.items()}
    cluster = msgspec.structs.replace(
        cluster,
        metadata=msgspec.structs.replace(cluster.metadata, labels=labels or None),
    )
    if added:
        properties = {**(cluster.status.properties or {}), **added}
        cluster = msgspec.structs.replace(
            cluster, status=msgspec.structs.replace(cluster.status, properties=properties)
        )
    for resource, quantity in edit.capacity.items():
        check()
        more = AddCapacity(cluster=name, resource=resource, value=quantity)
        cluster = _add_capacity(_without_resource(cluster, resource), more, f"{place}.capacity")
    for taint in edit.taints:
        check()
        added_taint = AddTaint(cluster=name, key=taint.key, value=taint.value, effect=taint.effect)
        cluster = _add_taint(cluster, added_taint, f"{place}.taints")
    return cluster


def _apply_to_cluster(
    cluster: MemberCluster,
    edit: LabelCluster | AddTaint | RemoveTaint | SetReady | SetProperty | AddCapacity,
    *,
    now: int,
    place: str,
) -> MemberCluster:
    match edit:
        case LabelCluster():
            return _set_label(cluster, edit, place)
        case AddTaint():
            return _add_taint(cluster, edit, place)
        case RemoveTaint():
            return _remove_taint(cluster, edit, place)
        case SetReady():
            return _make_ready(cluster, now) if edit.value else _make_unready(cluster)
        case SetProperty():
            return _set_property(cluster, edit, now=now, place=place)
        case AddCapacity():
            return _add_capacity(cluster, edit, place)


def _set_label(cluster: MemberCluster, edit: LabelCluster, place: str) -> MemberCluster:
    _check_pair("label", edit.key, edit.value or "", place)
    labels = {key: value for key, value in (cluster.metadata.labels or {}).items() if key != edit.key}
    if edit.value is not None:
        labels[edit.key] = edit.value
    metadata = msgspec.structs.replace(cluster.metadata, labels=labels or None)
    return msgspec.structs.replace(cluster, metadata=metadata)


def _add_taint(cluster: MemberCluster, edit: AddTaint, place: str) -> MemberCluster:
    if edit.effect != _TAINT_EFFECT:
        message = f"{edit.effect!r} is no effect of a member cluster's taint; use NoSchedule"
        raise InputError(message, field=f"{place}.effect", value=edit.effect)
    _check_pair("taint", edit.key, edit.value, place)
    others = (taint for taint in cluster.spec.taints if (taint.key, taint.effect) != (edit.key, edit.effect))
    return _replace_taints(cluster, (*others, Taint(edit.key, edit.value, edit.effect)))


def _check_pair(what: str, key: str, value: str, place: str) -> None:
    """Rejects keys and values that the API server would reject."""
    if not is_qualified_name(key):
        raise InputError(
            f"{key!r} is no key of a {what}, such as env or example.com/env", field=f"{place}.key", value=key
        )
    if not is_label_value(value):
        message = f"{value!r} is no value of a {what}; use at most 63 letters, digits, dashes, dots and underscores"
        raise InputError(message, field=f"{place}.value", value=value)


def _remove_taint(cluster: MemberCluster, edit: RemoveTaint, place: str) -> MemberCluster:
    left = tuple(taint for taint in cluster.spec.taints if not _matches(taint, edit))
    if len(left) == len(cluster.spec.taints):
        has = ", ".join(f"{taint.key}={taint.value}:{taint.effect}" for taint in left) or "none"
        message = f"cluster {edit.cluster} has no such taint; its taints: {has}"
        raise InputError(message, field=f"{place}.key", value=edit.key)
    return _replace_taints(cluster, left)


def _matches(taint: Taint, edit: RemoveTaint) -> bool:
    return (
        taint.key == edit.key
        and (edit.value is None or edit.value == taint.value)
        and (edit.effect is None or edit.effect == taint.effect)
    )


def _replace_taints(cluster: MemberCluster, taints: tuple[Taint, ...]) -> MemberCluster:
    return msgspec.structs.replace(cluster, spec=MemberClusterSpec(taints=taints))


# --- signals and properties -----------------------------------------------------------------------------------------


def _make_ready(cluster: MemberCluster, now: int) -> MemberCluster:
    agent = _find_agent(cluster)
    joined, healthy = (_build_condition(agent, kind, "True", moment=now) for kind in (JOINED, HEALTHY))
    heard = msgspec.structs.replace(agent, last_received_heartbeat=format_timestamp(now))
    return _replace_agent(cluster, heard, joined, healthy)


def _make_unready(cluster: MemberCluster) -> MemberCluster:
    agent = _find_agent(cluster)
    return _replace_agent(cluster, agent, _build_condition(agent, HEALTHY, "False", moment=LONG_AGO))


def _find_agent(cluster: MemberCluster) -> AgentStatus:
    return next(
        (agent for agent in cluster.status.agent_status if agent.type == MEMBER_AGENT), AgentStatus(MEMBER_AGENT)
    )


def _build_condition(agent: AgentStatus, kind: str, status: str, *, moment: int) -> Condition:
    """The condition unchanged, where it has this status already."""
    known = next((condition for condition in agent.conditions if condition.type == kind), Condition(kind))
    if known.status == status == "True":
        return known
    return msgspec.structs.replace(known, status=status, last_transition_time=format_timestamp(moment))


def _replace_agent(cluster: MemberCluster, agent: AgentStatus, *conditions: Condition) -> MemberCluster:
    changed = {condition.type for condition in conditions}
    kept = (condition for condition in agent.conditions if condition.type not in changed)
    agent = msgspec.structs.replace(agent, conditions=(*kept, *conditions))
    others = (other for other in cluster.status.agent_status if other.type != MEMBER_AGENT)
    status = msgspec.structs.replace(cluster.status, agent_status=(agent, *others))
    return msgspec.structs.replace(cluster, status=status)


def _set_property(cluster: MemberCluster, edit: SetProperty, *, now: int, place: str) -> MemberCluster:
    _check_quantity(edit.value, place)
    values = {**(cluster.status.properties or {}), edit.property: PropertyValue(edit.value, format_timestamp(now))}
    status = msgspec.structs.replace(cluster.status, properties=values)
    return msgspec.structs.replace(cluster, status=status)


def _add_capacity(cluster: MemberCluster, edit: AddCapacity, place: str) -> MemberCluster:
    for _, message in find_request_problems({edit.resource: edit.value}):
        raise InputError(message, field=f"{place}.value", value=edit.value)
    usage = cluster.status.resource_usage or ResourceUsage()
    more = read_amount(edit.resource, edit.value)
    grown = {kind: _add_amount(getattr(usage, kind) or {}, edit.resource, more) for kind in _USAGE}
    return _replace_usage(cluster, msgspec.structs.replace(usage, **grown))


def _without_resource(cluster: MemberCluster, resource: str) -> MemberCluster:
    usage = cluster.status.resource_usage or ResourceUsage()
    left = {
        kind: {name: quantity for name, quantity in (getattr(usage, kind) or {}).items() if name != resource}
        for kind in _USAGE
    }
    return _replace_usage(cluster, msgspec.structs.replace(usage, **left))


def _add_amount(quantities: Mapping[str, QuantityText], resource: str, more: int) -> dict[str, QuantityText]:
    """What is not reported, or cannot be read, counts as 0."""
    quantity = quantities.get(resource, 0)
    known = 0 if quantity_or_none(quantity) is None else read_amount(resource, quantity)
    return {**quantities, resource: format_amount(resource, known + more)}


def _replace_usage(cluster: MemberCluster, usage: ResourceUsage) -> MemberCluster:
    return msgspec.structs.replace(cluster, status=msgspec.structs.replace(cluster.status, resource_usage=usage))


def _check_quantity(text: str, place: str) -> None:
    if quantity_or_none(text) is None:
        message = f"{text!r} is no quantity such as 4, 500m or 16Gi"
        raise InputError(message, field=f"{place}.value", value=text)
