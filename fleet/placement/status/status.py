"""The status of a placement: `DesiredStatus`, and the document built from it and the current status.

The two are separate because the placement may change before the status is written. `DesiredStatus` is built once per
reconcile from the snapshot, the bindings and the selected objects; `build_status` turns it into a status for the
placement as it was read, and runs again after a conflict. A part that is None stays as it was: while the scheduler is
at work, readers keep the last known state, recognizably old by its observed generation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

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
from fleet.placement.status.cluster_statuses import ClusterProgress, entries
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


def spec_of(placement: Observed[Placement]) -> PlacementSpec:
    return decode(bytes(placement.view.spec), PlacementSpec).view


def status_of(placement: Observed[Placement]) -> PlacementStatus:
    return decode(bytes(placement.view.status) or b"{}", PlacementStatus).view


def is_external(spec: PlacementSpec) -> bool:
    """Whether staged update runs decide what the clusters get, instead of a rollout of ours."""
    return spec.strategy.type == EXTERNAL


def chain_of(spec: PlacementSpec) -> Chain:
    strategy = spec.strategy.apply_strategy
    return REPORTING_DIFFS if strategy is not None and strategy.type == REPORT_DIFF else APPLYING


# --- what is to be said -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedSnapshot:
    """The resource snapshot that the status is about."""

    index: str = ""
    resources: Sequence[Mapping[str, str]] = ()
    """Identifiers of the objects in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredStatus:
    scheduled: ConditionFinding
    shown: ReportedSnapshot | None = None
    later: Sequence[ConditionFinding] | None = None
    clusters: Sequence[ClusterProgress] | None = None
    unfilled: Sequence[ClusterDecision] = ()
    synced: ConditionFinding | None = None

    def with_synced(self, synced: ConditionFinding) -> DesiredStatus:
        return replace(self, synced=synced)


def build_rejected(problem: str) -> DesiredStatus:
    """Nothing was touched because of it, so nothing else changes."""
    return DesiredStatus(scheduled=ConditionFinding(SCHEDULED.name, FALSE, INVALID_SELECTORS, problem))


def build_pending(generation: int, shown: ReportedSnapshot | None) -> DesiredStatus:
    return DesiredStatus(scheduled=_not_scheduled(generation), shown=shown)


def read_scheduled_condition(snapshot: PolicySnapshot, generation: int) -> ConditionFinding:
    """What the scheduler says about this generation of the placement; Unknown, if that is still to come."""
    said = next((condition for condition in snapshot.status.conditions if condition.type == SCHEDULED_CONDITION), None)
    if (
        said is None
        or said.status not in (TRUE, FALSE)
        or said.observed_generation < snapshot.metadata.generation
        or snapshot.status.observed_crp_generation < generation
    ):
        return _not_scheduled(generation)
    return ConditionFinding(SCHEDULED.name, said.status, said.reason, said.message)


def scheduled(
    said: ConditionFinding,
    *,
    shown: ReportedSnapshot | None,
    chain: Chain,
    clusters: Sequence[ClusterProgress],
    unfilled: Sequence[ClusterDecision],
) -> DesiredStatus:
    later = summarize(chain, {cluster.cluster: cluster.findings for cluster in clusters})
    return DesiredStatus(scheduled=said, shown=shown, later=later, clusters=clusters, unfilled=unfilled)


def build_external(statement: DesiredStatus, *, runs: Sequence[str]) -> DesiredStatus:
    """Clusters run different versions, or none, and others decide when that changes."""
    held = ConditionFinding(ROLLOUT_STARTED.name, UNKNOWN, EXTERNALLY_CONTROLLED, messages.controlled_by(runs))
    return replace(statement, shown=ReportedSnapshot(), later=[held] if statement.clusters else [])


def _not_scheduled(generation: int) -> ConditionFinding:
    return ConditionFinding(SCHEDULED.name, UNKNOWN, SCHEDULED.unknown, messages.not_scheduled(generation))


# --- the document -----------------------------------------------------------------------------------------------------


def build_status(statement: DesiredStatus, placement: Observed[Placement], *, prefix: str, now: str) -> Json:
    """The status to write. Fields and conditions of others stay."""
    old: Json = placement.document().get("status") or {}
    before = status_of(placement)
    generation = placement.view.metadata.generation
    status = {field: value for field, value in old.items() if field not in _OURS}
    status["conditions"] = _conditions(statement, old, before, generation=generation, prefix=prefix, now=now)
    status |= _shown(statement.shown, old)
    if statement.clusters is None:
        status["placementStatuses"] = old.get("placementStatuses", [])
    else:
        status["placementStatuses"] = entries(
            statement.clusters,
            statement.unfilled,
            before=before.placement_statuses,
            generation=generation,
            now=now,
        )
    return {field: value for field, value in status.items() if value or field not in _OURS}


def _conditions(
    statement: DesiredStatus, old: Json, before: PlacementStatus, *, generation: int, prefix: str, now: str
) -> list[Json]:
    known = index_by_type(before.conditions)

    def dated(finding: ConditionFinding) -> Json:
        earlier = known.get(prefix + finding.type)
        return finding.dated(earlier, generation=generation, now=now, prefix=prefix)

    replaced = {prefix + SCHEDULED.name}
    said = [dated(statement.scheduled)]
    if statement.later is not None:
        replaced |= {prefix + stage.name for stage in ALL_STAGES}
        said += [dated(finding) for finding in statement.later]
    if statement.synced is not None:
        replaced.add(prefix + STATUS_SYNCED)
    kept = [condition for condition in old.get("conditions") or () if condition.get("type") not in replaced]
    return said + kept + ([dated(statement.synced)] if statement.synced is not None else [])


def _shown(shown: ReportedSnapshot | None, old: Json) -> Json:
    if shown is None:
        return {field: old[field] for field in ("observedResourceIndex", "selectedResources") if field in old}
    return {
        "observedResourceIndex": shown.index,
        "selectedResources": [dict(identifier) for identifier in shown.resources],
    }


def is_same_but_for_times(status: Json, other: Json) -> bool:
    return status == other or _timeless(status) == _timeless(other)


def _timeless(value: Any) -> object:
    if isinstance(value, dict):
        return {key: _timeless(item) for key, item in value.items() if key not in _TIMES}
    return [_timeless(item) for item in value] if isinstance(value, list) else value
