"""Defaulting and validation of the built-in kinds whose content the hub interprets."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from fleet.hub.kinds import builtin
from fleet.hub.kinds.kind import Document, Kind
from fleet.hub.objects.metadata import NAMESPACE_FINALIZER
from fleet.hub.schema.field_errors import FieldError
from fleet.hub.wire.statuses import bad_request, forbidden_field, invalid_value, required_value

_LARGEST_DATA: Final = 1024 * 1024  # bytes; all values of one ConfigMap or Secret
_DATA_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+\Z")
_DATA_KEY_TEXT: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_WITH_DATA: Final = ("configmaps", "secrets")
_FIELD_NAMES: Final[Mapping[str, frozenset[str]]] = {
    "configmaps": frozenset({"data", "binaryData", "immutable"}),
    "secrets": frozenset({"data", "stringData", "type", "immutable"}),
    "namespaces": frozenset({"spec", "status"}),
}
_COMMON_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})


def unknown_fields(kind: Kind, document: Document) -> list[str]:
    """Unknown top-level fields, for kinds whose fields are all known."""
    known = _FIELD_NAMES.get(kind.resource)
    return [] if known is None else [key for key in document if key not in known | _COMMON_FIELDS]


def drop_unknown(kind: Kind, document: Document) -> None:
    for key in unknown_fields(kind, document):
        del document[key]


def prepare_new(kind: Kind, document: Document) -> None:
    """Sets the defaults of a new object."""
    if kind.has_status and not kind.custom:
        document.pop("status", None)
    prepare = _PREPARATIONS.get(kind.resource)
    if prepare is not None:
        prepare(document)


def prepare_update(kind: Kind, document: Document, old: Document) -> None:
    if kind.resource == builtin.NAMESPACES:
        _label_namespace(document)
        spec, before = document.setdefault("spec", {}), old.get("spec", {})
        spec["finalizers"] = before.get("finalizers", [])
    elif kind.resource == "secrets":
        _prepare_secret(document)


def validate(kind: Kind, document: Document, old: Document | None) -> Iterator[FieldError]:
    if kind.resource in _WITH_DATA:
        yield from _validate_data(kind, document)
        if old is not None:
            yield from _validate_immutable(kind, document, old)
    if kind.group == "rbac.authorization.k8s.io" and kind.kind.endswith("Role"):
        for index, rule in enumerate(document.get("rules") or ()):
            if not rule.get("verbs"):
                yield required_value(f"rules[{index}].verbs", "verbs must contain at least one value")
    if kind.group == "rbac.authorization.k8s.io" and kind.kind.endswith("Binding"):
        yield from _validate_binding(document, old)


def _prepare_namespace(document: Document) -> None:
    _label_namespace(document)
    finalizers = document.get("spec", {}).get("finalizers") or []
    document["spec"] = {"finalizers": list(dict.fromkeys([*finalizers, NAMESPACE_FINALIZER]))}
    document["status"] = {"phase": "Active"}


def _label_namespace(document: Document) -> None:
    metadata = document["metadata"]
    metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata.get("name", "")}


def _prepare_secret(document: Document) -> None:
    texts = document.pop("stringData", None) or {}
    if texts:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in texts.items()}
        document["data"] = {**(document.get("data") or {}), **encoded}
    document.setdefault("type", "Opaque")


def _prepare_service(document: Document) -> None:
    spec = document.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports") or ():
        if isinstance(port, dict):
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port.get("port"))
    document["status"] = {"loadBalancer": {}}


def _prepare_replicated(document: Document) -> None:
    document.setdefault("spec", {}).setdefault("replicas", 1)


_PREPARATIONS: Final[Mapping[str, Callable[[Document], None]]] = {
    builtin.NAMESPACES: _prepare_namespace,
    "secrets": _prepare_secret,
    "services": _prepare_service,
    "deployments.apps": _prepare_replicated,
    "statefulsets.apps": _prepare_replicated,
    "replicasets.apps": _prepare_replicated,
}


def _validate_data(kind: Kind, document: Document) -> Iterator[FieldError]:
    size = 0
    for name in ("data", "binaryData"):
        for key, value in (document.get(name) or {}).items():
            size += len(value)
            if not _DATA_KEY.match(key) or len(key) > 253:
                yield invalid_value(f"{name}[{key}]", key, _DATA_KEY_TEXT)
            if (kind.resource == "secrets" or name == "binaryData") and not _is_base64(value):
                text = "illegal base64 data at input byte 0"
                raise bad_request(f'{kind.kind} in version "v1" cannot be handled as a {kind.kind}: {text}')
    if size > _LARGEST_DATA:
        yield FieldError(
            "data" if kind.resource == "secrets" else "",
            "FieldValueTooLong",
            f"Too long: may not be more than {_LARGEST_DATA} bytes",
        )


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _validate_immutable(kind: Kind, document: Document, old: Document) -> Iterator[FieldError]:
    text = "field is immutable when `immutable` is set"
    if old.get("immutable") is True:
        for name in ("immutable", "data", "binaryData"):
            if document.get(name) != old.get(name):
                yield forbidden_field(name, text)
    if kind.resource == "secrets" and document.get("type") != old.get("type"):
        yield invalid_value("type", document.get("type"), "field is immutable")


def _validate_binding(document: Document, old: Document | None) -> Iterator[FieldError]:
    role = document.get("roleRef")
    if not isinstance(role, dict) or not role.get("name"):
        yield required_value("roleRef.name")
    elif old is not None and role != old.get("roleRef"):
        yield invalid_value("roleRef", role, "cannot change roleRef")
