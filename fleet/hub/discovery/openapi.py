"""OpenAPI v3 documents, as far as kubectl uses them: to apply, validate and explain.

Custom kinds are described by the schemas of their definitions. Built-in kinds are described only as far as the hub
itself reads their fields: kubectl has their types compiled in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from fleet.hub.kinds.kind import Document, Kind
from fleet.hub.kinds.registry import KindRegistry
from fleet.hub.objects.field_types import build_json_schema
from fleet.hub.wire.bodies import encode

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_TEXT: Final[Document] = {"type": "string"}
_TEXTS: Final[Document] = {"type": "object", "additionalProperties": _TEXT}
_OBJECT_META: Final[Document] = {
    "type": "object",
    "description": "Metadata that every object has: name, labels, annotations, owners and finalizers.",
    "properties": {
        "name": {**_TEXT, "description": "Unique among the objects of its kind in its namespace."},
        "generateName": {**_TEXT, "description": "Prefix of a name that the server completes."},
        "namespace": {**_TEXT, "description": "Namespace within which the name is unique."},
        "labels": {**_TEXTS, "description": "Key-value pairs that selectors match."},
        "annotations": {**_TEXTS, "description": "Key-value pairs that selectors do not match."},
        "finalizers": {"type": "array", "items": _TEXT, "description": "Must be empty before the object is removed."},
        "ownerReferences": {
            "type": "array",
            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "description": "Objects that own this one; it is deleted with them.",
        },
        "resourceVersion": {**_TEXT, "description": "Revision of the object; changes with every write."},
        "uid": {**_TEXT, "description": "Unique in time and space."},
        "generation": {
            "type": "integer",
            "format": "int64",
            "description": "Incremented with every change of the desired state.",
        },
        "creationTimestamp": {**_TEXT, "format": "date-time", "description": "Creation time of the object."},
        "deletionTimestamp": {**_TEXT, "format": "date-time", "description": "Time of the deletion request."},
        "managedFields": {
            "type": "array",
            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "description": "Field ownership: managers and the fields they set.",
        },
    },
}
_PARAMETERS: Final[list[Document]] = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]
_JSON_PATCHES: Final = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
)


# kubectl falls back to OpenAPI v2 in protobuf for kinds that it does not find in v3. This is a document without kinds.
EMPTY_OPENAPI_V2: Final = b"\x0a\x032.0\x12\x17\x0a\x0aKubernetes\x12\x09v1.34.0+f"


class OpenAPI:
    """Builds documents on demand and caches them until the served kinds change."""

    def __init__(self, registry: KindRegistry) -> None:
        self._registry = registry
        self._generation = -1
        self._documents: dict[str, bytes] = {}

    def index(self) -> Document:
        paths: Document = {}
        for group in self._registry.groups:
            for version in self._registry.versions(group):
                name = f"apis/{group}/{version}" if group else f"api/{version}"
                digest = hashlib.sha256(self.document(group, version)).hexdigest().upper()
                paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}?hash={digest}"}
        return {"paths": dict(sorted(paths.items()))}

    def document(self, group: str, version: str) -> bytes:
        if self._generation != self._registry.generation:
            self._documents.clear()
            self._generation = self._registry.generation
        name = f"{group}/{version}"
        if name not in self._documents:
            self._documents[name] = encode(_build_document(self._registry.of_version(group, version)))
        return self._documents[name]


def _build_document(kinds: list[Kind]) -> Document:
    schemas: Document = {_META: _OBJECT_META}
    paths: Document = {}
    for kind in kinds:
        schemas[_schema_name(kind)] = _build_schema(kind)
        paths[_format_path(kind)] = _build_operations(kind)
    info = {"title": "Kubernetes", "version": "v1.34.0+fleet"}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _schema_name(kind: Kind) -> str:
    return ".".join([*reversed((kind.group or "core").split(".")), kind.version, kind.kind])


def _build_schema(kind: Kind) -> Document:
    described: Document = _to_openapi(kind.json_schema or build_json_schema(kind.resource))
    properties = dict(described.get("properties") or {})
    properties["apiVersion"] = {**_TEXT, "description": "Group and version of the kind."}
    properties["kind"] = {**_TEXT, "description": "The kind of the object."}
    properties["metadata"] = {"allOf": [{"$ref": f"#/components/schemas/{_META}"}], "description": "Standard metadata."}
    return {**described, "properties": properties, "x-kubernetes-group-version-kind": [_group_version_kind(kind)]}


def _to_openapi(schema: Mapping[str, Any]) -> Document:
    """Definitions and OpenAPI share one schema format; only int-or-string needs an explicit `oneOf`."""
    converted = {key: value for key, value in schema.items() if not key.startswith("x-kubernetes-validations")}
    for key in ("properties", "patternProperties"):
        if isinstance(converted.get(key), dict):
            converted[key] = {name: _to_openapi(inner) for name, inner in converted[key].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(converted.get(key), dict):
            converted[key] = _to_openapi(converted[key])
    if converted.get("x-kubernetes-int-or-string"):
        converted["oneOf"] = [{"type": "integer"}, {"type": "string"}]
    return converted


def _format_path(kind: Kind) -> str:
    base = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    scope = "/namespaces/{namespace}" if kind.namespaced else ""
    return f"{base}{scope}/{kind.plural}/{{name}}"


def _build_operations(kind: Kind) -> Document:
    identity = _group_version_kind(kind)
    reference = {"schema": {"$ref": f"#/components/schemas/{_schema_name(kind)}"}}
    answer = {"200": {"description": "OK", "content": {"application/json": reference}}}
    patch: Document = {
        "parameters": [
            *_PARAMETERS,
            {"name": "force", "in": "query", "schema": {"type": "boolean", "uniqueItems": True}},
        ],
        "requestBody": {"content": {name: {"schema": {"type": "object"}} for name in _JSON_PATCHES}, "required": True},
        "responses": answer,
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": identity,
    }
    get = {"responses": answer, "x-kubernetes-action": "get", "x-kubernetes-group-version-kind": identity}
    return {"get": get, "patch": patch}


def _group_version_kind(kind: Kind) -> Document:
    return {"group": kind.group, "kind": kind.kind, "version": kind.version}
