"""The key of a placement, cluster-scoped or namespaced, in queues, caches and records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from fleet.errors import InvalidKey

if TYPE_CHECKING:
    from fleet.model.views import Metadata


class PlacementKey(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Its text is `namespace/name`, or the name alone of a cluster-scoped placement. Keys are ordered by their text."""

    namespace: str
    """Empty for a cluster-scoped placement."""
    name: str

    @classmethod
    def of(cls, metadata: Metadata) -> PlacementKey:
        return cls(metadata.namespace, metadata.name)

    @classmethod
    def parse(cls, text: str) -> PlacementKey:
        namespace, slash, name = text.rpartition("/")
        if not name or (slash and not namespace) or "/" in namespace:
            raise InvalidKey(f"{text!r} is not a key: want name or namespace/name")
        return cls(namespace, name)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def __lt__(self, other: PlacementKey) -> bool:
        return str(self) < str(other)
