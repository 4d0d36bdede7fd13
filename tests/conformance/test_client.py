"""Fleet's own client against the hub: what a controller sees is what the server has, whatever happens in between."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fleet.clock import SystemClock
from fleet.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound
from fleet.kube.api import Method, Request
from fleet.kube.backoff import ExponentialBackoff
from fleet.kube.cache.reflector import ListFilter, Reflector, ReflectorTimings
from fleet.kube.cache.store import Store, build_codec
from fleet.kube.client.transport import Transport
from fleet.kube.objects import Objects, RetryPolicy, update_with_retries
from fleet.kube.resource import Resource
from fleet.model.catalog import find_kind
from fleet.model.views import MemberCluster, Observed
from tests.conformance.conftest import Restartable
from tests.conformance.crds import install_crds
from tests.conformance.documents import a_cluster
from tests.conformance.embedded import new_hub
from tests.conformance.hub import Hub
from tests.conformance.playing import play
from tests.control_plane.access import kubeconfig
from tests.faults.watching import Fold, a_store, state_of

pytestmark = pytest.mark.servers

SECONDS_WITH_A_RESTART = 200  # a server may take 90 to start; an idle machine's takes 5
ONCE_A_SECOND = ReflectorTimings(pace=ExponentialBackoff(initial=0.1, maximum=1.0))
"""A controller would wait up to 45 seconds for a server that is down."""

Cluster = Observed[MemberCluster]


def _clusters() -> Resource:
    known = find_kind("cluster.kubernetes-fleet.io/v1beta1", "MemberCluster")
    assert known is not None
    return Resource.of(known)


def _objects(transport: Transport, store: Store[Cluster] | None = None) -> Objects[Cluster]:
    return Objects(transport, _clusters(), build_codec(MemberCluster), store=store)


@asynccontextmanager
async def watched(
    transport: Transport, selection: ListFilter, timings: ReflectorTimings | None = None
) -> AsyncIterator[Store[Cluster]]:
    """A store that a reflector keeps up to date; complete to begin with."""
    store = a_store()
    reflector = Reflector(
        transport,
        _clusters(),
        store,
        clock=SystemClock(),
        jitter=lambda: 0.0,
        selection=selection,
        timings=timings,
    )
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(reflector.run(), name="reflector")
        await reflector.wait_for_sync()
        yield store
        running.cancel()


async def until(store: Store[Cluster], holds: Callable[[], bool]) -> None:
    """Waits for a change of the store that makes it true."""
    changed = asyncio.Event()
    store.subscribe(lambda old, new: changed.set())
    while not holds():
        changed.clear()
        await changed.wait()


def _marked(mark: str, name: str, **spec: Any) -> dict[str, Any]:
    return a_cluster(name, metadata={"labels": {"test": mark}}, **spec)


def test_a_store_follows_the_hub(hub: Hub, unique: str) -> None:
    async def scene(transport: Transport) -> None:
        objects = _objects(transport)
        await objects.create(_marked(unique, f"{unique}-a"))
        async with watched(transport, ListFilter(labels=f"test={unique}")) as store:
            assert list(store) == [f"{unique}-a"]
            await objects.create(_marked(unique, f"{unique}-b"))
            await until(store, lambda: len(store) == 2)
            await objects.merge_patch(f"{unique}-b", {"metadata": {"labels": {"test": None}}})
            await until(store, lambda: len(store) == 1)
            await objects.delete(f"{unique}-a")
            await until(store, lambda: len(store) == 0)

    play(hub.access, scene)


def test_a_client_sees_its_own_writes_at_once(hub: Hub, unique: str) -> None:
    async def scene(transport: Transport) -> None:
        async with watched(transport, ListFilter(labels=f"test={unique}")) as store:
            objects = _objects(transport, store)
            written = await objects.create(_marked(unique, unique))
            held = store.get(unique)
            assert held is not None
            assert held.view.metadata == written.view.metadata
            await objects.delete(unique)
            assert unique not in store

    play(hub.access, scene)


def test_a_list_comes_in_pages(hub: Hub, unique: str) -> None:
    async def scene(transport: Transport) -> None:
        objects = _objects(transport)
        names = [f"{unique}-{number:03}" for number in range(501)]
        async with asyncio.TaskGroup() as tasks:
            for name in names:
                tasks.create_task(objects.create(_marked(unique, name)), name=f"create {name}")
        listed = await objects.list(labels=f"test={unique}")
        assert [found.view.metadata.name for found in listed] == names

    play(hub.access, scene)
    hub.http.delete("/apis/cluster.kubernetes-fleet.io/v1/memberclusters", query={"labelSelector": f"test={unique}"})


def test_writers_that_collide_all_get_through(hub: Hub, unique: str) -> None:
    """Each adds a label of its own to the same object, on the version it has just read."""
    retry_policy = RetryPolicy(SystemClock(), lambda: 0.0, delays=(0.0,) * 20)

    async def scene(transport: Transport) -> None:
        objects = _objects(transport)
        seen = await objects.create(_marked(unique, unique))

        def labelling(label: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
            def change(document: dict[str, Any]) -> dict[str, Any]:
                document["metadata"]["labels"][label] = "here"
                return document

            return change

        labels = [f"writer-{number}" for number in range(5)]
        async with asyncio.TaskGroup() as tasks:
            for label in labels:
                tasks.create_task(
                    update_with_retries(objects, unique, labelling(label), retry_policy=retry_policy, cached=seen),
                    name=label,
                )
        final = await objects.get(unique)
        assert set(final.view.metadata.labels or {}) == {"test", *labels}

    play(hub.access, scene)


def test_what_the_hub_refuses_has_a_type(hub: Hub, unique: str) -> None:
    async def scene(transport: Transport) -> None:
        objects = _objects(transport)
        created = await objects.create(_marked(unique, unique))
        with pytest.raises(AlreadyExists):
            await objects.create(_marked(unique, unique))
        with pytest.raises(NotFound):
            await objects.get(f"{unique}-other")
        with pytest.raises(Invalid) as refused:
            await objects.merge_patch(unique, {"spec": {"heartbeatPeriodSeconds": 0}})
        assert [cause.field for cause in refused.value.causes] == ["spec.heartbeatPeriodSeconds"]
        await objects.merge_patch(unique, {"spec": {"heartbeatPeriodSeconds": 7}})
        with pytest.raises(Conflict):
            await objects.replace(created.document())
        with pytest.raises(Conflict):
            await objects.delete(unique, version=created.view.metadata.resource_version)

    play(hub.access, scene)


def test_others_may_do_less(hub: Hub) -> None:
    file = hub.cache / "alice.kubeconfig"
    token = hub.access.tokens["alice"]
    file.write_text(kubeconfig(url=hub.access.url, ca_file=hub.access.ca_file, token=token), encoding="utf-8")

    async def scene() -> None:
        async with await Transport.from_kubeconfig(file, clock=SystemClock()) as transport:
            with pytest.raises(Forbidden):
                await transport.call(Request(Method.GET, _clusters().collection()))

    asyncio.run(scene())


@pytest.fixture
def restartable(target: str, tmp_path: Path) -> Iterator[Restartable]:
    """For one test: a hub ends with the thread that starts it again."""
    with new_hub(target, tmp_path / "hub") as hub:
        yield hub


def test_a_store_survives_a_restart_of_the_hub(restartable: Restartable, unique: str) -> None:
    install_crds(restartable.access)

    async def scene(transport: Transport) -> None:
        objects = _objects(transport)
        for name in ("kept", "lost"):
            await objects.create(_marked(unique, name))
        async with watched(transport, ListFilter(labels=f"test={unique}"), ONCE_A_SECOND) as store:
            await objects.delete("lost")
            await asyncio.to_thread(restartable.restart)
            await objects.create(_marked(unique, "late"))
            await until(store, lambda: sorted(store) == ["kept", "late"])
            held = store.get("kept")
            assert held is not None
            assert held.view.metadata == (await objects.get("kept")).view.metadata

    play(restartable.access, scene, seconds=SECONDS_WITH_A_RESTART)


def test_nothing_is_lost_or_doubled_when_the_hub_is_killed_during_a_storm(
    restartable: Restartable, unique: str
) -> None:
    install_crds(restartable.access)

    async def scene(transport: Transport) -> None:
        objects, fold, is_over = _objects(transport), Fold(), asyncio.Event()
        async with watched(transport, ListFilter(labels=f"test={unique}"), ONCE_A_SECOND) as store:
            store.subscribe(fold)
            async with asyncio.TaskGroup() as tasks:
                for number in range(4):
                    tasks.create_task(_storm(objects, unique, f"{unique}-{number}", is_over), name=f"storm-{number}")
                await until(store, lambda: len(fold.told) >= 100)
                await asyncio.to_thread(restartable.crash)
                told = len(fold.told)
                await until(store, lambda: len(fold.told) >= told + 100)
                is_over.set()
            listed = await objects.list(labels=f"test={unique}")
            wanted = {one.view.metadata.name: one.view.metadata.resource_version for one in listed}
            await until(store, lambda: state_of(store) == wanted)
            assert fold.state() == wanted

    play(restartable.access, scene, seconds=SECONDS_WITH_A_RESTART)


async def _storm(objects: Objects[Cluster], mark: str, prefix: str, is_over: asyncio.Event) -> None:
    """Creates, changes and deletes three clusters, round and round, whatever the hub says to it."""
    for number in itertools.count():
        name, step = f"{prefix}-{number % 3}", number // 3 % 3
        try:
            if step == 0:
                await objects.create(_marked(mark, name))
            elif step == 1:
                await objects.merge_patch(name, {"spec": {"heartbeatPeriodSeconds": number % 100 + 1}})
            else:
                await objects.delete(name)
        except ApiError:
            await asyncio.sleep(0.05)
        if is_over.is_set():
            return
