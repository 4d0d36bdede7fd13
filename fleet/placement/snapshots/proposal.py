"""The policy snapshot that the controller would leave as the latest one, without writing it: for simulations.

The same comparison decides as in `policy_snapshots`: a changed policy gets the next index, a changed number of clusters
does not. Only a snapshot that is marked as the latest is kept: in files the others are history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from fleet.model.keys import (
    IS_LATEST_SNAPSHOT,
    NUMBER_OF_CLUSTERS,
    PARENT_PLACEMENT,
    PICK_N,
    PLACEMENT_GENERATION,
    POLICY_INDEX,
)
from fleet.model.views import Metadata, PlacementPolicy, PolicySnapshot, PolicySnapshotSpec
from fleet.placement.snapshots.hashing import are_policies_equal

Json = Mapping[str, Any]


def propose_snapshot(placement: Metadata, policy: Json | None, known: Iterable[PolicySnapshot] = ()) -> PolicySnapshot:
    """`known` are the placement's snapshots. Without its defaults a policy stands for the same one."""
    known = list(known)
    given = None if policy is None else msgspec.convert(policy, PlacementPolicy)
    current = max(filter(_is_latest, known), key=_read_index, default=None)
    annotations = _build_annotations(placement, given)
    if current is not None and _is_same_policy(current.spec.policy, given):
        metadata = current.metadata
        return replace(current, metadata=replace(metadata, annotations={**(metadata.annotations or {}), **annotations}))
    index = max(map(_read_index, known), default=-1) + 1
    metadata = Metadata(
        name=f"{placement.name}-{index}",
        namespace=placement.namespace,
        generation=1,
        labels={PARENT_PLACEMENT: placement.name, IS_LATEST_SNAPSHOT: "true", POLICY_INDEX: str(index)},
        annotations=annotations,
    )
    return PolicySnapshot(metadata=metadata, spec=PolicySnapshotSpec(policy=given))


def _is_same_policy(policy: PlacementPolicy | None, other: PlacementPolicy | None) -> bool:
    """Those that differ may still be equal, which takes long to tell of large ones."""
    alike = (
        policy is not None
        and other is not None
        and policy == replace(other, number_of_clusters=policy.number_of_clusters)
    )
    return alike or are_policies_equal(msgspec.to_builtins(policy), msgspec.to_builtins(other))


def _is_latest(snapshot: PolicySnapshot) -> bool:
    metadata = snapshot.metadata
    return metadata.label(IS_LATEST_SNAPSHOT) in (None, "true") and not metadata.deletion_timestamp


def _read_index(snapshot: PolicySnapshot) -> int:
    """From the label; without one, as in files written by hand, from the name. -1 if neither has one."""
    label = snapshot.metadata.label(POLICY_INDEX)
    text = label if label is not None else snapshot.metadata.name.rpartition("-")[2]
    return int(text) if text.isdecimal() and text.isascii() else -1


def _build_annotations(placement: Metadata, policy: PlacementPolicy | None) -> dict[str, str]:
    annotations = {PLACEMENT_GENERATION: str(placement.generation or 1)}
    if policy is not None and policy.placement_type == PICK_N and policy.number_of_clusters is not None:
        annotations[NUMBER_OF_CLUSTERS] = str(policy.number_of_clusters)
    return annotations
