"""Objects as encoded bytes: how they are kept, and how they are cut and joined without decoding them.

A stored body begins with apiVersion and kind, then metadata, and metadata begins with resourceVersion. That order is
what makes the cuts below exact: the first `"resourceVersion":"…"` of a body is the object's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from fleet.hub.kinds.kind import Document, Kind
from fleet.hub.statuses import bad_request

MEDIA_TYPE: Final = b"application/json"
_NO_KIND: Final = "couldn't get version/kind; json parse error"
_TYPE_STRUCTURE: Final = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
)
_DEEPEST: Final = 300  # levels of nesting; deeper documents are refused before anything walks them

encode = msgspec.json.Encoder().encode
decode_bytes = msgspec.json.Decoder().decode


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


def decode_object(body: bytes, *, expected: str) -> Document:
    """A request's body as a JSON object, or the API server's complaint about it."""
    try:
        document = decode_bytes(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise unrecognized_body(expected, f"{_NO_KIND}: {_reason(body, error)}", body) from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        shape = "array" if isinstance(document, list) else _go_name(document)
        text = f"{_NO_KIND}: json: cannot unmarshal {shape} into Go value of type {_TYPE_STRUCTURE}"
        what = f"the object provided is unrecognized (must be of type {expected})"
        raise bad_request(f"{what}: {text} ({body[:512].hex()})")
    check_depth(document)
    return document


def check_depth(document: Any) -> None:
    """Refuses what is nested so deeply that walking it would exhaust the stack."""
    level, depth = [document], 0
    while level:
        depth += 1
        if depth > _DEEPEST:
            raise bad_request(f"the object is nested more than {_DEEPEST} levels deep")
        level = [
            item
            for value in level
            for item in (value.values() if isinstance(value, dict) else value)
            if isinstance(item, (dict, list))
        ]


def unrecognized_body(expected: str, text: str, body: bytes) -> Exception:
    sample = body[:1024].decode("utf-8", "replace") if body else "<empty>"
    return bad_request(f"the object provided is unrecognized (must be of type {expected}): {text} ({sample})")


def find_duplicate_fields(body: bytes) -> list[str]:
    """Paths of fields that a JSON object names twice; parsers keep the last silently."""
    paths: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for key, value in items:
            if key in fields:
                fields.setdefault("\0twice", []).append(key)
            fields[key] = value
        return fields

    _collect_duplicates(json.loads(body, object_pairs_hook=pairs), "", paths)
    return paths


def _collect_duplicates(value: Any, path: str, paths: list[str]) -> None:
    if isinstance(value, list):
        for index, item in enumerate(value):
            _collect_duplicates(item, f"{path}[{index}]", paths)
    elif isinstance(value, dict):
        prefix = f"{path}." if path else ""
        paths.extend(prefix + name for name in dict.fromkeys(value.pop("\0twice", ())))
        for key, item in value.items():
            _collect_duplicates(item, prefix + key, paths)


def _reason(body: bytes, error: Exception) -> str:
    if not body.strip() or "truncated" in str(error):
        return "unexpected end of JSON input"
    place = re.search(r"\(byte (\d+)\)", str(error))
    if place is None:
        return str(error)
    character = body[int(place[1]) :][:1].decode("ascii", "replace")
    where = "object key string" if "keys" in str(error) else "value"
    return f"invalid character '{character}' looking for beginning of {where}"


def _go_name(value: object) -> str:
    return {bool: "bool", str: "string"}.get(type(value), "number")
