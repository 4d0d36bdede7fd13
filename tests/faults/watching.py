"""A reflector at work, with someone who writes down everything its store tells."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from fleet.kube.cache.reflector import Reflector, ReflectorTimings, WatchProblem
from fleet.kube.cache.store import Store, build_codec
from fleet.kube.resource import Resource
from fleet.model.views import MemberCluster, Observed
from tests.faults.scripted import ScriptedApi
from tests.faults.virtual import VirtualClock, no_jitter

Cluster = Observed[MemberCluster]

CLUSTERS = Resource("cluster.kubernetes-fleet.io", "v1beta1", "memberclusters", "MemberCluster", namespaced=False)


@dataclass
class Fold:
    """Puts together what it is told, and objects to whatever does not fit what it was told before."""

    held: dict[str, Cluster] = field(default_factory=dict)
    told: list[tuple[Cluster | None, Cluster | None]] = field(default_factory=list)

    def __call__(self, old: Cluster | None, new: Cluster | None) -> None:
        self.told.append((old, new))
        some = new or old
        assert some is not None
        name = some.view.metadata.name
        assert self.held.get(name) is old, f"{name}: told of a change of something else"
        assert old is None or new is None or old != new, f"{name}: told of a change that is none"
        if new is None:
            del self.held[name]
        else:
            self.held[name] = new

    def state(self) -> dict[str, str]:
        return {name: cluster.view.metadata.resource_version for name, cluster in self.held.items()}


def a_store() -> Store[Cluster]:
    def fail(error: Exception) -> None:
        raise error

    return Store(build_codec(MemberCluster), on_handler_error=fail)


def state_of(store: Store[Cluster]) -> dict[str, str]:
    return {one.view.metadata.name: one.view.metadata.resource_version for one in store.values()}


@dataclass
class Watching:
    api: ScriptedApi
    store: Store[Cluster]
    reflector: Reflector[Cluster]
    fold: Fold
    problems: list[WatchProblem]
    clock: VirtualClock


@asynccontextmanager
async def watching(api: ScriptedApi, *, timings: ReflectorTimings | None = None) -> AsyncIterator[Watching]:
    store, fold, problems, clock = a_store(), Fold(), list[WatchProblem](), VirtualClock()
    store.subscribe(fold)
    reflector = Reflector(
        api, CLUSTERS, store, clock=clock, jitter=no_jitter, timings=timings, on_problem=problems.append
    )
    async with asyncio.TaskGroup() as group:
        task = group.create_task(reflector.run(), name="reflector")
        yield Watching(api, store, reflector, fold, problems, clock)
        task.cancel()
