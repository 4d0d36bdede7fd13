"""What a simulation is about: the clusters, and each placement with its policy snapshot and bindings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from fleet.cli.input.documents import parse
from fleet.cli.input.files import read_texts
from fleet.cli.input.objects import Object, read_objects
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
class Asked:
    """One placement to decide."""

    kind: str
    request: PlacementRequest
    snapshot: PolicySnapshot
    bindings: tuple[Binding, ...]
    from_placement: bool
    """Whether the policy was taken from the placement because the files hold no latest policy snapshot of it."""


@dataclass(frozen=True, slots=True)
class Inputs:
    clusters: tuple[MemberCluster, ...]
    asked: tuple[Asked, ...]

    def cluster_names(self) -> set[str]:
        """Of all clusters, and of those that only policies and bindings still name."""
        names = {one.metadata.name for one in self.clusters}
        for asked in self.asked:
            names |= {*asked.request.cluster_names, *(one.spec.target_cluster for one in asked.bindings)}
        return names

    def newest_heartbeat(self) -> int | None:
        beats = (agent.last_received_heartbeat for one in self.clusters for agent in one.status.agent_status)
        known = [moment for moment in map(timestamp_or_none, beats) if moment is not None]
        return max(known, default=None)


def read_inputs(names: Iterable[str], findings: Findings) -> Inputs:
    """Everything in the named files; what is wrong is in `findings`, and nothing should be decided then."""
    parsed = (one for text in read_texts(names, findings) for one in parse(text, findings))
    objects = read_objects(parsed, findings)
    _note_bystanders(objects, findings)
    clusters = tuple(one.view for one in objects if isinstance(one.view, MemberCluster))
    return Inputs(clusters, tuple(_asked(objects, findings)))


def _note_bystanders(objects: Sequence[Object], findings: Findings) -> None:
    used = ("MemberCluster", *_PLACEMENTS, *_SNAPSHOTS, *_BINDINGS)
    others = Counter(one.kind for one in objects if one.kind not in used)
    if others:
        listed = ", ".join(f"{count} {kind}" for kind, count in sorted(others.items()))
        findings.note(f"read, but without influence on where placements go: {listed}")


# --- placements and their policies ----------------------------------------------------------------------------------


def _asked(objects: Sequence[Object], findings: Findings) -> Iterator[Asked]:
    placements = {(one.namespace, one.name): one for one in objects if one.kind in _PLACEMENTS}
    snapshots = _by_placement((one for one in objects if one.kind in _SNAPSHOTS), findings)
    bindings = _by_placement((one for one in objects if one.kind in _BINDINGS), findings)
    for key in sorted({*placements, *snapshots}):
        own = snapshots.get(key, [])
        asked = _ask(key, placements.get(key), own, bindings.pop(key, []), findings)
        if asked is not None:
            yield asked
    for (namespace, name), orphans in sorted(bindings.items()):
        placement = join_key(namespace, name)
        subject = "1 binding belongs" if len(orphans) == 1 else f"{len(orphans)} bindings belong"
        findings.note(f"{subject} to placement {placement}, which is not in the files")


def _ask(
    key: PlacementKey, placement: Object | None, snapshots: list[Object], bindings: list[Object], findings: Findings
) -> Asked | None:
    name = "/".join(part for part in key if part)
    if placement is not None and placement.document.metadata.deletion_timestamp:
        findings.note(f"placement {name} is being deleted: nothing is decided for it")
        return None
    latest = [one for one in snapshots if _view(one).metadata.label(IS_LATEST_SNAPSHOT) in (None, "true")]
    for one in latest[1:]:
        message = f"{latest[0]} is the latest policy of placement {name} too; only one can be"
        one.wrong(findings, ("metadata", "labels", IS_LATEST_SNAPSHOT), message)
    views = tuple(one.view for one in bindings if isinstance(one.view, Binding))
    if latest:
        return _by_snapshot(latest[0], placement, views, findings)
    if placement is not None:
        return _by_placement_itself(placement, snapshots, views, findings)
    findings.note(f"placement {name}: neither the placement nor its latest policy snapshot is in the files")
    return None


def _by_snapshot(latest: Object, placement: Object | None, bindings: tuple[Binding, ...], findings: Findings) -> Asked:
    uid = placement.document.metadata.uid if placement else _owner_uid(latest)
    request = compile_request(_view(latest), placement_uid=uid)
    if placement is not None and _wishes(latest, request.wanted) != _wishes(placement):
        _note_difference(request, findings)
    return _asked_of(request, _view(latest), bindings, from_placement=False)


def _by_placement_itself(
    placement: Object, snapshots: Sequence[Object], bindings: tuple[Binding, ...], findings: Findings
) -> Asked:
    made = _made_snapshot(placement, snapshots)
    request = compile_request(made, placement_uid=placement.document.metadata.uid)
    _note_lost_policies(request, bindings, {one.name for one in snapshots}, findings)
    return _asked_of(request, made, bindings, from_placement=True)


def _asked_of(
    request: PlacementRequest, snapshot: PolicySnapshot, bindings: tuple[Binding, ...], *, from_placement: bool
) -> Asked:
    kind = NAMESPACED_PLACEMENT if request.namespace else CLUSTER_PLACEMENT
    return Asked(kind=kind, request=request, snapshot=snapshot, bindings=bindings, from_placement=from_placement)


def _view(one: Object) -> PolicySnapshot:
    assert isinstance(one.view, PolicySnapshot)
    return one.view


def _by_placement(objects: Iterable[Object], findings: Findings) -> dict[PlacementKey, list[Object]]:
    found: dict[PlacementKey, list[Object]] = {}
    for one in objects:
        placement = (one.document.metadata.labels or {}).get(PARENT_PLACEMENT)
        if placement:
            found.setdefault((one.namespace, placement), []).append(one)
        else:
            message = f"metadata.labels[{PARENT_PLACEMENT}]: is required: it names the placement"
            one.wrong(findings, ("metadata", "labels"), message)
    return found


def _made_snapshot(placement: Object, existing: Sequence[Object]) -> PolicySnapshot:
    """The snapshot that the placement controller would make of the policy."""
    annotations = {PLACEMENT_GENERATION: str(placement.document.metadata.generation or 1)}
    policy = _wishes(placement)
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


def _wishes(one: Object, wanted: int | None = None) -> PlacementPolicy | None:
    """The policy of a placement or a snapshot with the API server's defaults; of a snapshot, N is an annotation."""
    policy: Any = getattr(one.document, "spec").policy  # noqa: B009 (the kinds that come here have it, their base not)
    if policy is None:
        return None
    given = policy.model_dump(mode="json", by_alias=True, exclude_none=True)
    return msgspec.convert(given if wanted is None else given | {"numberOfClusters": wanted}, PlacementPolicy)


def _next_index(placement: str, existing: Sequence[Object]) -> int:
    """Behind all snapshots there are: a name that bindings refer to already would pass them off as up to date."""
    prefix = f"{placement}-"
    taken = [one.name.removeprefix(prefix) for one in existing if one.name.startswith(prefix)]
    return max((int(index) + 1 for index in taken if index.isdecimal()), default=0)


def _owner_uid(snapshot: Object) -> str:
    owners = snapshot.document.metadata.owner_references
    return next((one.uid for one in owners if one.kind in _PLACEMENTS), "")


def _note_difference(used: PlacementRequest, findings: Findings) -> None:
    findings.note(
        f"placement {used.key}: decided by policy snapshot {used.snapshot}, which differs from the policy in the "
        f"placement; leave the snapshot out, or label it {IS_LATEST_SNAPSHOT}=false, to try the placement's own"
    )


def _note_lost_policies(
    request: PlacementRequest, bindings: Iterable[Binding], known: set[str], findings: Findings
) -> None:
    """Bindings of snapshots that nobody has seen: whether their policy was another one cannot be told."""
    named = {one.spec.scheduling_policy_snapshot_name for one in bindings}
    lost = sorted(named - known - {request.snapshot})
    if lost:
        findings.note(
            f"placement {request.key}: bindings refer to {', '.join(lost)}, which is not in the files; "
            f"they count as made for an earlier policy than the placement's"
        )
