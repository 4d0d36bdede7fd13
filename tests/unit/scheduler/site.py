"""What the scheduler has of a hub: a dispatcher at work on the kinds of one scope."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fleet.informers.cache import Caches, PlacementKinds
from fleet.kube.informer import InformerConfig
from fleet.kube.objects import Objects, RetryPolicy
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Binding, Observed
from fleet.scheduler.cleanup import Cleanup, Orphans
from fleet.scheduler.dispatch.binding_calls import BindingWriter
from fleet.scheduler.dispatch.dispatcher import Dispatcher
from tests.fake_hub import FakeHub
from tests.faults.virtual import VirtualClock, no_jitter

PATIENCE = RetryPolicy(VirtualClock(), no_jitter)


@dataclass
class Site:
    """A dispatcher at work on the kinds of one flavour."""

    server: FakeHub
    kinds: PlacementKinds
    dispatcher: Dispatcher

    @property
    def bindings(self) -> Objects[Observed[Binding]]:
        return self.kinds.bindings.objects

    @property
    def writer(self) -> BindingWriter:
        return BindingWriter(dispatcher=self.dispatcher, retry_policy=PATIENCE)

    @property
    def cleanup(self) -> Cleanup:
        return Cleanup(bindings=self.writer, orphans=Orphans(VirtualClock()), retry_policy=PATIENCE)


@asynccontextmanager
async def a_site(server: FakeHub, *, namespaced: bool = False, concurrency: int = 32) -> AsyncIterator[Site]:
    access = InformerConfig(reads=server, writes=server, clock=VirtualClock(), jitter=no_jitter)
    kinds = Caches(access).kinds_of(PlacementKey.parse("shop/web" if namespaced else "web"))
    dispatcher = Dispatcher(clock=VirtualClock(), concurrency=concurrency)
    for watched in kinds:
        watched.store.version = "0"
        dispatcher.follow(watched.store)
    async with asyncio.TaskGroup() as group:
        group.create_task(dispatcher.run(), name="dispatcher")
        await asyncio.sleep(0)
        yield Site(server, kinds, dispatcher)
        dispatcher.close()
