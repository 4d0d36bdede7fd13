"""A scheduler beside the first one, which the operator runs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fleet.model.kinds.markers import AnyJSON, Int32, Int64, ValidationRule
from fleet.model.kinds.meta import Conditions, Document, LabelSelector, Model

ImageKind = Literal["release", "ondemand", "branchfix", "prerelease", "snapshot", "staging", "local"]


class ImagePolicy(Model):
    """Images that may run."""

    allowed_kinds: Annotated[
        tuple[ImageKind, ...],
        Field(max_length=7, description="Kinds of release tags, as `fleet release parse` names them."),
    ] = ("release", "ondemand", "branchfix")


class NodeToleration(Model):
    """Taints of nodes that pods accept."""

    key: Annotated[str, Field(max_length=316, description="Of the taint; any when empty.")] = ""
    operator: Annotated[Literal["Exists", "Equal"], Field(description="Exists accepts any value.")] = "Equal"
    value: Annotated[str, Field(max_length=63, description="Of the taint, with Equal.")] = ""
    effect: Annotated[
        Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"], Field(description="Of the taint; any when empty.")
    ] = ""


class HighlyAvailableTopology(Model):
    """As many pods as there are matching nodes, up to a limit."""

    max_replicas: Annotated[Int32, Field(ge=1, description="Most pods.")] = 3
    node_selector: Annotated[
        dict[str, str] | None, Field(max_length=32, description="Labels of the nodes that pods may run on.")
    ] = None
    tolerations: Annotated[
        tuple[NodeToleration, ...], Field(max_length=32, description="Taints that pods accept.")
    ] = ()


class SubstitutionSources(Model):
    """Sources of `${NAME}` in a configuration document."""

    from_env: Annotated[
        tuple[Annotated[str, Field(max_length=253)], ...],
        Field(max_length=64, description="Names of variables of the scheduler's process."),
    ] = ()
    from_secret: Annotated[
        tuple[Annotated[str, Field(max_length=317)], ...],
        Field(
            max_length=64, description="Secrets whose keys are names, as NAME of the same namespace or NAMESPACE/NAME."
        ),
    ] = ()


class SchedulerTopology(Model):
    """Number of pods."""

    rules = (
        ValidationRule(
            text="highlyAvailableTopology needs mode HighlyAvailable",
            cel="self.mode == 'HighlyAvailable' || !has(self.highlyAvailableTopology)",
            holds=lambda topology: topology.mode == "HighlyAvailable" or topology.highly_available_topology is None,
        ),
    )

    mode: Annotated[
        Literal["SingleReplica", "HighlyAvailable"],
        Field(description="HighlyAvailable: one pod on each of several nodes, of which one decides."),
    ] = "SingleReplica"
    highly_available_topology: Annotated[
        HighlyAvailableTopology | None, Field(description="For mode HighlyAvailable only.")
    ] = None


class SchedulerCapacity(Model):
    """The clusters of the scheduler, and whether it shares them."""

    rules = (
        ValidationRule(
            text="mode Partitioned and clusterSelector need each other",
            cel="(self.mode == 'Partitioned') == has(self.clusterSelector)",
            holds=lambda capacity: (capacity.mode == "Partitioned") == (capacity.cluster_selector is not None),
        ),
    )

    mode: Annotated[
        Literal["Shared", "Partitioned"],
        Field(
            description="Shared: all clusters, with room reserved from other schedulers. Partitioned: the selected "
            "clusters; selectors of two schedulers must exclude each other."
        ),
    ] = "Shared"
    cluster_selector: Annotated[
        LabelSelector | None, Field(description="Labels of the clusters, for mode Partitioned only.")
    ] = None


LogLevel = Literal["Normal", "Debug", "Trace", "TraceAll"]


class SecondarySchedulerSpec(Model):
    """The scheduler as it should run."""

    management_state: Annotated[
        Literal["Managed", "Unmanaged", "Removed", "Force"],
        Field(
            description="Managed: the objects of the scheduler are kept as they should be. Unmanaged: they are only "
            "observed. Removed: they are deleted. Force: as Managed, also where versions do not fit or a scheduler "
            "that is not Fleet's is active."
        ),
    ] = "Managed"
    scheduler_config: Annotated[
        str,
        Field(
            min_length=1,
            max_length=253,
            description="Name of a ConfigMap of the same namespace with a configuration document under config.yaml.",
        ),
    ]
    scheduler_image: Annotated[
        str, Field(min_length=1, max_length=512, description="Image of Fleet, with a release tag.")
    ]
    image_policy: Annotated[ImagePolicy, Field(description="Images that may run.")] = ImagePolicy()
    log_level: Annotated[
        LogLevel, Field(description="Of the scheduler: Normal has the option -v=2, Debug 4, Trace 6, TraceAll 8.")
    ] = "Normal"
    operator_log_level: Annotated[LogLevel, Field(description="Of the operator.")] = "Normal"
    observed_config: Annotated[
        dict[str, AnyJSON] | None,
        Field(
            description="What the operator has found on the hub: servingInfo has the oldest version and the cipher "
            "suites of TLS for probes and metrics."
        ),
    ] = None
    substitution: Annotated[
        SubstitutionSources | None,
        Field(description="Sources of `${NAME}` in a document that names none, as those of kube-scheduler."),
    ] = None
    unsupported_config_overrides: Annotated[
        dict[str, AnyJSON] | None,
        Field(description="Accepted and not used. While there are any, the condition Upgradeable is False."),
    ] = None
    topology: Annotated[SchedulerTopology, Field(description="Number of pods.")] = SchedulerTopology()
    capacity: Annotated[SchedulerCapacity, Field(description="Which clusters.")] = SchedulerCapacity()


class SecondaryImage(Model):
    """The image in use."""

    reference: Annotated[str, Field(description="Its name.")] = ""
    tag: Annotated[str, Field(description="Its tag.")] = ""
    kind: Annotated[str, Field(description="Kind of its release tag.")] = ""
    digest: Annotated[
        str, Field(description="What its tag stands for, as the pods run it; empty where they differ or do not say.")
    ] = ""


class ObjectGeneration(Model):
    """A managed object as it was observed."""

    group: Annotated[str, Field(description="API group of the object.")] = ""
    resource: Annotated[str, Field(description="Plural name of its kind.")] = ""
    namespace: Annotated[str, Field(description="Its namespace.")] = ""
    name: Annotated[str, Field(description="Its name.")] = ""
    last_generation: Annotated[Int64, Field(description="Its generation; 0 for kinds that have none.")] = 0
    hash: Annotated[str, Field(description="Digest of what the operator applied.")] = ""


class SecondarySchedulerStatus(Model):
    """The scheduler as it runs, written by the operator only."""

    observed_generation: Annotated[Int64, Field(description="The generation that this is about.")] = 0
    conditions: Annotated[
        Conditions,
        Field(
            description="ConfigValid, Available, Progressing, Degraded, Upgradeable and, with Force, ForcedReconcile."
        ),
    ] = ()
    generations: Annotated[
        tuple[ObjectGeneration, ...], Field(max_length=16, description="The managed objects that exist.")
    ] = ()
    version: Annotated[str, Field(description="Version of the operator that wrote this.")] = ""
    latest_available_revision: Annotated[
        Int32, Field(description="The newest generation of the Deployment that was rolled out in full.")
    ] = 0
    ready_replicas: Annotated[Int32, Field(description="Pods that are ready.")] = 0
    image: Annotated[SecondaryImage, Field(description="The image in use.")] = SecondaryImage()
    config_hash: Annotated[str, Field(description="Digest of the configuration document in use.")] = ""


class SecondaryScheduler(Document):
    """A scheduler with a configuration and an image of its own, for the placements that name its profiles."""

    spec: Annotated[SecondarySchedulerSpec, Field(description="As it should run.")]
    status: Annotated[SecondarySchedulerStatus, Field(description="As it runs.")] = SecondarySchedulerStatus()
