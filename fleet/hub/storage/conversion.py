"""Conversion between the stored version of an object and the other versions of its kind."""

from __future__ import annotations

from typing import Final

from fleet.hub.kinds.builtin import EVENTS, event_from_core, event_to_core
from fleet.hub.kinds.kind import Document, Kind
from fleet.hub.wire.bodies import decode_bytes, encode

_NEWER_EVENTS: Final = "events.k8s.io"


def stored_resource(kind: Kind) -> str:
    """The storage key of a kind. Both event APIs share the same events."""
    return EVENTS if kind.group == _NEWER_EVENTS else kind.resource


def versioned_body(kind: Kind, stored: bytes) -> bytes:
    """The body in the version of the kind. The stored version, which most requests use, needs no conversion."""
    return stored if is_stored_form(kind) else encode(versioned_document(kind, stored))


def versioned_document(kind: Kind, stored: bytes) -> Document:
    document: Document = decode_bytes(stored)
    if is_stored_form(kind):
        return document
    if kind.group == _NEWER_EVENTS:
        return event_from_core(document)
    document["apiVersion"] = kind.api_version
    if kind.schema is not None:
        kind.schema.prune(document)
    return document


def to_stored_document(kind: Kind, document: Document) -> Document:
    """Converts an object to the stored version."""
    if kind.group == _NEWER_EVENTS:
        return event_to_core(document)
    return document | {"apiVersion": kind.storage_api_version}


def is_stored_form(kind: Kind) -> bool:
    return kind.is_stored_form and kind.group != _NEWER_EVENTS
