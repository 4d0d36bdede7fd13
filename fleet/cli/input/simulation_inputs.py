"""Inputs of a simulation: the clusters, and each placement with its policy snapshot and bindings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from fleet.cli.input.documents import ParsedDocument, parse_documents
from fleet.cli.input.files import read_texts
from fleet.cli.input.objects import InputObject, read_layers
from fleet.cli.input.problems import Findings
from fleet.framework.profiles.profile import CompiledProfile
from fleet.framework.request import PlacementRequest, compile_request
from fleet.kube.resource import join_key
from fleet.kube.scopes import CLUSTER_SCOPED, NAMESPACED
from fleet.model.keys import IS_LATEST_SNAPSHOT, NEVER, PARENT_PLACEMENT, PICK_N, SCHEDULER_NAME
from fleet.model.timestamps import timestamp_or_none
from fleet.model.views import Binding, MemberCluster, Metadata, PlacementOptions, PlacementQuota, PolicySnapshot
from fleet.placement.selection.proposed_selectors import find_proposed_problems
from fleet.placement.selection.resource_filter import EVERYTHING, ResourceFilter
from fleet.placement.snapshots.hashing import are_policies_equal
from fleet.placement.snapshots.proposal import propose_snapshot
from fleet.scheduler.companions import NO_COMPANION, Companion, read_companion, refuse_unusable
from fleet.scheduler.ledgers.room_ledger import Applied, read_applied
from fleet.scheduler.profiles.frameworks import CompiledProfiles, describe_choice
from fleet.scheduler.requests import add_labels

CLUSTER_PLACEMENT: Final = "ClusterResourcePlacement"
NAMESPACED_PLACEMENT: Final = "ResourcePlacement"
PLACEMENT_KINDS: Final = (CLUSTER_PLACEMENT, NAMESPACED_PLACEMENT)
_SNAPSHOTS: Final = ("ClusterSchedulingPolicySnapshot", "SchedulingPolicySnapshot")
_BINDINGS: Final = ("ClusterResourceBinding", "ResourceBinding")
OPTIONS_KINDS: Final = (CLUSTER_SCOPED.options.kind, NAMESPACED.options.kind)
QUOTA_KINDS: Final = (CLUSTER_SCOPED.quota.kind, NAMESPACED.quota.kind)

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
    metadata: Metadata
    """Of the placement; empty if the files have only its policy snapshot."""
    companion: Companion
    from_placement: bool
    """Whether the policy is the placement's own, because the files contain no latest policy snapshot."""

    @property
    def is_deleting(self) -> bool:
        return bool(self.metadata.deletion_timestamp)

    def prepare_request(self, profile: CompiledProfile) -> PlacementRequest:
        """With what only some profiles read."""
        companion = self.companion
        if not profile.evicts:
            return self.request
        return replace(
            self.request, priority=companion.priority or 0, never_preempts=companion.preemption_policy == NEVER
        )


@dataclass(frozen=True, slots=True)
class SimulationInputs:
    clusters: tuple[MemberCluster, ...]
    placements: tuple[PlacementInputs, ...]
    """Each is decided."""
    undecided: tuple[PlacementInputs, ...]
    """Those that are being deleted, or another scheduler's: what they are bound to counts."""
    quotas: tuple[PlacementQuota, ...]

    @property
    def bound(self) -> tuple[PlacementInputs, ...]:
        """All whose bindings count."""
        return (*self.placements, *self.undecided)

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
    quotas = tuple(item.view for item in objects if isinstance(item.view, PlacementQuota))
    placements = tuple(_collect_placements(objects, findings, resource_filter))
    return SimulationInputs(
        clusters,
        placements=tuple(each for each in placements if not each.is_deleting),
        undecided=tuple(each for each in placements if each.is_deleting),
        quotas=quotas,
    )


def leave_foreign(inputs: SimulationInputs, profiles: CompiledProfiles, findings: Findings) -> SimulationInputs:
    """Without the placements that name a profile which is not configured, as the scheduler leaves them alone."""
    own, foreign = [], list(inputs.undecided)
    for placement in inputs.placements:
        name = placement.request.scheduler_name
        if profiles.is_foreign(name):
            served = ", ".join(profiles.by_name)
            findings.note(
                f"placement {placement.request.key}: left alone, because its scheduler is {describe_choice(name)}, "
                f"and the profiles here are {served}"
            )
            foreign.append(placement)
        else:
            own.append(placement)
    return replace(inputs, placements=tuple(own), undecided=tuple(foreign))


def _note_unused(objects: Sequence[InputObject], findings: Findings) -> None:
    used = ("MemberCluster", *PLACEMENT_KINDS, *_SNAPSHOTS, *_BINDINGS, *OPTIONS_KINDS, *QUOTA_KINDS)
    others = Counter(item.kind for item in objects if item.kind not in used)
    if others:
        listed = ", ".join(f"{count} {kind}" for kind, count in sorted(others.items()))
        findings.note(f"read, but ignored by scheduling: {listed}")


# --- placements and their policies ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _PlacementObjects:
    """The objects of one placement."""

    placement: InputObject | None
    snapshots: Sequence[InputObject]
    bindings: Sequence[InputObject]
    companion: Companion

    @property
    def metadata(self) -> Metadata:
        return Metadata() if self.placement is None else self.placement.metadata

    def compile(self, snapshot: PolicySnapshot, *, uid: str) -> PlacementRequest:
        """With what the placement and its options say beside the policy."""
        companion, own = self.companion, self.metadata
        request = compile_request(
            snapshot,
            placement_uid=uid,
            scheduler_name=companion.scheduler_name or own.annotation(SCHEDULER_NAME) or "",
            placement_annotations=add_labels({**(own.annotations or {}), **companion.annotations}, own.labels),
        )
        return refuse_unusable(request, companion)

    def build(self, request: PlacementRequest, snapshot: PolicySnapshot, *, from_placement: bool) -> PlacementInputs:
        return PlacementInputs(
            kind=NAMESPACED_PLACEMENT if request.namespace else CLUSTER_PLACEMENT,
            request=request,
            snapshot=snapshot,
            bindings=_list_bindings(self.bindings),
            applied=tuple(read_applied(msgspec.json.encode(binding.parsed.content)) for binding in self.bindings),
            metadata=self.metadata,
            companion=self.companion,
            from_placement=from_placement,
        )


def _collect_placements(
    objects: Sequence[InputObject], findings: Findings, resource_filter: ResourceFilter
) -> Iterator[PlacementInputs]:
    """The most important first, as the scheduler takes them."""
    placements = {(item.namespace, item.name): item for item in objects if item.kind in PLACEMENT_KINDS}
    snapshots = _by_placement((item for item in objects if item.kind in _SNAPSHOTS), findings)
    bindings = _by_placement((item for item in objects if item.kind in _BINDINGS), findings)
    companions = {(item.namespace, item.name): _read_companion(item) for item in objects if item.kind in OPTIONS_KINDS}
    decided = []
    for key in sorted({*placements, *snapshots}):
        own = _PlacementObjects(
            placements.get(key),
            snapshots.get(key, []),
            bindings.pop(key, []),
            companions.pop(key, NO_COMPANION),
        )
        inputs = _build_placement(key, own, findings, resource_filter)
        if inputs is not None:
            decided.append(inputs)
    yield from sorted(decided, key=lambda inputs: -(inputs.companion.priority or 0))
    for key, orphans in sorted(bindings.items()):
        subject = "1 binding belongs" if len(orphans) == 1 else f"{len(orphans)} bindings belong"
        findings.note(f"{subject} to placement {join_key(*key)}, which is not in the files")
    for key in sorted(companions):
        findings.note(f"options belong to placement {join_key(*key)}, which is not in the files")


def _read_companion(item: InputObject) -> Companion:
    assert isinstance(item.view, PlacementOptions)
    return read_companion(item.view.spec)


def _build_placement(
    key: PlacementKey, objects: _PlacementObjects, findings: Findings, resource_filter: ResourceFilter
) -> PlacementInputs | None:
    placement, name = objects.placement, "/".join(part for part in key if part)
    if placement is not None and placement.metadata.deletion_timestamp:
        findings.note(f"placement {name} is being deleted and is skipped")
    latest = [
        snapshot
        for snapshot in objects.snapshots
        if _view(snapshot).metadata.label(IS_LATEST_SNAPSHOT) in (None, "true")
    ]
    for snapshot in latest[1:]:
        message = f"{latest[0]} is also marked as the latest policy of placement {name}; only one can be"
        snapshot.report(findings, ("metadata", "labels", IS_LATEST_SNAPSHOT), message)
    if latest and (placement is None or placement.layer <= latest[0].layer):
        return _from_snapshot(latest[0], objects, findings)
    if placement is not None:
        return _from_placement(placement, objects, findings, resource_filter)
    findings.note(f"placement {name}: neither the placement nor its latest policy snapshot is in the files")
    return None


def _from_snapshot(latest: InputObject, objects: _PlacementObjects, findings: Findings) -> PlacementInputs:
    placement = objects.placement
    request = objects.compile(_view(latest), uid=placement.metadata.uid if placement else _owner_uid(latest))
    if placement is not None and _differs(latest, request.wanted, placement):
        _note_difference(request, findings)
    return objects.build(request, _view(latest), from_placement=False)


def _from_placement(
    placement: InputObject, objects: _PlacementObjects, findings: Findings, resource_filter: ResourceFilter
) -> PlacementInputs:
    """By the snapshot that the placement controller would create, or keep, for the policy."""
    known = map(_view, objects.snapshots)
    made = propose_snapshot(
        msgspec.structs.replace(placement.metadata, namespace=placement.namespace), read_policy(placement), known
    )
    spec = placement.parsed.content.get("spec") or {}
    selectors = find_proposed_problems(spec, namespace=placement.namespace, resource_filter=resource_filter)
    request = objects.compile(made, uid=placement.metadata.uid).add_problems(selectors)
    named = {snapshot.name for snapshot in objects.snapshots}
    _note_lost_policies(request, _list_bindings(objects.bindings), named, findings)
    return objects.build(request, made, from_placement=True)


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
