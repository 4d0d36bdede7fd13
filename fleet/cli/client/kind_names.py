"""What people call Fleet's kinds: the names that kubectl takes, and words for a kind in both of its flavours."""

from __future__ import annotations

from typing import Final

from fleet.cli.input.problems import did_you_mean
from fleet.errors import InputError
from fleet.model.catalog import CATALOG, KindDefinition

PLACEMENT_KINDS: Final = ("ClusterResourcePlacement", "ResourcePlacement")
BINDING_KINDS: Final = ("ClusterResourceBinding", "ResourceBinding")
CLUSTER_KIND: Final = "MemberCluster"
_WORDS: Final = {
    "placement": PLACEMENT_KINDS,
    "placements": PLACEMENT_KINDS,
    "cluster": (CLUSTER_KIND,),
    "clusters": (CLUSTER_KIND,),
    "mc": (CLUSTER_KIND,),
    "binding": BINDING_KINDS,
    "bindings": BINDING_KINDS,
}
_ON_HUB: Final = tuple(one for one in CATALOG if not one.on_member)


def kinds_called(word: str) -> tuple[KindDefinition, ...]:
    """One kind, or both flavours of it."""
    wanted = word.lower()
    if wanted in _WORDS:
        return tuple(one for kind in _WORDS[wanted] for one in _ON_HUB if one.kind == kind)
    found = tuple(one for one in _ON_HUB if wanted in _names(one))
    if not found:
        hint = did_you_mean(word, [*_WORDS, *(name for one in _ON_HUB for name in _names(one))])
        raise InputError(f"{word!r} is no kind of Fleet{hint or '; there are placements, clusters and bindings'}")
    return found


def _names(resource: KindDefinition) -> tuple[str, ...]:
    return (resource.plural, resource.singular, resource.full_name, *resource.short_names)
