"""The stages a placement goes through after scheduling, said of one cluster and said of all of them.

Of one cluster its binding tells: member agents and the rollout report there. Of the placement it is the worst that any
cluster says, where not knowing is worse than having failed: a failure may already be history. Both stop at the first
stage that is not reached, because what comes after it would describe something older.
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
    """A condition before it is known since when it holds."""

    type: str
    status: str
    reason: str
    message: str

    @property
    def is_true(self) -> bool:
        return self.status == TRUE

    def dated(self, before: Condition | None, *, generation: int, now: str, prefix: str = "") -> dict[str, Any]:
        """As written. The time is that of the last change of the status."""
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
    """How far a cluster has come with the resource snapshot of that name; None: with whichever it has."""
    return list(_iter_findings(chain, cluster, binding, master=master))


def _iter_findings(
    chain: Chain, cluster: str, binding: BindingReport | None, *, master: str | None
) -> Iterator[ConditionFinding]:
    for stage in chain:
        said = None if binding is None else _said(binding, stage, master=master)
        if said is None:
            yield ConditionFinding(stage.name, UNKNOWN, stage.unknown, messages.waiting(stage.name, [cluster]))
            return
        yield ConditionFinding(stage.name, said.status, said.reason, said.message)
        if said.status == FALSE:
            return


def _said(binding: BindingReport, stage: Stage, *, master: str | None) -> Condition | None:
    """The binding's condition, if it is about the binding as it is now and about the wanted resources."""
    said = next((condition for condition in binding.status.conditions if condition.type == stage.name), None)
    if said is None or said.observed_generation < binding.metadata.generation or said.status not in (TRUE, FALSE):
        return None
    is_other_content = master is not None and binding.spec.resource_snapshot_name != master
    return None if said.status == TRUE and is_other_content else said


# --- all clusters -----------------------------------------------------------------------------------------------------


def summarize(chain: Chain, clusters: Mapping[str, Sequence[ConditionFinding]]) -> list[ConditionFinding]:
    """What holds of all these clusters together; nothing, if there are none."""
    return list(_iter_summary(chain, clusters)) if clusters else []


def _iter_summary(chain: Chain, clusters: Mapping[str, Sequence[ConditionFinding]]) -> Iterator[ConditionFinding]:
    for position, stage in enumerate(chain):
        by_cluster = {cluster: findings[position] for cluster, findings in clusters.items()}
        worst = _find_worst(finding.status for finding in by_cluster.values())
        yield _summarize_stage(stage, worst, by_cluster)
        if worst != TRUE:
            return


def _find_worst(statuses: Iterable[str]) -> str:
    seen = set(statuses)
    return UNKNOWN if UNKNOWN in seen else FALSE if FALSE in seen else TRUE


def _summarize_stage(stage: Stage, status: str, by_cluster: Mapping[str, ConditionFinding]) -> ConditionFinding:
    if status == TRUE:
        return _summarize_true_stage(stage, by_cluster)
    concerned = sorted(cluster for cluster, finding in by_cluster.items() if finding.status == status)
    if status == UNKNOWN:
        return ConditionFinding(stage.name, status, stage.unknown, messages.waiting(stage.name, concerned))
    first = by_cluster[concerned[0]]
    text = messages.failing(stage.name, concerned, cause=first.message or first.reason)
    return ConditionFinding(stage.name, status, stage.false, text)


def _summarize_true_stage(stage: Stage, by_cluster: Mapping[str, ConditionFinding]) -> ConditionFinding:
    if stage is OVERRIDDEN and all(finding.reason == NO_OVERRIDE for finding in by_cluster.values()):
        return ConditionFinding(stage.name, TRUE, NO_OVERRIDE, messages.NO_OVERRIDE)
    return ConditionFinding(stage.name, TRUE, stage.true, messages.done(stage.name, len(by_cluster)))
