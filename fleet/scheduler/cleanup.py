"""Cleanup: finalizers and bindings of objects that are being deleted.

While our finalizer is on a placement, it cannot vanish before its bindings. It is the only thing the scheduler changes
on a placement, by a PUT of the object exactly as read. Of a placement that is being deleted, all bindings are deleted,
then our finalizer is removed; bindings that appear later are deleted when they appear. Of a binding that is being
deleted, our finalizer is removed at once, without waiting for an attempt; then the placement may choose a replacement.

An API server that has begun to delete an object ignores finalizers added since. A placement that is deleted while it is
scheduled for the first time may therefore vanish with our finalizer on it, and leave its bindings behind (`Orphans`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Set
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

import structlog

from fleet.clock import Clock
from fleet.errors import StaleInputs
from fleet.framework.operations import holds_finalizer
from fleet.informers.cache import PlacementKinds
from fleet.kube.objects import Mutation, RetryPolicy, update_with_retries
from fleet.kube.resource import key_of
from fleet.kube.scopes import owner_key
from fleet.kube.workqueue import WorkQueue
from fleet.model.keys import SCHEDULED, SCHEDULER_CLEANUP
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Binding, Metadata, Observed, Placement
from fleet.scheduler.dispatch.binding_calls import BindingWriter
from fleet.scheduler.dispatch.call_queue import CallType

_WORKERS: Final = 8
_LONGEST_REQUEST: Final = 120.0
"""Seconds, by far: API servers give up on a request after 60."""
_REMEMBERED: Final = 600.0
"""Seconds: bindings that appear under the name of a vanished placement later may have been restored."""
_TIMES_KEPT: Final = 10_000
_FINALIZERS: Final = "finalizers"

Document = dict[str, Any]
K = TypeVar("K", bound=Hashable)

log = structlog.get_logger(__name__)


# --- placements -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanup:
    bindings: BindingWriter
    orphans: Orphans
    retry_policy: RetryPolicy

    async def clean_up(self, kinds: PlacementKinds, placement: Observed[Placement]) -> None:
        """Deletes the bindings, without waiting for them to vanish, and removes our finalizer from the placement.

        The bindings are listed live: one that the cache lacks would stay behind for ever.
        """
        key = PlacementKey.of(placement.view.metadata)
        await self.bindings.delete(kinds, key, await self.bindings.list_live(kinds, key))
        await self.remove_finalizer(kinds, placement)

    async def delete_orphans(
        self, kinds: PlacementKinds, key: PlacementKey, bindings: Iterable[Observed[Binding]]
    ) -> None:
        """Deletes bindings of a placement that does not exist, or that has lost our finalizer already."""
        late = [binding for binding in bindings if self.orphans.includes(key, binding.view)]
        if late:
            names = [binding.view.metadata.name for binding in late]
            log.warning("bindings outlived their placement: they are deleted", placement=str(key), bindings=names)
            await self.bindings.delete(kinds, key, late)

    async def add_finalizer(self, kinds: PlacementKinds, placement: Observed[Placement]) -> Observed[Placement] | None:
        """The placement with our finalizer. None: it is gone or being deleted, and must not be scheduled any more."""

        def mutate(document: Document) -> Document | None:
            if document["metadata"].get("uid") != placement.view.metadata.uid:
                raise StaleInputs(f"placement {key_of(placement.view.metadata)} was deleted and created again")
            finalizers = document["metadata"].get(_FINALIZERS) or []
            if SCHEDULER_CLEANUP in finalizers or document["metadata"].get("deletionTimestamp"):
                return None
            self.orphans.note_held(placement.view.metadata.uid)  # now: the answer may be lost
            return _with_finalizers(document, [*finalizers, SCHEDULER_CLEANUP])

        updated = await self._update(kinds, placement, mutate, type=CallType.BIND)
        return None if updated is None or updated.view.metadata.deletion_timestamp else updated

    async def remove_finalizer(self, kinds: PlacementKinds, placement: Observed[Placement]) -> None:
        def mutate(document: Document) -> Document | None:
            finalizers = document["metadata"].get(_FINALIZERS) or []
            if document["metadata"].get("uid") != placement.view.metadata.uid or SCHEDULER_CLEANUP not in finalizers:
                return None
            return _with_finalizers(document, [name for name in finalizers if name != SCHEDULER_CLEANUP])

        await self._update(kinds, placement, mutate, type=CallType.EVICT)

    async def _update(
        self, kinds: PlacementKinds, placement: Observed[Placement], mutate: Mutation, *, type: CallType
    ) -> Observed[Placement] | None:
        objects, key = kinds.placements.objects.with_call_class(type.call_class), key_of(placement.view.metadata)
        return await update_with_retries(objects, key, mutate, retry_policy=self.retry_policy, cached=placement)


class Orphans:
    """Bindings that are deleted because their placement does not exist.

    One as the scheduler creates it, and unchanged since, is useless without its placement: the late result of a create
    that was given up on. One that is bound stands for workload, which may wait for a placement that is just being
    restored. It is deleted only where the placement vanished right after our finalizer was added to it: then the API
    server had already begun to delete it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[str, float] = {}
        """When our finalizer was added, by uid."""
        self._unheld: dict[PlacementKey, float] = {}
        """When they vanished all the same."""

    def note_held(self, uid: str) -> None:
        """Our finalizer is being added to the placement."""
        _put_last(self._held, uid, self._clock.monotonic())

    def note_appeared(self, key: PlacementKey) -> None:
        self._unheld.pop(key, None)

    def note_vanished(self, key: PlacementKey, last: Metadata) -> None:
        """`last` is its last known state: a user who takes our finalizer off may want the bindings to stay."""
        held, now = self._held.pop(last.uid, None), self._clock.monotonic()
        if SCHEDULER_CLEANUP not in last.finalizers or last.deletion_timestamp:
            return
        if held is not None and now - held < _LONGEST_REQUEST:
            _put_last(self._unheld, key, now)

    def includes(self, key: PlacementKey, binding: Binding) -> bool:
        """Of a placement that does not exist."""
        if not holds_finalizer(binding) or binding.metadata.deletion_timestamp:
            return False
        return binding.spec.state == SCHEDULED or self._is_unheld(key)

    def _is_unheld(self, key: PlacementKey) -> bool:
        vanished = self._unheld.get(key)
        return vanished is not None and self._clock.monotonic() - vanished < _REMEMBERED


def _put_last(times: dict[K, float], key: K, now: float) -> None:
    times.pop(key, None)
    times[key] = now
    if len(times) > _TIMES_KEPT:
        del times[next(iter(times))]


def _with_finalizers(document: Document, finalizers: list[str]) -> Document:
    return {**document, "metadata": {**document["metadata"], _FINALIZERS: finalizers}}


# --- bindings ---------------------------------------------------------------------------------------------------------


class _Release(NamedTuple):
    kinds: PlacementKinds
    owner: PlacementKey | None


class BindingReleases:
    """Bindings that are being deleted and wait for our finalizer to be removed. Failures are retried without end."""

    def __init__(
        self,
        writer: BindingWriter,
        enqueue: Callable[[PlacementKey], None],
        *,
        clock: Clock,
        on_problem: Callable[[str, Exception], None] = lambda *_: None,
    ) -> None:
        """`enqueue` receives the placement of every released binding, `on_problem` each binding that failed."""
        self._writer = writer
        self._enqueue = enqueue
        self._on_problem = on_problem
        self._queue: WorkQueue[str] = WorkQueue(clock=clock)
        self._pending: dict[str, _Release] = {}

    def add(self, kinds: PlacementKinds, binding: Observed[Binding]) -> None:
        metadata = binding.view.metadata
        key = key_of(metadata)  # unique over both scopes: only one of them has namespaces
        self._pending[key] = _Release(kinds, owner_key(metadata))
        self._queue.add(key)

    async def run(self) -> None:
        """Until closed."""
        async with asyncio.TaskGroup() as group:
            for number in range(_WORKERS):
                group.create_task(self._queue.work(self._process), name=f"binding releases {number}")

    def close(self) -> None:
        self._queue.close()

    def in_flight(self) -> Set[str]:
        return self._queue.in_flight

    # --- inside -------------------------------------------------------------------------------------------------------

    async def _process(self, key: str) -> None:
        pending = self._pending.pop(key, None)
        if pending is None:
            return
        try:
            await self._release(pending.kinds, key)
        except Exception as error:
            self._pending.setdefault(key, pending)
            self._on_problem(key, error)
            self._queue.retry(key)
            return
        self._queue.forget(key)
        if pending.owner is not None:
            self._enqueue(pending.owner)

    async def _release(self, kinds: PlacementKinds, key: str) -> None:
        binding = kinds.bindings.store.get(key)
        if binding is None or not binding.view.metadata.deletion_timestamp or not holds_finalizer(binding.view):
            return
        result = await self._writer.release(kinds, binding.view)
        if result.error is not None:
            raise result.error
