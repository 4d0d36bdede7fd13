"""Inputs of a simulation: the clusters, and each placement with its policy snapshot and bindings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from fleet.cli.input.documents import ParsedDocument, parse_documents
from fleet.cli.input.files import read_texts
from fleet.cli.input.objects import InputObject, read_layers
from fleet.cli.input.problems import Findings
from fleet.framework.request import PlacementRequest, compile_request
from fleet.kube.resource import join_key
from fleet.model.keys import IS_LATEST_SNAPSHOT, PARENT_PLACEMENT, PICK_N, SCHEDULER_NAME
from fleet.model.timestamps import timestamp_or_none
from fleet.model.views import Binding, MemberCluster, PolicySnapshot
from fleet.placement.selection.proposed_selectors import find_proposed_problems
from fleet.placement.selection.resource_filter import EVERYTHING, ResourceFilter
from fleet.placement.snapshots.hashing import are_policies_equal
from fleet.placement.snapshots.proposal import propose_snapshot
from fleet.scheduler.ledgers.room_ledger import Applied, read_applied
from fleet.scheduler.profiles.frameworks import CompiledProfiles, describe_choice
from fleet.scheduler.requests import add_labels

CLUSTER_PLACEMENT: Final = "ClusterResourcePlacement"
NAMESPACED_PLACEMENT: Final = "ResourcePlacement"
PLACEMENT_KINDS: Final = (CLUSTER_PLACEMENT, NAMESPACED_PLACEMENT)
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
    applied: tuple[Applied, ...]
    """Of each binding, whether its cluster has got it."""
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


def read_inputs(
    names: Iterable[str], findings: Findings, *, resource_filter: ResourceFilter = EVERYTHING
) -> SimulationInputs:
    """The content of the files, later ones applied to earlier ones. If `findings` has problems, do not decide."""
    objects = read_layers(parse_layers(names, findings), findings)
    _note_unused(objects, findings)
    return build_inputs(objects, findings, resource_filter=resource_filter)


def parse_layers(names: Iterable[str], findings: Findings) -> Iterator[Iterator[ParsedDocument]]:
    """The documents of each file or folder; a file that is named twice is read once."""
    seen: set[str] = set()
    for name in names:
        texts = read_texts([name], findings, seen)
        yield (document for text in texts for document in parse_documents(text, findings))


def build_inputs(
    objects: Sequence[InputObject], findings: Findings, *, resource_filter: ResourceFilter = EVERYTHING
) -> SimulationInputs:
    clusters = tuple(item.view for item in objects if isinstance(item.view, MemberCluster))
    return SimulationInputs(clusters, tuple(_collect_placements(objects, findings, resource_filter)))


def leave_foreign(inputs: SimulationInputs, profiles: CompiledProfiles, findings: Findings) -> SimulationInputs:
    """Without the placements that name a profile which is not configured, as the scheduler leaves them alone."""
    own = []
    for placement in inputs.placements:
        name = placement.request.scheduler_name
        if profiles.is_foreign(name):
            served = ", ".join(profiles.by_name)
            findings.note(
                f"placement {placement.request.key}: left alone, because its scheduler is {describe_choice(name)}, "
                f"and the profiles here are {served}"
            )
        else:
            own.append(placement)
    return SimulationInputs(inputs.clusters, tuple(own))


def _note_unused(objects: Sequence[InputObject], findings: Findings) -> None:
    used = ("MemberCluster", *PLACEMENT_KINDS, *_SNAPSHOTS, *_BINDINGS)
    others = Counter(item.kind for item in objects if item.kind not in used)
    if others:
        listed = ", ".join(f"{count} {kind}" for kind, count in sorted(others.items()))
        findings.note(f"read, but ignored by scheduling: {listed}")


# --- placements and their policies ----------------------------------------------------------------------------------


def _collect_placements(
    objects: Sequence[InputObject], findings: Findings, resource_filter: ResourceFilter
) -> Iterator[PlacementInputs]:
    placements = {(item.namespace, item.name): item for item in objects if item.kind in PLACEMENT_KINDS}
    snapshots = _by_placement((item for item in objects if item.kind in _SNAPSHOTS), findings)
    bindings = _by_placement((item for item in objects if item.kind in _BINDINGS), findings)
    for key in sorted({*placements, *snapshots}):
        own = snapshots.get(key, [])
        inputs = _build_placement(key, placements.get(key), own, bindings.pop(key, []), findings, resource_filter)
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
    resource_filter: ResourceFilter,
) -> PlacementInputs | None:
    name = "/".join(part for part in key if part)
    if placement is not None and placement.metadata.deletion_timestamp:
        findings.note(f"placement {name} is being deleted and is skipped")
        return None
    latest = [
        snapshot for snapshot in snapshots if _view(snapshot).metadata.label(IS_LATEST_SNAPSHOT) in (None, "true")
    ]
    for snapshot in latest[1:]:
        message = f"{latest[0]} is also marked as the latest policy of placement {name}; only one can be"
        snapshot.report(findings, ("metadata", "labels", IS_LATEST_SNAPSHOT), message)
    if latest and (placement is None or placement.layer <= latest[0].layer):
        return _from_snapshot(latest[0], placement, bindings, findings)
    if placement is not None:
        return _from_placement(placement, snapshots, bindings, findings, resource_filter)
    findings.note(f"placement {name}: neither the placement nor its latest policy snapshot is in the files")
    return None


def _from_snapshot(
    latest: InputObject, placement: InputObject | None, bindings: Sequence[InputObject], findings: Findings
) -> PlacementInputs:
    uid = placement.metadata.uid if placement else _owner_uid(latest)
    name = placement.metadata.annotation(SCHEDULER_NAME) if placement else None
    annotations = _read_own(placement)
    request = compile_request(
        _view(latest), placement_uid=uid, scheduler_name=name or "", placement_annotations=annotations
    )
    if placement is not None and _differs(latest, request.wanted, placement):
        _note_difference(request, findings)
    return _build_inputs(request, _view(latest), bindings, from_placement=False)


def _from_placement(
    placement: InputObject,
    snapshots: Sequence[InputObject],
    bindings: Sequence[InputObject],
    findings: Findings,
    resource_filter: ResourceFilter,
) -> PlacementInputs:
    """By the snapshot that the placement controller would create, or keep, for the policy."""
    known = [snapshot.parsed.content for snapshot in snapshots]
    made = propose_snapshot(
        msgspec.structs.replace(placement.metadata, namespace=placement.namespace), read_policy(placement), known
    )
    spec = placement.parsed.content.get("spec") or {}
    selectors = find_proposed_problems(spec, namespace=placement.namespace, resource_filter=resource_filter)
    name = placement.metadata.annotation(SCHEDULER_NAME) or ""
    request = compile_request(
        made,
        placement_uid=placement.metadata.uid,
        scheduler_name=name,
        placement_annotations=_read_own(placement),
    ).add_problems(selectors)
    _note_lost_policies(request, _list_bindings(bindings), {snapshot.name for snapshot in snapshots}, findings)
    return _build_inputs(request, made, bindings, from_placement=True)


def _read_own(placement: InputObject | None) -> Mapping[str, str]:
    """What a placement says beside its policy."""
    return {} if placement is None else add_labels(placement.metadata.annotations or {}, placement.metadata.labels)


def _build_inputs(
    request: PlacementRequest, snapshot: PolicySnapshot, bindings: Sequence[InputObject], *, from_placement: bool
) -> PlacementInputs:
    return PlacementInputs(
        kind=NAMESPACED_PLACEMENT if request.namespace else CLUSTER_PLACEMENT,
        request=request,
        snapshot=snapshot,
        bindings=_list_bindings(bindings),
        applied=tuple(read_applied(msgspec.json.encode(binding.parsed.content)) for binding in bindings),
        from_placement=from_placement,
    )


def _list_bindings(bindings: Sequence[InputObject]) -> tuple[Binding, ...]:
    return tuple(binding.view for binding in bindings if isinstance(binding.view, Binding))


def _view(snapshot: InputObject) -> PolicySnapshot:
    assert isinstance(snapshot.view, PolicySnapshot)
    return snapshot.view


def _by_placement(objects: Iterable[InputObject], findings: Findings) -> dict[PlacementKey, list[InputObject]]:
    grouped: dict[PlacementKey, list[InputObject]] = {}
    for item in objects:
        owner = find_owner(item)
        if owner is not None:
            grouped.setdefault(owner, []).append(item)
        else:
            message = f"metadata.labels[{PARENT_PLACEMENT}]: is required: it names the placement"
            item.report(findings, ("metadata", "labels"), message)
    return grouped


def find_owner(item: InputObject) -> PlacementKey | None:
    """The placement of a snapshot or a binding."""
    placement = item.metadata.label(PARENT_PLACEMENT) if item.kind in (*_SNAPSHOTS, *_BINDINGS) else None
    return (item.namespace, placement) if placement else None


def _differs(snapshot: InputObject, wanted: int | None, placement: InputObject) -> bool:
    """Whether a snapshot has another policy than its placement, or another number of clusters."""
    policy = read_policy(placement) or {}
    number = policy.get("numberOfClusters") if policy.get("placementType") == PICK_N else None
    return number != wanted or not are_policies_equal(read_policy(snapshot), policy)


def read_policy(item: InputObject) -> dict[str, Any] | None:
    """The policy of a placement or a snapshot, with the API server's defaults."""
    given: dict[str, Any] | None = (item.parsed.content.get("spec") or {}).get("policy")
    if given is None or item.document is None:
        return given
    policy: Any = getattr(item.document, "spec").policy  # noqa: B009 (these kinds have it, their base class does not)
    return dict(policy.model_dump(mode="json", by_alias=True, exclude_none=True))


def _owner_uid(snapshot: InputObject) -> str:
    owners = snapshot.parsed.content["metadata"].get("ownerReferences") or ()
    return next((str(owner.get("uid", "")) for owner in owners if owner.get("kind") in PLACEMENT_KINDS), "")


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
