"""Dynamic informers: one for each kind that a placement selects, started on first use.

Informers of kinds that are no longer selected keep running: starting them again would cost more. The informer of a kind
that the API server no longer serves is stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn

from fleet.errors import StaleInputs
from fleet.kube.informer import Informer, InformerConfig
from fleet.kube.resource import Resource
from fleet.placement.selection.candidates import CandidateObject, candidate_codec

BY_NAMESPACE: Final = "namespace"

Handler = Callable[[CandidateObject | None, CandidateObject | None], None]


class NotSyncedYet(StaleInputs):
    """An informer that a resolution needs is not synced yet; retriable."""


@dataclass(slots=True)
class KindInformer:
    informer: Informer[CandidateObject]
    reports_first_list: bool
    """Whether `on_change` is called for the objects of the first list; otherwise the caller waits for them."""
    synced: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: tuple[asyncio.Task[None], ...] = ()


class DynamicInformers:
    """Informers by kind. `on_change` is called for changes after the first complete list."""

    def __init__(self, access: InformerConfig, on_change: Handler) -> None:
        self._access = access
        self._on_change = on_change
        self._kinds: dict[Resource, KindInformer] = {}
        self._group: asyncio.TaskGroup | None = None

    @property
    def kinds(self) -> Mapping[Resource, KindInformer]:
        return self._kinds

    async def run(self) -> NoReturn:
        """Until cancelled. Runs the informers that were added before and later."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for kind in self._kinds.values():
                self._start_tasks(kind)
            await asyncio.Event().wait()
        raise AssertionError("only cancellation ends this")

    def start(self, resource: Resource, *, reports_first_list: bool = False) -> None:
        if resource in self._kinds:
            return
        informer = Informer(self._access, resource, candidate_codec(resource))
        informer.store.add_index(BY_NAMESPACE, lambda candidate: (candidate.metadata.namespace,))
        kind = self._kinds[resource] = KindInformer(informer, reports_first_list)
        informer.store.subscribe(lambda old, new: self._forward_change(kind, old, new))
        if self._group is not None:
            self._start_tasks(kind)

    def stop(self, resource: Resource) -> None:
        """The API server no longer serves the kind."""
        kind = self._kinds.pop(resource, None)
        for task in kind.tasks if kind else ():
            task.cancel()

    async def wait_for_sync(self, resources: Collection[Resource], *, within: float) -> None:
        """Starts the missing informers, and returns when all of them are synced."""
        for resource in resources:
            if resource not in self._kinds:
                self.start(resource)
        unsynced = [self._kinds[resource] for resource in resources if not self._kinds[resource].synced.is_set()]
        if not unsynced:
            return
        try:
            async with asyncio.timeout(within):
                for kind in unsynced:
                    await kind.synced.wait()
        except TimeoutError:
            raise NotSyncedYet(_describe_unsynced(kind for kind in unsynced if not kind.synced.is_set())) from None

    def all_of(self, resource: Resource) -> list[CandidateObject]:
        """Empty if the kind was just removed."""
        kind = self._kinds.get(resource)
        return [] if kind is None else kind.informer.store.values()

    def within(self, resource: Resource, namespace: str) -> list[CandidateObject]:
        kind = self._kinds.get(resource)
        return [] if kind is None else kind.informer.store.by_index(BY_NAMESPACE, namespace)

    def get(self, resource: Resource, key: str) -> CandidateObject | None:
        kind = self._kinds.get(resource)
        return None if kind is None else kind.informer.store.get(key)

    # --- internals ----------------------------------------------------------------------------------------------------

    def _start_tasks(self, kind: KindInformer) -> None:
        assert self._group is not None
        name = f"{kind.informer.resource.api_version} {kind.informer.resource.kind}"
        kind.tasks = (
            self._group.create_task(kind.informer.reflector.run(), name=f"watch {name}"),
            self._group.create_task(self._mark_synced(kind), name=f"first list of {name}"),
        )

    async def _mark_synced(self, kind: KindInformer) -> None:
        await kind.informer.reflector.wait_for_sync()
        kind.synced.set()
        if kind.reports_first_list:
            for candidate in kind.informer.store.values():
                self._on_change(None, candidate)

    def _forward_change(self, kind: KindInformer, old: CandidateObject | None, new: CandidateObject | None) -> None:
        if kind.synced.is_set():
            self._on_change(old, new)


def _describe_unsynced(kinds: Iterable[KindInformer]) -> str:
    resources = [kind.informer.resource for kind in kinds]
    names = sorted(f"{resource.api_version} {resource.kind}" for resource in resources)
    return f"cache of kind {', '.join(names)} is not synced yet"
