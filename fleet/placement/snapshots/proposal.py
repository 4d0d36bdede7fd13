"""The policy snapshot that the controller would leave as the latest one, without writing it: for simulations.

The same comparison decides as in `policy_snapshots`: a changed policy gets the next index, a changed number of clusters
does not. Only a snapshot that is marked as the latest is kept: in files the others are history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from fleet.model.decoding import decode
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


def propose_snapshot(placement: Metadata, policy: Json | None, known: Iterable[Json] = ()) -> PolicySnapshot:
    """`known` are the documents of the placement's snapshots; `policy` has the defaults of the API server."""
    known = list(known)
    latest = (document for document in known if _is_latest(document))
    current = max(latest, key=_read_index, default=None)
    annotations = _build_annotations(placement, policy)
    if current is not None and are_policies_equal((current.get("spec") or {}).get("policy"), policy):
        view = decode(msgspec.json.encode(current), PolicySnapshot).view
        metadata = msgspec.structs.replace(
            view.metadata, annotations={**(view.metadata.annotations or {}), **annotations}
        )
        return msgspec.structs.replace(view, metadata=metadata)
    index = max((_read_index(document) for document in known), default=-1) + 1
    metadata = Metadata(
        name=f"{placement.name}-{index}",
        namespace=placement.namespace,
        generation=1,
        labels={PARENT_PLACEMENT: placement.name, IS_LATEST_SNAPSHOT: "true", POLICY_INDEX: str(index)},
        annotations=annotations,
    )
    given = None if policy is None else msgspec.convert(policy, PlacementPolicy)
    return PolicySnapshot(metadata=metadata, spec=PolicySnapshotSpec(policy=given))


def _is_latest(document: Json) -> bool:
    is_terminating = document["metadata"].get("deletionTimestamp")
    return _read_label(document, IS_LATEST_SNAPSHOT) in (None, "true") and not is_terminating


def _read_index(document: Json) -> int:
    """From the label; without one, as in files written by hand, from the name. -1 if neither has one."""
    metadata = document["metadata"]
    label = _read_label(document, POLICY_INDEX)
    text = label if label is not None else str(metadata["name"]).rpartition("-")[2]
    return int(text) if text.isdecimal() and text.isascii() else -1


def _read_label(document: Json, key: str) -> str | None:
    label: str | None = (document["metadata"].get("labels") or {}).get(key)
    return label


def _build_annotations(placement: Metadata, policy: Json | None) -> dict[str, str]:
    annotations = {PLACEMENT_GENERATION: str(placement.generation or 1)}
    if policy is not None and policy.get("placementType") == PICK_N and policy.get("numberOfClusters") is not None:
        annotations[NUMBER_OF_CLUSTERS] = str(policy["numberOfClusters"])
    return annotations
