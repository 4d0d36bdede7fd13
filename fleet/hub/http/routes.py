"""What a URL is about: a kind, perhaps a namespace, a name and a subresource; and which verb that makes of a method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fleet.hub.kinds.builtin import NAMESPACES
from fleet.hub.kinds.kind import SUBRESOURCE_VERBS, Kind
from fleet.hub.kinds.registry import Registry
from fleet.hub.statuses import method_not_allowed, no_such_resource, not_found

_OF_OBJECTS: Final = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_OF_COLLECTIONS: Final = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}


@dataclass(frozen=True, slots=True)
class Words:
    """A resource URL taken apart, before anyone knows whether it exists."""

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


def words(path: str) -> Words | None:
    """None when the path is not of a resource."""
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
    return Words(group, version, namespace, plural, name, subresource)


def kind_of(registry: Registry, found: Words) -> Kind | None:
    """The kind behind the words, None when the group or version is not served at all."""
    kind = registry.find(found.group, found.version, found.plural)
    if kind is None:
        others = registry.of_version(found.group, found.version)
        if not others or any(other.custom for other in others):
            return None
        raise no_such_resource()
    if found.namespace and not kind.namespaced and kind.resource != NAMESPACES:
        raise no_such_resource()
    if kind.namespaced and found.name and not found.namespace:
        raise no_such_resource()
    if found.subresource and found.subresource not in kind.subresources:
        raise not_found(kind, found.name) if kind.custom else no_such_resource()
    return kind


def check_verb(kind: Kind, found: Words, method: str) -> None:
    """Refuses what the URL does not offer."""
    verb = found.verb(method, watch=False)
    allowed = kind.verbs
    if found.subresource:
        allowed = ("update",) if found.subresource == "finalize" else SUBRESOURCE_VERBS
    if verb not in allowed or (verb in ("create", "deletecollection") and kind.namespaced and not found.namespace):
        raise method_not_allowed()
