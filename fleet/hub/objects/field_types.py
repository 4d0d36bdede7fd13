"""Types of the fields of built-in kinds that the hub itself reads, checked like the decoding of a typed server.

Fields that are not listed are stored without a check. Listed fields have their type in all stored objects, so that
other code can rely on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fleet.hub.kinds.kind import Document, Kind
from fleet.hub.wire.statuses import bad_request

# A shape is a type, a list with the shape of its items, a dict of fields, or a dict with the single key "*" for a map.
Shape = Any

_TEXTS: Final[Shape] = [str]
_MAP: Final[Shape] = {"*": str}
_RULES: Final[Shape] = [
    dict.fromkeys(("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs"), _TEXTS),
]
_ROLE: Final[Shape] = {"rules": _RULES}
_BINDING: Final[Shape] = {
    "roleRef": {"apiGroup": str, "kind": str, "name": str},
    "subjects": [{"apiGroup": str, "kind": str, "name": str, "namespace": str}],
}
_COLUMN: Final[Shape] = {
    "name": str,
    "type": str,
    "format": str,
    "description": str,
    "jsonPath": str,
    "priority": int,
}
_VERSION: Final[Shape] = {
    "name": str,
    "served": bool,
    "storage": bool,
    "deprecated": bool,
    "deprecationWarning": str,
    "schema": {"openAPIV3Schema": {}},
    "subresources": {"status": {}},
    "additionalPrinterColumns": [_COLUMN],
    "selectableFields": [{"jsonPath": str}],
}
_NAMES: Final[Shape] = {
    **dict.fromkeys(("plural", "singular", "kind", "listKind"), str),
    "shortNames": _TEXTS,
    "categories": _TEXTS,
}
_DEFINITION: Final[Shape] = {
    "spec": {"group": str, "scope": str, "names": _NAMES, "conversion": {"strategy": str}, "versions": [_VERSION]},
}
_SCALED: Final[Shape] = {
    "spec": {"replicas": int, "selector": {"matchLabels": _MAP}},
    "status": {"replicas": int},
}
_ANY_KIND: Final[Shape] = {"spec": {}, "status": {}}

SHAPES: Final[Mapping[str, Shape]] = {
    "namespaces": {"spec": {"finalizers": _TEXTS}, "status": {"phase": str}},
    "configmaps": {"data": _MAP, "binaryData": _MAP, "immutable": bool},
    "secrets": {"data": _MAP, "stringData": _MAP, "type": str, "immutable": bool},
    "services": {"spec": {"type": str, "ports": [{"protocol": str}]}, "status": {}},
    "deployments.apps": _SCALED,
    "statefulsets.apps": _SCALED,
    "replicasets.apps": _SCALED,
    "roles.rbac.authorization.k8s.io": _ROLE,
    "clusterroles.rbac.authorization.k8s.io": _ROLE,
    "rolebindings.rbac.authorization.k8s.io": _BINDING,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDING,
    "customresourcedefinitions.apiextensions.k8s.io": _DEFINITION,
}
_JSON_NAMES: Final[Mapping[type, str]] = {str: "string", bool: "bool", dict: "object", list: "array"}
_SCHEMA_TYPES: Final[Mapping[type, str]] = {str: "string", bool: "boolean", int: "integer"}
_GO_NAMES: Final[Mapping[type, str]] = {str: "string", bool: "bool", int: "int32"}


def check_field_types(kind: Kind, document: Document) -> None:
    """Refuses values of the wrong type. Nulls and empty maps are dropped, as in a typed server."""
    if not kind.custom:
        _check(kind, document, SHAPES.get(kind.resource, _ANY_KIND), "")


def build_json_schema(resource: str) -> Document:
    """The listed fields as a schema for OpenAPI, which allows other fields too."""
    return _build_schema(SHAPES.get(resource, _ANY_KIND))


def _build_schema(shape: Shape) -> Document:
    if isinstance(shape, type):
        return {"type": _SCHEMA_TYPES[shape]}
    if isinstance(shape, list):
        return {"type": "array", "items": _build_schema(shape[0])}
    if "*" in shape:
        return {"type": "object", "additionalProperties": _build_schema(shape["*"])}
    properties = {"properties": {name: _build_schema(inner) for name, inner in shape.items()}} if shape else {}
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True, **properties}


def _check(kind: Kind, value: Any, shape: Shape, path: str) -> None:
    expected: Any = shape if isinstance(shape, type) else type(shape)
    if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
        actual = _JSON_NAMES.get(type(value), "number")
        text = (
            f"json: cannot unmarshal {actual} into Go struct field {kind.kind}.{path} of type {_go_type(shape, path)}"
        )
        raise bad_request(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {text}')
    if isinstance(shape, list):
        _check_items(kind, value, shape[0], path)
    elif isinstance(shape, dict):
        _check_fields(kind, value, shape, path)


def _check_items(kind: Kind, value: list[Any], shape: Shape, path: str) -> None:
    value[:] = [item for item in value if item is not None]
    for item in value:
        _check(kind, item, shape, path)


def _check_fields(kind: Kind, value: dict[str, Any], shape: dict[str, Shape], path: str) -> None:
    if "*" in shape:
        for name, item in value.items():
            value[name] = "" if item is None else item
            _check(kind, value[name], shape["*"], path)
        return
    for name, inner in shape.items():
        if name in value and value[name] is None:
            del value[name]
        if name in value:
            _check(kind, value[name], inner, f"{path}.{name}".lstrip("."))
            if value[name] == {} and inner is _MAP:
                del value[name]


def _go_type(shape: Shape, path: str) -> str:
    if isinstance(shape, type):
        return _GO_NAMES[shape]
    if isinstance(shape, list):
        return f"[]{_go_type(shape[0], path)}"
    if "*" in shape:
        return f"map[string]{_go_type(shape['*'], path)}"
    return "v1." + "".join(part[:1].upper() + part[1:] for part in path.split("."))
