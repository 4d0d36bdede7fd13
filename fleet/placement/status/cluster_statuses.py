"""The per-cluster part of a placement's status: one entry per selected cluster, then one per unfilled slot.

Scheduling is read from the policy snapshot, all later stages from the cluster's binding. Transition times are kept from
the previous entry of the cluster; those of unfilled slots from the slot at the same position.
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
"""Maximum length of a list of failed, drifted or different objects."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedDecision:
    """The decision that the scheduler published in the status of the latest policy snapshot."""

    snapshot: str
    """Its name: bindings of other snapshots do not belong to this decision."""
    policy: PlacementPolicy
    wanted: int | None
    """The number of clusters of a PickN policy."""
    decisions: Sequence[ClusterDecision]

    @property
    def selected(self) -> list[ClusterDecision]:
        return [decision for decision in self.decisions if decision.selected]

    @property
    def unfilled(self) -> list[ClusterDecision]:
        """One rejected decision, with its reason, per unfilled slot."""
        refused = [decision for decision in self.decisions if not decision.selected]
        return refused[: max(0, self._slots - len(self.selected))]

    @property
    def _slots(self) -> int:
        if self.policy.placement_type == PICK_N:
            return self.wanted or 0
        return len(self.policy.cluster_names) if self.policy.placement_type == PICK_FIXED else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterProgress:
    """One selected cluster."""

    decision: ClusterDecision
    binding: BindingReport | None
    findings: Sequence[ConditionFinding]
    index: str
    """Index of its resource snapshot; empty if the binding has none, or the snapshot is deleted."""

    @property
    def cluster(self) -> str:
        return self.decision.cluster_name

    @property
    def overridden(self) -> bool:
        spec = self.binding.spec if self.binding else None
        return spec is not None and bool(spec.resource_override_snapshots or spec.cluster_resource_override_snapshots)


def build_progress(
    published: PublishedDecision,
    bindings: Iterable[BindingReport],
    *,
    chain: Chain,
    master: str | None,
    index_of: Callable[[str], str],
) -> list[ClusterProgress]:
    """In the scheduler's order. `master` as in `conditions.reached`."""
    by_cluster = _by_cluster(published.snapshot, bindings)
    progress = []
    for decision in published.selected:
        binding = by_cluster.get(decision.cluster_name)
        findings = build_findings(chain, decision.cluster_name, binding, master=master)
        name = "" if binding is None else binding.spec.resource_snapshot_name
        index = index_of(name) if name else ""
        progress.append(ClusterProgress(decision=decision, binding=binding, findings=findings, index=index))
    return progress


def build_entries(
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

    def build_condition(findings: Iterable[ConditionFinding], earlier: Mapping[str, Condition]) -> list[Json]:
        return [
            finding.build_condition(earlier.get(finding.type), generation=generation, now=now) for finding in findings
        ]

    taken = [
        {
            **_build_details(cluster),
            "conditions": build_condition(
                [_build_selected_finding(cluster.decision), *cluster.findings], known.get(cluster.cluster, {})
            ),
        }
        for cluster in progress
    ]
    return taken + [
        {"conditions": build_condition([_build_refused_finding(decision)], earlier)}
        for decision, earlier in zip(unfilled, empty, strict=False)
    ]


def _by_cluster(snapshot: str, bindings: Iterable[BindingReport]) -> dict[str, BindingReport]:
    """One binding per cluster. If there are several, one that is not Unscheduled wins."""
    counting = [
        binding
        for binding in bindings
        if binding.spec.scheduling_policy_snapshot_name == snapshot and not binding.metadata.deletion_timestamp
    ]
    counting.sort(key=lambda binding: (binding.spec.state != UNSCHEDULED, binding.metadata.name))
    return {binding.spec.target_cluster: binding for binding in counting}


def _build_selected_finding(decision: ClusterDecision) -> ConditionFinding:
    return ConditionFinding(SCHEDULED.name, TRUE, CLUSTER_SCHEDULED, decision.reason)


def _build_refused_finding(decision: ClusterDecision) -> ConditionFinding:
    return ConditionFinding(SCHEDULED.name, FALSE, CLUSTER_NOT_SCHEDULED, decision.reason)


# --- other fields from the binding ------------------------------------------------------------------------------------


def _build_details(progress: ClusterProgress) -> Json:
    details: Json = {"clusterName": progress.cluster}
    if progress.index:
        details["observedResourceIndex"] = progress.index
    if progress.binding is not None:
        details |= _build_overrides(progress.binding) | _build_object_lists(progress.binding, progress.findings)
    return details


def _build_overrides(binding: BindingReport) -> Json:
    overrides = {
        "applicableResourceOverrides": [msgspec.json.decode(name) for name in binding.spec.resource_override_snapshots],
        "applicableClusterResourceOverrides": list(binding.spec.cluster_resource_override_snapshots),
    }
    return {field: names for field, names in overrides.items() if names}


def _build_object_lists(binding: BindingReport, findings: Sequence[ConditionFinding]) -> Json:
    statuses = {finding.type: finding.status for finding in findings}
    failed = FALSE in (statuses.get(APPLIED.name), statuses.get(AVAILABLE.name))
    differing = failed or statuses.get(DIFF_REPORTED.name) == TRUE
    status = binding.status
    lists = {
        "failedPlacements": _sort_and_cut(status.failed_placements) if failed else [],
        "driftedPlacements": _sort_and_cut(status.drifted_placements),
        "diffedPlacements": _sort_and_cut(status.diffed_placements) if differing else [],
    }
    return {field: objects for field, objects in lists.items() if objects}


def _sort_and_cut(objects: Sequence[msgspec.Raw]) -> list[Json]:
    """Sorted before it is cut, so that the listed objects do not depend on the order in which a member reports."""
    decoded: list[Json] = [msgspec.json.decode(placed) for placed in objects]
    return sorted(decoded, key=_sort_key)[:MOST_LISTED]


def _sort_key(placed: Json) -> tuple[str, ...]:
    envelope = placed.get("envelope") or {}
    names = [placed.get(field, "") for field in ("group", "version", "kind", "namespace", "name")]
    return (*names, *(envelope.get(field, "") for field in ("type", "namespace", "name")))
