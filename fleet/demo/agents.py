"""Simulates the controllers behind the scheduler: rollout, work generator and the member agents.

Scheduled bindings become Bound, Unscheduled ones are deleted, and bound ones report that everything was applied. There
is no rollout strategy, no overrides and no works. Placements with an external strategy are rolled out like all others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from fleet.clock import Clock, epoch_nanoseconds, to_nanoseconds
from fleet.demo import rollout
from fleet.demo.rollout import APPLIED
from fleet.errors import ApiError, Conflict, NotFound
from fleet.kube.api import Api
from fleet.kube.backoff import Jitter
from fleet.kube.cache.store import build_codec
from fleet.kube.informer import Informer, InformerConfig
from fleet.kube.resource import key_of
from fleet.kube.scopes import CLUSTER_SCOPED, NAMESPACED, PlacementScope, owner_key
from fleet.kube.workqueue import TOLERANCE, WorkQueue
from fleet.model.keys import BOUND, IS_LATEST_SNAPSHOT, RESOURCE_INDEX, UNSCHEDULED
from fleet.model.placement_key import PlacementKey
from fleet.model.timestamps import format_timestamp
from fleet.model.views import BindingSpec, Condition, Metadata, Observed, View

RESOURCE_HASH: Final = "kubernetes-fleet.io/resource-hash"
"""Annotation of the first snapshot of a group, and of no other."""

_LOG: Final = logging.getLogger(__name__)
_WORKERS: Final = 8
_PLACEMENT: Final = "placement"
_CLUSTER: Final = "cluster"


class _Status(View, frozen=True):
    conditions: tuple[Condition, ...] = ()


class RolloutBinding(View, frozen=True):
    """A binding with the conditions that the agents report."""

    metadata: Metadata = Metadata()
    spec: BindingSpec = BindingSpec()
    status: _Status = _Status()

    @property
    def is_applied(self) -> bool:
        return any(condition.type == APPLIED and condition.status == "True" for condition in self.status.conditions)


class _Selected(View, frozen=True):
    kind: str = ""
    metadata: Metadata = Metadata()


class _Resources(View, frozen=True):
    selected_resources: tuple[_Selected, ...] = ()


class SnapshotSummary(View, frozen=True):
    metadata: Metadata = Metadata()
    spec: _Resources = _Resources()

    @property
    def is_latest_master(self) -> bool:
        return self.metadata.label(IS_LATEST_SNAPSHOT) == "true" and bool(self.metadata.annotation(RESOURCE_HASH))

    @property
    def index(self) -> int:
        """While one snapshot replaces another, both may be labeled as the latest; the greater index wins."""
        index = self.metadata.label(RESOURCE_INDEX) or ""
        return int(index) if index.isdecimal() else -1

    def namespaces(self) -> list[str]:
        return [selected.metadata.name for selected in self.spec.selected_resources if selected.kind == "Namespace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDelays:
    """Delays of the simulated agents, in seconds."""

    binding: float = 0.0
    applying: float = 0.0
    removing: float = 0.0


NO_DELAYS: Final = AgentDelays()


@dataclass(frozen=True, slots=True)
class _Kinds:
    bindings: Informer[Observed[RolloutBinding]]
    snapshots: Informer[Observed[SnapshotSummary]]


_Key = tuple[int, str]
"""The number of the scope, and the key of the binding."""


class RolloutSimulator:
    """Runs with any scheduler, on the embedded hub and on a real API server.

    Leave kinds out of `scopes` that the hub does not serve.
    """

    def __init__(
        self,
        api: Api,
        *,
        clock: Clock,
        jitter: Jitter,
        pace: AgentDelays = NO_DELAYS,
        scopes: Sequence[PlacementScope] = (CLUSTER_SCOPED, NAMESPACED),
    ) -> None:
        self._clock = clock
        self._pace = pace
        self._queue: WorkQueue[_Key] = WorkQueue(clock=clock)
        self._due: dict[_Key, tuple[str, float]] = {}
        access = InformerConfig(reads=api, writes=api, clock=clock, jitter=jitter)
        self._kinds = tuple(self._build_kinds(access, number, scope) for number, scope in enumerate(scopes))

    @property
    def bindings(self) -> tuple[Informer[Observed[RolloutBinding]], ...]:
        """One per scope."""
        return tuple(kinds.bindings for kinds in self._kinds)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for kinds in self._kinds:
                for watched in (kinds.bindings, kinds.snapshots):
                    tasks.create_task(watched.reflector.run(), name=f"rollout-{watched.resource.plural}")
            await self.wait_for_sync()
            for number in range(_WORKERS):
                tasks.create_task(self._work(), name=f"rollout-worker-{number}")

    async def wait_for_sync(self) -> None:
        for kinds in self._kinds:
            await kinds.bindings.reflector.wait_for_sync()
            await kinds.snapshots.reflector.wait_for_sync()

    def namespaces_on(self, cluster: str) -> Mapping[str, str]:
        """Namespaces that cluster-scoped placements created on a cluster, and the work that owns each."""
        namespaces: dict[str, str] = {}
        for kinds in self._kinds:
            for held in kinds.bindings.store.by_index(_CLUSTER, cluster):
                namespaces |= self._namespaces_of(kinds, held.view)
        return namespaces

    def list_applied(self, cluster: str) -> Iterator[PlacementKey]:
        """The placements whose objects the cluster has."""
        for kinds in self._kinds:
            for held in kinds.bindings.store.by_index(_CLUSTER, cluster):
                owner = owner_key(held.view.metadata)
                if owner is not None and held.view.is_applied:
                    yield owner

    def _namespaces_of(self, kinds: _Kinds, binding: RolloutBinding) -> dict[str, str]:
        if binding.metadata.namespace or not binding.is_applied:
            return {}
        held = kinds.snapshots.store.get(binding.spec.resource_snapshot_name)
        owner = owner_key(binding.metadata)
        return {} if held is None else dict.fromkeys(held.view.namespaces(), f"{owner}-work")

    # --- informers ----------------------------------------------------------------------------------------------------

    def _build_kinds(self, access: InformerConfig, number: int, scope: PlacementScope) -> _Kinds:
        kinds = _Kinds(
            Informer(access, scope.binding, build_codec(RolloutBinding)),
            Informer(access, scope.resource_snapshot, build_codec(SnapshotSummary)),
        )
        kinds.bindings.store.add_index(_PLACEMENT, _placement_of)
        kinds.bindings.store.add_index(_CLUSTER, lambda held: (held.view.spec.target_cluster,))
        kinds.snapshots.store.add_index(_PLACEMENT, _placement_of)
        kinds.bindings.store.subscribe(partial(self._binding_changed, number))
        kinds.snapshots.store.subscribe(partial(self._snapshot_changed, number))
        return kinds

    def _binding_changed(
        self, number: int, old: Observed[RolloutBinding] | None, new: Observed[RolloutBinding] | None
    ) -> None:
        if new is not None:
            self._queue.add((number, key_of(new.view.metadata)))
        elif old is not None:
            self._due.pop((number, key_of(old.view.metadata)), None)

    def _snapshot_changed(
        self, number: int, old: Observed[SnapshotSummary] | None, new: Observed[SnapshotSummary] | None
    ) -> None:
        changed = new or old
        placement = changed and owner_key(changed.view.metadata)
        if placement is not None:
            for held in self._kinds[number].bindings.store.by_index(_PLACEMENT, placement):
                self._queue.add((number, key_of(held.view.metadata)))

    def _latest_master(self, kinds: _Kinds, placement: PlacementKey | None) -> str | None:
        held = [snapshot.view for snapshot in kinds.snapshots.store.by_index(_PLACEMENT, placement)]
        latest = max(
            (snapshot for snapshot in held if snapshot.is_latest_master),
            key=lambda snapshot: snapshot.index,
            default=None,
        )
        return None if latest is None else latest.metadata.name

    # --- workers ------------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                await self._advance(key)
            except NotFound:
                self._queue.forget(key)
            except ApiError as error:
                if not isinstance(error, Conflict):
                    _LOG.info("binding %s: %s", key[1], error)
                self._queue.retry(key)
            else:
                self._queue.forget(key)
            finally:
                self._queue.finish(key)

    async def _advance(self, key: _Key) -> None:
        """One step of one binding. Its write causes an event, which enqueues the binding again."""
        kinds = self._kinds[key[0]]
        held = kinds.bindings.store.get(key[1])
        if held is None or held.view.metadata.deletion_timestamp is not None:
            return  # finalizers belong to other controllers
        metadata, state = held.view.metadata, held.view.spec.state
        if state == UNSCHEDULED:
            if self._has_waited(key, metadata, "removing", self._pace.removing):
                await kinds.bindings.objects.delete(key[1], uid=metadata.uid)
            return
        latest = self._latest_master(kinds, owner_key(metadata))
        if (wanted := rollout.bind(held.document(), latest)) is not None:
            if state == BOUND or self._has_waited(key, metadata, "binding", self._pace.binding):
                await kinds.bindings.objects.replace(wanted)
        elif state == BOUND:
            await self._report(key, kinds, held)

    async def _report(self, key: _Key, kinds: _Kinds, held: Observed[RolloutBinding]) -> None:
        document, now = held.document(), format_timestamp(epoch_nanoseconds(self._clock))
        wanted = rollout.mark_available(document, now)
        if wanted is not None and not self._has_waited(key, held.view.metadata, "applying", self._pace.applying):
            wanted = rollout.mark_started(document, now)
        if wanted is not None:
            await kinds.bindings.objects.replace_status(wanted)

    def _has_waited(self, key: _Key, metadata: Metadata, what: str, seconds: float) -> bool:
        """Whether the delay has passed since the first call for this generation; if not, requeues the binding."""
        step, now = f"{what} {metadata.generation}", self._clock.monotonic()
        if key not in self._due or self._due[key][0] != step:
            self._due[key] = (step, now + seconds)
        left = self._due[key][1] - now
        has_waited = to_nanoseconds(left) <= TOLERANCE  # what the queue takes for nothing would come again and again
        if not has_waited:
            self._queue.add_after(key, left)
        return has_waited


def _placement_of(held: Observed[Any]) -> Iterable[PlacementKey]:
    owner = owner_key(held.view.metadata)
    return () if owner is None else (owner,)
