"""Conditions of the stages after scheduling, per cluster and summarized for the placement.

The conditions of a cluster come from its binding, where member agents and the rollout report. The placement has the
worst status of all clusters, where Unknown is worse than False: a failure may already be outdated. Both stop at the
first stage that is not true, because later stages would describe an older state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fleet.model.views import BindingReport, Condition
from fleet.placement.status import messages

TRUE: Final = "True"
FALSE: Final = "False"
UNKNOWN: Final = "Unknown"


@dataclass(frozen=True, slots=True)
class Stage:
    """A condition type without its prefix, and the placement's reasons for its three statuses."""

    name: str
    unknown: str
    false: str
    true: str

    def reason(self, status: str) -> str:
        return {TRUE: self.true, FALSE: self.false}.get(status, self.unknown)


SCHEDULED: Final = Stage("Scheduled", "SchedulePending", "SchedulingPolicyUnfulfilled", "SchedulingPolicyFulfilled")
ROLLOUT_STARTED: Final = Stage("RolloutStarted", "RolloutStartedUnknown", "RolloutNotStartedYet", "RolloutStarted")
OVERRIDDEN: Final = Stage("Overridden", "OverriddenPending", "OverriddenFailed", "OverriddenSucceeded")
WORK_SYNCHRONIZED: Final = Stage(
    "WorkSynchronized", "WorkSynchronizedUnknown", "WorkNotSynchronizedYet", "WorkSynchronized"
)
APPLIED: Final = Stage("Applied", "ApplyPending", "ApplyFailed", "ApplySucceeded")
AVAILABLE: Final = Stage("Available", "ResourceAvailableUnknown", "ResourceNotAvailableYet", "ResourceAvailable")
DIFF_REPORTED: Final = Stage(
    "DiffReported", "DiffReportingPending", "DiffReportingIncompleteOrFailed", "DiffReportingCompleted"
)

Chain = tuple[Stage, ...]
APPLYING: Final[Chain] = (ROLLOUT_STARTED, OVERRIDDEN, WORK_SYNCHRONIZED, APPLIED, AVAILABLE)
REPORTING_DIFFS: Final[Chain] = (ROLLOUT_STARTED, OVERRIDDEN, WORK_SYNCHRONIZED, DIFF_REPORTED)
ALL_STAGES: Final[Chain] = (SCHEDULED, *APPLYING, DIFF_REPORTED)

STATUS_SYNCED: Final = "StatusSynced"
INVALID_SELECTORS: Final = "InvalidResourceSelectors"
EXTERNALLY_CONTROLLED: Final = "RolloutControlledByExternalController"
NO_OVERRIDE: Final = "NoOverrideSpecified"
CLUSTER_SCHEDULED: Final = "Scheduled"
CLUSTER_NOT_SCHEDULED: Final = "ScheduleFailed"
SYNC_FAILED: Final = "StatusSyncFailed"
SYNC_SUCCEEDED: Final = "StatusSyncSucceeded"


@dataclass(frozen=True, slots=True)
class ConditionFinding:
    """A condition without its transition time and generation."""

    type: str
    status: str
    reason: str
    message: str

    @property
    def is_true(self) -> bool:
        return self.status == TRUE

    def build_condition(
        self, before: Condition | None, *, generation: int, now: str, prefix: str = ""
    ) -> dict[str, Any]:
        """The condition as written. The transition time is kept while the status is the same."""
        same = before is not None and before.status == self.status
        since = before.last_transition_time if same and before is not None else None
        return {
            "type": prefix + self.type,
            "status": self.status,
            "reason": self.reason,
            "message": self.message[: messages.LONGEST],
            "observedGeneration": generation,
            "lastTransitionTime": since or now,
        }


def index_by_type(conditions: Iterable[Condition]) -> dict[str, Condition]:
    return {condition.type: condition for condition in conditions}


# --- one cluster ------------------------------------------------------------------------------------------------------


def build_findings(
    chain: Chain, cluster: str, binding: BindingReport | None, *, master: str | None
) -> list[ConditionFinding]:
    """Findings of one cluster for the resource snapshot `master`; None means the snapshot that it has."""
    return list(_iter_findings(chain, cluster, binding, master=master))


def _iter_findings(
    chain: Chain, cluster: str, binding: BindingReport | None, *, master: str | None
) -> Iterator[ConditionFinding]:
    for stage in chain:
        condition = None if binding is None else _find_condition(binding, stage, master=master)
        if condition is None:
            yield ConditionFinding(stage.name, UNKNOWN, stage.unknown, messages.describe_waiting(stage.name, [cluster]))
            return
        yield ConditionFinding(stage.name, condition.status, condition.reason, condition.message)
        if condition.status == FALSE:
            return


def _find_condition(binding: BindingReport, stage: Stage, *, master: str | None) -> Condition | None:
    """The binding's condition, if it is about its current generation and the desired resource snapshot."""
    condition = next((condition for condition in binding.status.conditions if condition.type == stage.name), None)
    if (
        condition is None
        or condition.observed_generation < binding.metadata.generation
        or condition.status not in (TRUE, FALSE)
    ):
        return None
    is_other_content = master is not None and binding.spec.resource_snapshot_name != master
    return None if condition.status == TRUE and is_other_content else condition


# --- all clusters -----------------------------------------------------------------------------------------------------


def summarize(
    chain: Chain, clusters: Mapping[str, Sequence[ConditionFinding]], *, overridden: bool
) -> list[ConditionFinding]:
    """The findings for all clusters together, if there are any. `overridden`: if any has overrides."""
    return list(_iter_summary(chain, clusters, overridden=overridden)) if clusters else []


def _iter_summary(
    chain: Chain, clusters: Mapping[str, Sequence[ConditionFinding]], *, overridden: bool
) -> Iterator[ConditionFinding]:
    for position, stage in enumerate(chain):
        by_cluster = {cluster: findings[position] for cluster, findings in clusters.items()}
        worst = _find_worst(finding.status for finding in by_cluster.values())
        yield _summarize_stage(stage, worst, by_cluster, overridden=overridden)
        if worst != TRUE:
            return


def _find_worst(statuses: Iterable[str]) -> str:
    seen = set(statuses)
    return UNKNOWN if UNKNOWN in seen else FALSE if FALSE in seen else TRUE


def _summarize_stage(
    stage: Stage, status: str, by_cluster: Mapping[str, ConditionFinding], *, overridden: bool
) -> ConditionFinding:
    if status == TRUE and stage is OVERRIDDEN and not overridden:
        return ConditionFinding(stage.name, TRUE, NO_OVERRIDE, messages.NO_OVERRIDE)
    if status == TRUE:
        return ConditionFinding(stage.name, TRUE, stage.true, messages.describe_success(stage.name, len(by_cluster)))
    concerned = sorted(cluster for cluster, finding in by_cluster.items() if finding.status == status)
    if status == UNKNOWN:
        return ConditionFinding(stage.name, status, stage.unknown, messages.describe_waiting(stage.name, concerned))
    first = by_cluster[concerned[0]]
    text = messages.describe_failure(stage.name, concerned, cause=first.message or first.reason)
    return ConditionFinding(stage.name, status, stage.false, text)
