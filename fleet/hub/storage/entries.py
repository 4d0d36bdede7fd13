"""Stored objects as encoded JSON, and the assembly of lists and events without decoding it.

A stored body begins with apiVersion and kind, then metadata, and metadata begins with resourceVersion. The functions
below rely on that order: the first `"resourceVersion":"…"` of a body is that of the object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from fleet.hub.kinds.kind import Document, Kind
from fleet.hub.wire.bodies import decode_bytes, decode_texts, encode

if TYPE_CHECKING:
    from fleet.hub.schema.schema import Schema


class StoredEntry:
    """One revision of one object, immutable."""

    __slots__ = (
        "body",
        "completed",
        "completed_by",
        "finalizers",
        "is_spec_sound",
        "labels",
        "name",
        "namespace",
        "owners",
        "revision",
        "terminating",
        "uid",
    )

    def __init__(self, document: Document, body: bytes, revision: int) -> None:
        metadata = document["metadata"]
        self.body = body
        self.completed_by: Schema | None = None
        self.completed: frozenset[str] = frozenset()
        """Top-level fields that this schema pruned and defaulted."""
        self.is_spec_sound = False
        """Whether all rules held in a write that left the spec as it is. Set by that write, too."""
        self.revision = revision
        self.namespace: str = metadata.get("namespace", "")
        self.name: str = metadata["name"]
        self.uid: str = metadata.get("uid", "")
        self.labels: dict[str, str] | None = metadata.get("labels")
        self.owners = tuple(owner.get("uid", "") for owner in metadata.get("ownerReferences") or ())
        self.finalizers: tuple[str, ...] = tuple(metadata.get("finalizers") or ())
        self.terminating = "deletionTimestamp" in metadata

    @property
    def key(self) -> tuple[str, str]:
        return (self.namespace, self.name)

    def take_completion(self, other: StoredEntry) -> None:
        """Of an entry with the same content."""
        self.completed, self.completed_by = other.completed, other.completed_by
        self.is_spec_sound = other.is_spec_sound

    def document(self) -> Document:
        """A decoded copy, which the caller may modify."""
        decoded: Document = decode_bytes(self.body)
        return decoded

    def texts(self) -> dict[str, msgspec.Raw]:
        """Of its top-level fields, as stored."""
        return decode_texts(self.body)

    def document_around_content(self) -> Document:
        """As `document`, with all but the metadata as stored: to decode a large object takes long."""
        fields = self.texts()
        return {**fields, "metadata": decode_bytes(fields["metadata"])}

    def document_with(self, texts: Mapping[str, msgspec.Raw]) -> Document:
        """As `document`, with these of its texts."""
        return {name: texts[name] if name in texts else decode_bytes(text) for name, text in self.texts().items()}

    def metadata(self) -> Document:
        metadata: Document = self.document_around_content()["metadata"]
        return metadata


def encode_entry(document: Document, revision: int) -> StoredEntry:
    """Encodes an object in its stored form."""
    metadata = document["metadata"]
    ordered = {"resourceVersion": str(revision), **{key: metadata[key] for key in metadata if key != "resourceVersion"}}
    body = {"apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": ordered}
    body.update({key: value for key, value in document.items() if key not in body})
    return StoredEntry(body, encode(body), revision)


def restore_entry(body: bytes, revision: int) -> StoredEntry:
    return StoredEntry(decode_bytes(body), body, revision)


def encode_at_revision(entry: StoredEntry, revision: int) -> bytes:
    """The body of a DELETED event: the last state, at the revision of the deletion."""
    old, new = b'"resourceVersion":"%d"' % entry.revision, b'"resourceVersion":"%d"' % revision
    return entry.body.replace(old, new, 1)


def encode_list(kind: Kind, bodies: Iterable[bytes], metadata: Mapping[str, Any]) -> bytes:
    """Encodes a list. Items of custom kinds repeat apiVersion and kind, items of built-in kinds do not."""
    if not kind.custom:
        cut = len(kind.head)
        bodies = (b"{" + body[cut:] for body in bodies)
    head = encode({"kind": kind.list_name, "apiVersion": kind.api_version, "metadata": metadata})
    return b'%b,"items":[%b]}' % (head[:-1], b",".join(bodies))
