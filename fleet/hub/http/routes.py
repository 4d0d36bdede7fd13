"""Routes: the resource that a URL addresses, the kind behind it, and the verb of a method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fleet.hub.kinds.builtin import NAMESPACES
from fleet.hub.kinds.kind import SUBRESOURCE_VERBS, Kind
from fleet.hub.kinds.registry import KindRegistry
from fleet.hub.wire.statuses import method_not_allowed, no_such_resource, not_found

_OF_OBJECTS: Final = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_OF_COLLECTIONS: Final = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}


@dataclass(frozen=True, slots=True)
class ResourcePath:
    """A parsed resource URL; the resource may not exist."""

    group: str
    version: str
    namespace: str
    plural: str
    name: str
    subresource: str

    def verb(self, method: str, *, watch: bool) -> str:
        verbs = _OF_OBJECTS if self.name else _OF_COLLECTIONS
        if watch and method == "GET":
            return "watch"
        return verbs.get(method, "")


def parse_resource_path(path: str) -> ResourcePath | None:
    """The parsed path, or None for a non-resource path."""
    parts = path.strip("/").split("/")
    match parts:
        case ["api", version, *rest] if rest:
            group = ""
        case ["apis", group, version, *rest] if rest:
            pass
        case _:
            return None
    namespace = ""
    of_namespace = len(rest) == 3 and rest[2] in ("status", "finalize") and not group
    if rest[0] == "namespaces" and len(rest) > 2 and not of_namespace:
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3 or "" in rest:
        raise no_such_resource()
    if not group and namespace and rest[0] == "namespaces":
        raise no_such_resource()
    plural, name, subresource = (*rest, "", "")[:3]
    if plural == "namespaces" and not group and name:
        namespace = name
    return ResourcePath(group, version, namespace, plural, name, subresource)


def resolve_kind(registry: KindRegistry, path: ResourcePath) -> Kind | None:
    """The kind that the path addresses, or None if the group or version is not served at all."""
    kind = registry.find(path.group, path.version, path.plural)
    if kind is None:
        others = registry.of_version(path.group, path.version)
        if not others or any(other.custom for other in others):
            return None
        raise no_such_resource()
    if path.namespace and not kind.namespaced and kind.resource != NAMESPACES:
        raise no_such_resource()
    if kind.namespaced and path.name and not path.namespace:
        raise no_such_resource()
    if path.subresource and path.subresource not in kind.subresources:
        raise not_found(kind, path.name) if kind.custom else no_such_resource()
    return kind


def check_verb(kind: Kind, path: ResourcePath, method: str) -> None:
    """Raises a 405 Status for a method that the resource does not support."""
    verb = path.verb(method, watch=False)
    allowed = kind.verbs
    if path.subresource:
        allowed = ("update",) if path.subresource == "finalize" else SUBRESOURCE_VERBS
    if verb not in allowed or (verb in ("create", "deletecollection") and kind.namespaced and not path.namespace):
        raise method_not_allowed()
