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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sql

from fleet.errors import ConfigurationError, RequestRefused
from fleet.hub.http.server import Endpoint, HubSettings, serve_hub
from fleet.hub.kinds.builtin import DEFINITIONS
from fleet.hub.storage.database import DatabaseWriter, HubDatabase
from fleet.hub.storage.entries import encode_entry
from fleet.hub.storage.store import HubStore, StoreChange, durability_error
from tests.unit.hub.asking import CONFIG_MAPS, Asker, a_config_map

WRITERS = 8
CRASHES = 2
ACKNOWLEDGED_BEFORE_A_CRASH = 200
SECONDS = 90.0
"""That a busy machine with a slow disk may take."""


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


@dataclass
class Storm:
    """What clients know of their writes; a value of None is a deletion."""

    acknowledged: dict[str, str | None] = field(default_factory=dict)
    unanswered: dict[str, str | None] = field(default_factory=dict)
    seen: int = 0
    """The highest revision that a writer or a watcher was told of."""
    count: int = 0
    enough: threading.Event = field(default_factory=threading.Event)

    def possible(self, name: str) -> set[str | None]:
        """What may be there after a crash: a write without an answer may have been done, or not."""
        known = self.acknowledged.get(name)
        return {known, self.unanswered.get(name, known)}

    def acknowledge(self, name: str, answer: dict[str, Any]) -> None:
        self.acknowledged[name] = self.unanswered.pop(name)
        self.seen = max(self.seen, int(answer["metadata"].get("resourceVersion", 0)))
        self.count += 1
        if self.count >= ACKNOWLEDGED_BEFORE_A_CRASH:
            self.enough.set()


def write_until_it_dies(port: int, prefix: str, storm: Storm) -> None:
    """Creates, changes and deletes ten objects, round and round."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
        for number in range(1_000_000):
            name, step = f"{prefix}-{number % 10}", number // 10 % 3
            method, url = [
                ("POST", CONFIG_MAPS),
                ("PUT", f"{CONFIG_MAPS}/{name}"),
                ("DELETE", f"{CONFIG_MAPS}/{name}"),
            ][step]
            storm.unanswered[name] = str(number) if method != "DELETE" else None
            body = json.dumps({"metadata": {"name": name}, "data": {"n": str(number)}} if method != "DELETE" else {})
            connection.request(method, url, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            assert answer.status < 300
            storm.acknowledge(name, json.loads(answer.read()))
    connection.close()


def watch_until_it_dies(port: int, storm: Storm) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
        connection.request("GET", f"{CONFIG_MAPS}?watch=1")
        for line in connection.getresponse():
            storm.seen = max(storm.seen, int(json.loads(line)["object"]["metadata"]["resourceVersion"]))
    connection.close()


def everything(port: int) -> tuple[dict[str, str], int]:
    """What all ConfigMaps hold by name, and the hub's revision."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    connection.request("GET", CONFIG_MAPS)
    found = json.loads(connection.getresponse().read())
    connection.close()
    return {item["metadata"]["name"]: item["data"]["n"] for item in found["items"]}, int(
        found["metadata"]["resourceVersion"]
    )


def rage(hub: subprocess.Popen[bytes], port: int, storm: Storm, *, name: str) -> None:
    """Writers and a watcher, until the hub is killed under their hands."""
    threads = [threading.Thread(target=watch_until_it_dies, args=(port, storm))]
    for number in range(WRITERS):
        threads.append(threading.Thread(target=write_until_it_dies, args=(port, f"{name}-{number}", storm)))
    for thread in threads:
        thread.start()
    assert storm.enough.wait(SECONDS)
    hub.send_signal(signal.SIGKILL)
    for thread in threads:
        thread.join()


def want_everything_known_of(storms: list[Storm], port: int) -> None:
    kept, revision = everything(port)
    for storm in storms:
        names = storm.acknowledged | storm.unanswered
        assert {name: kept.get(name) for name in names if kept.get(name) not in storm.possible(name)} == {}
        assert revision >= storm.seen, "revisions never go back"


@pytest.mark.servers  # a process that is killed again and again
def test_nothing_acknowledged_is_lost_when_the_hub_is_killed_again_and_again(tmp_path: Path) -> None:
    storms: list[Storm] = []
    for crash in range(CRASHES):
        with a_running_hub(tmp_path) as (hub, port):
            want_everything_known_of(storms, port)
            storms.append(Storm())
            rage(hub, port, storms[-1], name=f"crash-{crash}")
    with a_running_hub(tmp_path) as (_, port):
        want_everything_known_of(storms, port)


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
    reopened = HubDatabase(tmp_path)
    assert (reopened.revision(), list(reopened.entries())) == (last, [])
    reopened.close()


@contextlib.contextmanager
def a_database(folder: Path) -> Iterator[tuple[HubStore, DatabaseWriter]]:
    database = HubDatabase(folder)
    store = HubStore(revision=database.revision())
    writer = DatabaseWriter(database, apply=store.apply, discard=store.discard_in_flight)
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
            assert (collection.entries.get(entry.key), collection.in_flight) == (entry, {})
            writer.close()

    asyncio.run(scenario())


def test_a_write_that_fails_is_refused_and_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(_database: HubDatabase, _changes: Sequence[StoreChange]) -> None:
        secret = {"resource": "secrets", "name": "of-another-caller"}
        raise sql.exc.OperationalError("INSERT INTO objects", secret, OSError("disk is full"))

    async def scenario() -> None:
        with a_database(tmp_path) as (store, writer):
            with monkeypatch.context() as patched:
                patched.setattr(HubDatabase, "write", full_disk)
                entry, durable = store.put("configmaps", a_document("a"))
                assert durable is not None
                with pytest.raises(RequestRefused, match="disk is full") as refused:
                    await durable
            assert refused.value.code == 503
            assert not {"INSERT", "of-another-caller"} & set(refused.value.message.replace(":", " ").split())
            assert store.collection("configmaps").head(entry.key) is None
            _, again = store.put("configmaps", a_document("a"))
            assert again is not None
            await again
            writer.close()

    asyncio.run(scenario())


def test_a_hub_is_ready_when_its_kinds_are_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, is_ready = HubDatabase.write, threading.Event()
    order: list[str] = []

    def write_late(database: HubDatabase, changes: Sequence[StoreChange]) -> None:
        is_ready.wait(0.2)
        write(database, changes)
        order.extend(change.resource for change in changes)

    async def scenario() -> None:
        stop = asyncio.Event()

        def note_ready(_: Endpoint) -> None:
            order.append("ready")
            is_ready.set()
            stop.set()

        async with asyncio.timeout(SECONDS):
            await serve_hub(HubSettings(data_dir=tmp_path), stop=stop, ready=note_ready)

    monkeypatch.setattr(HubDatabase, "write", write_late)
    asyncio.run(scenario())

    assert order.count(DEFINITIONS) > 1
    assert order[-1] == "ready"


def test_a_disk_that_takes_no_kinds_is_named_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(_database: HubDatabase, _changes: Sequence[StoreChange]) -> None:
        raise OSError("disk is full")

    async def serve() -> None:
        stop = asyncio.Event()
        await serve_hub(HubSettings(data_dir=tmp_path), stop=stop, ready=lambda _: stop.set())

    monkeypatch.setattr(HubDatabase, "write", write)
    with pytest.raises(ConfigurationError, match=rf"{tmp_path} does not take Fleet's kinds: .*disk is full; check"):
        asyncio.run(serve())


def test_an_error_of_the_database_names_no_object_wherever_it_is_shown(tmp_path: Path) -> None:
    database = HubDatabase(tmp_path)
    entry = encode_entry(a_document("of-another-caller"), 2)
    try:
        with database.engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE objects")
        with pytest.raises(sql.exc.OperationalError) as raised:
            database.write([StoreChange("secrets", 2, entry, None)])
    finally:
        database.close()

    assert "of-another-caller" not in str(raised.value)


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    async def write() -> None:
        with a_database(tmp_path / "new") as (store, writer):
            store.put("secrets", a_document("a"))
            await store.settle()
            modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "new").iterdir()}
            assert modes == dict.fromkeys(("hub.sqlite", "hub.sqlite-wal", "hub.sqlite-shm", "hub.lock"), 0o600)
            writer.close()

    asyncio.run(write())
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_files_that_others_could_read_are_taken_from_them(tmp_path: Path) -> None:
    HubDatabase(tmp_path).close()
    (tmp_path / "hub.sqlite").chmod(0o644)
    HubDatabase(tmp_path).close()
    assert (tmp_path / "hub.sqlite").stat().st_mode & 0o777 == 0o600


def test_a_data_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "hub.sqlite").write_text("this is no database " * 100)
    with pytest.raises(ConfigurationError, match=r"cannot open the data directory .*: file is not a database; check"):
        HubDatabase(tmp_path)


# --- answers while changes are in flight ------------------------------------------------------------------------------


@dataclass
class SlowDisk:
    """A journal whose changes become durable, or fail, when the test lets them."""

    store: HubStore
    queue: list[tuple[StoreChange, asyncio.Future[None]]] = field(default_factory=list)

    def append(self, change: StoreChange, on_durable: asyncio.Future[None]) -> None:
        self.queue.append((change, on_durable))

    def write(self, count: int) -> None:
        batch, self.queue = self.queue[:count], self.queue[count:]
        self.store.apply([change for change, _ in batch])
        for _, durable in batch:
            durable.set_result(None)

    def fail(self) -> None:
        batch, self.queue = self.queue, []
        self.store.discard_in_flight()
        for _, durable in batch:
            durable.set_exception(durability_error(OSError("disk is full")))


@pytest.mark.parametrize(
    "first, second",
    [
        (("PUT", {"n": "2"}), ("PUT", {"n": "2"})),
        (("PUT", {"n": "2"}), ("PATCH", {"data": {"n": "2"}})),
        (("DELETE", None), ("DELETE", None)),
        (("DELETE", None), ("PUT", {"n": "3"})),
    ],
    ids=["unchanged", "patched to the same", "deleted twice", "changed after a deletion"],
)
def test_an_answer_waits_for_the_changes_that_it_follows_from(
    ask: Asker, runner: asyncio.Runner, first: tuple[str, Any], second: tuple[str, Any]
) -> None:
    """Otherwise it would be untrue once those changes fail."""
    ask("POST", CONFIG_MAPS, a_config_map("a", n="1"))
    disk = SlowDisk(ask.hub.store)
    ask.hub.store.journal = disk

    def request(method: str, data: Any) -> Any:
        body = {"metadata": {"name": "a"}, "data": data} if method == "PUT" else data
        media_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
        return ask.begin(method, f"{CONFIG_MAPS}/a", body, media_type=media_type)

    async def scenario() -> list[int]:
        requests = [asyncio.create_task(request(*asked)) for asked in (first, second)]
        for _ in range(20):
            await asyncio.sleep(0)
        assert not any(task.done() for task in requests)
        disk.fail()
        return [(await task).code for task in requests]

    assert runner.run(scenario()) == [503, 503]
    assert ask("GET", f"{CONFIG_MAPS}/a").json["data"] == {"n": "1"}


def test_a_deleted_object_does_not_come_back(ask: Asker, runner: asyncio.Runner) -> None:
    """Deleted, created and deleted again: the first deletion becomes durable while the second one is in flight."""
    ask("POST", CONFIG_MAPS, a_config_map("a", n="1"))
    disk = SlowDisk(ask.hub.store)
    ask.hub.store.journal = disk
    url = f"{CONFIG_MAPS}/a"

    async def scenario() -> list[int]:
        requests = []
        for method, place, body in (
            ("DELETE", url, None),
            ("POST", CONFIG_MAPS, a_config_map("a", n="2")),
            ("DELETE", url, None),
        ):
            requests.append(asyncio.create_task(ask.begin(method, place, body)))
            await asyncio.sleep(0)
        disk.write(1)
        disk.write(1)
        requests.append(asyncio.create_task(ask.begin("PUT", url, a_config_map("a", n="3"))))
        await asyncio.sleep(0)
        disk.write(len(disk.queue))
        return [(await request).code for request in requests]

    assert runner.run(scenario()) == [200, 201, 200, 404]
    ask.hub.store.journal = None
    assert ask("GET", url).code == 404


def test_a_data_directory_serves_one_hub_at_a_time(tmp_path: Path) -> None:
    database = HubDatabase(tmp_path)
    with pytest.raises(ConfigurationError, match="another hub uses this data directory"):
        HubDatabase(tmp_path)
    database.close()
