"""Staged updates: rollouts stage by stage, with waits and approvals between the stages.

The version v1alpha1 of ClusterStagedUpdateRun is an older shape of the same object; marks on the fields say how it
differs.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fleet.model.kinds.markers import (
    V1,
    V1ALPHA1,
    V1BETA1,
    CheckedKeywords,
    Int,
    Timestamp,
    ValidationRule,
    count_or_percentage,
    only_in,
    required_in,
)
from fleet.model.kinds.meta import Conditions, Document, LabelSelector, Model, NamespacedName, limit_name
from fleet.model.kinds.rollout.strategies import ApplyStrategy

_CURRENT = frozenset({V1, V1BETA1})
_OLD = frozenset({V1ALPHA1})
_IN_CURRENT = only_in(V1, V1BETA1)

_KEYWORDS_OF_CONCURRENCY, _RULE_OF_CONCURRENCY = count_or_percentage(
    pattern="^(100|[1-9][0-9]?)%$",
    at_least=1,
    message="SU-02: maxConcurrency must be a whole number ≥ 1 or a percentage from 1 to 100",
)


class StageTask(Model):
    """Something to wait for before or after a stage."""

    type: Annotated[Literal["TimedWait", "Approval"], Field(description="A time to pass, or a person's word.")]
    wait_time: Annotated[
        str | None,
        Field(
            pattern=r"^(?:(?:0|[1-9][0-9]*)(\.[0-9]+)?(?:s|m|h))+$",
            description="How long to wait, such as 90m, with TimedWait.",
        ),
    ] = None


def _stage_rule(
    *, cause: str, cel: str, field: str, wrong: tuple[str, bool | None], current: bool = False
) -> ValidationRule:
    """`wrong` is a task type and whether a wait time comes with it (None: either way) that `field` must not hold."""
    kind, waiting = wrong

    def holds(stage: StageConfig) -> bool:
        tasks: tuple[StageTask, ...] = getattr(stage, field)
        return not any(task.type == kind and waiting in (None, task.wait_time is not None) for task in tasks)

    return ValidationRule(
        id="SU-02",
        text=f"stage: {cause}",
        expression=f"'SU-02: stage ' + self.name + ': {cause}'",
        cel=cel,
        holds=holds,
        versions=_CURRENT if current else None,
    )


class StageConfig(Model):
    """One stage: which clusters, in which order, and what to wait for."""

    rules = (
        _stage_rule(
            cause="an Approval after the stage has no waitTime",
            cel="!has(self.afterStageTasks)"
            " || !self.afterStageTasks.exists(t, t.type == 'Approval' && has(t.waitTime))",
            field="after_stage_tasks",
            wrong=("Approval", True),
        ),
        _stage_rule(
            cause="a TimedWait after the stage needs a waitTime",
            cel="!has(self.afterStageTasks)"
            " || !self.afterStageTasks.exists(t, t.type == 'TimedWait' && !has(t.waitTime))",
            field="after_stage_tasks",
            wrong=("TimedWait", False),
        ),
        _stage_rule(
            cause="an Approval before the stage has no waitTime",
            cel="!has(self.beforeStageTasks)"
            " || !self.beforeStageTasks.exists(t, t.type == 'Approval' && has(t.waitTime))",
            field="before_stage_tasks",
            wrong=("Approval", True),
            current=True,
        ),
        _stage_rule(
            cause="a TimedWait can only follow the stage",
            cel="!has(self.beforeStageTasks) || !self.beforeStageTasks.exists(t, t.type == 'TimedWait')",
            field="before_stage_tasks",
            wrong=("TimedWait", None),
            current=True,
        ),
    )

    name: Annotated[str, Field(max_length=63, pattern="^[a-z0-9]+$", description="Name, unique among the stages.")]
    label_selector: Annotated[
        LabelSelector | None,
        Field(description="Labels of the clusters; an empty selector takes every cluster, an absent one none."),
    ] = None
    sorting_label_key: Annotated[
        str | None, Field(description="A label whose integer value orders the clusters, before their names.")
    ] = None
    max_concurrency: Annotated[
        int | str,
        Field(description="How many clusters are updated at once, as a count or a percentage, rounded down."),
        _KEYWORDS_OF_CONCURRENCY,
        _RULE_OF_CONCURRENCY,
        _IN_CURRENT,
    ] = 1
    after_stage_tasks: Annotated[
        tuple[StageTask, ...], Field(max_length=2, description="What to wait for after the stage.")
    ] = ()
    before_stage_tasks: Annotated[
        tuple[StageTask, ...],
        Field(max_length=1, description="What to wait for before the stage: an Approval."),
        _IN_CURRENT,
    ] = ()


class UpdateStrategySpec(Model):
    """Stages in their order."""

    stages: Annotated[
        tuple[StageConfig, ...],
        Field(description="The stages."),
        CheckedKeywords({"maxItems": 31}, lambda stages: len(stages) <= 31, "SU-02: at most 31 stages are allowed"),
    ]


class ClusterStagedUpdateStrategy(Document):
    """Stages that runs for ClusterResourcePlacements may use."""

    spec: Annotated[UpdateStrategySpec, Field(description="The stages.")]


class StagedUpdateStrategy(Document):
    """Stages that runs for ResourcePlacements of this namespace may use."""

    spec: Annotated[UpdateStrategySpec, Field(description="The stages.")]


def _forbid_change(field: str) -> ValidationRule:
    value = f"(has(self.{field}) ? self.{field} : '')"
    old_value = f"(has(oldSelf.{field}) ? oldSelf.{field} : '')"
    return ValidationRule(
        id="SU-01", text=f"{field} cannot be changed", cel=f"{value} == {old_value}", versions=_CURRENT
    )


def _forbid_transition(old: str, new: str) -> ValidationRule:
    return ValidationRule(
        id="SU-01",
        text=f"state {old} cannot become {new}",
        cel=f"!(oldSelf.state == '{old}' && self.state == '{new}')",
        versions=_CURRENT,
    )


class UpdateRunSpec(Model):
    """What is rolled out, and by which stages."""

    rules = (
        _forbid_change("placementName"),
        _forbid_change("resourceSnapshotIndex"),
        _forbid_change("stagedRolloutStrategyName"),
        _forbid_transition("Initialize", "Stop"),
        _forbid_transition("Run", "Initialize"),
        _forbid_transition("Stop", "Initialize"),
        ValidationRule(id="SU-01", text="spec cannot be changed", cel="self == oldSelf", versions=_OLD),
    )

    placement_name: Annotated[str, Field(max_length=255, description="The placement.")]
    resource_snapshot_index: Annotated[
        str, Field(description="Index of the resource snapshot; the latest when empty."), required_in(V1ALPHA1)
    ] = ""
    staged_rollout_strategy_name: Annotated[str, Field(description="The staged update strategy.")]
    state: Annotated[
        Literal["Initialize", "Run", "Stop"],
        Field(description="Whether the run is only prepared, goes on, or pauses."),
        _IN_CURRENT,
    ] = "Initialize"


class StageTaskStatus(Model):
    """How far a wait or an approval has come."""

    type: Annotated[Literal["TimedWait", "Approval"], Field(description="A time to pass, or a person's word.")]
    approval_request_name: Annotated[str, Field(description="The approval request, with Approval.")] = ""
    conditions: Annotated[
        Conditions, Field(description="ApprovalRequestCreated, ApprovalRequestApproved, WaitTimeElapsed.")
    ] = ()


class ClusterUpdatingStatus(Model):
    """How far one cluster has come."""

    cluster_name: Annotated[str, Field(description="The cluster.")]
    resource_override_snapshots: Annotated[
        tuple[NamespacedName, ...], Field(description="Snapshots of the namespaced overrides that apply.")
    ] = ()
    cluster_resource_override_snapshots: Annotated[
        tuple[str, ...], Field(description="Snapshots of the cluster-scoped overrides that apply.")
    ] = ()
    conditions: Annotated[Conditions, Field(description="Started and Succeeded.")] = ()


class StageUpdatingStatus(Model):
    """How far one stage has come."""

    stage_name: Annotated[str, Field(description="The stage.")]
    clusters: Annotated[tuple[ClusterUpdatingStatus, ...], Field(description="Its clusters, in order.")]
    after_stage_task_status: Annotated[
        tuple[StageTaskStatus, ...], Field(max_length=2, description="The tasks after the stage.")
    ] = ()
    before_stage_task_status: Annotated[
        tuple[StageTaskStatus, ...], Field(max_length=1, description="The task before the stage."), _IN_CURRENT
    ] = ()
    start_time: Annotated[Timestamp | None, Field(description="When the stage began.")] = None
    end_time: Annotated[Timestamp | None, Field(description="When it ended.")] = None
    conditions: Annotated[Conditions, Field(description="Progressing and Succeeded.")] = ()


class UpdateRunStatus(Model):
    """How far the run has come, and what it was computed from."""

    policy_snapshot_index_used: Annotated[str, Field(description="Index of the policy snapshot.")] = ""
    policy_observed_cluster_count: Annotated[Int, Field(description="How many clusters were picked.")] = 0
    resource_snapshot_index_used: Annotated[
        str, Field(description="Index of the resource snapshot that is rolled out."), _IN_CURRENT
    ] = ""
    applied_strategy: Annotated[
        ApplyStrategy | None, Field(description="How objects are written on the members, for the whole run.")
    ] = None
    staged_update_strategy_snapshot: Annotated[
        UpdateStrategySpec | None, Field(description="The stages as they were at the start.")
    ] = None
    stages_status: Annotated[tuple[StageUpdatingStatus, ...], Field(description="The stages, in order.")] = ()
    deletion_stage_status: Annotated[
        StageUpdatingStatus | None, Field(description="The last stage, which removes what is no longer wanted.")
    ] = None
    conditions: Annotated[Conditions, Field(description="Initialized, Progressing, Succeeded.")] = ()


_RUN_RULES = (
    limit_name(63, id="SU-01", text="name can have at most 63 characters", versions=_CURRENT),
    ValidationRule(
        id="SU-01",
        text="name can have at most 127 characters",
        cel="size(self.metadata.name) <= 127",
        versions=_OLD,
    ),
)


class ClusterStagedUpdateRun(Document):
    """Rolls a ClusterResourcePlacement out stage by stage."""

    rules = _RUN_RULES

    spec: Annotated[UpdateRunSpec, Field(description="What is rolled out, and how.")]
    status: Annotated[UpdateRunStatus, Field(description="How far it has come.")] = UpdateRunStatus()


class StagedUpdateRun(Document):
    """Rolls a ResourcePlacement out stage by stage."""

    rules = _RUN_RULES

    spec: Annotated[UpdateRunSpec, Field(description="What is rolled out, and how.")]
    status: Annotated[UpdateRunStatus, Field(description="How far it has come.")] = UpdateRunStatus()


class ApprovalRequestSpec(Model):
    """What waits for approval."""

    rules = (ValidationRule(id="SU-03", text="only the status of an approval request changes", cel="self == oldSelf"),)

    parent_stage_rollout: Annotated[str, Field(description="The staged update run.")]
    target_stage: Annotated[str, Field(description="The stage.")]


class ApprovalRequestStatus(Model):
    """Whether it was approved."""

    conditions: Annotated[
        Conditions, Field(description="Approved, set by a person, and ApprovalAccepted, set by the fleet.")
    ] = ()


class ClusterApprovalRequest(Document):
    """Asks a person to let a ClusterStagedUpdateRun go on."""

    spec: Annotated[ApprovalRequestSpec, Field(description="What waits for approval.")]
    status: Annotated[ApprovalRequestStatus, Field(description="Whether it was approved.")] = ApprovalRequestStatus()


class ApprovalRequest(Document):
    """Asks a person to let a StagedUpdateRun go on."""

    spec: Annotated[ApprovalRequestSpec, Field(description="What waits for approval.")]
    status: Annotated[ApprovalRequestStatus, Field(description="Whether it was approved.")] = ApprovalRequestStatus()
