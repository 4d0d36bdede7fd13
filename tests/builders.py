"""Small objects with names: clusters, policies, bindings, frames, in the words of the tests that use them.

A builder is a value: every method returns a new one, so a test can start several clusters from the same half-made one.
What is not said is healthy and ordinary: `a_cluster("c1")` has just been heard, has joined and is fine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import msgspec

from fleet.framework.request import PlacementRequest, compile_request
from fleet.model.keys import (
    BOUND,
    HEALTHY,
    JOINED,
    MEMBER_AGENT,
    NAMESPACE_COLLECTION_SUCCEEDED,
    NUMBER_OF_CLUSTERS,
    PARENT_PLACEMENT,
    PICK_ALL,
    PICK_FIXED,
    PICK_N,
    PLACEMENT_GENERATION,
    PREVIOUS_BINDING_STATE,
    SCHEDULED,
    SCHEDULER_BINDING_CLEANUP,
    UNSCHEDULED,
)
from fleet.model.timestamps import SECOND, format_timestamp, parse_timestamp
from fleet.model.views import (
    Affinity,
    AgentStatus,
    Binding,
    BindingSpec,
    ClusterAffinity,
    ClusterDecision,
    ClusterScore,
    ClusterSelector,
    ClusterSelectorTerm,
    Condition,
    LabelSelector,
    MemberCluster,
    MemberClusterSpec,
    Metadata,
    PlacementPolicy,
    PolicySnapshot,
    PolicySnapshotSpec,
    PreferredClusterSelector,
    PropertyRequirement,
    PropertySelector,
    PropertySorter,
    PropertyValue,
    ResourceUsage,
    SelectorRequirement,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from fleet.snapshot import Frame, Table

NOW_TEXT: Final = "2026-03-10T09:00:00Z"
NOW: Final = parse_timestamp(NOW_TEXT)
PLACEMENT: Final = "web"
SNAPSHOT: Final = "web-0"
OLD_SNAPSHOT: Final = "web-old"
UID: Final = "uid-of-web"


def ago(seconds: float) -> str:
    return format_timestamp(NOW - int(seconds * SECOND))


# --- clusters ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClusterBuilder:
    cluster: MemberCluster

    def build(self) -> MemberCluster:
        return self.cluster

    def labelled(self, labels: Mapping[str, str] | None = None, /, **more: str) -> Self:
        return self._metadata(labels={**(self.cluster.metadata.labels or {}), **(labels or {}), **more})

    def tainted(self, key: str, value: str = "", effect: str = "NoSchedule") -> Self:
        taints = (*self.cluster.spec.taints, Taint(key, value, effect))
        return self._with(spec=MemberClusterSpec(taints=taints))

    def measured(self, properties: Mapping[str, str]) -> Self:
        found = {name: PropertyValue(value, ago(60)) for name, value in properties.items()}
        return self._status(properties={**(self.cluster.status.properties or {}), **found})

    def pooled(self, pools: Mapping[str, Mapping[str, tuple[object, object]]], observed: str) -> Self:
        """By pool and resource, what is allocatable and available."""
        found = {
            f"{kind}.pools.fleet.dev/{pool}.{resource.replace('/', '_')}": PropertyValue(str(value), observed)
            for pool, resources in pools.items()
            for resource, values in resources.items()
            for kind, value in zip(("allocatable", "available"), values, strict=True)
        }
        return self._status(properties={**(self.cluster.status.properties or {}), **found})

    def having(
        self,
        *,
        capacity: dict[str, str | int | float] | None = None,
        allocatable: dict[str, str | int | float] | None = None,
        available: dict[str, str | int | float] | None = None,
    ) -> Self:
        return self._status(resource_usage=ResourceUsage(capacity, allocatable, available))

    def with_namespaces(self, *names: str, confirmed: bool = True) -> Self:
        conditions = (Condition(NAMESPACE_COLLECTION_SUCCEEDED, "True" if confirmed else "False"),)
        return self._status(namespaces=dict.fromkeys(names, "work"), conditions=conditions)

    def leaving(self) -> Self:
        return self._metadata(deletion_timestamp=ago(60))

    # signals of the member agent

    def heard(self, seconds_ago: float) -> Self:
        return self._agent(last_received_heartbeat=ago(seconds_ago))

    def never_heard(self) -> Self:
        return self._agent(last_received_heartbeat=None)

    def without_agent(self) -> Self:
        return self._status(agent_status=())

    def joined(self, status: str) -> Self:
        return self._agent(conditions=(Condition(JOINED, status), self._condition(HEALTHY)))

    def healthy(self, status: str, *, since_seconds: float) -> Self:
        health = Condition(HEALTHY, status, last_transition_time=ago(since_seconds))
        return self._agent(conditions=(self._condition(JOINED), health))

    def _condition(self, kind: str) -> Condition:
        return next(one for one in self.cluster.status.agent_status[0].conditions if one.type == kind)

    def _agent(self, **changes: Any) -> Self:
        agent = msgspec.structs.replace(self.cluster.status.agent_status[0], **changes)
        return self._status(agent_status=(agent,))

    def _metadata(self, **changes: Any) -> Self:
        return self._with(metadata=msgspec.structs.replace(self.cluster.metadata, **changes))

    def _status(self, **changes: Any) -> Self:
        return self._with(status=msgspec.structs.replace(self.cluster.status, **changes))

    def _with(self, **changes: Any) -> Self:
        return replace(self, cluster=msgspec.structs.replace(self.cluster, **changes))


def a_cluster(name: str) -> ClusterBuilder:
    conditions = (Condition(JOINED, "True"), Condition(HEALTHY, "True", last_transition_time=ago(7200)))
    agent = AgentStatus(MEMBER_AGENT, conditions, ago(10))
    return ClusterBuilder(MemberCluster(metadata=Metadata(name=name)))._status(agent_status=(agent,))


def clusters(*names: str) -> list[ClusterBuilder]:
    return [a_cluster(name) for name in names]


def a_table(*members: ClusterBuilder | MemberCluster) -> Table:
    return Table(built(members))


def a_frame(*members: ClusterBuilder | MemberCluster) -> Frame:
    return a_table(*members).freeze()


def built(members: Iterable[ClusterBuilder | MemberCluster]) -> list[MemberCluster]:
    return [one.build() if isinstance(one, ClusterBuilder) else one for one in members]


def names_in(frame: Frame, rows: int) -> set[str]:
    """The clusters of a set of rows; a complement counts within the fleet."""
    return {frame.name(row) for row in range(frame.size) if (rows & frame.valid) >> row & 1}


# --- selectors --------------------------------------------------------------------------------------------------------


def label(key: str, operator: str, *values: str) -> ClusterSelectorTerm:
    """A term with one label expression; `In`, `NotIn`, `Exists` or `DoesNotExist`."""
    return ClusterSelectorTerm(LabelSelector(match_expressions=(SelectorRequirement(key, operator, values),)))


def measure(name: str, operator: str, value: str) -> ClusterSelectorTerm:
    """A term with one property expression."""
    expression = PropertyRequirement(name, operator, (value,))
    return ClusterSelectorTerm(property_selector=PropertySelector((expression,)))


def sorted_by(name: str, order: str = "Descending") -> ClusterSelectorTerm:
    return ClusterSelectorTerm(property_sorter=PropertySorter(name, order))


# --- policies ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PolicyBuilder:
    policy: PlacementPolicy
    wanted: int | None = None
    namespace: str = ""
    name: str = SNAPSHOT
    changes: tuple[tuple[str, Any], ...] = ()

    def pick_n(self, number: int) -> Self:
        return replace(self._with(placement_type=PICK_N), wanted=number)

    def pick_fixed(self, *names: str) -> Self:
        return self._with(placement_type=PICK_FIXED, cluster_names=names)

    def require(self, *terms: ClusterSelectorTerm) -> Self:
        """At least one of the terms; said twice, one more way to qualify."""
        before = self._affinity().required or ClusterSelector()
        selector = ClusterSelector((*before.cluster_selector_terms, *terms))
        return self._with(affinity=Affinity(ClusterAffinity(selector, self._affinity().preferred)))

    def prefer(self, weight: int, term: ClusterSelectorTerm) -> Self:
        preferred = (*self._affinity().preferred, PreferredClusterSelector(weight, term))
        return self._with(affinity=Affinity(ClusterAffinity(self._affinity().required, preferred)))

    def spread(self, key: str, max_skew: int = 1) -> Self:
        return self._constrained(TopologySpreadConstraint(key, max_skew, "DoNotSchedule"))

    def spread_softly(self, key: str, max_skew: int = 1) -> Self:
        return self._constrained(TopologySpreadConstraint(key, max_skew, "ScheduleAnyway"))

    def tolerate(self, key: str, value: str = "", *, operator: str = "Equal", effect: str = "") -> Self:
        return self._with(tolerations=(*self.policy.tolerations, Toleration(key, operator, value, effect)))

    def in_namespace(self, namespace: str) -> Self:
        return replace(self, namespace=namespace)

    def called(self, snapshot: str) -> Self:
        return replace(self, name=snapshot)

    def at_least(self, targets: int) -> Self:
        """`minTargets`."""
        return self._requesting(min_targets=targets)

    def of_uid(self, uid: str) -> Self:
        return self._requesting(uid=uid)

    def snapshot(self) -> PolicySnapshot:
        annotations = {PLACEMENT_GENERATION: "1"}
        if self.wanted is not None:
            annotations[NUMBER_OF_CLUSTERS] = str(self.wanted)
        metadata = Metadata(
            name=self.name,
            namespace=self.namespace,
            generation=1,
            labels={PARENT_PLACEMENT: PLACEMENT},
            annotations=annotations,
        )
        return PolicySnapshot(metadata=metadata, spec=PolicySnapshotSpec(self.policy))

    def request(self) -> PlacementRequest:
        return replace(compile_request(self.snapshot(), placement_uid=UID), **dict(self.changes))

    def _affinity(self) -> ClusterAffinity:
        found = self.policy.affinity and self.policy.affinity.cluster_affinity
        return found or ClusterAffinity()

    def _constrained(self, one: TopologySpreadConstraint) -> Self:
        return self._with(topology_spread_constraints=(*self.policy.topology_spread_constraints, one))

    def _with(self, **changes: Any) -> Self:
        return replace(self, policy=msgspec.structs.replace(self.policy, **changes))

    def _requesting(self, **changes: Any) -> Self:
        return replace(self, changes=(*self.changes, *changes.items()))


def a_policy() -> PolicyBuilder:
    """PickAll, of the placement `web`."""
    return PolicyBuilder(PlacementPolicy(placement_type=PICK_ALL))


# --- bindings ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BindingBuilder:
    binding: Binding

    def build(self) -> Binding:
        return self.binding

    def bound(self) -> Self:
        return self._spec(state=BOUND)

    def unscheduled(self, *, previous: str = SCHEDULED) -> Self:
        return self._spec(state=UNSCHEDULED)._metadata(annotations={PREVIOUS_BINDING_STATE: previous})

    def of_snapshot(self, name: str) -> Self:
        return self._spec(scheduling_policy_snapshot_name=name)

    def obsolete(self) -> Self:
        return self.of_snapshot(OLD_SNAPSHOT)

    def scored(self, *, affinity: int = 0, topology: int = 0) -> Self:
        cluster = self.binding.spec.target_cluster
        return self._spec(cluster_decision=ClusterDecision(cluster, True, "", ClusterScore(affinity, topology)))

    def in_namespace(self, namespace: str) -> Self:
        return self._metadata(namespace=namespace)

    def of_placement(self, name: str) -> Self:
        return self._metadata(labels={PARENT_PLACEMENT: name})

    def deleting(self) -> Self:
        return self._metadata(deletion_timestamp=ago(5))

    def _metadata(self, **changes: Any) -> Self:
        metadata = msgspec.structs.replace(self.binding.metadata, **changes)
        return replace(self, binding=msgspec.structs.replace(self.binding, metadata=metadata))

    def _spec(self, **changes: Any) -> Self:
        spec = msgspec.structs.replace(self.binding.spec, **changes)
        return replace(self, binding=msgspec.structs.replace(self.binding, spec=spec))


def a_binding(cluster: str, *, name: str = "") -> BindingBuilder:
    """Scheduled, made for the current snapshot of `web`, all scores 0."""
    metadata = Metadata(
        name=name or f"{PLACEMENT}-{cluster}-b",
        uid=f"uid-{name or cluster}",
        labels={PARENT_PLACEMENT: PLACEMENT},
        finalizers=(SCHEDULER_BINDING_CLEANUP,),
    )
    spec = BindingSpec(state=SCHEDULED, target_cluster=cluster, scheduling_policy_snapshot_name=SNAPSHOT)
    return BindingBuilder(Binding(metadata=metadata, spec=spec)).scored()
