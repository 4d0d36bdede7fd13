"""What is left to do for objects that are being deleted.

A placement: all its bindings go, then our finalizer on it; bindings that appear even later go when they appear. A
binding: our finalizer goes at once, without waiting for an attempt, and then the placement may look for a replacement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

import structlog

from fleet.clock import Clock
from fleet.errors import QueueClosed
from fleet.framework.operations import holds_finalizer
from fleet.framework.request import PlacementRequest
from fleet.informers.cache import PlacementKinds
from fleet.kube.patch import RetryPolicy
from fleet.kube.resource import key_of
from fleet.kube.scopes import owner_key, parse_key
from fleet.kube.workqueue import WorkQueue
from fleet.model.keys import SCHEDULED
from fleet.model.views import Binding, Observed, Placement
from fleet.scheduler.dispatch.api_calls import CallType
from fleet.scheduler.dispatch.binding_calls import Erasure, Means
from fleet.scheduler.dispatch.binding_writes import BindingWrites
from fleet.scheduler.dispatch.dispatcher import Dispatcher
from fleet.scheduler.dispatch.finalizers import remove_finalizer
from fleet.scheduler.dispatch.live_reads import list_bindings

_WORKERS: Final = 8

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanup:
    dispatcher: Dispatcher
    retry_policy: RetryPolicy

    async def clean_up(self, kinds: PlacementKinds, placement: Observed[Placement]) -> None:
        """Deletes the bindings, without waiting for them to vanish, and lets go of the placement.

        The bindings are listed live: one that the cache lacks would be left behind for ever.
        """
        metadata = placement.view.metadata
        bindings = await list_bindings(kinds.bindings.objects, key_of(metadata), retry_policy=self.retry_policy)
        await self._erase(kinds, key_of(metadata), bindings)
        await remove_finalizer(kinds, placement, retry_policy=self.retry_policy)

    async def erase_left_behind(self, kinds: PlacementKinds, key: str, bindings: Iterable[Observed[Binding]]) -> None:
        """Deletes bindings of a placement that does not exist, or that we have let go of already: a create that
        everybody had given up on arrived after all. Only those that look like it (`is_as_created`).
        """
        late = [one for one in bindings if is_as_created(one.view)]
        if late:
            names = [one.view.metadata.name for one in late]
            log.warning("bindings outlived their placement: they are deleted", placement=key, bindings=names)
            await self._erase(kinds, key, late)

    async def _erase(self, kinds: PlacementKinds, key: str, bindings: list[Observed[Binding]]) -> None:
        """All are tried before the first failure is raised."""
        namespace, name = parse_key(key)
        request = PlacementRequest(placement=name, namespace=namespace)
        means = Means(objects=kinds.bindings.objects, request=request, retry_policy=self.retry_policy)
        paid = means.paid_as(CallType.EVICT)
        outcomes = await asyncio.gather(*(self.dispatcher.submit(Erasure(one, paid)) for one in bindings))
        for outcome in outcomes:
            if outcome.error is not None:
                raise outcome.error


def is_as_created(binding: Binding) -> bool:
    """As the scheduler makes bindings, and nobody has done anything with it since. Without its placement it is good for
    nothing, while one that is bound stands for workload: that may wait for a placement that is just being restored."""
    return holds_finalizer(binding) and binding.spec.state == SCHEDULED and not binding.metadata.deletion_timestamp


class _Release(NamedTuple):
    kinds: PlacementKinds
    owner: str | None


class BindingReleases:
    """Bindings that are being deleted and wait for our finalizer to go. Failures are retried for ever."""

    def __init__(
        self,
        writes: BindingWrites,
        enqueue: Callable[[str], None],
        *,
        clock: Clock,
        on_problem: Callable[[str, Exception], None] = lambda *_: None,
    ) -> None:
        """`enqueue` is told the placement whose binding is released, `on_problem` the binding that could not be yet."""
        self._writes = writes
        self._enqueue = enqueue
        self._on_problem = on_problem
        self._queue: WorkQueue[str] = WorkQueue(clock=clock)
        self._wanted: dict[str, _Release] = {}

    def add(self, kinds: PlacementKinds, binding: Observed[Binding]) -> None:
        metadata = binding.view.metadata
        key = key_of(metadata)  # those of the two flavours differ: only one of them has a namespace
        self._wanted[key] = _Release(kinds, owner_key(metadata))
        self._queue.add(key)

    async def run(self) -> None:
        """Until closed."""
        async with asyncio.TaskGroup() as group:
            for number in range(_WORKERS):
                group.create_task(self._work(), name=f"binding releases {number}")

    def close(self) -> None:
        self._queue.close()

    def in_work(self) -> Set[str]:
        return self._queue.in_flight

    # --- inside -------------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        with suppress(QueueClosed):
            while True:
                key = await self._queue.get()
                try:
                    await self._settle(key)
                finally:
                    self._queue.finish(key)

    async def _settle(self, key: str) -> None:
        wanted = self._wanted.pop(key, None)
        if wanted is None:
            return
        try:
            await self._release(wanted.kinds, key)
        except Exception as error:
            self._wanted.setdefault(key, wanted)
            self._on_problem(key, error)
            self._queue.retry(key)
            return
        self._queue.forget(key)
        if wanted.owner is not None:
            self._enqueue(wanted.owner)

    async def _release(self, kinds: PlacementKinds, key: str) -> None:
        held = kinds.bindings.store.get(key)
        if held is None or not held.view.metadata.deletion_timestamp or not holds_finalizer(held.view):
            return
        result = await self._writes.release(kinds, held.view)
        if result.error is not None:
            raise result.error
