"""One watched store for each kind that some placement selects, started when it is first needed.

Kinds that nobody selects any more stay watched: starting them again would cost more than keeping them. A kind the API
server no longer serves is forgotten.
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
    """A cache that a selection rests on is not complete; trying again helps."""


@dataclass(slots=True)
class KindInformer:
    watched: Informer[CandidateObject]
    tells_first_list: bool
    """Whether what the first list holds is told as news: those who asked for the kind wait for it anyway."""
    synced: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: tuple[asyncio.Task[None], ...] = ()


class DynamicInformers:
    """Stores by kind. `on_change` hears of changes from the first complete list on."""

    def __init__(self, access: InformerConfig, on_change: Handler) -> None:
        self._access = access
        self._on_change = on_change
        self._kinds: dict[Resource, KindInformer] = {}
        self._group: asyncio.TaskGroup | None = None

    @property
    def kinds(self) -> Mapping[Resource, KindInformer]:
        return self._kinds

    async def run(self) -> NoReturn:
        """Until cancelled. What was asked for before begins now."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for kind in self._kinds.values():
                self._begin(kind)
            await asyncio.Event().wait()
        raise AssertionError("nothing ends the waiting but cancellation")

    def start(self, resource: Resource, *, tells_first_list: bool = False) -> None:
        if resource in self._kinds:
            return
        watched = Informer(self._access, resource, candidate_codec(resource))
        watched.store.add_index(BY_NAMESPACE, lambda candidate: (candidate.metadata.namespace,))
        kind = self._kinds[resource] = KindInformer(watched, tells_first_list)
        watched.store.subscribe(lambda old, new: self._tell(kind, old, new))
        if self._group is not None:
            self._begin(kind)

    def stop(self, resource: Resource) -> None:
        """The API server does not serve the kind any more."""
        kind = self._kinds.pop(resource, None)
        for task in kind.tasks if kind else ():
            task.cancel()

    async def ready(self, resources: Collection[Resource], *, within: float) -> None:
        """Starts what is not there yet, and returns when all of it is complete."""
        for resource in resources:
            self.start(resource)
        late = [self._kinds[resource] for resource in resources if not self._kinds[resource].synced.is_set()]
        if not late:
            return
        try:
            async with asyncio.timeout(within):
                for kind in late:
                    await kind.synced.wait()
        except TimeoutError:
            raise NotSyncedYet(_which(kind for kind in late if not kind.synced.is_set())) from None

    def all_of(self, resource: Resource) -> list[CandidateObject]:
        """Nothing, if the kind has just ceased to exist."""
        kind = self._kinds.get(resource)
        return [] if kind is None else kind.watched.store.values()

    def within(self, resource: Resource, namespace: str) -> list[CandidateObject]:
        kind = self._kinds.get(resource)
        return [] if kind is None else kind.watched.store.by_index(BY_NAMESPACE, namespace)

    def get(self, resource: Resource, key: str) -> CandidateObject | None:
        kind = self._kinds.get(resource)
        return None if kind is None else kind.watched.store.get(key)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _begin(self, kind: KindInformer) -> None:
        assert self._group is not None
        name = f"{kind.watched.resource.api_version} {kind.watched.resource.kind}"
        kind.tasks = (
            self._group.create_task(kind.watched.reflector.run(), name=f"watch {name}"),
            self._group.create_task(self._open(kind), name=f"first list of {name}"),
        )

    async def _open(self, kind: KindInformer) -> None:
        await kind.watched.reflector.wait_for_sync()
        kind.synced.set()
        if kind.tells_first_list:
            for candidate in kind.watched.store.values():
                self._on_change(None, candidate)

    def _tell(self, kind: KindInformer, old: CandidateObject | None, new: CandidateObject | None) -> None:
        if kind.synced.is_set():
            self._on_change(old, new)


def _which(kinds: Iterable[KindInformer]) -> str:
    resources = [kind.watched.resource for kind in kinds]
    names = sorted(f"{resource.api_version} {resource.kind}" for resource in resources)
    return f"cache of kind {', '.join(names)} is not synced yet"
