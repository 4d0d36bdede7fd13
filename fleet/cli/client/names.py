"""Names that users type: kinds, with kubectl's names and aliases for both scopes, and placements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import quote

from fleet.errors import InputError
from fleet.kube.resource import join_key
from fleet.model.catalog import CATALOG, KindDefinition
from fleet.model.labels import is_subdomain
from fleet.similarity import did_you_mean

PLACEMENT_KINDS: Final = ("ClusterResourcePlacement", "ResourcePlacement")
BINDING_KINDS: Final = ("ClusterResourceBinding", "ResourceBinding")
CLUSTER_KIND: Final = "MemberCluster"
_ALIASES: Final = {
    "placement": PLACEMENT_KINDS,
    "placements": PLACEMENT_KINDS,
    "cluster": (CLUSTER_KIND,),
    "clusters": (CLUSTER_KIND,),
    "mc": (CLUSTER_KIND,),
    "binding": BINDING_KINDS,
    "bindings": BINDING_KINDS,
}
_ON_HUB: Final = tuple(kind for kind in CATALOG if not kind.on_member)


def find_kinds(word: str) -> tuple[KindDefinition, ...]:
    """One kind, or both scopes of it."""
    wanted = word.lower()
    if wanted in _ALIASES:
        return tuple(kind for name in _ALIASES[wanted] for kind in _ON_HUB if kind.kind == name)
    kinds = tuple(kind for kind in _ON_HUB if wanted in _names(kind))
    if not kinds:
        hint = did_you_mean(word, [*_ALIASES, *(name for kind in _ON_HUB for name in _names(kind))])
        raise InputError(f"{word!r} is not a kind of Fleet{hint or '; there are placements, clusters and bindings'}")
    return kinds


def _names(resource: KindDefinition) -> tuple[str, ...]:
    return (resource.plural, resource.singular, resource.full_name, *resource.short_names)


@dataclass(frozen=True, slots=True)
class PlacementName:
    namespace: str
    """Empty for a cluster-scoped placement."""
    name: str

    @classmethod
    def parse(cls, text: str, namespace: str | None = None) -> Self:
        """`web` or `orders/web`; a namespace given separately must match."""
        before, slash, name = text.rpartition("/")
        if not name or (slash and not before) or "/" in before:
            raise InputError(f"{text!r} is not a placement; write its name, or namespace/name", field="PLACEMENT")
        if namespace and slash and before != namespace:
            raise InputError(f"{text!r} is not in namespace {namespace}; name the namespace once", field="PLACEMENT")
        if not all(map(is_subdomain, filter(None, (before, namespace, name)))):
            message = f"{text!r} is not a placement; names consist of lower-case letters, digits, dashes and dots"
            raise InputError(message, field="PLACEMENT")
        return cls(before or namespace or "", name)

    @property
    def key(self) -> str:
        return join_key(self.namespace, self.name)

    @property
    def path(self) -> str:
        return f"/v1/placements/{quote(self.namespace or '-', safe='')}/{quote(self.name, safe='')}"
