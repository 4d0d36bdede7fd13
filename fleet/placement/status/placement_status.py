"""The status of a placement: `DesiredStatus`, and the document built from it and the current status.

The two are separate because the placement may change before the status is written. `DesiredStatus` is built once per
reconcile from the snapshot, the bindings and the selected objects; `build_status` turns it into a status for the
placement as it was read, and runs again after a conflict. A part that is None stays as it was: while the scheduler is
at work, readers keep the last known state, recognizably old by its observed generation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from fleet.model.decoding import decode
from fleet.model.keys import SCHEDULED_CONDITION
from fleet.model.views import (
    ClusterDecision,
    Observed,
    Placement,
    PlacementSpec,
    PlacementStatus,
    PolicySnapshot,
)
from fleet.placement.status import messages
from fleet.placement.status.cluster_statuses import ClusterProgress, build_entries
from fleet.placement.status.conditions import (
    ALL_STAGES,
    APPLYING,
    EXTERNALLY_CONTROLLED,
    FALSE,
    INVALID_SELECTORS,
    REPORTING_DIFFS,
    ROLLOUT_STARTED,
    SCHEDULED,
    STATUS_SYNCED,
    TRUE,
    UNKNOWN,
    Chain,
    ConditionFinding,
    index_by_type,
    summarize,
)

Json = dict[str, Any]

EXTERNAL: Final = "External"
REPORT_DIFF: Final = "ReportDiff"

_OURS: Final = frozenset({"conditions", "observedResourceIndex", "selectedResources", "placementStatuses"})
_TIMES: Final = frozenset(
    {"lastTransitionTime", "observationTime", "firstDriftedObservedTime", "firstDiffedObservedTime"}
)


def decode_status(placement: Observed[Placement]) -> Json:
    """Without reading the spec over again."""
    status: Json | None = msgspec.json.decode(bytes(placement.view.status) or b"{}")
    return status or {}


def is_external(spec: PlacementSpec) -> bool:
    """Whether staged update runs control the rollout."""
    return spec.strategy.type == EXTERNAL


def select_chain(spec: PlacementSpec) -> Chain:
    strategy = spec.strategy.apply_strategy
    return REPORTING_DIFFS if strategy is not None and strategy.type == REPORT_DIFF else APPLYING


# --- the desired status -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedSnapshot:
    """The resource snapshot that the status is about."""

    index: str = ""
    resources: Sequence[Mapping[str, str]] = ()
    """Identifiers of the objects in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredStatus:
    scheduled: ConditionFinding
    reported: ReportedSnapshot | None = None
    later: Sequence[ConditionFinding] | None = None
    clusters: Sequence[ClusterProgress] | None = None
    unfilled: Sequence[ClusterDecision] = ()
    synced: ConditionFinding | None = None

    def with_synced(self, synced: ConditionFinding) -> DesiredStatus:
        return replace(self, synced=synced)


def build_rejected(problem: str) -> DesiredStatus:
    """For invalid selectors: no snapshot was changed, so no other part of the status changes."""
    return DesiredStatus(scheduled=ConditionFinding(SCHEDULED.name, FALSE, INVALID_SELECTORS, problem))


def build_pending(generation: int, reported: ReportedSnapshot | None) -> DesiredStatus:
    return DesiredStatus(scheduled=_build_unscheduled_finding(generation), reported=reported)


def read_scheduled_condition(snapshot: PolicySnapshot, generation: int) -> ConditionFinding:
    """The scheduler's result for this generation of the placement; Unknown if there is none yet."""
    condition = next(
        (condition for condition in snapshot.status.conditions if condition.type == SCHEDULED_CONDITION), None
    )
    if (
        condition is None
        or condition.status not in (TRUE, FALSE)
        or condition.observed_generation < snapshot.metadata.generation
        or snapshot.status.observed_crp_generation < generation
    ):
        return _build_unscheduled_finding(generation)
    return ConditionFinding(SCHEDULED.name, condition.status, condition.reason, condition.message)


def build_scheduled(
    condition: ConditionFinding,
    *,
    reported: ReportedSnapshot | None,
    chain: Chain,
    clusters: Sequence[ClusterProgress],
    unfilled: Sequence[ClusterDecision],
) -> DesiredStatus:
    findings = {cluster.cluster: cluster.findings for cluster in clusters}
    later = summarize(chain, findings, overridden=any(cluster.overridden for cluster in clusters))
    return DesiredStatus(scheduled=condition, reported=reported, later=later, clusters=clusters, unfilled=unfilled)


def build_externally_controlled(desired: DesiredStatus, *, runs: Sequence[str]) -> DesiredStatus:
    """For clusters that run no common version, while staged update runs control the rollout."""
    held = ConditionFinding(
        ROLLOUT_STARTED.name, UNKNOWN, EXTERNALLY_CONTROLLED, messages.describe_external_control(runs)
    )
    return replace(desired, reported=ReportedSnapshot(), later=[held] if desired.clusters else [])


def _build_unscheduled_finding(generation: int) -> ConditionFinding:
    return ConditionFinding(SCHEDULED.name, UNKNOWN, SCHEDULED.unknown, messages.describe_unscheduled(generation))


# --- the document -----------------------------------------------------------------------------------------------------


def build_status(desired: DesiredStatus, placement: Observed[Placement], old: Json, *, prefix: str, now: str) -> Json:
    """The status to write, from the decoded `old` one. Fields and conditions of other writers stay."""
    before = decode(bytes(placement.view.status) or b"{}", PlacementStatus).view
    generation = placement.view.metadata.generation
    status = {field: value for field, value in old.items() if field not in _OURS}
    status["conditions"] = _conditions(desired, old, before, generation=generation, prefix=prefix, now=now)
    status |= _build_snapshot_fields(desired.reported, old)
    if desired.clusters is None:
        status["placementStatuses"] = old.get("placementStatuses", [])
    else:
        status["placementStatuses"] = build_entries(
            desired.clusters,
            desired.unfilled,
            before=before.placement_statuses,
            generation=generation,
            now=now,
        )
    return {field: value for field, value in status.items() if value or field not in _OURS}


def _conditions(
    desired: DesiredStatus, old: Json, before: PlacementStatus, *, generation: int, prefix: str, now: str
) -> list[Json]:
    known = index_by_type(before.conditions)

    def build_condition(finding: ConditionFinding) -> Json:
        earlier = known.get(prefix + finding.type)
        return finding.build_condition(earlier, generation=generation, now=now, prefix=prefix)

    replaced = {prefix + SCHEDULED.name}
    condition = [build_condition(desired.scheduled)]
    if desired.later is not None:
        replaced |= {prefix + stage.name for stage in ALL_STAGES}
        condition += [build_condition(finding) for finding in desired.later]
    if desired.synced is not None:
        replaced.add(prefix + STATUS_SYNCED)
    kept = [condition for condition in old.get("conditions") or () if condition.get("type") not in replaced]
    return condition + kept + ([build_condition(desired.synced)] if desired.synced is not None else [])


def _build_snapshot_fields(reported: ReportedSnapshot | None, old: Json) -> Json:
    if reported is None:
        return {field: old[field] for field in ("observedResourceIndex", "selectedResources") if field in old}
    return {
        "observedResourceIndex": reported.index,
        "selectedResources": [dict(identifier) for identifier in reported.resources],
    }


def is_same_but_for_times(status: Any, other: Any) -> bool:
    """Compares the parts only where the whole is not equal already."""
    if status == other:
        return True
    if isinstance(status, dict) and isinstance(other, dict):
        fields = status.keys() - _TIMES
        if fields != other.keys() - _TIMES:
            return False
        pairs: Iterable[tuple[Any, Any]] = [(status[field], other[field]) for field in fields]
    elif isinstance(status, list) and isinstance(other, list) and len(status) == len(other):
        pairs = zip(status, other, strict=True)
    else:
        return False
    return all(value == compared or is_same_but_for_times(value, compared) for value, compared in pairs)
