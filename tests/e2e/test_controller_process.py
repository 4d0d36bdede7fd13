"""`fleet controller` as operators run it: a process with settings, a lease, a history, and an orderly end."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from fleet.history import History
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


def test_a_database_of_somebody_else_is_told_and_keeps_nothing_from_being_decided(hub: Hub, tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    with closing(sqlite3.connect(file)) as theirs:
        theirs.execute("CREATE TABLE people (name TEXT)")

    said = run_until_decided(hub, f"sqlite:///{file}")

    assert str(file) in said
    with closing(sqlite3.connect(file)) as theirs:
        assert theirs.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall() == [("people",)]
