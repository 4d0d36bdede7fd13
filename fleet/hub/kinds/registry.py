"""The registry of served kinds, by group, version and plural."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import MappingProxyType

from fleet.hub.kinds.kind import Kind

_STABILITY = {"": 3, "beta": 2, "alpha": 1}


class KindRegistry:
    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        self._versions: dict[str, tuple[str, ...]] = {}
        self._stored: dict[str, Kind] = {}
        self.generation = 0  # incremented with every change; invalidates documents computed from the kinds
        self.replace((), kinds)

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._kinds.get((group, version, plural))

    def serves_version(self, group: str, version: str) -> bool:
        return version in self._versions.get(group, ())

    def versions(self, group: str) -> Sequence[str]:
        """Served versions, the preferred version first."""
        return self._versions.get(group, ())

    @property
    def groups(self) -> Sequence[str]:
        return tuple(self._versions)

    def of_version(self, group: str, version: str) -> list[Kind]:
        kinds = [kind for kind in self._kinds.values() if (kind.group, kind.version) == (group, version)]
        return sorted(kinds, key=lambda kind: kind.plural)

    @property
    def kinds(self) -> MappingProxyType[tuple[str, str, str], Kind]:
        return MappingProxyType(self._kinds)

    def stored_kind(self, resource: str) -> Kind | None:
        """The kind in the storage version of a resource, or another served version if that one is not served."""
        return self._stored.get(resource)

    def replace(self, removed: Iterable[Kind], added: Iterable[Kind]) -> None:
        for kind in removed:
            self._kinds.pop((kind.group, kind.version, kind.plural), None)
        for kind in added:
            self._kinds[kind.group, kind.version, kind.plural] = kind
        versions: dict[str, set[str]] = {}
        self._stored = {}
        for kind in self._kinds.values():
            if kind.is_stored_form or kind.resource not in self._stored:
                self._stored[kind.resource] = kind
            versions.setdefault(kind.group, set()).add(kind.version)
        self._versions = {group: tuple(sorted(served, key=priority)) for group, served in versions.items()}
        self.generation += 1


def priority(version: str) -> tuple[int, int, int, str]:
    """Sort key for the version priority of Kubernetes: v2, v1, v1beta2, v1beta1, v1alpha1, others."""
    head, stage, tail = version, "", ""
    for word in ("alpha", "beta"):
        if word in version:
            head, tail = version.split(word, 1)
            stage = word
    if not (head[:1] == "v" and head[1:].isdigit() and (not stage or tail.isdigit())):
        return (0, 0, 0, version)
    return (-_STABILITY[stage], -int(head[1:]), -int(tail or 0), version)
