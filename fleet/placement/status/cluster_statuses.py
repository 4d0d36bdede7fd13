"""The per-cluster part of a placement's status: one entry per picked cluster, then one per place left empty.

Scheduling comes from the policy snapshot, everything later from the cluster's binding. An entry's transition times
carry over from the entry the cluster had before; those of empty places from the place at the same position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from fleet.model.keys import PICK_FIXED, PICK_N, UNSCHEDULED
from fleet.model.views import BindingReport, ClusterDecision, Condition, PerClusterPlacementStatus, PlacementPolicy
from fleet.placement.status.conditions import (
    APPLIED,
    AVAILABLE,
    CLUSTER_NOT_SCHEDULED,
    CLUSTER_SCHEDULED,
    DIFF_REPORTED,
    FALSE,
    SCHEDULED,
    TRUE,
    Chain,
    ConditionFinding,
    build_findings,
    index_by_type,
)

MOST_LISTED: Final = 100
"""Objects in a list of failed, drifted or different ones."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedDecision:
    """What the scheduler published for the policy snapshot in force."""

    snapshot: str
    """Its name: bindings of other snapshots say nothing about this decision."""
    policy: PlacementPolicy
    wanted: int | None
    """The number of clusters of a PickN policy."""
    decisions: Sequence[ClusterDecision]

    @property
    def selected(self) -> list[ClusterDecision]:
        return [decision for decision in self.decisions if decision.selected]

    @property
    def unfilled(self) -> list[ClusterDecision]:
        """Why places stayed empty, one decision for each."""
        refused = [decision for decision in self.decisions if not decision.selected]
        return refused[: max(0, self._places - len(self.selected))]

    @property
    def _places(self) -> int:
        if self.policy.placement_type == PICK_N:
            return self.wanted or 0
        return len(self.policy.cluster_names) if self.policy.placement_type == PICK_FIXED else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterProgress:
    """One picked cluster."""

    decision: ClusterDecision
    binding: BindingReport | None
    findings: Sequence[ConditionFinding]
    index: str
    """Of the resource snapshot it is to have; empty where that is not decided, or the snapshot is gone."""

    @property
    def cluster(self) -> str:
        return self.decision.cluster_name


def build_progress(
    decided: PublishedDecision,
    bindings: Iterable[BindingReport],
    *,
    chain: Chain,
    master: str | None,
    index_of: Callable[[str], str],
) -> list[ClusterProgress]:
    """In the scheduler's order. `master` as in `conditions.reached`."""
    by_cluster = _by_cluster(decided.snapshot, bindings)
    progress = []
    for decision in decided.selected:
        binding = by_cluster.get(decision.cluster_name)
        findings = build_findings(chain, decision.cluster_name, binding, master=master)
        name = "" if binding is None else binding.spec.resource_snapshot_name
        index = index_of(name) if name else ""
        progress.append(ClusterProgress(decision=decision, binding=binding, findings=findings, index=index))
    return progress


def entries(
    progress: Sequence[ClusterProgress],
    unfilled: Sequence[ClusterDecision],
    *,
    before: Sequence[PerClusterPlacementStatus],
    generation: int,
    now: str,
) -> list[Json]:
    known = {status.cluster_name: index_by_type(status.conditions) for status in before if status.cluster_name}
    empty = [index_by_type(status.conditions) for status in before if not status.cluster_name]
    empty += [{}] * (len(unfilled) - len(empty))

    def dated(findings: Iterable[ConditionFinding], earlier: Mapping[str, Condition]) -> list[Json]:
        return [finding.dated(earlier.get(finding.type), generation=generation, now=now) for finding in findings]

    taken = [
        {
            **_details(cluster),
            "conditions": dated([_picked(cluster.decision), *cluster.findings], known.get(cluster.cluster, {})),
        }
        for cluster in progress
    ]
    return taken + [
        {"conditions": dated([_refused(decision)], earlier)} for decision, earlier in zip(unfilled, empty, strict=False)
    ]


def _by_cluster(snapshot: str, bindings: Iterable[BindingReport]) -> dict[str, BindingReport]:
    """The binding that counts for each cluster. Should there be several, one that is being given up counts last."""
    counting = [
        binding
        for binding in bindings
        if binding.spec.scheduling_policy_snapshot_name == snapshot and not binding.metadata.deletion_timestamp
    ]
    counting.sort(key=lambda binding: (binding.spec.state != UNSCHEDULED, binding.metadata.name))
    return {binding.spec.target_cluster: binding for binding in counting}


def _picked(decision: ClusterDecision) -> ConditionFinding:
    return ConditionFinding(SCHEDULED.name, TRUE, CLUSTER_SCHEDULED, decision.reason)


def _refused(decision: ClusterDecision) -> ConditionFinding:
    return ConditionFinding(SCHEDULED.name, FALSE, CLUSTER_NOT_SCHEDULED, decision.reason)


# --- what a binding tells beside its conditions -----------------------------------------------------------------------


def _details(progress: ClusterProgress) -> Json:
    details: Json = {"clusterName": progress.cluster}
    if progress.index:
        details["observedResourceIndex"] = progress.index
    if progress.binding is not None:
        details |= _overrides(progress.binding) | _objects(progress.binding, progress.findings)
    return details


def _overrides(binding: BindingReport) -> Json:
    overrides = {
        "applicableResourceOverrides": [msgspec.json.decode(name) for name in binding.spec.resource_override_snapshots],
        "applicableClusterResourceOverrides": list(binding.spec.cluster_resource_override_snapshots),
    }
    return {field: names for field, names in overrides.items() if names}


def _objects(binding: BindingReport, findings: Sequence[ConditionFinding]) -> Json:
    statuses = {finding.type: finding.status for finding in findings}
    failed = FALSE in (statuses.get(APPLIED.name), statuses.get(AVAILABLE.name))
    differing = failed or statuses.get(DIFF_REPORTED.name) == TRUE
    status = binding.status
    lists = {
        "failedPlacements": _cut(status.failed_placements) if failed else [],
        "driftedPlacements": _cut(status.drifted_placements),
        "diffedPlacements": _cut(status.diffed_placements) if differing else [],
    }
    return {field: objects for field, objects in lists.items() if objects}


def _cut(objects: Sequence[msgspec.Raw]) -> list[Json]:
    """Sorted before it is cut: which objects are shown must not depend on the order in which a member reports."""
    decoded: list[Json] = [msgspec.json.decode(placed) for placed in objects]
    return sorted(decoded, key=_identity)[:MOST_LISTED]


def _identity(placed: Json) -> tuple[str, ...]:
    envelope = placed.get("envelope") or {}
    names = [placed.get(field, "") for field in ("group", "version", "kind", "namespace", "name")]
    return (*names, *(envelope.get(field, "") for field in ("type", "namespace", "name")))
