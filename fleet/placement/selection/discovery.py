"""API discovery: the kinds and versions that the API server serves, and whether they can be watched.

Reads the unaggregated discovery documents, because every API server has them: two lists of groups, and one document per
version of a group. A version that cannot be read (its extension API server is down) keeps its last known kinds and is
distinguished from one that does not exist. When to start informers is left to `resource_selection`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec

from fleet.clock import Clock
from fleet.errors import ApiError, NotFound, StaleInputs, UnreadableAnswer
from fleet.kube.api import Api, Method, Request
from fleet.kube.grants import EXPLAIN_GROUP
from fleet.kube.resource import Resource

_T = TypeVar("_T")

SECONDS_BETWEEN_REFRESHES: Final = 10.0
"""Limits refreshes for a missing kind; a change of a CustomResourceDefinition causes one without this delay."""
_NEEDED: Final = frozenset({"list", "watch"})


class KindsUnreadable(StaleInputs):
    """The discovery document of a version could not be read, so its kinds are unknown."""


@dataclass(frozen=True, slots=True, order=True)
class KindName:
    group: str
    version: str
    kind: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version} {self.kind}" if self.group else f"{self.version} {self.kind}"

    @property
    def group_version(self) -> GroupVersion:
        return self.group, self.version


GroupVersion = tuple[str, str]


@dataclass(frozen=True, slots=True)
class DiscoveredKinds:
    """The kinds that the API server served at the last refresh."""

    by_version: Mapping[GroupVersion, Mapping[str, Resource]] = field(default_factory=dict)
    """In the order of preference of each group."""
    unwatchable: frozenset[KindName] = frozenset()
    unreadable: frozenset[GroupVersion] = frozenset()
    """They keep their last known kinds, if any."""

    def find(self, name: KindName) -> Resource | None:
        """None for a kind that does not exist or cannot be watched."""
        return self.by_version.get(name.group_version, {}).get(name.kind)

    def knows(self, name: KindName) -> bool:
        return self.find(name) is not None or name in self.unwatchable

    def missing(self, wanted: Callable[[str, str], bool]) -> list[GroupVersion]:
        """The required versions that could never be read."""
        return sorted(version for version in self.unreadable if version not in self.by_version and wanted(*version))

    def iter_preferred(self) -> Iterator[Resource]:
        """Every kind once, at the version its group prefers among those that have it."""
        seen = set[tuple[str, str]]()
        for (group, _), resources in self.by_version.items():
            for kind, resource in resources.items():
                if (group, kind) not in seen:
                    seen.add((group, kind))
                    yield resource

    def resources(self) -> frozenset[Resource]:
        return frozenset(resource for resources in self.by_version.values() for resource in resources.values())


def match_no_group(_group: str, _version: str) -> bool:
    return False


class Discovery:
    """The kinds, read on first use, and again when a kind is missing or `refresh` is called."""

    def __init__(
        self, api: Api, clock: Clock, *, on_change: Callable[[DiscoveredKinds, DiscoveredKinds], None] = lambda *_: None
    ) -> None:
        self._api = api
        self._clock = clock
        self._on_change = on_change
        self._kinds: DiscoveredKinds | None = None
        self._read_at = 0.0
        self._refreshing: asyncio.Event | None = None

    @property
    def kinds(self) -> DiscoveredKinds:
        return self._kinds or DiscoveredKinds()

    async def resolve_kinds(
        self, names: Iterable[KindName], *, completely: Callable[[str, str], bool] = match_no_group
    ) -> DiscoveredKinds:
        """The kinds, refreshed if one of `names` is missing. Raises if one of them, or a kind of the versions selected
        by `completely`, is unknown: with part of the kinds, the objects of the others would look deleted."""
        wanted = list(names)
        while self._kinds is None:
            await self.refresh()
        knows = all(self.kinds.knows(name) for name in wanted) and not self.kinds.missing(completely)
        if not knows and self._clock.monotonic() - self._read_at >= SECONDS_BETWEEN_REFRESHES:
            await self.refresh()
        self._raise_if_unreadable(wanted, completely)
        return self.kinds

    async def refresh(self) -> None:
        """Concurrent callers share one refresh."""
        if self._refreshing is not None:
            await self._refreshing.wait()
            return
        self._refreshing = asyncio.Event()
        try:
            self._replace_kinds(await discover_kinds(self._api, known=self.kinds))
        finally:
            self._refreshing.set()
            self._refreshing = None

    def _replace_kinds(self, kinds: DiscoveredKinds) -> None:
        before, self._kinds = self.kinds, kinds
        self._read_at = self._clock.monotonic()
        if kinds.resources() != before.resources():
            self._on_change(before, kinds)

    def _raise_if_unreadable(self, names: Iterable[KindName], completely: Callable[[str, str], bool]) -> None:
        unknown = {name.group_version for name in names if not self.kinds.knows(name)} & self.kinds.unreadable
        missing = sorted(unknown.union(self.kinds.missing(completely)))
        if missing:
            texts = ", ".join(f"{group}/{version}" if group else version for group, version in missing)
            raise KindsUnreadable(f"the API server did not return the kinds of {texts}")


# --- reading ----------------------------------------------------------------------------------------------------------


class _Version(msgspec.Struct, frozen=True):
    version: str


class _Group(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    versions: tuple[_Version, ...] = ()
    preferred_version: _Version = _Version("")

    def iter_versions(self) -> Iterator[str]:
        versions = [entry.version for entry in self.versions]
        return iter(sorted(versions, key=lambda version: version != self.preferred_version.version))


class _Groups(msgspec.Struct, frozen=True):
    groups: tuple[_Group, ...] = ()


class _Core(msgspec.Struct, frozen=True):
    versions: tuple[str, ...] = ()


class _Entry(msgspec.Struct, frozen=True):
    name: str
    kind: str
    namespaced: bool = False
    verbs: tuple[str, ...] = ()


class _Entries(msgspec.Struct, frozen=True):
    resources: tuple[_Entry, ...] | None = None


@dataclass(frozen=True, slots=True)
class _VersionKinds:
    resources: Mapping[str, Resource]
    unwatchable: frozenset[KindName] = frozenset()
    is_readable: bool = True
    is_known: bool = True


async def discover_kinds(api: Api, *, known: DiscoveredKinds) -> DiscoveredKinds:
    """Reads all discovery documents. Versions that cannot be read are taken from `known`."""
    versions = [("", version) for version in (await _get(api, "/api", _Core)).versions]
    # Without our own API, which has no objects: while it is down, namespaces would not be placed as a whole.
    groups = [group for group in (await _get(api, "/apis", _Groups)).groups if group.name != EXPLAIN_GROUP]
    versions += [(group.name, version) for group in groups for version in group.iter_versions()]
    async with asyncio.TaskGroup() as tasks:
        tasks_by_version = [
            tasks.create_task(_discover_version(api, version, known), name=f"discovery of {version}")
            for version in versions
        ]
    documents = dict(zip(versions, (task.result() for task in tasks_by_version), strict=True))
    return DiscoveredKinds(
        by_version={version: document.resources for version, document in documents.items() if document.is_known},
        unwatchable=frozenset[KindName]().union(*(document.unwatchable for document in documents.values())),
        unreadable=frozenset(version for version, document in documents.items() if not document.is_readable),
    )


async def _discover_version(api: Api, version: GroupVersion, known: DiscoveredKinds) -> _VersionKinds:
    group, name = version
    path = f"/apis/{group}/{name}" if group else f"/api/{name}"
    try:
        entries = (await _get(api, path, _Entries)).resources or ()
    except NotFound:  # removed since the groups were listed
        return _VersionKinds({})
    except ApiError:
        return _keep_known(version, known)
    return _collect_watchable(version, [entry for entry in entries if "/" not in entry.name])


def _keep_known(version: GroupVersion, known: DiscoveredKinds) -> _VersionKinds:
    unwatchable = frozenset(name for name in known.unwatchable if name.group_version == version)
    return _VersionKinds(
        known.by_version.get(version, {}), unwatchable, is_readable=False, is_known=version in known.by_version
    )


def _collect_watchable(version: GroupVersion, entries: Iterable[_Entry]) -> _VersionKinds:
    resources: dict[str, Resource] = {}
    unwatchable = set[KindName]()
    for entry in entries:
        if not set(entry.verbs) >= _NEEDED:
            unwatchable.add(KindName(*version, entry.kind))
        elif entry.kind not in resources:
            resources[entry.kind] = Resource(*version, entry.name, entry.kind, namespaced=entry.namespaced)
    return _VersionKinds(resources, frozenset(unwatchable))


async def _get(api: Api, path: str, shape: type[_T]) -> _T:
    body = await api.call(Request(Method.GET, path))
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.MsgspecError as error:
        raise UnreadableAnswer(f"{path} is not a discovery document: {error}") from error
