"""Rules of updates: the fields that an endpoint may change, and the changes that count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from fleet.errors import RequestRefused
from fleet.hub.kinds.builtin import DEFINITIONS, NAMESPACES
from fleet.hub.kinds.kind import Document, Kind
from fleet.hub.objects import metadata
from fleet.hub.schema.equality import is_same
from fleet.hub.schema.field_errors import RULES_NOT_CHECKED, FieldError
from fleet.hub.storage.conversion import is_stored_form, versioned_document
from fleet.hub.storage.entries import StoredEntry
from fleet.hub.wire import statuses
from fleet.hub.wire.bodies import NO_TEXTS, decode_bytes, encode, unrecognized_body
from fleet.hub.wire.options import DeletionOptions

LARGE_SPEC: Final = 64 * 1024
"""Bytes of an object from which on an unchanged spec is not decoded."""
_ALWAYS_CHECKED: Final = frozenset({"apiVersion", "kind", "metadata"})
_STATUS: Final = frozenset({"status"})
_NOTHING: Final[frozenset[str]] = frozenset()


def untracked_fields(kind: Kind) -> frozenset[str]:
    """Top-level fields without managers on the main endpoint: the server or a subresource writes them."""
    if kind.resource == NAMESPACES:
        return _STATUS | {"spec"}
    return _STATUS if kind.has_status else _NOTHING


def strict_decoding_error(kind: Kind, texts: Iterable[str]) -> RequestRefused:
    listed = ", ".join(texts)
    return statuses.bad_request(
        f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: strict decoding error: {listed}'
    )


def validate_schema(
    kind: Kind, document: Document, old: Document | None, *, subresource: str, is_spec_sound: bool
) -> list[FieldError]:
    """Validates a custom object against its schema. Rules cannot be evaluated before the object has a name."""
    assert kind.schema is not None, "custom kinds have schemas"
    if old is not None and has_settled_spec(document):
        is_skipped = is_spec_sound or not kind.schema.has_spec_rules
        if is_skipped and not kind.schema.validate(document, old, subresource=subresource, sound=("spec",)):
            return []
        # What is refused is refused as if nothing had been skipped.
        spec = {"spec": decode_bytes(document["spec"])}
        document, old = document | spec, old | spec
    nameless = not document["metadata"].get("name")
    if nameless:
        document = document | {"metadata": document["metadata"] | {"name": "nameless"}}
    errors = kind.schema.validate(document, old, subresource=subresource)
    if nameless and kind.has_rules and RULES_NOT_CHECKED not in errors:
        errors = [*errors, RULES_NOT_CHECKED]
    return errors


def list_settled_texts(kind: Kind, old: StoredEntry | None) -> Mapping[str, msgspec.Raw]:
    """The spec of a large object, as its schema left it: a write need not decode it to leave it as it is."""
    if kind.schema is None or not kind.schema.is_spec_apart or not is_stored_form(kind):
        return NO_TEXTS
    if old is None or len(old.body) < LARGE_SPEC or "spec" not in _list_completed_before(kind, old):
        return NO_TEXTS
    return {name: text for name, text in old.texts().items() if name == "spec"}


def has_settled_spec(document: Document) -> bool:
    """Whether it has the text of the stored one."""
    return isinstance(document.get("spec"), msgspec.Raw)


def decode_before(kind: Kind, old: StoredEntry, document: Document, subresource: str) -> Document:
    """What a document replaces: with the same texts, or all that there are if a write leaves the spec alone."""
    if has_settled_spec(document):
        return old.document_with({"spec": document["spec"]})
    texts = list_settled_texts(kind, old) if subresource == "status" else NO_TEXTS
    return old.document_with(texts) if texts else versioned_document(kind, old.body)


def settle_fields(kind: Kind, document: Document, old: StoredEntry | None, before: Document | None) -> list[str]:
    """The top-level fields that are as the same schema left them when they were stored. They become the same values:
    what compares both documents later sees at once that they are equal."""
    if old is None or before is None:
        return []
    completed = _list_completed_before(kind, old) - _ALWAYS_CHECKED
    names = [name for name in before if name in document and name in completed]
    settled = [
        name for name in names if document[name] is before[name] or encode(document[name]) == encode(before[name])
    ]
    document.update((name, before[name]) for name in settled)
    return settled


def list_completed(kind: Kind, document: Document, old: StoredEntry, before: Document) -> frozenset[str]:
    """The top-level fields of an update that are as its schema left them, in this write or in earlier ones: what it did
    not write has the value of the old object."""
    return _list_completed_before(kind, old) | {
        name for name, value in document.items() if value is not before.get(name)
    }


def _list_completed_before(kind: Kind, old: StoredEntry) -> frozenset[str]:
    return old.completed if old.completed_by is not None and old.completed_by is kind.schema else _NOTHING


def check_patched_identity(kind: Kind, old: StoredEntry, meta: Any) -> None:
    sent = meta.get("name") if isinstance(meta, dict) else None
    if not sent:
        text = f"the name of the object ({old.name} based on URL) was undeterminable: name must be provided"
        raise statuses.bad_request(text)
    if sent != old.name:
        raise statuses.bad_request(f"the name of the object ({sent}) does not match the name on the URL ({old.name})")
    uid = meta.get("uid", old.uid)
    if uid != old.uid:
        raise statuses.invalid(kind, old.name, [statuses.invalid_value("metadata.uid", uid, "field is immutable")])


def check_custom_type(kind: Kind, document: Document) -> None:
    if not document.get("kind"):
        body = encode(document)
        text = f"Object 'Kind' is missing in '{body.decode()}'"
        raise unrecognized_body(kind.kind, text, body)
    if document.get("apiVersion") != kind.api_version:
        sent = document.get("apiVersion") or ""
        text = f"the API version in the data ({sent}) does not match the expected API version ({kind.api_version})"
        raise statuses.bad_request(text)
    if document["kind"] != kind.kind:
        metadata_sent = document.get("metadata")
        name = metadata_sent.get("name", "") if isinstance(metadata_sent, dict) else ""
        wrong = replace(kind, kind=str(document["kind"]))
        error = statuses.invalid_value("kind", wrong.kind, f"must be {kind.kind}")
        raise statuses.invalid(wrong, str(name), [error])


def restrict_to_subresource(kind: Kind, document: Document, old: Document, subresource: str) -> Document:
    """Keeps only the changes that the endpoint may make; the rest comes from the old object."""
    if subresource == "status":
        status = {"status": document["status"]} if "status" in document else {}
        kept = {key: value for key, value in old.items() if key not in ("status", "metadata")}
        managers = {"managedFields": document["metadata"].get("managedFields")}
        meta = {key: value for key, value in {**old["metadata"], **managers}.items() if value is not None}
        return {**kept, "metadata": meta, **status}
    if subresource == "finalize":
        return {**old, "spec": document.get("spec") or {}}
    if kind.has_status:
        kept = {key: value for key, value in document.items() if key != "status"}
        return kept | ({"status": old["status"]} if "status" in old else {})
    return document


def count_generation(kind: Kind, document: Document, old: Document) -> None:
    if not kind.counts_generations:
        return
    ignored = ("metadata", "status") if kind.has_status else ("metadata",)
    if _changes_fields(document, old, ignored):
        document["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _changes_fields(document: Document, old: Document, ignored: Iterable[str]) -> bool:
    names = (document.keys() | old.keys()).difference(ignored)
    return not all(name in document and name in old and is_same(document[name], old[name]) for name in names)


def _without(document: Document, keys: tuple[str, ...]) -> Document:
    return {key: value for key, value in document.items() if key not in keys}


def is_unchanged(document: Document, old: Document) -> bool:
    """Whether an update changes nothing: then nothing is written and the revision stays."""
    ignored = ("resourceVersion", "managedFields")
    if _changes_fields(document, old, ("metadata",)):
        return False
    if _without_empty(_without(document["metadata"], ignored)) != _without_empty(_without(old["metadata"], ignored)):
        return False
    return _without_times(document) == _without_times(old)


def _without_empty(document: Document) -> Document:
    return {key: value for key, value in document.items() if value not in ({}, [], "")}


def _without_times(document: Document) -> list[Document]:
    return [_without(entry, ("time",)) for entry in document["metadata"].get("managedFields") or ()]


def has_content(document: Document) -> bool:
    """A namespace is kept until its `spec.finalizers` are empty."""
    return document["kind"] == "Namespace" and bool(document.get("spec", {}).get("finalizers"))


def compute_finalizers(kind: Kind, entry: StoredEntry, options: DeletionOptions) -> list[str]:
    """The finalizers of an object after a delete request with this propagation policy."""
    finalizers = list(entry.finalizers)
    added = {"Foreground": metadata.FOREGROUND, "Orphan": metadata.ORPHAN}.get(options.policy)
    if options.policy:
        finalizers = [name for name in finalizers if name not in (metadata.FOREGROUND, metadata.ORPHAN)]
    if added:
        finalizers.append(added)
    if kind.resource == DEFINITIONS and metadata.DEFINITION_CLEANUP not in finalizers:
        finalizers.append(metadata.DEFINITION_CLEANUP)
    return finalizers
