"""Snapshot groups: a selection stored as one resource snapshot, or several where one would become too large.

The first is the master, which alone carries the hash, the size of the group and the latest label. Creating and
replacing groups is left to `resource_snapshots`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec import structs

from fleet.kube.cache.store import Codec
from fleet.kube.resource import Resource
from fleet.model.decoding import decode
from fleet.model.keys import IS_LATEST_SNAPSHOT, PARENT_PLACEMENT, PLACEMENT_GROUP, PREFIX, RESOURCE_INDEX
from fleet.model.views import Metadata, View
from fleet.placement.selection.candidates import ObjectMetadata
from fleet.placement.selection.resolution import SelectedObject
from fleet.placement.selection.resource_filter import ENVELOPES

RESOURCE_HASH: Final = PREFIX + "resource-hash"
SNAPSHOTS_IN_GROUP: Final = PREFIX + "number-of-resource-snapshots"
ENVELOPES_IN_GROUP: Final = PREFIX + "number-of-enveloped-object"
SUBINDEX: Final = PREFIX + "subindex-of-resource-snapshot"
CHANGE_SEEN_AT: Final = PREFIX + "next-resource-snapshot-candidate-detection-time"
LEGACY_ENVELOPE: Final = PREFIX + "envelope-configmap"

PART_BYTES: Final = 800 * 1024
"""Limit for the serialized objects of one snapshot: etcd accepts 1.5 MiB, with the rest of the snapshot."""

Json = dict[str, Any]


class _Name(View, frozen=True):
    name: str = ""
    namespace: str = ""


class _Identity(View, frozen=True):
    api_version: str = ""
    kind: str = ""
    metadata: _Name = _Name()


class _Spec(View, frozen=True):
    selected_resources: tuple[_Identity, ...] = ()


class SnapshotView(View, frozen=True):
    """ClusterResourceSnapshot and ResourceSnapshot. Of the objects inside only the names are kept."""

    metadata: ObjectMetadata = ObjectMetadata()
    spec: _Spec = _Spec()
    size: int = 0
    """Bytes of the whole document, which is not kept."""

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def index(self) -> int:
        """-1 if it cannot be parsed."""
        return _parse_number(self.metadata.label(RESOURCE_INDEX), default=-1)

    @property
    def subindex(self) -> int | None:
        """None for a master."""
        text = self.metadata.annotation(SUBINDEX)
        return None if text is None else _parse_number(text, default=-1)

    @property
    def is_latest(self) -> bool:
        return self.metadata.label(IS_LATEST_SNAPSHOT) == "true"

    @property
    def is_terminating(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    def identifiers(self) -> list[Json]:
        """Of the objects inside, as ResourceIdentifiers without their empty fields."""
        return [_identifier(identity) for identity in self.spec.selected_resources]

    def belongs_to(self, placement: Metadata) -> bool:
        """False for a snapshot of a deleted placement of the same name."""
        owners = self.metadata.owner_references
        is_tracked = self.metadata.label(PARENT_PLACEMENT) == placement.name
        return is_tracked and (not owners or any(owner.uid == placement.uid for owner in owners))


def _identifier(identity: _Identity) -> Json:
    group, _, version = identity.api_version.rpartition("/")
    named = {"group": group, "version": version, "kind": identity.kind, "name": identity.metadata.name}
    return {key: value for key, value in (named | {"namespace": identity.metadata.namespace}).items() if value}


def snapshot_codec() -> Codec[SnapshotView]:
    def read(document: bytes) -> SnapshotView:
        return structs.replace(decode(document, SnapshotView).view, size=len(document))

    return Codec(read, lambda snapshot: snapshot.metadata)


def _parse_number(text: str | None, *, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() else default


@dataclass(slots=True)
class SnapshotGroup:
    index: int
    masters: list[SnapshotView] = field(default_factory=list)
    """One, unless it was deleted or another client created a second."""
    others: dict[int, SnapshotView] = field(default_factory=dict)

    @property
    def master(self) -> SnapshotView | None:
        return self.masters[0] if self.masters else None

    @property
    def hash(self) -> str | None:
        return self.master.metadata.annotation(RESOURCE_HASH) if self.master else None

    @property
    def size(self) -> int:
        return _parse_number(self.master.metadata.annotation(SNAPSHOTS_IN_GROUP), default=1) if self.master else 0

    @property
    def is_complete(self) -> bool:
        return self.master is not None and all(subindex in self.others for subindex in range(self.size - 1))

    @property
    def is_latest(self) -> bool:
        return any(master.is_latest for master in self.masters)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.parts())

    def parts(self) -> list[SnapshotView]:
        """Master first, then by subindex."""
        return [*self.masters, *(self.others[subindex] for subindex in sorted(self.others))]


def group_snapshots(snapshots: Iterable[SnapshotView]) -> list[SnapshotGroup]:
    """By index."""
    groups: dict[int, SnapshotGroup] = {}
    for snapshot in sorted(snapshots, key=lambda snapshot: snapshot.name):
        group = groups.setdefault(snapshot.index, SnapshotGroup(snapshot.index))
        subindex = snapshot.subindex
        if subindex is None:
            group.masters.append(snapshot)
        else:
            group.others[subindex] = snapshot
    return [groups[index] for index in sorted(groups)]


# --- building ---------------------------------------------------------------------------------------------------------


def split_objects(objects: Sequence[SelectedObject], *, limit: int = PART_BYTES) -> list[tuple[SelectedObject, ...]]:
    """In order, as many per part as fit; at least one part. An object above the limit gets its own."""
    parts: list[list[SelectedObject]] = [[]]
    size = 0
    for selected in objects:
        size += len(selected.content)
        if parts[-1] and size > limit:
            parts.append([])
            size = len(selected.content)
        parts[-1].append(selected)
    return [tuple(part) for part in parts]


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """The desired snapshots of a group."""

    owner: Resource
    placement: Metadata
    hash: str
    parts: Sequence[tuple[SelectedObject, ...]]

    def master(self, index: int) -> Json:
        document = self._document(_master_name(self.placement, index), index, self.parts[0])
        document["metadata"]["labels"][IS_LATEST_SNAPSHOT] = "true"
        document["metadata"]["annotations"] = {
            RESOURCE_HASH: self.hash,
            SNAPSHOTS_IN_GROUP: str(len(self.parts)),
            ENVELOPES_IN_GROUP: str(sum(map(_is_envelope, self._objects()))),
        }
        return document

    def others(self, index: int) -> Iterator[tuple[int, Json]]:
        for subindex, part in enumerate(self.parts[1:]):
            document = self._document(_part_name(self.placement, index, subindex), index, part)
            document["metadata"]["annotations"] = {SUBINDEX: str(subindex)}
            yield subindex, document

    def names(self, index: int) -> tuple[str, ...]:
        others = (_part_name(self.placement, index, subindex) for subindex in range(len(self.parts) - 1))
        return (_master_name(self.placement, index), *others)

    def contents(self) -> list[bytes]:
        return [selected.content for selected in self._objects()]

    def _objects(self) -> Iterator[SelectedObject]:
        for part in self.parts:
            yield from part

    def _document(self, name: str, index: int, part: Iterable[SelectedObject]) -> Json:
        metadata: Json = {
            "name": name,
            **({"namespace": self.placement.namespace} if self.placement.namespace else {}),
            "labels": {PARENT_PLACEMENT: self.placement.name, RESOURCE_INDEX: str(index)},
            "ownerReferences": [self._owner_reference()],
        }
        return {
            "metadata": metadata,
            "spec": {"selectedResources": [msgspec.Raw(selected.content) for selected in part]},
        }

    def _owner_reference(self) -> Json:
        return {
            "apiVersion": self.owner.api_version,
            "kind": self.owner.kind,
            "name": self.placement.name,
            "uid": self.placement.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


def _master_name(placement: Metadata, index: int) -> str:
    return f"{placement.name}-{index}-snapshot"


def _part_name(placement: Metadata, index: int, subindex: int) -> str:
    return f"{placement.name}-{index}-{subindex}"


def _is_envelope(selected: SelectedObject) -> bool:
    if selected.group == PLACEMENT_GROUP:
        return selected.kind in ENVELOPES
    if (selected.group, selected.kind) != ("", "ConfigMap") or LEGACY_ENVELOPE.encode() not in selected.content:
        return False
    metadata = msgspec.json.decode(selected.content).get("metadata") or {}
    return LEGACY_ENVELOPE in (metadata.get("annotations") or {})
