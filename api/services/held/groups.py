"""Placement groups: what they wait for, and where their members could not be placed.

From the objects on the hub, which any replica has, and from the recorded attempts of the members.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from api.auth.access import placement_access
from api.auth.permissions import Permissions, Visibility
from api.group_models import (
    GroupList,
    GroupModel,
    GroupWhy,
)
from api.http.problems import not_there
from api.live.backend import Backend
from api.live.live import LivePlacement
from api.live.live_groups import LiveGroup, find_group, iter_groups
from api.services.held.group_members import explain_member, find_best_trial, list_bound, read_evidence, show_domain
from api.services.held.waiting import list_preemptions
from fleet.errors import HistoryUnavailable
from fleet.history import History, HistoryAttempt
from fleet.kube.scopes import find_scope
from fleet.model.placement_key import PlacementKey
from fleet.model.timestamps import format_timestamp

_FLUSH_SECONDS: Final = 0.5


# --- questions --------------------------------------------------------------------------------------------------------


async def list_groups(backend: Backend, permissions: Permissions) -> GroupList:
    """Those with a member that the caller may read; of scopes whose placements they may list, all."""
    groups = {str(group.key): group for group in iter_groups(backend.live)}
    readable = await permissions.filter_placements({member for group in groups.values() for member in group.members})
    listed = {
        namespace: await permissions.allow(placement_access("list", namespace))
        for namespace in {group.key.namespace for group in groups.values()}
    }
    visibility = await permissions.load_visibility(backend.live.caches.clusters)
    return GroupList(
        items=tuple(
            build_group_model(backend, groups[key], visibility, readable)
            for key in sorted(groups)
            if listed[groups[key].key.namespace] or not readable.isdisjoint(groups[key].members)
        )
    )


async def load_group(backend: Backend, permissions: Permissions, key: PlacementKey) -> GroupModel:
    group, readable = await _require_group(backend, permissions, key)
    return build_group_model(backend, group, await permissions.load_visibility(backend.live.caches.clusters), readable)


async def explain_group(backend: Backend, permissions: Permissions, key: PlacementKey, *, limit: int) -> GroupWhy:
    group, readable = await _require_group(backend, permissions, key)
    visibility = await permissions.load_visibility(backend.live.caches.clusters)
    attempts, note = await _load_attempts(backend, [member for member in group.members if member in readable])
    members = [
        await explain_member(backend, permissions, group, placement, attempts.get(placement.key), visibility)
        for placement in (backend.live.find_placement(member) for member in group.members if member in readable)
        if placement is not None
    ]
    members.sort(key=lambda member: (member.state == "Bound", member.key))
    best = {key: find_best_trial(evidence) for key, attempt in attempts.items() if (evidence := read_evidence(attempt))}
    newest = max(best, key=lambda key: attempts[key].started, default=None)
    waits = group.describe_state()[0] in ("Waiting", "TimedOut")
    preempting = {member.key for member in members if member.preempting is not None}
    return GroupWhy(
        group=build_group_model(backend, group, visibility, readable),
        fitting=best[newest].fitting if newest is not None and waits else None,
        blocking=tuple(key for key in sorted(best.keys() - preempting) if best[key].fits is False) if waits else (),
        members=tuple(members[:limit]),
        more=len(members) - len(members[:limit]),
        note=note,
    )


async def find_group_of(
    backend: Backend, permissions: Permissions, placement: LivePlacement, visibility: Visibility
) -> GroupModel | None:
    """The group that the placement belongs to."""
    own = placement.placement.view.metadata
    name = backend.live.companions.group_of(own)
    if not name:
        return None
    group = find_group(backend.live, PlacementKey(own.namespace, name))
    return build_group_model(backend, group, visibility, await permissions.filter_placements(group.members))


# --- reading ----------------------------------------------------------------------------------------------------------


async def _require_group(
    backend: Backend, permissions: Permissions, key: PlacementKey
) -> tuple[LiveGroup, frozenset[str]]:
    """With the members that the caller may read. Who may read none of them has to be allowed to list placements."""
    group = find_group(backend.live, key)
    readable = await permissions.filter_placements(group.members)
    if not readable:
        await permissions.require(placement_access("list", key.namespace))
    if group.observed is None and not group.members:
        next = "GET /v1/groups lists those that are there"
        raise not_there(f"there is no group {key}", next, object=f"group {key}")
    return group, readable


async def _load_attempts(backend: Backend, keys: Sequence[str]) -> tuple[dict[str, HistoryAttempt], str]:
    """The newest attempt of each, and a note if they are not known."""
    history = backend.history.history
    if history is None:
        return {}, "this process has no history of decisions: where members were tried is not known here"
    try:
        return await backend.history.call(_read_newest, history, keys), ""
    except HistoryUnavailable:
        since = format_timestamp(backend.history.begin_outage(backend.live.now()))
        return {}, f"the history does not answer since {since}: where members were tried is not known"


def _read_newest(history: History, keys: Collection[str]) -> dict[str, HistoryAttempt]:
    history.flush(seconds=_FLUSH_SECONDS)  # the newest may still be in the write buffer
    return history.list_latest(keys)


# --- models -----------------------------------------------------------------------------------------------------------


def build_group_model(
    backend: Backend, group: LiveGroup, visibility: Visibility, readable: Collection[str]
) -> GroupModel:
    state, condition = group.describe_state()
    hidden = sum(member not in readable for member in group.members)
    placements = [backend.live.find_placement(member) for member in group.members]
    has_room = any(placement is not None and list_preemptions(placement) for placement in placements)
    return GroupModel(
        kind=find_scope(group.key).group.kind,
        namespace=group.key.namespace,
        name=group.key.name,
        state=state,
        reason=condition.reason,
        message="" if hidden else condition.message,
        since=group.status.waiting_since,
        deadline=None if has_room else group.deadline,
        needed=group.needed,
        members=len(group.members),
        placed=sum(map(bool, map(list_bound, placements))),
        hidden=hidden,
        domain=show_domain(backend, group, group.status.domain, visibility),
        topology_key=group.spec.topology_key,
        same_clusters=group.spec.same_clusters,
        schedule_timeout_seconds=group.spec.schedule_timeout_seconds,
        on_partial_bind=group.spec.on_partial_bind,
    )
