"""How people write the name of a placement, and where the API keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self
from urllib.parse import quote

from fleet.errors import InputError
from fleet.kube.resource import join_key
from fleet.model.labels import is_subdomain


@dataclass(frozen=True, slots=True)
class PlacementName:
    namespace: str
    """Empty for one that belongs to the whole fleet."""
    name: str

    @classmethod
    def read(cls, text: str, namespace: str | None = None) -> Self:
        """`web` or `orders/web`; a namespace given beside it has to agree."""
        before, slash, name = text.rpartition("/")
        if not name or (slash and not before) or "/" in before:
            raise InputError(f"{text!r} is no placement; write its name, or namespace/name", field="PLACEMENT")
        if namespace and slash and before != namespace:
            raise InputError(f"{text!r} is not in namespace {namespace}; name the namespace once", field="PLACEMENT")
        if not all(map(is_subdomain, filter(None, (before, namespace, name)))):
            message = f"{text!r} is no placement; names are of lower-case letters, digits, dashes and dots"
            raise InputError(message, field="PLACEMENT")
        return cls(before or namespace or "", name)

    @property
    def key(self) -> str:
        return join_key(self.namespace, self.name)

    @property
    def path(self) -> str:
        return f"/v1/placements/{quote(self.namespace or '-', safe='')}/{quote(self.name, safe='')}"
