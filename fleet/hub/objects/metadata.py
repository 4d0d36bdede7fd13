"""Object metadata: decoding, validation, and the fields that the server sets."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any, Final

from fleet.errors import RequestRefused
from fleet.hub.kinds.kind import Document, Kind
from fleet.hub.names import (
    DNS_1035_LABEL,
    DNS_1035_MESSAGE,
    LABEL,
    LABEL_MESSAGE,
    LABEL_VALUE,
    LABEL_VALUE_MESSAGE,
    QUALIFIED_NAME_MESSAGE,
    SUBDOMAIN,
    SUBDOMAIN_MESSAGE,
    key_problems,
)
from fleet.hub.schema.field_errors import FieldError
from fleet.hub.wire.statuses import bad_request, forbidden_field, invalid_value, required_value

Clock = Callable[[], float]

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
DEFINITION_CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
NAMESPACE_FINALIZER: Final = "kubernetes"

_SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, to avoid accidental words
_SUFFIX_LENGTH: Final = 5
_RANDOM: Final = Random()  # not the shared generator, which other code may seed
_LONGEST_GENERATED: Final = 63
_ANNOTATIONS_LIMIT: Final = 256 * 1024  # bytes; keys and values together

_TEXTS: Final = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "selfLink",
)
_SHAPES: Final[Mapping[str, tuple[type, str]]] = {
    **dict.fromkeys(_TEXTS, (str, "string")),
    "generation": (int, "int64"),
    "deletionGracePeriodSeconds": (int, "int64"),
    "labels": (dict, "map[string]string"),
    "annotations": (dict, "map[string]string"),
    "finalizers": (list, "[]string"),
    "ownerReferences": (list, "[]v1.OwnerReference"),
    "managedFields": (list, "[]v1.ManagedFieldsEntry"),
}
_JSON_NAMES: Final[Mapping[type, str]] = {str: "string", bool: "bool", dict: "object", list: "array"}
# Set by the server only; an update keeps the old values.
_SERVER_OWNED: Final = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")


def format_timestamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def check_types(kind: Kind, document: Document) -> None:
    """Checks the types of all metadata fields; drops fields that are unknown or null."""
    metadata = document.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise _decoding_error(kind, f"cannot unmarshal {_json_type(metadata)} into Go value of type v1.ObjectMeta")
    known = {key: value for key, value in metadata.items() if key in _SHAPES and value is not None}
    for key, value in known.items():
        wanted, go_type = _SHAPES[key]
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise _field_decoding_error(kind, value, f"ObjectMeta.{key}", go_type)
        _check_items(kind, key, value)
    document["metadata"] = known


def unknown_metadata_fields(document: Document) -> list[str]:
    metadata = document.get("metadata")
    return [f"metadata.{key}" for key in metadata if key not in _SHAPES] if isinstance(metadata, dict) else []


def _check_items(kind: Kind, key: str, value: Any) -> None:
    wanted: type = dict if key in ("ownerReferences", "managedFields") else str
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in items:
        if not isinstance(item, wanted):
            go_type = "string" if wanted is str else _SHAPES[key][1].removeprefix("[]")
            raise _field_decoding_error(kind, item, f"ObjectMeta.{key}", go_type)
    if key == "ownerReferences":
        for owner in value:
            for name in ("apiVersion", "kind", "name", "uid"):
                if not isinstance(owner.get(name, ""), str):
                    raise _field_decoding_error(kind, owner[name], f"OwnerReference.{name}", "string")


def _field_decoding_error(kind: Kind, value: Any, field: str, go_type: str) -> RequestRefused:
    return _decoding_error(kind, f"cannot unmarshal {_json_type(value)} into Go struct field {field} of type {go_type}")


def _decoding_error(kind: Kind, text: str) -> RequestRefused:
    return bad_request(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: json: {text}')


def _json_type(value: Any) -> str:
    return _JSON_NAMES.get(type(value), "number")


def generate_name(document: Document) -> None:
    metadata = document["metadata"]
    if not metadata.get("name") and metadata.get("generateName"):
        base = metadata["generateName"][: _LONGEST_GENERATED - _SUFFIX_LENGTH]
        metadata["name"] = base + "".join(_RANDOM.choices(_SUFFIX_ALPHABET, k=_SUFFIX_LENGTH))


def new_uid() -> str:
    return str(uuid.uuid4())


def initialize(kind: Kind, document: Document, *, namespace: str, now: float, uid: str) -> None:
    """Sets the server-owned fields of a new object, overwriting those of the client."""
    metadata = document["metadata"]
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink", "resourceVersion"):
        metadata.pop(key, None)
    if kind.namespaced:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)
    drop_empty(metadata)
    metadata["uid"] = uid
    metadata["creationTimestamp"] = format_timestamp(now)
    if kind.counts_generations:
        metadata["generation"] = 1


def preserve_server_fields(document: Document, old: Document) -> None:
    """Copies the server-owned fields of the old object to the updated one."""
    metadata, before = document["metadata"], old["metadata"]
    metadata.pop("selfLink", None)
    drop_empty(metadata)
    for key in _SERVER_OWNED:
        if key in before:
            metadata[key] = before[key]
        else:
            metadata.pop(key, None)
    for key in ("name", "namespace", "generateName"):
        if key in before:
            metadata.setdefault(key, before[key])


def collect_warnings(kind: Kind, metadata: Document) -> list[str]:
    """Warnings for accepted metadata that goes against recommendations."""
    text = "prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"
    unqualified = [name for name in metadata.get("finalizers") or () if "/" not in name]
    foreign = [name for name in unqualified if name not in (FOREGROUND, ORPHAN)]
    return [f'metadata.finalizers: "{name}": {text}' for name in foreign if kind.custom]


def drop_empty(metadata: Document) -> None:
    """Drops empty maps and lists, which the API server treats as absent."""
    for key in ("labels", "annotations", "finalizers", "ownerReferences"):
        if key in metadata and not metadata[key]:
            del metadata[key]


def validate(kind: Kind, document: Document) -> list[FieldError]:
    """All errors in the metadata of an object, in the API server's order."""
    metadata = document["metadata"]
    return [
        *_validate_name(kind, metadata),
        *_validate_labels(metadata.get("labels") or {}),
        *_validate_annotations(metadata.get("annotations") or {}),
        *_validate_owners(metadata.get("ownerReferences") or []),
        *_validate_finalizers(kind, metadata.get("finalizers") or []),
    ]


def validate_update(document: Document, old: Document) -> Iterator[FieldError]:
    metadata, before = document["metadata"], old["metadata"]
    if "deletionTimestamp" in before:
        added = [name for name in metadata.get("finalizers") or () if name not in (before.get("finalizers") or ())]
        if added:
            listed = ", ".join(f'"{name}"' for name in added)
            text = (
                "no new finalizers can be added if the object is being deleted, found new finalizers "
                f"[]string{{{listed}}}"
            )
            yield forbidden_field("metadata.finalizers", text)
    for key in ("name", "namespace"):
        if metadata.get(key) != before.get(key):
            yield invalid_value(f"metadata.{key}", metadata.get(key, ""), "field is immutable")


def _validate_name(kind: Kind, metadata: Document) -> Iterator[FieldError]:
    name = metadata.get("name", "")
    if not name:
        yield required_value("metadata.name", "name or generateName is required")
        return
    for text in _name_problems(kind, name):
        yield invalid_value("metadata.name", name, text)


def _name_problems(kind: Kind, name: str) -> Iterator[str]:
    if kind.names_are_paths:
        if name in (".", ".."):
            yield f"may not be '{name}'"
        for character in "/%":
            if character in name:
                yield f"may not contain '{character}'"
        return
    pattern, text, longest = SUBDOMAIN, SUBDOMAIN_MESSAGE, 253
    if kind.resource == "namespaces":
        pattern, text, longest = LABEL, LABEL_MESSAGE, 63
    elif kind.resource == "services":
        pattern, text, longest = DNS_1035_LABEL, DNS_1035_MESSAGE, 63
    if pattern is LABEL and "." in name:
        yield "must not contain dots"
        return
    if len(name) > longest:
        yield f"must be no more than {longest} characters"
    if not pattern.match(name):
        yield text


def _validate_labels(labels: Mapping[str, str]) -> Iterator[FieldError]:
    for key, value in labels.items():
        for text in key_problems(key):
            yield invalid_value("metadata.labels", key, text)
        if len(value) > 63:
            yield invalid_value("metadata.labels", value, "must be no more than 63 characters")
        if not LABEL_VALUE.match(value):
            yield invalid_value("metadata.labels", value, LABEL_VALUE_MESSAGE)


def _validate_annotations(annotations: Mapping[str, str]) -> Iterator[FieldError]:
    for key in annotations:
        for text in key_problems(key.lower()):
            yield invalid_value("metadata.annotations", key, text)
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > _ANNOTATIONS_LIMIT:
        text = f"Too long: may not be more than {_ANNOTATIONS_LIMIT} bytes"
        yield FieldError("metadata.annotations", "FieldValueTooLong", text)


def _validate_owners(owners: list[Document]) -> Iterator[FieldError]:
    field = "metadata.ownerReferences"
    for owner in owners:
        for name, text in (
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ):
            if not owner.get(name):
                yield invalid_value(f"{field}.{name}", owner.get(name, ""), text)
    controllers = [owner for owner in owners if owner.get("controller") is True]
    if len(controllers) > 1:
        first, second = (f"{owner.get('kind')}/{owner.get('name')}" for owner in controllers[:2])
        text = (
            f'Only one reference can have Controller set to true. Found "true" in references for {first} and {second}'
        )
        yield invalid_value(field, owners, text)


def _validate_finalizers(kind: Kind, finalizers: list[str]) -> Iterator[FieldError]:
    for index, name in enumerate(finalizers):
        for _ in key_problems(name):
            yield invalid_value("metadata.finalizers", name, QUALIFIED_NAME_MESSAGE)
        if "/" not in name and name not in (FOREGROUND, ORPHAN, DEFINITION_CLEANUP) and not kind.custom:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid_value(f"metadata.finalizers[{index}]", name, text)
    if FOREGROUND in finalizers and ORPHAN in finalizers:
        text = f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set"
        yield invalid_value("metadata.finalizers", finalizers, text)
