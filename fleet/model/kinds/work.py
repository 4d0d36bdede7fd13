"""Work: the objects a member has to run, in the member's namespace on the hub, and the member's record of them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fleet.model.kinds.identifiers import PatchDetail
from fleet.model.kinds.markers import V1BETA1, EmbeddedObject, Int, Int64, Timestamp, only_in
from fleet.model.kinds.meta import Conditions, Document, Model
from fleet.model.kinds.rollout.strategies import ApplyStrategy, ReportBackStrategy


class WorkloadTemplate(Model):
    """The objects to apply."""

    manifests: Annotated[tuple[EmbeddedObject, ...], Field(description="The complete objects, in order.")] = ()


class WorkSpec(Model):
    """What the member has to run."""

    workload: Annotated[WorkloadTemplate, Field(description="The objects to apply.")] = WorkloadTemplate()
    apply_strategy: Annotated[ApplyStrategy | None, Field(description="How objects are written on the member.")] = None
    report_back_strategy: Annotated[
        ReportBackStrategy | None,
        Field(description="Whether the status of the objects is brought back to the hub."),
        only_in(V1BETA1),
    ] = None


class WorkResourceIdentifier(Model):
    """Names a manifest by its place in the list and, where it could be read, as an object."""

    ordinal: Annotated[Int, Field(description="Place in the list of manifests, from 0.")]
    group: Annotated[str, Field(description="API group; empty for the core group.")] = ""
    version: Annotated[str, Field(description="API version.")] = ""
    kind: Annotated[str, Field(description="Kind of the object.")] = ""
    resource: Annotated[str, Field(description="Plural name of the kind.")] = ""
    namespace: Annotated[str, Field(description="Namespace; empty for a cluster-scoped object.")] = ""
    name: Annotated[str, Field(description="Name of the object.")] = ""


class DriftDetails(Model):
    """How an object drifted on the member."""

    observation_time: Annotated[Timestamp, Field(description="When the drift was last seen.")]
    observed_in_member_cluster_generation: Annotated[
        Int64, Field(description="Generation of the object on the member at that time.")
    ]
    first_drifted_observed_time: Annotated[Timestamp, Field(description="When the drift was first seen.")]
    observed_drifts: Annotated[tuple[PatchDetail, ...], Field(description="The fields that drifted.")] = ()


class DiffDetails(Model):
    """How an object on the member differs from the manifest."""

    observation_time: Annotated[Timestamp, Field(description="When the difference was last seen.")]
    observed_in_member_cluster_generation: Annotated[
        Int64 | None, Field(description="Generation of the object on the member at that time, if it exists.")
    ] = None
    first_diffed_observed_time: Annotated[Timestamp, Field(description="When the difference was first seen.")]
    observed_diffs: Annotated[tuple[PatchDetail, ...], Field(description="The fields that differ.")] = ()


class BackReportedStatus(Model):
    """The status of a placed object as the member sees it."""

    observed_status: Annotated[
        EmbeddedObject | None, Field(description="The object with its status, and little else.")
    ] = None
    observation_time: Annotated[Timestamp, Field(description="When it was observed.")]


class ManifestCondition(Model):
    """How one manifest fares on the member."""

    identifier: Annotated[WorkResourceIdentifier, Field(description="The manifest.")]
    conditions: Annotated[Conditions, Field(description="Applied, Available, DiffReported.")]
    drift_details: Annotated[DriftDetails | None, Field(description="How it drifted.")] = None
    diff_details: Annotated[DiffDetails | None, Field(description="How it differs.")] = None
    back_reported_status: Annotated[
        BackReportedStatus | None, Field(description="The status of the object, if asked for."), only_in(V1BETA1)
    ] = None


class WorkStatus(Model):
    """How the manifests fare on the member."""

    conditions: Annotated[
        Conditions, Field(description="Applied, Available, DiffReported, StatusTrimmed: of all manifests together.")
    ]
    manifest_conditions: Annotated[tuple[ManifestCondition, ...], Field(description="One entry per manifest.")] = ()


class Work(Document):
    """Objects that the member in whose namespace this is has to run."""

    spec: Annotated[WorkSpec, Field(description="What to run.")] = WorkSpec()
    status: Annotated[WorkStatus | None, Field(description="How it fares.")] = None


class AppliedWorkSpec(Model):
    """The Work on the hub this belongs to."""

    work_name: Annotated[str, Field(description="Name of the Work.")]
    work_namespace: Annotated[str, Field(description="Its namespace on the hub.")]


class AppliedResource(WorkResourceIdentifier):
    """An object that was applied."""

    uid: Annotated[str, Field(description="UID of the object on the member.")] = ""


class AppliedWorkStatus(Model):
    """What was applied."""

    applied_resources: Annotated[tuple[AppliedResource, ...], Field(description="The objects that were applied.")] = ()


class AppliedWork(Document):
    """The member's record of an applied Work, and the owner of the objects that came with it."""

    spec: Annotated[AppliedWorkSpec, Field(description="The Work on the hub.")]
    status: Annotated[AppliedWorkStatus, Field(description="What was applied.")] = AppliedWorkStatus()
