"""From watched objects to what is shown of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from api.auth.access import Sight
from api.live.live import Subject
from api.models import BindingModel, ClusterModel, ConditionModel, PlacementModel, TaintModel
from fleet.kube.resource import join_key
from fleet.kube.scopes import find_scope
from fleet.model.keys import HEALTHY, JOINED, MEMBER_AGENT, PARENT_PLACEMENT, PICK_ALL, PICK_N, UNSCHEDULED
from fleet.model.views import Binding, Condition, MemberCluster, PlacementPolicy, PlacementStatus, ResourceUsage, View
from fleet.snapshot.eligibility import Eligibility

_SCHEDULED: Final = "Scheduled"


class _Spec(View, frozen=True):
    policy: PlacementPolicy | None = None


def placement_model(subject: Subject, sight: Sight) -> PlacementModel:
    view = subject.placement.view
    metadata = view.metadata
    flavour = find_scope(subject.key)
    policy = _policy(subject)
    chosen = sorted(_in_use(subject.bindings))
    targets = tuple(name for name in chosen if not sight.hides(name))
    conditions = msgspec.json.decode(view.status, type=PlacementStatus).conditions
    kind = policy.placement_type or PICK_ALL
    return PlacementModel(
        key=subject.key,
        kind=flavour.placement.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        generation=metadata.generation,
        resource_version=metadata.resource_version,
        created=metadata.creation_timestamp,
        deleting=metadata.deletion_timestamp is not None,
        type=kind,
        wanted=policy.number_of_clusters if kind == PICK_N else None,
        snapshot=subject.snapshot.view.metadata.name if subject.snapshot else "",
        targets=targets,
        redacted=len(chosen) - len(targets),
        fulfilled=_fulfilled(subject, conditions),
        conditions=tuple(_condition(one, sight) for one in conditions),
    )


def _policy(subject: Subject) -> PlacementPolicy:
    """A policy that cannot be read is shown as none: what is wrong with it, `why` says."""
    try:
        return msgspec.json.decode(subject.placement.view.spec, type=_Spec).policy or PlacementPolicy()
    except msgspec.MsgspecError:
        return PlacementPolicy()


def _in_use(bindings: Iterable[Binding]) -> set[str]:
    kept = (one for one in bindings if one.metadata.deletion_timestamp is None and one.spec.state != UNSCHEDULED)
    return {one.spec.target_cluster for one in kept}


def _fulfilled(subject: Subject, conditions: Iterable[Condition]) -> bool | None:
    kind = find_scope(subject.key).condition_prefix + _SCHEDULED
    generation = subject.placement.view.metadata.generation
    for one in conditions:
        if one.type == kind and one.observed_generation == generation and one.status in ("True", "False"):
            return one.status == "True"
    return None


def _condition(condition: Condition, sight: Sight) -> ConditionModel:
    message = condition.message if sight.is_whole else ""
    return ConditionModel(type=condition.type, status=condition.status, reason=condition.reason, message=message)


# --- clusters ---------------------------------------------------------------------------------------------------------


def cluster_model(cluster: MemberCluster, eligibility: Eligibility, *, now: int) -> ClusterModel:
    metadata, status = cluster.metadata, cluster.status
    usage = status.resource_usage or ResourceUsage()
    agent = next((one for one in status.agent_status if one.type == MEMBER_AGENT), None)
    conditions = {} if agent is None else {one.type: one.status for one in agent.conditions}
    return ClusterModel(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        created=metadata.creation_timestamp,
        leaving=metadata.deletion_timestamp is not None,
        eligible=eligibility.of(cluster, now),
        joined=conditions.get(JOINED, ""),
        healthy=conditions.get(HEALTHY, ""),
        last_heartbeat=None if agent is None else agent.last_received_heartbeat,
        labels=metadata.labels or {},
        taints=tuple(TaintModel(key=one.key, value=one.value, effect=one.effect) for one in cluster.spec.taints),
        properties={name: one.value for name, one in (status.properties or {}).items()},
        capacity=usage.capacity or {},
        allocatable=usage.allocatable or {},
        available=usage.available or {},
    )


# --- bindings ---------------------------------------------------------------------------------------------------------


def binding_model(binding: Binding) -> BindingModel:
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
