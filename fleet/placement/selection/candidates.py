"""Objects that may be selected: the fields that selecting needs, and the content on demand."""

from __future__ import annotations

from typing import Any

from fleet.cached import cached_property
from fleet.kube.cache.store import Codec, build_codec
from fleet.kube.resource import Resource, key_of
from fleet.model.views import Metadata, View
from fleet.placement.selection import canonical_json as canonical
from fleet.placement.selection.sanitizing import sanitize


class OwnerUid(View, frozen=True):
    uid: str = ""


class ObjectMetadata(Metadata, frozen=True):
    owner_references: tuple[OwnerUid, ...] = ()


class AnyObject(View, frozen=True):
    metadata: ObjectMetadata = ObjectMetadata()
    type: Any = None
    """The type of a Secret; other kinds use the field freely."""


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
        """The object as sent to members, in canonical JSON. Computed at most once per state of the object."""
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
