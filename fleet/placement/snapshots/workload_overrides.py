"""Overrides of selected workloads: which rules change one, on which clusters, and what is left of it there.

Overrides are watched from when a placement first asks for them. A change enqueues every placement that may be affected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, NoReturn

import msgspec

from fleet.errors import InputError, StaleInputs
from fleet.kube.cache.store import Codec
from fleet.kube.informer import Informer, InformerConfig
from fleet.kube.resource import Resource, key_of
from fleet.model.decoding import decode
from fleet.model.keys import PLACEMENT_GROUP, STORAGE_VERSION
from fleet.model.views import ClusterSelector, LabelSelector, Metadata, View
from fleet.placement.selection.resolution import SelectedObject

DELETE: Final = "Delete"
_NAMESPACED: Final = "Namespaced"
_SYNC_SECONDS: Final = 10.0

Json = Any


class _PlacementReference(View, frozen=True):
    name: str = ""
    scope: str = "Cluster"


class _Selector(View, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""
    name: str = ""


class _Patch(View, frozen=True):
    op: str = ""
    path: str = ""
    value: msgspec.Raw = msgspec.Raw(b"null")


class _Rule(View, frozen=True):
    cluster_selector: ClusterSelector | None = None
    override_type: str = "JSONPatch"
    json_patch_overrides: tuple[_Patch, ...] = ()


class _Policy(View, frozen=True):
    override_rules: tuple[_Rule, ...] = ()


class _Spec(View, frozen=True):
    placement: _PlacementReference | None = None
    cluster_resource_selectors: tuple[_Selector, ...] = ()
    resource_selectors: tuple[_Selector, ...] = ()
    policy: _Policy = _Policy()


class Override(View, frozen=True):
    """ClusterResourceOverride and ResourceOverride."""

    metadata: Metadata = Metadata()
    spec: _Spec = _Spec()

    def is_for(self, placement: Metadata) -> bool:
        """One that names no placement is for all that select the object."""
        named = self.spec.placement
        if named is None:
            return True
        namespace = self.metadata.namespace if named.scope == _NAMESPACED else ""
        return (namespace, named.name) == (placement.namespace, placement.name)

    def changes(self, selected: SelectedObject) -> bool:
        """A namespace stands for its objects."""
        if not self.metadata.namespace:
            return any(
                (selector.kind, selector.name) == ("Namespace", selected.namespace) and not selector.group
                for selector in self.spec.cluster_resource_selectors
            )
        wanted = (selected.group, selected.version, selected.kind, selected.name)
        return self.metadata.namespace == selected.namespace and any(
            (selector.group, selector.version, selector.kind, selector.name) == wanted
            for selector in self.spec.resource_selectors
        )


@dataclass(frozen=True, slots=True)
class AppliedRule:
    """One rule of an override, for the clusters that any of the selectors selects; for all without any."""

    override: str
    position: int
    selectors: tuple[LabelSelector, ...]
    rule: _Rule

    def apply(self, content: bytes) -> bytes | None:
        """The changed manifest; None if it is left out. Raises InputError."""
        if self.rule.override_type == DELETE:
            return None
        document = msgspec.json.decode(content)
        for patch in self.rule.json_patch_overrides:
            try:
                _patch(document, patch.op, patch.path, msgspec.json.decode(patch.value))
            except (KeyError, IndexError, TypeError, ValueError) as error:
                raise InputError(f"override {self.override} cannot {patch.op} {patch.path}") from error
        return msgspec.json.encode(document)


def _patch(document: Json, op: str, path: str, value: Json) -> None:
    *parents, last = (step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:])
    for step in parents:
        document = document[int(step)] if isinstance(document, list) else document[step]
    if isinstance(document, list):
        place = len(document) if last == "-" else int(last)
        if op == "add":
            document.insert(place, value)
        elif op == "replace":
            document[place] = value
        else:
            del document[place]
    elif op == "remove":
        del document[last]
    elif op == "replace" and last not in document:
        raise KeyError(last)
    else:
        document[last] = value


class Overrides:
    def __init__(self, access: InformerConfig, *, namespaced: bool, list_affected: Callable[[], Iterable[str]]) -> None:
        """`list_affected` lists the keys of the placements that may have overridden workloads."""
        kinds = [_resource("ClusterResourceOverride", namespaced=False)]
        kinds += [_resource("ResourceOverride", namespaced=True)] if namespaced else []
        self._informers = [Informer(access, kind, _CODEC, optional=True) for kind in kinds]
        self._list_affected = list_affected
        self._enqueue: Callable[[str], None] = lambda _: None
        self._is_needed = asyncio.Event()
        for informer in self._informers:
            informer.store.subscribe(self._on_change)

    def subscribe(self, enqueue: Callable[[str], None]) -> None:
        """`enqueue` is called with the keys of placements that an override may change."""
        self._enqueue = enqueue

    async def run(self) -> NoReturn:
        """Until cancelled. Makes no request before overrides are needed."""
        await self._is_needed.wait()
        async with asyncio.TaskGroup() as group:
            for informer in self._informers:
                name = f"watching {informer.resource.plural}"
                group.create_task(informer.reflector.run(), name=name)
        raise AssertionError("reflectors do not end")

    async def wait_for_sync(self) -> None:
        self._is_needed.set()
        try:
            async with asyncio.timeout(_SYNC_SECONDS):
                for informer in self._informers:
                    await informer.reflector.wait_for_sync()
        except TimeoutError as error:
            raise StaleInputs("the overrides were not read yet") from error

    def list_rules(self, placement: Metadata, selected: SelectedObject) -> Iterator[AppliedRule]:
        """Those that change the object, in the order in which they are applied."""
        for informer in self._informers:
            for override in sorted(informer.store.values(), key=lambda each: each.metadata.name):
                if override.is_for(placement) and override.changes(selected):
                    yield from _list_rules(override)

    def _on_change(self, old: Override | None, new: Override | None) -> None:
        if old is None or new is None or old.spec != new.spec:
            for key in self._list_affected():
                self._enqueue(key)


def _list_rules(override: Override) -> Iterator[AppliedRule]:
    for position, rule in enumerate(override.spec.policy.override_rules):
        if rule.cluster_selector is not None:
            terms = rule.cluster_selector.cluster_selector_terms
            selectors = tuple(term.label_selector or LabelSelector() for term in terms)
            yield AppliedRule(key_of(override.metadata), position, selectors, rule)


def _resource(kind: str, *, namespaced: bool) -> Resource:
    return Resource(PLACEMENT_GROUP, STORAGE_VERSION, f"{kind.lower()}s", kind, namespaced=namespaced)


_CODEC: Final = Codec(lambda document: decode(document, Override).view, attrgetter("metadata"))
