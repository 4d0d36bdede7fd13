"""Models of watched placements, clusters and bindings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from api.auth.access import all_placements_access, placement_access
from api.auth.permissions import Permissions, Visibility
from api.http.paging import take_page
from api.http.problems import not_found, refusal, unprocessable
from api.live.backend import Backend
from api.live.live import LivePlacement
from api.models import (
    BindingModel,
    BindingPage,
    ClusterModel,
    ClusterPage,
    ConditionModel,
    PlacementModel,
    PlacementPage,
    SpreadModel,
    TaintModel,
    TolerationModel,
)
from fleet.framework.policy.resource_requests import format_amount
from fleet.framework.profiles.profile import CompiledProfile
from fleet.informers.cache import Caches
from fleet.kube.resource import join_key
from fleet.kube.scopes import find_scope, parse_key
from fleet.model.keys import HEALTHY, JOINED, MEMBER_AGENT, PARENT_PLACEMENT, PICK_ALL, PICK_FIXED, PICK_N, UNSCHEDULED
from fleet.model.placement_key import PlacementKey
from fleet.model.selectors import matches
from fleet.model.views import (
    Binding,
    Condition,
    LabelSelector,
    MemberCluster,
    PlacementStatus,
    ResourceUsage,
    Toleration,
    TopologySpreadConstraint,
    View,
)
from fleet.scheduler.profiles.frameworks import is_eligible
from fleet.snapshot.capacity import assumed_ledger, list_booked_resources
from fleet.snapshot.frame import Frame

_SCHEDULED: Final = "Scheduled"
_BETWEEN_TURNS: Final = 64
"""Clusters: about a millisecond."""


class _Policy(View, frozen=True):
    """What is shown of a policy: its affinity has no bound, and takes long to decode."""

    placement_type: str = PICK_ALL
    cluster_names: tuple[str, ...] = ()
    number_of_clusters: int | None = None
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


class _Spec(View, frozen=True):
    policy: _Policy | None = None


def build_placement_model(live: LivePlacement, visibility: Visibility) -> PlacementModel:
    view = live.placement.view
    metadata = view.metadata
    scope = find_scope(live.key)
    policy = _read_policy(live)
    selected = sorted(_collect_targets(live.bindings))
    targets = tuple(name for name in selected if not visibility.hides(name))
    conditions = msgspec.json.decode(view.status, type=PlacementStatus).conditions
    kind = policy.placement_type or PICK_ALL
    return PlacementModel(
        key=live.key,
        kind=scope.placement.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        generation=metadata.generation,
        resource_version=metadata.resource_version,
        created=metadata.creation_timestamp,
        deleting=metadata.deletion_timestamp is not None,
        type=kind,
        wanted=_count_wanted(kind, policy),
        spread=tuple(_build_spread_model(constraint) for constraint in policy.topology_spread_constraints),
        tolerations=tuple(_build_toleration_model(toleration) for toleration in policy.tolerations),
        snapshot=live.snapshot.view.metadata.name if live.snapshot else "",
        targets=targets,
        redacted=len(selected) - len(targets),
        fulfilled=_is_fulfilled(live, conditions),
        conditions=tuple(_build_condition(condition, visibility) for condition in conditions),
    )


def _build_spread_model(constraint: TopologySpreadConstraint) -> SpreadModel:
    return SpreadModel(
        topology_key=constraint.topology_key,
        max_skew=constraint.max_skew,
        when_unsatisfiable=constraint.when_unsatisfiable,
    )


def _build_toleration_model(toleration: Toleration) -> TolerationModel:
    return TolerationModel(
        key=toleration.key, operator=toleration.operator, value=toleration.value, effect=toleration.effect
    )


def _count_wanted(kind: str, policy: _Policy) -> int | None:
    if kind == PICK_FIXED:
        return len(set(policy.cluster_names))
    return policy.number_of_clusters if kind == PICK_N else None


def _read_policy(live: LivePlacement) -> _Policy:
    """An invalid policy is shown as an empty one: `why` explains what is wrong with it."""
    try:
        return msgspec.json.decode(live.placement.view.spec, type=_Spec).policy or _Policy()
    except msgspec.MsgspecError:
        return _Policy()


def _collect_targets(bindings: Iterable[Binding]) -> set[str]:
    return {
        binding.spec.target_cluster
        for binding in bindings
        if binding.metadata.deletion_timestamp is None and binding.spec.state != UNSCHEDULED
    }


def _is_fulfilled(live: LivePlacement, conditions: Iterable[Condition]) -> bool | None:
    kind = find_scope(live.key).condition_prefix + _SCHEDULED
    generation = live.placement.view.metadata.generation
    for condition in conditions:
        is_current = condition.type == kind and condition.observed_generation == generation
        if is_current and condition.status in ("True", "False"):
            return condition.status == "True"
    return None


def _build_condition(condition: Condition, visibility: Visibility) -> ConditionModel:
    message = condition.message if visibility.is_whole else ""
    return ConditionModel(type=condition.type, status=condition.status, reason=condition.reason, message=message)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementFilter:
    """The placements that a list has; everything by default."""

    namespace: str | None = None
    fulfilled: bool | None = None
    """False also selects those that are not decided."""
    labels: LabelSelector | None = None

    def selects(self, live: LivePlacement) -> bool:
        view = live.placement.view
        if self.labels is not None and not matches(self.labels, view.metadata.labels):
            return False
        if self.fulfilled is None:
            return True
        conditions = msgspec.json.decode(view.status, type=PlacementStatus).conditions
        return (_is_fulfilled(live, conditions) is True) is self.fulfilled


async def list_placements(
    backend: Backend, permissions: Permissions, chosen: PlacementFilter, *, limit: int, cursor: str | None
) -> PlacementPage:
    """Those that the caller may list and the filter selects. Other requests may be answered between two placements."""
    keys = await list_visible_keys(backend, permissions, chosen.namespace)
    if chosen.fulfilled is not None or chosen.labels is not None:
        keys = [key async for key in _filter(backend, keys, chosen)]
    visibility = await permissions.load_visibility(backend.live.caches.clusters)
    page = take_page(keys, limit=limit, cursor=cursor, list_name="placements")
    items = []
    for key in page.keys:
        await asyncio.sleep(0)
        placement = backend.live.find_placement(key)
        if placement is not None:
            items.append(build_placement_model(placement, visibility))
    return PlacementPage(items=tuple(items), next=page.next)


async def _filter(backend: Backend, keys: Iterable[str], chosen: PlacementFilter) -> AsyncIterator[str]:
    """Other requests may be answered between two placements."""
    for key in keys:
        await asyncio.sleep(0)
        live = backend.live.find_placement(key)
        if live is not None and chosen.selects(live):
            yield key


async def list_visible_keys(backend: Backend, permissions: Permissions, namespace: str | None = None) -> list[str]:
    """Of the placements that the caller may list, of one namespace or all, sorted."""
    return await _filter_listable(backend.live.placement_keys(), permissions, namespace)


async def _filter_listable(keys: Sequence[str], permissions: Permissions, namespace: str | None) -> list[str]:
    """Refuses callers who may list no placements at all."""
    if namespace is not None:
        await permissions.require(placement_access("list", namespace))
        return [key for key in keys if key.startswith(f"{namespace}/")]
    namespaces = {parse_key(key)[0] for key in keys} - {""}
    cluster_scoped = await permissions.allow(all_placements_access("list", namespaced=False))
    all_namespaces = await permissions.allow(all_placements_access("list", namespaced=True))
    if all_namespaces:
        allowed = namespaces
    else:
        allowed = {name for name in namespaces if await permissions.allow(placement_access("list", name))}
    if not cluster_scoped and not all_namespaces and not allowed:
        raise refusal(
            403,
            f"{permissions.caller.name} may list no placements",
            object="placements",
            next="ask for the right to list clusterresourceplacements or resourceplacements on the hub, or name your "
            "namespace with ?namespace=",
        )
    return [key for key in keys if (cluster_scoped if "/" not in key else parse_key(key)[0] in allowed)]


# --- clusters ---------------------------------------------------------------------------------------------------------


async def list_clusters(backend: Backend, permissions: Permissions, *, limit: int, cursor: str | None) -> ClusterPage:
    names = backend.live.cluster_names()
    visibility = await permissions.load_visibility(names)
    visible = [name for name in names if not visibility.hides(name)]
    page = take_page(visible, limit=limit, cursor=cursor, list_name="clusters")
    items = tuple(get_cluster(backend, name) for name in page.keys)
    return ClusterPage(items=items, redacted=len(names) - len(visible), next=page.next)


def get_cluster(backend: Backend, name: str) -> ClusterModel:
    cluster = backend.live.caches.clusters.get(name)
    if cluster is None:
        raise not_found(f"cluster {name}", "GET /v1/clusters lists those that are there")
    profile = backend.live.frameworks.default.profile
    return build_cluster_model(cluster, profile, backend.live.frame(), now=backend.live.now())


async def build_cluster_models(backend: Backend, names: Iterable[str]) -> list[ClusterModel]:
    """Other requests may be answered meanwhile."""
    profile = backend.live.frameworks.default.profile
    clusters, frame, models = backend.live.caches.clusters, backend.live.frame(), []
    for place, name in enumerate(names):
        if place % _BETWEEN_TURNS == 0:
            await asyncio.sleep(0)
        cluster = clusters.get(name)
        if cluster is not None:
            models.append(build_cluster_model(cluster, profile, frame, now=backend.live.now()))
    return models


def build_cluster_model(cluster: MemberCluster, profile: CompiledProfile, frame: Frame, *, now: int) -> ClusterModel:
    metadata, status = cluster.metadata, cluster.status
    usage = status.resource_usage or ResourceUsage()
    agent = next((agent for agent in status.agent_status if agent.type == MEMBER_AGENT), None)
    conditions = {} if agent is None else {condition.type: condition.status for condition in agent.conditions}
    return ClusterModel(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        created=metadata.creation_timestamp,
        leaving=metadata.deletion_timestamp is not None,
        eligible=is_eligible(profile, cluster, now),
        joined=conditions.get(JOINED, ""),
        healthy=conditions.get(HEALTHY, ""),
        last_heartbeat=None if agent is None else agent.last_received_heartbeat,
        labels=metadata.labels or {},
        taints=tuple(
            TaintModel(key=taint.key, value=taint.value, effect=taint.effect) for taint in cluster.spec.taints
        ),
        properties={name: observed.value for name, observed in (status.properties or {}).items()},
        capacity=usage.capacity or {},
        allocatable=usage.allocatable or {},
        available=usage.available or {},
        booked=_list_booked(frame, metadata.name),
    )


def _list_booked(frame: Frame, cluster: str) -> dict[str, str]:
    row, resources = frame.row_of(cluster), list_booked_resources(frame.ledgers)
    if row is None:
        return {}
    booked = {resource: int(frame.ledger(assumed_ledger(resource))[row]) for resource in resources}
    return {resource: format_amount(resource, amount) for resource, amount in booked.items() if amount}


# --- bindings ---------------------------------------------------------------------------------------------------------


async def list_bindings(
    backend: Backend,
    permissions: Permissions,
    *,
    placement: str | None,
    cluster: str | None,
    limit: int,
    cursor: str | None,
) -> BindingPage:
    """Of one placement, of one cluster, or all. Bindings for clusters that the caller may not read are counted."""
    bindings = {
        f"{binding.metadata.namespace}/{binding.metadata.name}": binding
        for binding in _read_bindings(backend.live.caches, placement)
        if cluster is None or binding.spec.target_cluster == cluster
    }
    visibility = await permissions.load_visibility(backend.live.caches.clusters)
    visible = sorted(key for key, binding in bindings.items() if not visibility.hides(binding.spec.target_cluster))
    page = take_page(visible, limit=limit, cursor=cursor, list_name="bindings")
    items = tuple(build_binding_model(bindings[key]) for key in page.keys)
    return BindingPage(items=items, redacted=len(bindings) - len(visible), next=page.next)


def _read_bindings(caches: Caches, placement: str | None) -> list[Binding]:
    if placement is None:
        return [binding.view for kinds in caches.kinds for binding in kinds.bindings.store.values()]
    try:
        return [binding.view for binding in caches.bindings(PlacementKey.parse(placement))]
    except KeyError as error:
        raise unprocessable(
            "placement",
            placement,
            "ResourcePlacements are switched off here",
            "ask for a cluster-scoped placement, or start Fleet with resourcePlacements.enabled=true",
        ) from error


def build_binding_model(binding: Binding) -> BindingModel:
    metadata, spec = binding.metadata, binding.spec
    name = metadata.label(PARENT_PLACEMENT) or ""
    return BindingModel(
        placement=join_key(metadata.namespace, name),
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        created=metadata.creation_timestamp,
        deleting=metadata.deletion_timestamp is not None,
        state=spec.state,
        cluster=spec.target_cluster,
        policy_snapshot=spec.scheduling_policy_snapshot_name,
        resource_snapshot=spec.resource_snapshot_name,
    )
