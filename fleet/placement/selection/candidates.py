"""Objects that may be selected: as much of them as selecting needs, and their content once it is wanted."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from fleet.kube.cache.store import Codec, build_codec
from fleet.kube.resource import Resource, key_of
from fleet.model.views import Metadata, View
from fleet.placement.selection.sanitizing import sanitize
from fleet.placement.snapshots import canonical_json as canonical


class OwnerUid(View, frozen=True, gc=False):
    uid: str = ""


class ObjectMetadata(Metadata, frozen=True):
    owner_references: tuple[OwnerUid, ...] = ()


class AnyObject(View, frozen=True):
    metadata: ObjectMetadata = ObjectMetadata()
    type: Any = None
    """Of a Secret what it holds; other kinds may mean anything by it."""


class CandidateObject:
    """An object of the hub as it is now."""

    def __init__(self, resource: Resource, view: AnyObject, raw: bytes) -> None:
        self.resource = resource
        self.metadata = view.metadata
        self.type = view.type
        self._raw = raw

    @property
    def key(self) -> str:
        return key_of(self.metadata)

    @cached_property
    def content(self) -> bytes:
        """As it goes to members, in canonical JSON. Worked out at most once for each state of the object."""
        document = canonical.read(self._raw)
        return canonical.write(sanitize(document, api_version=self.resource.api_version, kind=self.resource.kind))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CandidateObject) and self._raw == other._raw and self.resource == other.resource

    def __hash__(self) -> int:
        return hash((self.resource, self._raw))


def candidate_codec(resource: Resource) -> Codec[CandidateObject]:
    read_view = build_codec(AnyObject).read

    def read(document: bytes) -> CandidateObject:
        observed = read_view(document)
        return CandidateObject(resource, observed.view, observed.raw)

    return Codec(read, lambda candidate: candidate.metadata)
