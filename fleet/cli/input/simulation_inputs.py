"""Inputs of a simulation: the clusters, and each placement with its policy snapshot and bindings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from fleet.cli.input.documents import parse_documents
from fleet.cli.input.files import read_texts
from fleet.cli.input.objects import InputObject, read_objects
from fleet.cli.input.problems import Findings
from fleet.framework.request import PlacementRequest, compile_request
from fleet.kube.resource import join_key
from fleet.model.keys import (
    IS_LATEST_SNAPSHOT,
    NUMBER_OF_CLUSTERS,
    PARENT_PLACEMENT,
    PICK_N,
    PLACEMENT_GENERATION,
    POLICY_INDEX,
)
from fleet.model.timestamps import timestamp_or_none
from fleet.model.views import Binding, MemberCluster, Metadata, PlacementPolicy, PolicySnapshot, PolicySnapshotSpec

CLUSTER_PLACEMENT: Final = "ClusterResourcePlacement"
NAMESPACED_PLACEMENT: Final = "ResourcePlacement"
_PLACEMENTS: Final = (CLUSTER_PLACEMENT, NAMESPACED_PLACEMENT)
_SNAPSHOTS: Final = ("ClusterSchedulingPolicySnapshot", "SchedulingPolicySnapshot")
_BINDINGS: Final = ("ClusterResourceBinding", "ResourceBinding")

PlacementKey = tuple[str, str]
"""Namespace, empty for a ClusterResourcePlacement, and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementInputs:
    """The inputs of one placement."""

    kind: str
    request: PlacementRequest
    snapshot: PolicySnapshot
    bindings: tuple[Binding, ...]
    from_placement: bool
    """Whether the policy is the placement's own, because the files contain no latest policy snapshot."""


@dataclass(frozen=True, slots=True)
class SimulationInputs:
    clusters: tuple[MemberCluster, ...]
    placements: tuple[PlacementInputs, ...]

    def cluster_names(self) -> set[str]:
        """Names of all clusters, including those that only policies and bindings mention."""
        names = {cluster.metadata.name for cluster in self.clusters}
        for placement in self.placements:
            names |= {
                *placement.request.cluster_names,
                *(binding.spec.target_cluster for binding in placement.bindings),
            }
        return names

    def newest_heartbeat(self) -> int | None:
        beats = (agent.last_received_heartbeat for cluster in self.clusters for agent in cluster.status.agent_status)
        known = [moment for moment in map(timestamp_or_none, beats) if moment is not None]
        return max(known, default=None)


def read_inputs(names: Iterable[str], findings: Findings) -> SimulationInputs:
    """The content of the files. If `findings` has problems, do not decide."""
    parsed = (document for text in read_texts(names, findings) for document in parse_documents(text, findings))
    objects = read_objects(parsed, findings)
    _note_unused(objects, findings)
    clusters = tuple(item.view for item in objects if isinstance(item.view, MemberCluster))
    return SimulationInputs(clusters, tuple(_collect_placements(objects, findings)))


def _note_unused(objects: Sequence[InputObject], findings: Findings) -> None:
    used = ("MemberCluster", *_PLACEMENTS, *_SNAPSHOTS, *_BINDINGS)
    others = Counter(item.kind for item in objects if item.kind not in used)
    if others:
        listed = ", ".join(f"{count} {kind}" for kind, count in sorted(others.items()))
        findings.note(f"read, but ignored by scheduling: {listed}")


# --- placements and their policies ----------------------------------------------------------------------------------


def _collect_placements(objects: Sequence[InputObject], findings: Findings) -> Iterator[PlacementInputs]:
    placements = {(item.namespace, item.name): item for item in objects if item.kind in _PLACEMENTS}
    snapshots = _by_placement((item for item in objects if item.kind in _SNAPSHOTS), findings)
    bindings = _by_placement((item for item in objects if item.kind in _BINDINGS), findings)
    for key in sorted({*placements, *snapshots}):
        own = snapshots.get(key, [])
        inputs = _build_placement(key, placements.get(key), own, bindings.pop(key, []), findings)
        if inputs is not None:
            yield inputs
    for (namespace, name), orphans in sorted(bindings.items()):
        placement = join_key(namespace, name)
        subject = "1 binding belongs" if len(orphans) == 1 else f"{len(orphans)} bindings belong"
        findings.note(f"{subject} to placement {placement}, which is not in the files")


def _build_placement(
    key: PlacementKey,
    placement: InputObject | None,
    snapshots: list[InputObject],
    bindings: list[InputObject],
    findings: Findings,
) -> PlacementInputs | None:
    name = "/".join(part for part in key if part)
    if placement is not None and placement.document.metadata.deletion_timestamp:
        findings.note(f"placement {name} is being deleted and is skipped")
        return None
    latest = [
        snapshot for snapshot in snapshots if _view(snapshot).metadata.label(IS_LATEST_SNAPSHOT) in (None, "true")
    ]
    for snapshot in latest[1:]:
        message = f"{latest[0]} is also marked as the latest policy of placement {name}; only one can be"
        snapshot.report(findings, ("metadata", "labels", IS_LATEST_SNAPSHOT), message)
    views = tuple(binding.view for binding in bindings if isinstance(binding.view, Binding))
    if latest:
        return _from_snapshot(latest[0], placement, views, findings)
    if placement is not None:
        return _from_placement(placement, snapshots, views, findings)
    findings.note(f"placement {name}: neither the placement nor its latest policy snapshot is in the files")
    return None


def _from_snapshot(
    latest: InputObject, placement: InputObject | None, bindings: tuple[Binding, ...], findings: Findings
) -> PlacementInputs:
    uid = placement.document.metadata.uid if placement else _owner_uid(latest)
    request = compile_request(_view(latest), placement_uid=uid)
    if placement is not None and _policy_of(latest, request.wanted) != _policy_of(placement):
        _note_difference(request, findings)
    return _build_inputs(request, _view(latest), bindings, from_placement=False)


def _from_placement(
    placement: InputObject, snapshots: Sequence[InputObject], bindings: tuple[Binding, ...], findings: Findings
) -> PlacementInputs:
    made = _build_snapshot(placement, snapshots)
    request = compile_request(made, placement_uid=placement.document.metadata.uid)
    _note_lost_policies(request, bindings, {snapshot.name for snapshot in snapshots}, findings)
    return _build_inputs(request, made, bindings, from_placement=True)


def _build_inputs(
    request: PlacementRequest, snapshot: PolicySnapshot, bindings: tuple[Binding, ...], *, from_placement: bool
) -> PlacementInputs:
    kind = NAMESPACED_PLACEMENT if request.namespace else CLUSTER_PLACEMENT
    return PlacementInputs(
        kind=kind, request=request, snapshot=snapshot, bindings=bindings, from_placement=from_placement
    )


def _view(snapshot: InputObject) -> PolicySnapshot:
    assert isinstance(snapshot.view, PolicySnapshot)
    return snapshot.view


def _by_placement(objects: Iterable[InputObject], findings: Findings) -> dict[PlacementKey, list[InputObject]]:
    grouped: dict[PlacementKey, list[InputObject]] = {}
    for item in objects:
        placement = (item.document.metadata.labels or {}).get(PARENT_PLACEMENT)
        if placement:
            grouped.setdefault((item.namespace, placement), []).append(item)
        else:
            message = f"metadata.labels[{PARENT_PLACEMENT}]: is required: it names the placement"
            item.report(findings, ("metadata", "labels"), message)
    return grouped


def _build_snapshot(placement: InputObject, existing: Sequence[InputObject]) -> PolicySnapshot:
    """The snapshot that the placement controller would create from the policy."""
    annotations = {PLACEMENT_GENERATION: str(placement.document.metadata.generation or 1)}
    policy = _policy_of(placement)
    if policy is not None and policy.placement_type == PICK_N:
        annotations[NUMBER_OF_CLUSTERS] = str(policy.number_of_clusters)
    index = _next_index(placement.name, existing)
    metadata = Metadata(
        name=f"{placement.name}-{index}",
        namespace=placement.namespace,
        generation=1,
        labels={PARENT_PLACEMENT: placement.name, IS_LATEST_SNAPSHOT: "true", POLICY_INDEX: str(index)},
        annotations=annotations,
    )
    return PolicySnapshot(metadata=metadata, spec=PolicySnapshotSpec(policy=policy))


def _policy_of(item: InputObject, wanted: int | None = None) -> PlacementPolicy | None:
    """The policy of a placement or a snapshot with the API server's defaults; of a snapshot, N is an annotation."""
    policy: Any = getattr(item.document, "spec").policy  # noqa: B009 (these kinds have it, their base class does not)
    if policy is None:
        return None
    given = policy.model_dump(mode="json", by_alias=True, exclude_none=True)
    return msgspec.convert(given if wanted is None else given | {"numberOfClusters": wanted}, PlacementPolicy)


def _next_index(placement: str, existing: Sequence[InputObject]) -> int:
    """After all existing snapshots: bindings that refer to a reused name would seem up to date."""
    prefix = f"{placement}-"
    taken = [snapshot.name.removeprefix(prefix) for snapshot in existing if snapshot.name.startswith(prefix)]
    return max((int(index) + 1 for index in taken if index.isdecimal()), default=0)


def _owner_uid(snapshot: InputObject) -> str:
    owners = snapshot.document.metadata.owner_references
    return next((owner.uid for owner in owners if owner.kind in _PLACEMENTS), "")


def _note_difference(used: PlacementRequest, findings: Findings) -> None:
    findings.note(
        f"placement {used.key}: scheduled by policy snapshot {used.snapshot}, which differs from the policy of the "
        f"placement; leave the snapshot out, or label it {IS_LATEST_SNAPSHOT}=false, to try the placement's own"
    )


def _note_lost_policies(
    request: PlacementRequest, bindings: Iterable[Binding], known: set[str], findings: Findings
) -> None:
    """Note bindings of missing snapshots, whose policy is unknown."""
    named = {binding.spec.scheduling_policy_snapshot_name for binding in bindings}
    lost = sorted(named - known - {request.snapshot})
    if lost:
        findings.note(
            f"placement {request.key}: bindings refer to {', '.join(lost)}, which is not in the files; "
            f"they are treated as bindings of an earlier policy"
        )
