"""What placements select, kept true: the selection of a placement on demand, and a word when it may have changed.

Joins the parts: `discovery` knows the kinds, `selectable` has their objects, `selection` picks, and `attention` finds
the placements that a change concerns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from fleet.errors import ApiError
from fleet.kube.informer import InformerConfig
from fleet.kube.resource import Resource, key_of
from fleet.model.views import Observed, Placement
from fleet.placement.selection.candidates import CandidateObject
from fleet.placement.selection.discovery import (
    SECONDS_BETWEEN_LOOKS,
    DiscoveredKinds,
    Discovery,
    KindName,
    match_no_group,
)
from fleet.placement.selection.dynamic_informers import DynamicInformers
from fleet.placement.selection.resource_filter import ResourceFilter
from fleet.placement.selection.selection import SelectionResult, select
from fleet.placement.selection.selector_index import Labels, SelectorIndex
from fleet.placement.selection.selectors import SelectorTerm, read_selectors

SYNC_SECONDS: Final = 10.0
"""How long a pass waits for a cache before it gives way to others."""
SETTLING_SECONDS: Final = 1.0
"""Between a change of a custom kind and its appearance in the documents of discovery."""

DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
SERVICES: Final = Resource("", "v1", "services", "Service", namespaced=True)


class ResourceSelection:
    def __init__(
        self, access: InformerConfig, rules: ResourceFilter | None = None, *, sync_seconds: float = SYNC_SECONDS
    ) -> None:
        self._rules = rules or ResourceFilter()
        self._clock = access.clock
        self._sync_seconds = sync_seconds
        self._attention = SelectorIndex()
        self._discovery = Discovery(access.reads, access.clock, on_change=self._kinds_changed)
        self._selectable = DynamicInformers(access, self._object_changed)
        self._definitions_changed = asyncio.Event()
        self._wake: Callable[[str], None] = lambda _: None

    def subscribe(self, wake: Callable[[str], None]) -> None:
        """`wake` is called with the key of a placement whose selection may have changed."""
        self._wake = wake

    async def run(self) -> NoReturn:
        """Until cancelled."""
        self._selectable.start(DEFINITIONS, tells_first_list=True)  # some may be newer than our first look at the kinds
        async with asyncio.TaskGroup() as group:
            group.create_task(self._selectable.run(), name="watches of selected kinds")
            await self._follow_definitions()
        raise AssertionError("nothing ends the following but cancellation")

    async def resolve(self, placement: Observed[Placement]) -> SelectionResult:
        """Raises a retriable error while what is needed is not known yet."""
        terms, namespace = read_selectors(placement), placement.view.metadata.namespace
        self._attention.put(key_of(placement.view.metadata), terms, namespace)
        whole = any(term.takes_whole_namespaces for term in terms)
        kinds = await self._discovery.resolve_kinds(
            self._asked_for(terms), completely=self._rules.may_place_from if whole else match_no_group
        )
        view = _InformerLister(kinds, self._selectable, self._rules)
        await self._selectable.ready(view.needed(terms), within=self._sync_seconds)
        return select(terms, namespace=namespace, source=view, rules=self._rules)

    def forget(self, key: str) -> None:
        """The placement is gone."""
        self._attention.forget(key)

    # --- changes ------------------------------------------------------------------------------------------------------

    def _asked_for(self, terms: Iterable[SelectorTerm]) -> list[KindName]:
        return [term.kind_name for term in terms if self._rules.places_kind(term.group, term.version, term.kind)]

    def _object_changed(self, old: CandidateObject | None, new: CandidateObject | None) -> None:
        some = new or old
        assert some is not None
        if some.resource == DEFINITIONS:
            self._definitions_changed.set()
        concerned = self._attention.concerned(old, new, labels_of=self._labels_of)
        if concerned and self._matters(old, new):
            self._wake_all(concerned)

    def _matters(self, old: CandidateObject | None, new: CandidateObject | None) -> bool:
        """A change of what stays on the hub, such as a status, is none."""
        if old is None or new is None:
            return True
        return (
            old.metadata.labels != new.metadata.labels
            or (old.metadata.deletion_timestamp is None) != (new.metadata.deletion_timestamp is None)
            or _is_owned(old) != _is_owned(new)
            or old.content != new.content
        )

    def _labels_of(self, namespace: str) -> Labels:
        candidate = self._selectable.get(NAMESPACES, namespace)
        return None if candidate is None else candidate.metadata.labels

    def _kinds_changed(self, before: DiscoveredKinds, after: DiscoveredKinds) -> None:
        gone = before.resources() - after.resources()
        for resource in gone:
            self._selectable.stop(resource)
        if not before.resources():  # whoever made us look for the first time waits for the answer
            return
        if self._attention.wants_whole_namespaces:
            for resource in _placeable_namespaced(after, self._rules):
                self._selectable.start(resource, tells_first_list=True)
        for resource in gone | (after.resources() - before.resources()):
            self._wake_all(self._attention.asking_for(resource.group, resource.kind))

    def _wake_all(self, keys: Iterable[str]) -> None:
        for key in sorted(keys):
            self._wake(key)

    async def _follow_definitions(self) -> NoReturn:
        """Two looks after each change: soon, and once more when a slow server has settled."""
        while True:
            await self._definitions_changed.wait()
            for pause in (SETTLING_SECONDS, SECONDS_BETWEEN_LOOKS):
                self._definitions_changed.clear()
                await self._clock.sleep(pause)
                await self._look_again()

    async def _look_again(self) -> None:
        try:
            await self._discovery.refresh()
        except ApiError:
            self._definitions_changed.set()  # nobody knows yet: once more after the next pause


def _is_owned(candidate: CandidateObject) -> bool:
    return bool(candidate.metadata.owner_references)


def _placeable_namespaced(kinds: DiscoveredKinds, rules: ResourceFilter) -> list[Resource]:
    return [resource for resource in kinds.preferred() if resource.namespaced and rules.places(resource)]


@dataclass(frozen=True, slots=True)
class _InformerLister:
    """The hub as `selection` wants to see it: the kinds of one look at discovery over the stores."""

    kinds: DiscoveredKinds
    selectable: DynamicInformers
    rules: ResourceFilter

    def needed(self, terms: Sequence[SelectorTerm]) -> set[Resource]:
        """The kinds whose objects decide about a selection."""
        resources = {NAMESPACES} if any(term.selects_namespaces for term in terms) else set[Resource]()
        for term in terms:
            resource = self.find(term.kind_name)
            if resource is not None and self.rules.places(resource):
                resources.add(resource)
            if term.takes_whole_namespaces:
                resources.update(self.namespaced())
        if any((resource.group, resource.kind) == ("", "Endpoints") for resource in resources):
            resources.add(SERVICES)
        return resources

    def find(self, name: KindName) -> Resource | None:
        return self.kinds.find(name)

    def is_known(self, name: KindName) -> bool:
        return self.kinds.knows(name)

    def namespaced(self) -> list[Resource]:
        return _placeable_namespaced(self.kinds, self.rules)

    def all_of(self, resource: Resource) -> list[CandidateObject]:
        return self.selectable.all_of(resource)

    def within(self, resource: Resource, namespace: str) -> list[CandidateObject]:
        return self.selectable.within(resource, namespace)

    def get(self, resource: Resource, key: str) -> CandidateObject | None:
        return self.selectable.get(resource, key)

    def has_service(self, key: str) -> bool:
        return self.selectable.get(SERVICES, key) is not None
