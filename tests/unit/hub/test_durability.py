"""What a data directory promises: an acknowledged write survives anything."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sql

from fleet.errors import ConfigurationError, RequestRefused
from fleet.hub.storage import Database, Writer
from fleet.hub.store import Change, Store
from tests.unit.hub.asking import CONFIG_MAPS

WRITERS = 8
ACKNOWLEDGED_BEFORE_THE_CRASH = 300


def a_document(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}


@contextlib.contextmanager
def a_running_hub(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    ready = folder / "ready.json"
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", "fleet.hub", "--data-dir", str(folder / "data"), "--ready-file", str(ready)]
    hub = subprocess.Popen(command)
    try:
        while not ready.exists():
            assert hub.poll() is None, "the hub ended before it was ready"
            time.sleep(0.02)
        yield hub, int(json.loads(ready.read_text())["url"].rpartition(":")[2])
    finally:
        hub.kill()
        hub.wait()


def write_until_it_dies(port: int, writer: int, acknowledged: dict[str, int], enough: threading.Event) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
        for number in range(1_000_000):
            name = f"w{writer}-{number}"
            body = json.dumps({"metadata": {"name": name}})
            connection.request("POST", CONFIG_MAPS, body, {"Content-Type": "application/json"})
            answer = json.loads(connection.getresponse().read())
            acknowledged[name] = int(answer["metadata"]["resourceVersion"])
            if len(acknowledged) >= ACKNOWLEDGED_BEFORE_THE_CRASH:
                enough.set()
    connection.close()


def everything(port: int) -> tuple[dict[str, int], int]:
    """Revisions of all ConfigMaps by name, and the hub's own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", CONFIG_MAPS)
    found = json.loads(connection.getresponse().read())
    connection.close()
    revisions = {item["metadata"]["name"]: int(item["metadata"]["resourceVersion"]) for item in found["items"]}
    return revisions, int(found["metadata"]["resourceVersion"])


def test_nothing_acknowledged_is_lost_when_the_hub_is_killed(tmp_path: Path) -> None:
    acknowledged: dict[str, int] = {}
    enough = threading.Event()
    with a_running_hub(tmp_path) as (hub, port):
        storm = [
            threading.Thread(target=write_until_it_dies, args=(port, writer, acknowledged, enough))
            for writer in range(WRITERS)
        ]
        for thread in storm:
            thread.start()
        assert enough.wait(60)
        hub.send_signal(signal.SIGKILL)
        for thread in storm:
            thread.join()
    with a_running_hub(tmp_path) as (_, port):
        kept, revision = everything(port)
    assert {name: kept.get(name) for name in acknowledged} == acknowledged
    assert revision >= max(acknowledged.values())


def test_the_order_of_revisions_survives_a_deletion_and_a_restart(tmp_path: Path) -> None:
    async def write_and_remove() -> int:
        with a_database(tmp_path) as (store, writer):
            entry, durable = store.put("configmaps", a_document("a"))
            assert durable is not None
            await durable
            last, durable = store.remove("configmaps", entry)
            assert durable is not None
            await durable
            writer.close()
            return last

    last = asyncio.run(write_and_remove())
    reopened = Database(tmp_path)
    assert (reopened.revision(), list(reopened.entries())) == (last, [])
    reopened.close()


@contextlib.contextmanager
def a_database(folder: Path) -> Iterator[tuple[Store, Writer]]:
    database = Database(folder)
    store = Store(revision=database.revision())
    writer = Writer(database, apply=store.apply, forget=store.forget_under_way)
    store.journal = writer
    yield store, writer
    database.close()


def test_readers_see_a_write_when_it_is_durable_and_writers_before(tmp_path: Path) -> None:
    async def scenario() -> None:
        with a_database(tmp_path) as (store, writer):
            entry, durable = store.put("configmaps", a_document("a"))
            collection = store.collection("configmaps")
            assert (collection.entries.get(entry.key), collection.head(entry.key)) == (None, entry)
            assert durable is not None
            await durable
            assert (collection.entries.get(entry.key), collection.under_way) == (entry, {})
            writer.close()

    asyncio.run(scenario())


def test_a_write_that_fails_is_refused_and_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(_database: Database, _changes: Sequence[Change]) -> None:
        raise sql.exc.OperationalError("INSERT", {}, OSError("disk is full"))

    async def scenario() -> None:
        with a_database(tmp_path) as (store, writer):
            with monkeypatch.context() as patched:
                patched.setattr(Database, "write", full_disk)
                entry, durable = store.put("configmaps", a_document("a"))
                assert durable is not None
                with pytest.raises(RequestRefused, match="disk is full") as refused:
                    await durable
            assert refused.value.code == 503
            assert store.collection("configmaps").head(entry.key) is None
            _, again = store.put("configmaps", a_document("a"))
            assert again is not None
            await again
            writer.close()

    asyncio.run(scenario())


def test_a_data_directory_serves_one_hub_at_a_time(tmp_path: Path) -> None:
    database = Database(tmp_path)
    with pytest.raises(ConfigurationError, match="another hub uses this data directory"):
        Database(tmp_path)
    database.close()
