"""Large policies keep no small ones waiting, and the threads that compute for them end with the process."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from fleet.checkpoint import check
from fleet.cli.up.api import serve_api
from fleet.framework.cycle.decision import Decision
from fleet.framework.request import PlacementRequest, compile_request
from fleet.hub.access.authentication import ADMINISTRATORS, AUTHENTICATED, User, write_tokens
from fleet.hub.http.server import Endpoint
from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.manager.manager import Manager
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Observed, PolicySnapshot
from fleet.placement.snapshots.hashing import policy_hash
from fleet.recorder.recorder import run_history
from fleet.scheduler.attempt import AttemptRunner
from fleet.scheduler.requests import PARTS_ON_LOOP
from fleet.settings import load_settings
from tests.api.stage import a_hub_with
from tests.bench.hostile import SHAPES, build_placement, build_policy
from tests.control_plane.waiting import SECONDS_TO_HAPPEN
from tests.e2e.hub import soon
from tests.e2e.world import World, configured, controlled
from tests.faults.configured import HEAD
from tests.faults.hub_api import a_hub
from tests.installed import installed_doubles

TOKEN: Final = "a-token"
ROOT: Final = User("root", "1", (ADMINISTRATORS, AUTHENTICATED))
SMALL: Final = {"placementType": "PickN", "numberOfClusters": 1}


def prefer(count: int) -> dict[str, Any]:
    preferred = [
        {"weight": 1, "preference": {"labelSelector": {"matchLabels": {f"key-{number}": "x"}}}}
        for number in range(count)
    ]
    return {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


LARGE_BYTES: Final = 32 * 1024
LARGE: Final = {**SMALL, "affinity": prefer(PARTS_ON_LOOP)}


@contextmanager
def new_threads(*names: str) -> Iterator[None]:
    """Those with these names end with what is done in here."""
    others = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - others:
        if thread.name.startswith(names):
            thread.join(60)
            assert not thread.is_alive(), thread.name


def test_small_policies_do_not_wait_for_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    may_decide = threading.Event()
    decide = AttemptRunner._decide_and_render

    def decide_when_told(*args: Any) -> Decision:
        may_decide.wait()
        return decide(*args)

    monkeypatch.setattr(AttemptRunner, "_decide_and_render", decide_when_told)

    async def scene() -> None:
        hub = a_hub_with({TOKEN: ROOT})
        async with controlled(hub, "workers=2"):
            world = World(hub)
            await world.join("c1")
            for number in range(5):
                await world.place(f"large-{number}", LARGE)
            await world.place("small", SMALL)
            await world.soon_scheduled("small")
            assert await world.scheduled("large-0") is None
            may_decide.set()
            for number in range(5):
                await world.soon_scheduled(f"large-{number}")

    with new_threads("decisions"):
        try:
            asyncio.run(scene())
        finally:
            may_decide.set()


def test_a_policy_is_hashed_when_it_changes_and_not_at_every_reconciliation(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[object] = []

    def hash_noted(policy: dict[str, Any]) -> str:
        hashed.append(policy)
        return policy_hash(policy)

    async def scene() -> None:
        hub = a_hub_with({TOKEN: ROOT})
        async with controlled(hub):
            world = World(hub)
            for name in ("c1", "c2"):
                await world.join(name)
            await world.place("large", LARGE)
            await world.soon_scheduled("large")
            await world.edit_policy("large", numberOfClusters=2)
            await world.soon_on("large", "c1", "c2")
            assert len(hashed) == 1
            await world.edit_policy("large", affinity=prefer(1))
            await soon_latest(world, "large", 1)
            assert len(hashed) > 1

    monkeypatch.setattr("fleet.placement.snapshots.policy_snapshots.policy_hash", hash_noted)
    with new_threads("decisions"):
        asyncio.run(scene())


def test_a_large_policy_is_hashed_beside_the_event_loop_and_never_decoded_on_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hashing: set[int] = set()
    decoded: list[int] = []
    document = Observed.document

    def hash_noted(policy: dict[str, Any]) -> str:
        hashing.add(threading.get_ident())
        return policy_hash(policy)

    def decode_noted(observed: Observed[Any]) -> dict[str, Any]:
        if len(observed.raw) > LARGE_BYTES:
            decoded.append(len(observed.raw))
        return document(observed)

    async def scene() -> None:
        hub = a_hub_with({TOKEN: ROOT})
        async with controlled(hub):
            world = World(hub)
            for name in ("c1", "c2"):
                await world.join(name)
            await world.place("large", LARGE)
            await world.soon_scheduled("large")
            await world.edit_policy("large", numberOfClusters=2)
            await world.soon_on("large", "c1", "c2")
            assert decoded == []

    monkeypatch.setattr("fleet.placement.snapshots.policy_snapshots.policy_hash", hash_noted)
    monkeypatch.setattr(Observed, "document", decode_noted)
    with new_threads("decisions"):
        asyncio.run(scene())
    assert hashing
    assert threading.get_ident() not in hashing


def test_a_large_policy_behind_a_gate_is_not_compiled_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []

    def compile_noted(*args: Any, **more: Any) -> Any:
        threads.append(threading.current_thread().name)
        return compile_request(*args, **more)

    async def scene() -> None:
        hub = a_hub_with({TOKEN: ROOT})
        async with controlled(hub):
            world = World(hub)
            await world.join("c1")
            gates = [{"name": "review"}]
            await world.create(CLUSTER_SCOPED.options, {"metadata": {"name": "large"}, "spec": {"gates": gates}})
            await world.place("large", LARGE)

            async def is_held() -> bool:
                options = await world.find(CLUSTER_SCOPED.options, "large") or {}
                held = [each for each in options.get("status", {}).get("conditions", ()) if each["type"] == "Gated"]
                return any(each["status"] == "True" for each in held)

            await soon(is_held)
            assert threads == []
            await world.patch(CLUSTER_SCOPED.options, "large", {"spec": {"gates": []}})
            await world.soon_scheduled("large")

    monkeypatch.setattr("fleet.scheduler.requests.compile_request", compile_noted)
    with new_threads("decisions"):
        asyncio.run(scene())
    assert threads
    assert all(name.startswith("decisions") for name in threads)


class Calendar:
    """A PreEnqueue plugin of one's own."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []
        """Placements, and how many preferences they had."""

    def name(self) -> str:
        return "Calendar"

    def pre_enqueue(self, ctx: Any, req: PlacementRequest) -> None:
        self.seen.append((req.placement, len(req.preferred)))


@contextmanager
def a_calendar(folder: Path) -> Iterator[tuple[Calendar, Path]]:
    """And the document that names it."""
    calendar, file = Calendar(), folder / "fleet.yaml"
    file.write_text(f"{HEAD}profiles: [{{plugins: {{preEnqueue: {{enabled: [{{name: Calendar}}]}}}}}}]\n")
    package = folder / "calendar"
    package.mkdir()
    with installed_doubles(package, {"Calendar": lambda *_: calendar}):
        yield calendar, file


async def soon_latest(world: World, key: str, preferences: int) -> None:
    """Its policy snapshot is the one with so many preferences."""

    async def look() -> bool:
        latest = await world.latest_snapshot(key)
        return latest is not None and latest["spec"]["policy"]["affinity"] == prefer(preferences)

    await soon(look)


async def soon_gated(controller: Manager, key: str, plugin: str) -> None:
    async def look() -> bool:
        assert controller.scheduler is not None
        item = controller.scheduler.queue.peek(PlacementKey.parse(key))
        return item is not None and item.gate is not None and item.gate.plugin == plugin

    await soon(look)


def test_a_large_policy_for_a_pre_enqueue_plugin_is_compiled_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    may_compile = threading.Event()

    def compile_when_told(snapshot: PolicySnapshot, **more: Any) -> PlacementRequest:
        request = compile_request(snapshot, **more)
        if len(request.preferred) > 1:
            assert threading.current_thread().name.startswith("decisions")
            compiled.append(request.placement)
            may_compile.wait()
        return request

    async def scene() -> None:
        hub = a_hub_with({TOKEN: ROOT})
        with a_calendar(tmp_path) as (calendar, file):
            async with controlled(hub, file=file) as controller:
                world = World(hub)
                await world.join("c1")
                for key in ("large", "given-up"):
                    await world.place(key, LARGE)
                    await soon_gated(controller, key, "LargePolicy")
                await world.place("small", SMALL)
                await world.soon_scheduled("small")
                await world.delete(CLUSTER_SCOPED.placement, "given-up")
                for number in (PARTS_ON_LOOP + 1, PARTS_ON_LOOP + 2):
                    await world.edit_policy("large", affinity=prefer(number))
                    await soon_latest(world, "large", number)
                await world.place("later", SMALL)
                await world.soon_scheduled("later")  # so the last edit has arrived, too
                assert calendar.seen == [("small", 0), ("later", 0)]
                may_compile.set()
                await world.soon_scheduled("large")
                assert set(calendar.seen[2:]) == {("large", PARTS_ON_LOOP + 2)}

    monkeypatch.setattr("fleet.scheduler.requests.compile_request", compile_when_told)
    with new_threads("decisions"):
        try:
            asyncio.run(scene())
        finally:
            may_compile.set()
    assert compiled == ["large", "large"]


def test_a_compile_under_way_ends_with_the_controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()

    def compile_without_end(*args: Any, **more: Any) -> PlacementRequest:
        begun.set()
        while True:
            check()
            time.sleep(0.001)

    async def scene() -> None:
        hub = a_hub_with({TOKEN: ROOT})
        with a_calendar(tmp_path) as (_, file):
            async with controlled(hub, file=file) as controller:
                await World(hub).place("large", LARGE)
                await soon_gated(controller, "large", "LargePolicy")
                assert await asyncio.to_thread(begun.wait, SECONDS_TO_HAPPEN)

    monkeypatch.setattr("fleet.scheduler.requests.compile_request", compile_without_end)
    with new_threads("decisions"):
        asyncio.run(scene())


def test_the_threads_of_the_api_end_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    endpoint = Endpoint("", tmp_path / "kubeconfig", tmp_path / "tokens", None)
    write_tokens(endpoint.token_file, {TOKEN: ROOT})
    proposed = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": "proposed"},
        "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}],
            "policy": SMALL,
        },
    }

    async def scene() -> None:
        hub, effective = a_hub_with({TOKEN: ROOT}), load_settings(None, {}, [])
        settings = configured(f"history.url=sqlite:///{tmp_path / 'history.sqlite'}")
        async with (
            run_history(settings) as history,
            controlled(hub) as controller,
            serve_api(controller, history, hub, effective, endpoint, port=0) as served,
            httpx.AsyncClient(base_url=served.url, headers={"Authorization": f"Bearer {TOKEN}"}) as client,
        ):
            await World(hub).place("web", SMALL)
            for answer in (
                await client.post("/v1/simulate", json={"placement": proposed}),
                await client.get("/v1/placements/-/web/history"),
            ):
                assert answer.status_code == 200, answer.text

    with new_threads("evaluations", "fleet-history"):
        asyncio.run(scene())


# --- the hub ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_the_embedded_hub_stores_policies_as_large_as_an_api_server_does(shape: str) -> None:
    placement = build_placement("large", build_policy(shape, None, most_bytes=1_400_000))

    stored = asyncio.run(a_hub().create(CLUSTER_SCOPED.placement.collection(), placement))

    assert stored["spec"]["policy"]["affinity"] == placement["spec"]["policy"]["affinity"]
