"""Inputs of a diff: the objects as they are, the same objects after the files were applied, and what differs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fleet.cli.input.documents import ParsedDocument
from fleet.cli.input.object_merge import FIELD_MANAGER
from fleet.cli.input.objects import InputObject, Layer, ObjectId, read_layers, read_spec
from fleet.cli.input.problems import Findings
from fleet.cli.input.quotas import QuotaUse
from fleet.cli.input.residents import find_residents
from fleet.cli.input.room import build_table, find_booked
from fleet.cli.input.simulation import Moment
from fleet.cli.input.simulation_inputs import (
    OPTIONS_KINDS,
    PLACEMENT_KINDS,
    QUOTA_KINDS,
    PlacementInputs,
    SimulationInputs,
    build_inputs,
    find_owner,
    read_policy,
)
from fleet.explain.whatif.moves import Change, ChangedPlacement, FieldChange, ObjectChange
from fleet.framework.cycle.cycle import DecisionInput
from fleet.kube.scopes import MEMBER_CLUSTERS
from fleet.placement.selection.resource_filter import EVERYTHING, ResourceFilter
from fleet.placement.snapshots.hashing import are_policies_equal
from fleet.scheduler.profiles.frameworks import CompiledProfiles
from fleet.similarity import did_you_mean
from fleet.snapshot.frame import Frame

CHANGED_KINDS: Final = (MEMBER_CLUSTERS.kind, *PLACEMENT_KINDS, *OPTIONS_KINDS, *QUOTA_KINDS)
"""Kinds that people write; the others are written by controllers."""
_Objects = Sequence[InputObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDeletions:
    """Objects to delete: those that are named, and placements without a file."""

    named: Sequence[tuple[str, str]] = ()
    """Kind, and name or namespace/name."""
    prunes: bool = False
    labels: Mapping[str, str] | None = None
    """Of placements to prune; None: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffInputs:
    before: SimulationInputs
    after: SimulationInputs
    objects: tuple[ObjectChange, ...]
    """In the files, and deleted."""


def read_diff_inputs(
    base: _Objects,
    layers: Iterable[Iterable[ParsedDocument]],
    deletions: PlannedDeletions,
    findings: Findings,
    *,
    manager: str = FIELD_MANAGER,
    resource_filter: ResourceFilter = EVERYTHING,
) -> DiffInputs:
    """If `findings` has problems, do not decide."""
    known = {item.id: item for item in base}
    start = Layer(number=1, base=known, manager=manager, keeps_status=True)
    after = {item.id: item for item in read_layers(layers, findings, start=start)}
    for item in [item for item in after.values() if item.layer and item.kind not in CHANGED_KINDS]:
        message = "left out, because only clusters and placements, their options and quotas are compared"
        findings.note(f"{item.parsed.place}: {item}: {message}")
        _restore(after, known, item)
    given = [item for item in after.values() if item.layer]
    _note_kept_policies((item for item in given if item.id in known), findings)
    removed = _find_removed(base, given, deletions, findings)
    gone = {(item.namespace, item.name) for item in removed if item.kind in PLACEMENT_KINDS}
    ids = {item.id for item in removed}
    kept = [item for item in after.values() if item.id not in ids and find_owner(item) not in gone]
    objects = [_describe_change(item, known.get(item.id)) for item in given]
    objects += [ObjectChange(kind=item.kind, key=item.key, change="deleted", place="") for item in removed]
    _note_order(objects, findings)
    return DiffInputs(
        before=build_inputs(base, Findings(), resource_filter=resource_filter),
        after=build_inputs(kept, findings, resource_filter=resource_filter),
        objects=tuple(objects),
    )


def _note_order(objects: Iterable[ObjectChange], findings: Findings) -> None:
    kinds = [each.kind for each in objects if each.change != "same"]
    if MEMBER_CLUSTERS.kind in kinds and len(kinds) > 1:
        findings.note(
            "clusters change together with other objects: what is decided between two of the changes "
            "can move more. To be exact, compare and apply one cluster at a time"
        )


def _restore(after: dict[ObjectId, InputObject], known: Mapping[ObjectId, InputObject], item: InputObject) -> None:
    if item.id in known:
        after[item.id] = known[item.id]
    else:
        del after[item.id]


# --- objects that leave -----------------------------------------------------------------------------------------------


def _find_removed(
    base: _Objects, given: _Objects, deletions: PlannedDeletions, findings: Findings
) -> list[InputObject]:
    named = [item for kind, key in deletions.named for item in _find_named(base, given, kind, key, findings)]
    in_files = {item.id for item in given}
    pruned = [
        item
        for item in base
        if deletions.prunes
        and item.kind in PLACEMENT_KINDS
        and item.id not in in_files
        and all(item.metadata.label(key) == value for key, value in (deletions.labels or {}).items())
    ]
    return list({item.id: item for item in (*named, *pruned)}.values())


def _find_named(base: _Objects, given: _Objects, kind: str, key: str, findings: Findings) -> Iterator[InputObject]:
    place = f"--delete {kind}/{key}"
    if any((item.kind, item.key) == (kind, key) for item in given):
        findings.add(f"{place}: is also in the files; leave out one of the two")
    known = [item for item in base if item.kind == kind]
    match = [item for item in known if item.key == key]
    if not match:
        findings.add(f"{place}: there is no {kind} {key}{did_you_mean(key, [item.key for item in known])}")
    yield from match


# --- changes ----------------------------------------------------------------------------------------------------------


def _describe_change(item: InputObject, before: InputObject | None) -> ObjectChange:
    fields = () if before is None else tuple(_compare_objects(before, item))
    change: Change = "new" if before is None else "changed" if fields else "same"
    return ObjectChange(kind=item.kind, key=item.key, change=change, place=str(item.parsed.place), fields=fields)


def _compare_objects(before: InputObject, after: InputObject) -> Iterator[FieldChange]:
    """Labels and the spec. Annotations can be long, and decisions do not read those of people."""
    yield from _compare(before.metadata.labels or {}, after.metadata.labels or {}, "metadata.labels")
    old, new = (read_spec(item.resource, item.parsed.content) for item in (before, after))
    yield from _compare(old, new, "spec")


def _compare(before: Any, after: Any, path: str) -> Iterator[FieldChange]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys((*before, *after)):
            step = f"[{name}]" if "." in name or "/" in name else f".{name}"
            yield from _compare(before.get(name), after.get(name), f"{path}{step}")
    elif before != after and (before or after):
        yield FieldChange(field=path, before=before, after=after)


def _note_kept_policies(given: Iterable[InputObject], findings: Findings) -> None:
    """Fields of a policy that a reader of the file would not expect."""
    for item in given:
        spec = item.given.get("spec")
        if item.kind not in PLACEMENT_KINDS or not isinstance(spec, dict):
            continue
        merged, own = read_policy(item) or {}, spec.get("policy") or {}
        kept = [name for name in merged if name not in own and _is_effective(name, merged)]
        if kept:
            fields = ", ".join(f"spec.policy.{name}" for name in kept)
            findings.note(
                f"{item.parsed.place}: {item}: the file leaves out {fields}; an apply keeps what is there, because "
                "nothing records that an earlier apply put it there"
            )


def _is_effective(name: str, policy: Mapping[str, Any]) -> bool:
    """Whether the policy without the field would be another one."""
    without = {other: value for other, value in policy.items() if other != name}
    return name == "numberOfClusters" or not are_policies_equal(policy, without)


# --- decisions --------------------------------------------------------------------------------------------------------


def build_changed_placements(
    inputs: DiffInputs, profiles: CompiledProfiles, moment: Moment
) -> Iterator[ChangedPlacement]:
    """By namespace and name. Without a change of clusters, both decisions are about one frame."""
    frame_before = _freeze(inputs.before)
    has_same_fleet = inputs.before.clusters == inputs.after.clusters and (
        find_booked(inputs.before) == find_booked(inputs.after)
        and frame_before.residents == find_residents(inputs.after.bound)
    )
    frame_after = frame_before if has_same_fleet else _freeze(inputs.after)
    quotas_before, quotas_after = QuotaUse(inputs.before), QuotaUse(inputs.after)
    before = {(item.kind, item.request.key): item for item in inputs.before.placements}
    after = {(item.kind, item.request.key): item for item in inputs.after.placements}
    changes = {(item.kind, item.key): item.change for item in inputs.objects}
    for kind, key in sorted({*before, *after}, key=lambda name: (name[1].rpartition("/")[0], name[1])):
        yield ChangedPlacement(
            kind=kind,
            key=key,
            change=changes.get((kind, key), "same"),
            before=_build_question(before.get((kind, key)), frame_before, quotas_before, profiles, moment),
            after=_build_question(after.get((kind, key)), frame_after, quotas_after, profiles, moment),
        )


def _freeze(inputs: SimulationInputs) -> Frame:
    table = build_table(inputs)
    table.settle(find_residents(inputs.bound))
    return table.freeze()


def _build_question(
    placement: PlacementInputs | None, frame: Frame, quotas: QuotaUse, profiles: CompiledProfiles, moment: Moment
) -> DecisionInput | None:
    if placement is None:
        return None
    profile = profiles.choose(placement.request.scheduler_name)
    return DecisionInput(
        frame=frame,
        request=quotas.fill_request(placement, profile),
        bindings=placement.bindings,
        profile=profile,
        now=moment.nanoseconds,
        previous=placement.snapshot.status,
        nominated=placement.companion.list_hints(moment.nanoseconds),
    )
