"""Objects as encoded bytes: how they are kept, and how they are cut and joined without decoding them.

A stored body begins with apiVersion and kind, then metadata, and metadata begins with resourceVersion. That order is
what makes the cuts below exact: the first `"resourceVersion":"…"` of a body is the object's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fleet.hub.kinds.kind import Document, Kind
from fleet.hub.wire.bodies import decode_bytes, encode


class StoredEntry:
    """One version of one object. Never changed after it is made."""

    __slots__ = ("body", "labels", "name", "namespace", "owners", "revision", "terminating", "uid")

    def __init__(self, document: Document, body: bytes, revision: int) -> None:
        metadata = document["metadata"]
        self.body = body
        self.revision = revision
        self.namespace: str = metadata.get("namespace", "")
        self.name: str = metadata["name"]
        self.uid: str = metadata.get("uid", "")
        self.labels: dict[str, str] | None = metadata.get("labels")
        self.owners = tuple(owner.get("uid", "") for owner in metadata.get("ownerReferences") or ())
        self.terminating = "deletionTimestamp" in metadata

    @property
    def key(self) -> tuple[str, str]:
        return (self.namespace, self.name)

    def document(self) -> Document:
        """A fresh copy, free to change."""
        decoded: Document = decode_bytes(self.body)
        return decoded


def encode_entry(document: Document, revision: int) -> StoredEntry:
    """Encodes an object as it is kept."""
    metadata = document["metadata"]
    ordered = {"resourceVersion": str(revision), **{key: metadata[key] for key in metadata if key != "resourceVersion"}}
    body = {"apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": ordered}
    body.update({key: value for key, value in document.items() if key not in body})
    return StoredEntry(body, encode(body), revision)


def restore_entry(body: bytes, revision: int) -> StoredEntry:
    return StoredEntry(decode_bytes(body), body, revision)


def at_revision(entry: StoredEntry, revision: int) -> bytes:
    """The body as the event of a deletion shows it: the last state at the deletion's revision."""
    old, new = b'"resourceVersion":"%d"' % entry.revision, b'"resourceVersion":"%d"' % revision
    return entry.body.replace(old, new, 1)


def encode_list(kind: Kind, bodies: Iterable[bytes], metadata: Mapping[str, Any]) -> bytes:
    """A list. The items of built-in kinds do not repeat their kind, those of custom ones do."""
    if not kind.custom:
        cut = len(kind.head)
        bodies = (b"{" + body[cut:] for body in bodies)
    head = encode({"kind": kind.list_name, "apiVersion": kind.api_version, "metadata": metadata})
    return b'%b,"items":[%b]}' % (head[:-1], b",".join(bodies))
