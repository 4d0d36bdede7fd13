"""Informer of one kind: watches it into a store, and puts the answers to own writes into that store at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, NoReturn, TypeVar

from fleet.clock import Clock
from fleet.kube.api import WRITE_CLASS, Api
from fleet.kube.backoff import Jitter
from fleet.kube.cache.reflector import ListFilter, Reflector, ReflectorTimings, WatchProblem
from fleet.kube.cache.store import Codec, Store
from fleet.kube.objects import Objects
from fleet.kube.resource import Resource

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class InformerConfig:
    """The API clients and settings that all informers of a process share."""

    reads: Api
    writes: Api
    clock: Clock
    jitter: Jitter
    on_problem: Callable[[Resource, WatchProblem], None] = lambda *_: None
    timings: ReflectorTimings | None = None


class Informer(Generic[T]):
    def __init__(
        self,
        access: InformerConfig,
        resource: Resource,
        codec: Codec[T],
        *,
        call_class: str = WRITE_CLASS,
        selection: ListFilter | None = None,
        optional: bool = False,
    ) -> None:
        """With `optional`, the hub need not know the kind."""
        self.resource = resource
        self.store: Store[T] = Store(codec)
        self.objects: Objects[T] = Objects(access.writes, resource, codec, store=self.store, call_class=call_class)
        self.reflector: Reflector[T] = Reflector(
            access.reads,
            resource,
            self.store,
            clock=access.clock,
            jitter=access.jitter,
            selection=selection,
            timings=access.timings,
            optional=optional,
            on_problem=lambda problem: access.on_problem(resource, problem),
        )


class WatchOnDemand:
    """Of a kind that few processes read: makes no request before it is needed."""

    def __init__(self, informer: Informer[Any], on_known: Callable[[], None]) -> None:
        """`on_known` is called once all objects are known."""
        self._reflector: Final = informer.reflector
        self._on_known = on_known
        self._is_needed = asyncio.Event()

    async def run(self) -> NoReturn:
        """Until cancelled."""
        await self._is_needed.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reflector.run(), name="watching on demand")
            await self._reflector.wait_for_sync()
            self._on_known()
        raise AssertionError("the watch has ended")

    def need(self) -> None:
        self._is_needed.set()

    @property
    def is_known(self) -> bool:
        return self._reflector.is_synced
