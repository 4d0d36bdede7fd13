"""Resource selection: resolves the selectors of a placement, and enqueues it when the result may have changed.

Combines `discovery` (kinds), `dynamic_informers` (objects), `resolution` (the selected objects) and `selector_index`
(the placements that a change may affect).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from fleet.errors import ApiError
from fleet.kube.informer import InformerConfig
from fleet.kube.resource import Resource, key_of
from fleet.model.views import Metadata
from fleet.placement.selection.candidates import CandidateObject
from fleet.placement.selection.discovery import (
    SECONDS_BETWEEN_REFRESHES,
    DiscoveredKinds,
    Discovery,
    KindName,
    match_no_group,
)
from fleet.placement.selection.dynamic_informers import DynamicInformers
from fleet.placement.selection.resolution import SelectionResult, select
from fleet.placement.selection.resource_filter import ResourceFilter
from fleet.placement.selection.selector_index import Labels, SelectorIndex
from fleet.placement.selection.selectors import SelectorTerm

SYNC_SECONDS: Final = 10.0
"""Longest wait of a reconcile for an informer before it fails and is retried."""
SETTLING_SECONDS: Final = 1.0
"""Time until a changed CustomResourceDefinition appears in the discovery documents."""

CUSTOM_RESOURCE_DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
SERVICES: Final = Resource("", "v1", "services", "Service", namespaced=True)


class ResourceSelection:
    def __init__(
        self,
        access: InformerConfig,
        resource_filter: ResourceFilter | None = None,
        *,
        sync_seconds: float = SYNC_SECONDS,
    ) -> None:
        self._filter = resource_filter or ResourceFilter()
        self._clock = access.clock
        self._sync_seconds = sync_seconds
        self._selector_index = SelectorIndex()
        self._discovery = Discovery(access.reads, access.clock, on_change=self._kinds_changed)
        self._informers = DynamicInformers(access, self._object_changed)
        self._placeable: tuple[DiscoveredKinds, Sequence[Resource]] = (DiscoveredKinds(), ())
        """The namespaced kinds that can be placed, among those of one discovery."""
        self._crds_changed = asyncio.Event()
        self._enqueue: Callable[[str], None] = lambda _: None

    def subscribe(self, enqueue: Callable[[str], None]) -> None:
        """`enqueue` is called with the key of a placement whose selection may have changed."""
        self._enqueue = enqueue

    async def run(self) -> NoReturn:
        """Until cancelled."""
        self._informers.start(
            CUSTOM_RESOURCE_DEFINITIONS, reports_first_list=True
        )  # some may be newer than the first discovery
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informers.run(), name="watches of selected kinds")
            await self._follow_crd_changes()
        raise AssertionError("only cancellation ends this")

    async def resolve(self, placement: Metadata, terms: Sequence[SelectorTerm]) -> SelectionResult:
        """Raises a retriable error while kinds or objects are not cached yet."""
        self._selector_index.put(key_of(placement), terms, placement.namespace)
        whole = any(term.takes_whole_namespaces for term in terms)
        kinds = await self._discovery.resolve_kinds(
            self._list_placeable_kinds(terms), completely=self._filter.may_allow_version if whole else match_no_group
        )
        view = _InformerLister(kinds, self._informers, self._filter, self._list_placeable_namespaced(kinds))
        await self._informers.wait_for_sync(view.list_needed(terms), within=self._sync_seconds)
        return select(terms, namespace=placement.namespace, source=view, resource_filter=self._filter)

    def forget(self, key: str) -> None:
        """The placement is gone."""
        self._selector_index.forget(key)

    def _list_placeable_namespaced(self, kinds: DiscoveredKinds) -> Sequence[Resource]:
        """Computed once per discovery, not in every resolution of a namespace."""
        if self._placeable[0] is not kinds:
            resources = [each for each in kinds.iter_preferred() if each.namespaced and self._filter.allows(each)]
            self._placeable = kinds, resources
        return self._placeable[1]

    # --- changes ------------------------------------------------------------------------------------------------------

    def _list_placeable_kinds(self, terms: Iterable[SelectorTerm]) -> list[KindName]:
        return [term.kind_name for term in terms if self._filter.allows_kind(term.group, term.version, term.kind)]

    def _object_changed(self, old: CandidateObject | None, new: CandidateObject | None) -> None:
        current = new or old
        assert current is not None
        if current.resource == CUSTOM_RESOURCE_DEFINITIONS:
            self._crds_changed.set()
        find_keys = self._selector_index.find_keys(old, new, labels_of=self._labels_of)
        if find_keys and self._affects_members(old, new):
            self._enqueue_all(find_keys)

    def _affects_members(self, old: CandidateObject | None, new: CandidateObject | None) -> bool:
        """False for a change of fields that stay on the hub, such as the status."""
        if old is None or new is None:
            return True
        return (
            old.metadata.labels != new.metadata.labels
            or (old.metadata.deletion_timestamp is None) != (new.metadata.deletion_timestamp is None)
            or _is_owned(old) != _is_owned(new)
            or old.content != new.content
        )

    def _labels_of(self, namespace: str) -> Labels:
        candidate = self._informers.get(NAMESPACES, namespace)
        return None if candidate is None else candidate.metadata.labels

    def _kinds_changed(self, before: DiscoveredKinds, after: DiscoveredKinds) -> None:
        gone = before.resources() - after.resources()
        for resource in gone:
            self._informers.stop(resource)
        if not before.resources():  # the first discovery: the caller waits for its result
            return
        if self._selector_index.has_whole_namespaces:
            for resource in self._list_placeable_namespaced(after):
                self._informers.start(resource, reports_first_list=True)
        for resource in gone | (after.resources() - before.resources()):
            self._enqueue_all(self._selector_index.list_keys_selecting_kind(resource.group, resource.kind))

    def _enqueue_all(self, keys: Iterable[str]) -> None:
        for key in sorted(keys):
            self._enqueue(key)

    async def _follow_crd_changes(self) -> NoReturn:
        """Two refreshes after each change: soon, and again after a slow server had time to update discovery."""
        while True:
            await self._crds_changed.wait()
            for pause in (SETTLING_SECONDS, SECONDS_BETWEEN_REFRESHES):
                self._crds_changed.clear()
                await self._clock.sleep(pause)
                await self._refresh_kinds()

    async def _refresh_kinds(self) -> None:
        try:
            await self._discovery.refresh()
        except ApiError:
            self._crds_changed.set()  # retried after the next pause


def _is_owned(candidate: CandidateObject) -> bool:
    return bool(candidate.metadata.owner_references)


@dataclass(frozen=True, slots=True)
class _InformerLister:
    """The `ObjectLister` of one resolution: the kinds of one discovery, and the objects in the informers."""

    kinds: DiscoveredKinds
    informers: DynamicInformers
    resource_filter: ResourceFilter
    namespaced: Sequence[Resource]
    """The kinds of objects that are placed with a whole namespace."""

    def list_needed(self, terms: Sequence[SelectorTerm]) -> set[Resource]:
        """The kinds whose objects the resolution reads."""
        resources = {NAMESPACES} if any(term.selects_namespaces for term in terms) else set[Resource]()
        for term in terms:
            resource = self.find(term.kind_name)
            if resource is not None and self.resource_filter.allows(resource):
                resources.add(resource)
            if term.takes_whole_namespaces:
                resources.update(self.namespaced)
        if ("", "Endpoints") in {(resource.group, resource.kind) for resource in resources}:
            resources.add(SERVICES)
        return resources

    def find(self, name: KindName) -> Resource | None:
        return self.kinds.find(name)

    def is_known(self, name: KindName) -> bool:
        return self.kinds.knows(name)

    def list_namespaced(self) -> Sequence[Resource]:
        return self.namespaced

    def all_of(self, resource: Resource) -> list[CandidateObject]:
        return self.informers.all_of(resource)

    def within(self, resource: Resource, namespace: str) -> list[CandidateObject]:
        return self.informers.within(resource, namespace)

    def get(self, resource: Resource, key: str) -> CandidateObject | None:
        return self.informers.get(resource, key)

    def has_service(self, key: str) -> bool:
        return self.informers.get(SERVICES, key) is not None
