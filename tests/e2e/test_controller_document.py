"""`fleet controller` as a process with a document: an extender, a feed, and a token from a Secret."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp

from fleet.history import History
from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.model.keys import SCHEDULER_NAME
from tests.control_plane.access import ADMIN
from tests.control_plane.instance import free_port
from tests.e2e.hub import LEASE_NAMESPACE, Hub, soon
from tests.e2e.world import ANYTHING, World
from tests.extender import Json, an_extender, list_names
from tests.installed import LETTERS, write_package
from tests.unit.scheduler.test_configured_profiles import HEAD, WORKED_EXAMPLE

FLEET: Final = (sys.executable, "-m", "fleet.cli")
QUIET: Final = ("--set=metrics.address=off", "--set=health.address=off", "--no-leader-elect")
TOKEN: Final = "hush-hush-hush"
PRICES: Final = {"items": [{"name": "a", "price": 3}, {"name": "b", "price": 1}, {"name": "c", "price": 2}]}


def write_document(folder: Path, url: str) -> Path:
    document = {
        "apiVersion": "scheduling.fleet.dev/v1",
        "kind": "FleetSchedulerConfiguration",
        "substitution": {"fromSecret": ["outside"]},
        "extenders": [{"name": "budget", "urlPrefix": f"{url}/budget", "filterVerb": "filter"}],
        "feeds": [
            {"name": "prices", "http": {"url": f"{url}/prices", "items": "items", "cluster": "name",
             "bearerToken": "${PRICE_TOKEN}"}}
        ],
        "profiles": [
            {
                "schedulerName": "cheap",
                "base": "ExtendedProfile",
                "plugins": {"score": {"enabled": [{"name": "FeedPreference", "weight": 50}]}},
                "pluginConfig": [{"name": "FeedPreference", "args": {"feed": "prices", "column": "price"}}],
            }
        ],
    }  # fmt: skip
    file = folder / "fleet.yaml"
    file.write_text(json.dumps(document), encoding="utf-8")
    return file


def test_F3_135_F3_137_an_extender_a_feed_and_a_secret_decide(hub: Hub, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    subprocess.run([*FLEET, "migrate", f"--url={url}"], check=True, timeout=90, capture_output=True)

    def answer(path: str, asked: Json) -> object:
        if path == "/prices":
            return PRICES
        return {"NodeNames": [name for name in list_names(asked) if name != "b"], "FailedNodes": {"b": "over budget"}}

    written = tmp_path / "log"  # a pipe that is not read is full at some time, and the controller waits for it

    async def story(file: Path) -> None:
        async with hub.connected() as transport:
            world = World(transport)
            await world.hold_secret(f"{LEASE_NAMESPACE}/outside", PRICE_TOKEN=TOKEN.encode())
            for name in "abc":
                await world.join(name)
            command = [*FLEET, "controller", f"--kubeconfig={hub.access.kubeconfig}", f"--config={file}"]
            command += [f"--set=history.url={url}", "--set=logging.level=debug", *QUIET]
            with written.open("w") as log, subprocess.Popen(command, stderr=log) as process:
                try:
                    metadata = {"name": "web", "annotations": {SCHEDULER_NAME: "cheap"}}
                    policy = {"placementType": "PickN", "numberOfClusters": 1}
                    spec = {"resourceSelectors": [ANYTHING], "policy": policy}
                    await world.create(CLUSTER_SCOPED.placement, {"metadata": metadata, "spec": spec})
                    await world.soon_on("web", "c")
                finally:
                    process.send_signal(signal.SIGTERM)
                await asyncio.to_thread(process.wait, timeout=90)
            assert process.returncode == 0, written.read_text()

    with an_extender() as extender:
        extender.answer = answer
        asyncio.run(story(write_document(tmp_path, extender.url)))
        assert ("/prices", f"Bearer {TOKEN}") in [(path, sent.get("Authorization")) for path, sent in extender.asked]
    assert TOKEN not in written.read_text()
    assert TOKEN.encode() not in (tmp_path / "history.sqlite").read_bytes()

    history = History.open(url)
    try:
        latest = history.latest("web")
        assert latest is not None
        assert [target.cluster for target in latest.targets] == ["c"]
        assert [(group.plugin, group.count) for group in latest.groups] == [("budget", 1)]
        recorded = history.inputs(latest.id)
        assert recorded is not None
        assert recorded.results
        assert recorded.sidedata
    finally:
        history.close()


def test_a_secret_that_is_no_text_does_not_refuse_the_start(hub: Hub, tmp_path: Path) -> None:
    file = write_document(tmp_path, "http://127.0.0.1:9")
    document = json.loads(file.read_text(encoding="utf-8"))
    document |= {"substitution": {"fromSecret": ["binary"]}, "extenders": [], "profiles": []}
    file.write_text(json.dumps(document), encoding="utf-8")

    written = tmp_path / "log"

    async def story() -> None:
        async with hub.connected() as transport:
            world = World(transport)
            await world.hold_secret(f"{LEASE_NAMESPACE}/binary", PRICE_TOKEN=b"\xff" + TOKEN.encode())
            await world.join("a")
            command = [*FLEET, "controller", f"--kubeconfig={hub.access.kubeconfig}", f"--config={file}", *QUIET]
            with written.open("w") as log, subprocess.Popen(command, stderr=log) as process:
                try:
                    await world.place("web", {"placementType": "PickN", "numberOfClusters": 1})
                    await world.soon_on("web", "a")
                finally:
                    process.send_signal(signal.SIGTERM)
                await asyncio.to_thread(process.wait, timeout=90)
            assert process.returncode == 0, written.read_text()

    asyncio.run(story())
    log = written.read_text()
    assert f"key PRICE_TOKEN of Secret {LEASE_NAMESPACE}/binary is not UTF-8 text" in log
    assert TOKEN not in log


def test_C_04_two_profiles_of_one_file_are_those_of_controller_and_api(hub: Hub, tmp_path: Path) -> None:
    (package := tmp_path / "letters").mkdir()
    write_package(package, LETTERS, {letter: letter for letter in "ABCDEFG"})
    two = WORKED_EXAMPLE.replace("- base:", "- schedulerName: DefaultScheduler\n- schedulerName: letters\n  base:")
    file = tmp_path / "fleet.yaml"
    file.write_text(HEAD + two, encoding="utf-8")
    metrics, api = free_port(), free_port()
    options = (f"--kubeconfig={hub.access.kubeconfig}", f"--config={file}")
    listening = (f"--metrics-address=127.0.0.1:{metrics}", "--health-address=off", "--no-leader-elect")
    commands = {
        f"http://127.0.0.1:{metrics}": [*FLEET, "controller", *options, *listening],
        f"http://127.0.0.1:{api}": [*FLEET, "api", *options, f"--address=127.0.0.1:{api}", "--plain-http"],
    }

    async def story() -> None:
        token = {"Authorization": f"Bearer {hub.access.tokens[ADMIN]}"}
        async with (
            hub.connected() as transport,
            aiohttp.ClientSession(headers=token) as session,
            AsyncExitStack() as up,
        ):

            async def is_read(url: str) -> Any:
                try:
                    async with session.get(url) as answer:
                        return await answer.json() if answer.status == 200 else None
                except aiohttp.ClientError:
                    return None

            world = World(transport)
            await world.join("a")
            environ = {**os.environ, "PYTHONPATH": str(package)}
            for number, command in enumerate(commands.values()):
                log = up.enter_context((tmp_path / f"log-{number}").open("w"))
                up.callback(end, subprocess.Popen(command, stderr=log, env=environ))
            for name in ("letters", "DefaultScheduler"):
                pages = [await soon(partial(is_read, f"{url}/v1/profiles/{name}")) for url in commands]
                assert pages[0]["configHash"] == pages[1]["configHash"]
                assert pages[0] == pages[1]
                if name == "letters":
                    scores = [(entry["name"], entry["weight"]) for entry in pages[1]["plugins"]["score"]]
                    assert scores == [("C", 9), ("B", 5), ("F", 1), ("E", 4)]
                metadata = {"name": name.lower(), "annotations": {SCHEDULER_NAME: name}}
                spec = {"resourceSelectors": [ANYTHING], "policy": {"placementType": "PickAll"}}
                await world.create(CLUSTER_SCOPED.placement, {"metadata": metadata, "spec": spec})
                await world.soon_on(name.lower(), "a")

    asyncio.run(story())


def end(process: subprocess.Popen[Any]) -> None:
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=90)
