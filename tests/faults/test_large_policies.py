"""Large policies keep no small ones waiting, and the threads that compute for them end with the process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from fleet.cli.up.api import serve_api
from fleet.framework.cycle.decision import Decision
from fleet.framework.request import compile_request
from fleet.hub.access.authentication import ADMINISTRATORS, AUTHENTICATED, User, write_tokens
from fleet.hub.http.server import Endpoint
from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.recorder.recorder import run_history
from fleet.scheduler.attempt import AttemptRunner
from fleet.scheduler.requests import PARTS_ON_LOOP
from fleet.settings import load_settings
from tests.api.stage import a_hub_with
from tests.e2e.hub import soon
from tests.e2e.world import World, configured, controlled

TOKEN: Final = "a-token"
ROOT: Final = User("root", "1", (ADMINISTRATORS, AUTHENTICATED))
PREFERRED: Final = [
    {"weight": 1, "preference": {"labelSelector": {"matchLabels": {f"key-{number}": "x"}}}}
    for number in range(PARTS_ON_LOOP)
]
LARGE: Final = {
    "placementType": "PickN",
    "numberOfClusters": 1,
    "affinity": {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": PREFERRED}},
}
SMALL: Final = {"placementType": "PickN", "numberOfClusters": 1}


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
