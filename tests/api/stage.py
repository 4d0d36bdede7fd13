"""A hub with users of all sorts, a fleet, placements that were decided, and the API beside the controller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx
from fastapi import FastAPI

from api.app import create_app
from api.auth.access import HubAuthorizer
from api.http.limits import StreamTiming
from api.live.embedded import build_live_state
from api.live.live import LiveState, QueueReader
from fleet.clock import Clock, SystemClock
from fleet.history import History
from fleet.history.history import WriterTiming as PaceOfRecords
from fleet.hub.access.authentication import ADMINISTRATORS, AUTHENTICATED, Tokens, User
from fleet.hub.hub import Hub
from fleet.kube.resource import Resource
from fleet.manager.manager import Manager
from fleet.recorder.recorder import HistoryRecorder
from fleet.scheduler.telemetry.metrics import new_registry
from fleet.settings import load_settings
from tests.databases import fill
from tests.e2e.world import NAMESPACES, World, all_recorded, configured, controlled
from tests.faults.hub_api import HubApi, a_hub

Json = dict[str, Any]
T = TypeVar("T")

RBAC: Final = "rbac.authorization.k8s.io"
ROLES: Final = Resource(RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
BINDINGS: Final = Resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
PLACEMENT_GROUP: Final = "placement.kubernetes-fleet.io"
CLUSTER_GROUP: Final = "cluster.kubernetes-fleet.io"

ADMIN: Final = "admin-token"
OPERATOR: Final = "operator-token"
"""May read placements, clusters and what concerns the whole fleet."""
READER: Final = "reader-token"
"""May read the placement web, and the clusters ams-1 and ams-2."""
AUTHOR: Final = "author-token"
"""May read and create cluster-scoped placements, and read the clusters ams-1 and ams-2."""
OVERSEER: Final = "overseer-token"
"""May ask what concerns the whole fleet, read and create cluster-scoped placements, and read ams-1 and ams-2."""
STRANGER: Final = "stranger-token"
"""Is known, and may nothing."""

SEEN: Final = ("ams-1", "ams-2")
HIDDEN: Final = ("dub-1", "dub-2", "osl-1")
NEW: Final = "dub-9"
"""Does not exist; who may read ams-1 and ams-2 might read it, too."""
CLUSTERS: Final = {"ams-1": "ams", "ams-2": "ams", "dub-1": "dub", "dub-2": "dub", "osl-1": "osl"}

TOKENS: Final = {
    ADMIN: User("root", "1", (ADMINISTRATORS, AUTHENTICATED)),
    OPERATOR: User("olga", "2", (AUTHENTICATED,)),
    READER: User("rosa", "3", (AUTHENTICATED,)),
    AUTHOR: User("anna", "4", (AUTHENTICATED,)),
    STRANGER: User("stan", "5", (AUTHENTICATED,)),
    OVERSEER: User("otto", "6", (AUTHENTICATED,)),
}
_READ: Final = ["get", "list", "watch"]
_TWO_CLUSTERS: Final = {
    "apiGroups": [CLUSTER_GROUP],
    "resources": ["memberclusters"],
    "resourceNames": [*SEEN, NEW],
    "verbs": ["get"],
}
_CLUSTER_SCOPED: Final = {
    "apiGroups": [PLACEMENT_GROUP],
    "resources": ["clusterresourceplacements"],
    "verbs": [*_READ, "create"],
}
_WHOLE_FLEET: Final = {"nonResourceURLs": ["/fleet/*", "/metrics"], "verbs": ["get", "post"]}
RIGHTS: Final[dict[str, list[Json]]] = {
    "olga": [
        {"apiGroups": [PLACEMENT_GROUP], "resources": ["*"], "verbs": _READ},
        {"apiGroups": [CLUSTER_GROUP], "resources": ["*"], "verbs": _READ},
        _WHOLE_FLEET,
    ],
    "rosa": [
        _TWO_CLUSTERS,
        {
            "apiGroups": [PLACEMENT_GROUP],
            "resources": ["clusterresourceplacements"],
            "resourceNames": ["web"],
            "verbs": ["get"],
        },
    ],
    "anna": [_TWO_CLUSTERS, _CLUSTER_SCOPED],
    "otto": [_TWO_CLUSTERS, _CLUSTER_SCOPED, _WHOLE_FLEET],
}

PATIENT: Final = "eligibility.heartbeatTimeout=24h"
"""No agent sends heartbeats, and a run of the tests may take longer than the usual timeout."""
QUICK: Final = StreamTiming(poll_interval=0.02, heartbeat=0.05, longest=0.3)


@dataclass
class Stage:
    hub: HubApi
    world: World
    app: FastAPI
    history: History | None
    controller: Manager

    def client(self, token: str | None = ADMIN, **headers: str) -> httpx.AsyncClient:
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://fleet", headers=headers)

    async def get(self, path: str, token: str | None = ADMIN, **headers: str) -> httpx.Response:
        async with self.client(token, **headers) as client:
            return await client.get(path)

    async def post(self, path: str, body: Any, token: str | None = ADMIN, **headers: str) -> httpx.Response:
        async with self.client(token, **headers) as client:
            return await client.post(path, json=body)

    async def json(self, path: str, token: str | None = ADMIN) -> Json:
        answer = await self.get(path, token)
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found

    async def wait_until_recorded(self) -> None:
        """Everything decided so far is in the history."""
        if self.history is not None:
            await all_recorded(self.controller, self.history)


def live_beside(stage: Stage, *, clock: Clock | None = None, queue: QueueReader | None = None) -> LiveState:
    """What another API beside the same controller would look at; figures are its own."""
    scheduler = stage.controller.scheduler
    assert scheduler is not None
    return LiveState(
        stage.controller.caches,
        scheduler.frameworks,
        scheduler.table.frame,
        clock=clock or SystemClock(),
        registry=new_registry(),
        queue=queue or scheduler.queue,
    )


@asynccontextmanager
async def a_stage(
    folder: Path | None = None,
    *,
    timing: StreamTiming = QUICK,
    records: PaceOfRecords | None = None,
    file: Path | None = None,
) -> AsyncIterator[Stage]:
    """With a history in the folder, if there is one, and the settings and profiles of the file."""
    hub = a_hub_with(TOKENS)
    world = World(hub)
    await grant_all(world)
    for name, region in CLUSTERS.items():
        await world.join(name, labels={"region": region})
    await world.taint("osl-1", {"key": "dedicated", "value": "batch", "effect": "NoSchedule"})
    await world.create(NAMESPACES, {"metadata": {"name": "shop"}})
    history = recorder = None
    if folder is not None:
        history = History.open(fill(f"sqlite:///{folder / 'history.sqlite'}"), pace=records)
    if history is not None:
        history.start()
        recorder = HistoryRecorder(history, configured())
    try:
        async with controlled(hub, PATIENT, recorder=recorder, file=file) as controller:
            app = create_app(
                build_live_state(controller),
                history,
                HubAuthorizer(hub, clock=SystemClock()),
                load_settings(file, {}, [PATIENT, "queue.maxDelay=30s"]),
                stream_timing=timing,
            )
            stage = Stage(hub, world, app, history, controller)
            await place_all(world)
            await stage.wait_until_recorded()
            yield stage
    finally:
        if history is not None:
            await asyncio.to_thread(history.close)


async def place_all(world: World) -> None:
    """`web` is on two of four clusters that it could be on, `big` wants more than there are, `shop/cache` is on all."""
    await world.place("web", {"placementType": "PickN", "numberOfClusters": 2})
    await world.place("big", {"placementType": "PickN", "numberOfClusters": 5})
    await world.place("shop/cache", {"placementType": "PickAll"})
    await world.soon_scheduled("web")
    await world.soon_scheduled("big", status="False")
    await world.soon_scheduled("shop/cache")


@dataclass
class Running:
    """A stage in a thread of its own: making one takes longer than asking it."""

    stage: Stage
    loop: asyncio.AbstractEventLoop

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(180)


@contextmanager
def a_running_stage(folder: Path | None) -> Iterator[Running]:
    with in_a_thread(a_stage(folder)) as (stage, loop):
        yield Running(stage, loop)


@contextmanager
def in_a_thread(context: AbstractAsyncContextManager[T]) -> Iterator[tuple[T, asyncio.AbstractEventLoop]]:
    """Entered and left in one task, on a loop of its own."""
    begun: Future[tuple[T, asyncio.AbstractEventLoop]] = Future()
    ended = asyncio.Event()

    async def live() -> None:
        async with context as found:
            begun.set_result((found, asyncio.get_running_loop()))
            await ended.wait()

    with ThreadPoolExecutor(1) as pool:
        living = pool.submit(asyncio.run, live())
        try:
            both: set[Future[Any]] = {living, begun}
            wait(both, return_when=FIRST_COMPLETED)
            if not begun.done():
                living.result()
            yield begun.result()
        finally:
            if begun.done():
                begun.result()[1].call_soon_threadsafe(ended.set)
        living.result()


def staged(test: Callable[[Stage], Coroutine[Any, Any, None]]) -> Callable[[Running], None]:
    """Makes a test of a coroutine that asks the stage that all share, and changes nothing on it."""

    def run(running: Running) -> None:
        running.call(test(running.stage))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def alone(test: Callable[[Stage], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    """Makes a test of a coroutine that has a stage for itself, to change it."""

    def run(tmp_path: Path) -> None:
        async def main() -> None:
            async with a_stage(tmp_path) as stage:
                await test(stage)

        asyncio.run(main())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


async def grant_all(world: World) -> None:
    for user, rules in RIGHTS.items():
        await world.create(ROLES, {"metadata": {"name": user}, "rules": rules})
        await world.create(
            BINDINGS,
            {
                "metadata": {"name": user},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": user},
                "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
            },
        )


def a_hub_with(tokens: dict[str, User]) -> HubApi:
    store = a_hub().hub.store
    entries = [(one.resource, entry) for one in store.collections for entry in one.scan()]
    return HubApi(Hub(Tokens(tokens), revision=store.revision, entries=entries))
