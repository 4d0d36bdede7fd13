"""Member clusters: the administrator's object on the hub, and the one through which the member agent reports."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fleet.model.kinds.markers import V1BETA1, Int32, Quantities, Timestamp, only_in
from fleet.model.kinds.meta import Conditions, Document, Model, limit_name

LONGEST_CLUSTER_NAME = 63

HeartbeatPeriod = Annotated[
    Int32, Field(ge=1, le=600, description="Seconds between two signs of life of the member agent.")
]


class Identity(Model):
    """The subject the member agent acts as on the hub, as role bindings name it."""

    atomic = True

    api_group: Annotated[str, Field(description="API group of the subject; empty for a service account.")] = ""
    kind: Annotated[str, Field(description="User, Group or ServiceAccount.")]
    name: Annotated[str, Field(description="Name of the subject.")]
    namespace: Annotated[str, Field(description="Namespace of a service account.")] = ""


class Taint(Model):
    """Keeps placements off the cluster unless they tolerate it."""

    key: Annotated[str, Field(description="What the taint is about.")]
    value: Annotated[str, Field(description="The value a toleration must equal.")] = ""
    effect: Annotated[
        Literal["NoSchedule"], Field(description="What happens to placements that do not tolerate the taint.")
    ]


class DeleteOptions(Model):
    """What is checked before the cluster may leave."""

    validation_mode: Annotated[
        Literal["Skip", "Strict"],
        Field(description="Strict refuses to delete a cluster that still exports services."),
    ] = "Strict"


class MemberClusterSpec(Model):
    """How the cluster takes part in the fleet."""

    identity: Annotated[Identity, Field(description="The subject the member agent acts as on the hub.")]
    heartbeat_period_seconds: HeartbeatPeriod = 60
    taints: Annotated[
        tuple[Taint, ...], Field(max_length=100, description="What placements must tolerate to be placed here.")
    ] = ()
    delete_options: Annotated[
        DeleteOptions | None, Field(description="What is checked before the cluster may leave."), only_in(V1BETA1)
    ] = None


class PropertyValue(Model):
    """One observed property of a cluster."""

    value: Annotated[str, Field(description="The value; a quantity where it is to be compared.")]
    observation_time: Annotated[Timestamp, Field(description="When it was observed.")]


class ResourceUsage(Model):
    """What the nodes of the cluster offer in sum."""

    capacity: Annotated[Quantities | None, Field(description="All there is.")] = None
    allocatable: Annotated[Quantities | None, Field(description="What workloads may use.")] = None
    available: Annotated[Quantities | None, Field(description="What no workload has asked for yet.")] = None
    observation_time: Annotated[Timestamp | None, Field(description="When it was observed.")] = None


class AgentStatus(Model):
    """What one agent on the member reports about itself."""

    type: Annotated[str, Field(description="MemberAgent, MultiClusterServiceAgent or ServiceExportImportAgent.")]
    conditions: Annotated[Conditions, Field(description="Joined and Healthy.")] = ()
    last_received_heartbeat: Annotated[Timestamp | None, Field(description="The latest sign of life.")] = None


class MemberClusterStatus(Model):
    """What is known about the cluster."""

    conditions: Annotated[
        Conditions,
        Field(description="ReadyToJoin, Joined, Healthy, and what property providers say about their collection."),
    ] = ()
    properties: Annotated[dict[str, PropertyValue] | None, Field(description="Observed properties by name.")] = None
    resource_usage: Annotated[ResourceUsage, Field(description="What the nodes offer in sum.")] = ResourceUsage()
    agent_status: Annotated[tuple[AgentStatus, ...], Field(description="One entry per agent on the member.")] = ()
    namespaces: Annotated[
        dict[str, str] | None,
        Field(description="Namespaces on the member, each with the AppliedWork that owns it, or an empty text."),
        only_in(V1BETA1),
    ] = None


class MemberCluster(Document):
    """A cluster that takes part in the fleet."""

    rules = (limit_name(LONGEST_CLUSTER_NAME, id="MC-01", text="name can have at most 63 characters"),)

    spec: Annotated[MemberClusterSpec, Field(description="How the cluster takes part in the fleet.")]
    status: Annotated[MemberClusterStatus, Field(description="What is known about it.")] = MemberClusterStatus()


class InternalMemberClusterSpec(Model):
    """What the hub asks of the member agent."""

    state: Annotated[str, Field(description="Join or Leave.")]
    heartbeat_period_seconds: HeartbeatPeriod = 60


class InternalMemberCluster(Document):
    """The hub's and the member agent's shared object, one per member, in the namespace of that member."""

    spec: Annotated[InternalMemberClusterSpec, Field(description="What the hub asks of the member agent.")]
    status: Annotated[MemberClusterStatus, Field(description="What the agent reports.")] = MemberClusterStatus()
