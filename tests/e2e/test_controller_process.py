"""`fleet controller` as operators run it: a process with settings, a lease, a history, and an orderly end."""

from __future__ import annotations

import asyncio
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from itertools import count
from pathlib import Path

import aiohttp

from fleet.history import History
from tests.control_plane.instance import free_port
from tests.e2e.hub import soon
from tests.e2e.world import Hub, World

FLEET = (sys.executable, "-m", "fleet.cli")
QUIET = ("--set=metrics.address=off", "--set=health.address=off", "--no-leader-elect")


def run_until_decided(hub: Hub, url: str) -> str:
    """What a controller with this history says until it has decided and was asked to end."""

    async def story() -> str:
        async with hub.connected() as transport:
            fleet = World(transport)
            await fleet.join("a")
            await fleet.place("web", {"placementType": "PickN", "numberOfClusters": 1})
            command = [
                *FLEET,
                "controller",
                f"--kubeconfig={hub.access.kubeconfig}",
                f"--set=history.url={url}",
                *QUIET,
            ]
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
                try:
                    await fleet.soon_scheduled("web")
                finally:
                    process.send_signal(signal.SIGTERM)
                _, said = await asyncio.to_thread(process.communicate, timeout=90)
            assert process.returncode == 0, said
            return said

    return asyncio.run(story())


def test_a_process_decides_records_and_ends_when_asked(hub: Hub, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    subprocess.run([*FLEET, "migrate", f"--url={url}"], check=True, timeout=90, capture_output=True)

    run_until_decided(hub, url)

    history = History.open(url)
    try:
        latest = history.latest("web")
        assert latest is not None
        assert [target.cluster for target in latest.targets] == ["a"]
    finally:
        history.close()


def test_a_process_whose_log_is_read_no_more_ends_when_asked(hub: Hub) -> None:
    async def story() -> int:
        async with hub.connected() as transport:
            fleet = World(transport)
            await fleet.join("a")
            command = [*FLEET, "controller", f"--kubeconfig={hub.access.kubeconfig}", *QUIET]
            with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
                assert process.stderr is not None
                await asyncio.to_thread(process.stderr.readline)
                process.stderr.close()
                await fleet.place("web", {"placementType": "PickN", "numberOfClusters": 1})
                await fleet.soon_scheduled("web")
                process.send_signal(signal.SIGTERM)
                try:
                    return await asyncio.to_thread(process.wait, timeout=90)
                finally:
                    process.kill()

    assert asyncio.run(story()) == 0


def test_a_database_of_somebody_else_is_told_and_keeps_nothing_from_being_decided(hub: Hub, tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    with closing(sqlite3.connect(file)) as theirs:
        theirs.execute("CREATE TABLE people (name TEXT)")

    said = run_until_decided(hub, f"sqlite:///{file}")

    assert str(file) in said
    with closing(sqlite3.connect(file)) as theirs:
        assert theirs.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall() == [("people",)]


def test_a_controller_is_profiled_while_it_decides(hub: Hub, tmp_path: Path) -> None:
    """By a document of kube-scheduler that asks for it."""
    port, file, log, numbers = free_port(), tmp_path / "scheduler.yaml", tmp_path / "log", count()
    lines = ["apiVersion: kubescheduler.config.k8s.io/v1", "kind: KubeSchedulerConfiguration", "enableProfiling: true"]
    file.write_text("\n".join([*lines, f"metricsBindAddress: 127.0.0.1:{port}", ""]), encoding="utf-8")

    async def ask(session: aiohttp.ClientSession, name: str) -> str:
        async with session.get(f"http://127.0.0.1:{port}/debug/{name}") as answer:
            assert answer.status == 200
            return await answer.text()

    async def is_seen_deciding(session: aiohttp.ClientSession, fleet: World) -> bool:
        """A busy machine may leave it no time to decide while it is watched."""
        profile = asyncio.create_task(ask(session, "profile?seconds=3"))
        while not profile.done():
            await fleet.place(f"web-{next(numbers)}", {"placementType": "PickAll"})
        folded = (await profile).splitlines()
        assert all(re.fullmatch(r"\S+ [0-9]+", line) for line in folded)
        return any(line.startswith("MainThread;") and ";fleet.scheduler." in line for line in folded)

    async def story() -> None:
        async with hub.connected() as transport, aiohttp.ClientSession() as session:
            fleet = World(transport)
            await fleet.join("a")
            command = [*FLEET, "controller", f"--kubeconfig={hub.access.kubeconfig}", f"--config={file}"]
            command += ["--no-leader-elect", "--health-address=off", "--set=resourcePlacements.enabled=false"]
            with log.open("w") as output, subprocess.Popen(command, stderr=output) as process:
                try:
                    await fleet.place("first", {"placementType": "PickAll"})
                    await fleet.soon_scheduled("first")
                    await soon(lambda: is_seen_deciding(session, fleet))
                    await fleet.soon_scheduled(f"web-{next(numbers) - 1}")
                    assert "task informers" in await ask(session, "stacks")
                    assert "  builtins.dict\n" in await ask(session, "heap")
                finally:
                    process.send_signal(signal.SIGTERM)
                await asyncio.to_thread(process.wait, timeout=90)
            assert process.returncode == 0, log.read_text()

    asyncio.run(story())
