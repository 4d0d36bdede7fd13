"""Large objects: a thread prepares their writes, which are atomic all the same."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from fleet.hub.http import handler
from fleet.hub.http.handler import LARGE_WRITE
from fleet.hub.hub import Hub
from fleet.hub.storage import transaction
from fleet.hub.storage.transaction import Overtaken, StoreTransaction
from fleet.hub.wire.options import WriteOptions
from tests.unit.hub.asking import (
    CONFIG_MAPS,
    DEFINITIONS,
    NAMESPACES,
    NOON,
    THINGS,
    TOKENS,
    Answer,
    Asker,
    a_config_map,
    a_definition,
    a_thing,
)
from tests.unit.hub.test_access import allow_bob

ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
MERGE = "application/merge-patch+json"
TEXT = "x" * LARGE_WRITE
PATIENCE = 60.0
Meanwhile = Callable[[], Awaitable[Any]]


class Interruptible(Asker):
    """While a thread prepares a write, `meanwhile` is done on the event loop: a write looks at the clock once."""

    def __init__(self, runner: asyncio.Runner) -> None:
        hub = Hub(TOKENS, clock=self._look)
        super().__init__(hub, runner)
        self.runner = runner
        self._meanwhile: Meanwhile | None = None
        self.threads: list[bool] = []
        """Of each look at the clock during a write: whether it was another thread's."""
        for name in ("default", "other"):
            assert self("POST", NAMESPACES, {"metadata": {"name": name}}).code == 201

    def _look(self) -> float:
        if (meanwhile := getattr(self, "_meanwhile", None)) is not None:
            beside = threading.current_thread() is not threading.main_thread()
            self.threads.append(beside)
            if beside:
                asyncio.run_coroutine_threadsafe(self._do(meanwhile), self.runner.get_loop()).result(PATIENCE)
        return NOON

    async def _do(self, meanwhile: Meanwhile) -> None:
        self._meanwhile = None
        try:
            await meanwhile()
        finally:
            self._meanwhile = meanwhile

    def overtaken(self, meanwhile: Meanwhile, *request: Any, times: int = 1, **options: Any) -> Answer:
        """The answer to the request, with something done in its first tries."""
        left = iter(range(times))

        async def once() -> None:
            if next(left, None) is not None:
                await meanwhile()

        self._meanwhile = once
        try:
            return self(*request, **options)
        finally:
            self._meanwhile = None


@pytest.fixture
def busy(runner: asyncio.Runner) -> Iterator[Interruptible]:
    asker = Interruptible(runner)
    yield asker
    asker.hub.large_writes.close()


def a_small_write(busy: Interruptible, **data: str) -> Meanwhile:
    async def write() -> None:
        answer = await busy.begin("PATCH", f"{CONFIG_MAPS}/a", {"data": data}, media_type=MERGE)
        assert answer.code == 200, answer.content

    return write


def test_others_are_answered_while_a_large_object_is_checked(busy: Interruptible) -> None:
    answers: list[int] = []

    async def ask() -> None:
        answers.append((await busy.begin("GET", f"{NAMESPACES}/default")).code)

    assert busy.overtaken(ask, "POST", CONFIG_MAPS, a_config_map("a", text=TEXT)).code == 201
    assert answers == [200]


@pytest.mark.parametrize("method, media_type", [("PUT", "application/json"), ("PATCH", MERGE)])
def test_small_writes_of_large_objects_are_prepared_beside_too(
    busy: Interruptible, method: str, media_type: str
) -> None:
    busy("POST", CONFIG_MAPS, a_config_map("a", text=TEXT))
    small = a_config_map("a", n="1")
    assert busy.overtaken(_nothing, method, f"{CONFIG_MAPS}/a", small, media_type=media_type).code == 200
    assert busy.threads == [True]


def test_small_objects_are_written_at_once(busy: Interruptible) -> None:
    assert busy.overtaken(_nothing, "POST", CONFIG_MAPS, a_config_map("a")).code == 201
    assert busy.threads
    assert not any(busy.threads)


async def _nothing() -> None:
    pass


def test_a_patch_is_of_the_state_that_overtook_it(busy: Interruptible) -> None:
    busy("POST", CONFIG_MAPS, a_config_map("a", n="1"))
    large = {"data": {"text": TEXT}}
    other = a_small_write(busy, n="2")
    patched = busy.overtaken(other, "PATCH", f"{CONFIG_MAPS}/a", large, media_type=MERGE)
    assert patched.json["data"] == {"n": "2", "text": TEXT}
    assert busy("GET", f"{CONFIG_MAPS}/a").json == patched.json
    assert busy.threads == [True, True]


def test_the_revision_of_an_update_is_that_of_the_state_which_it_replaces(busy: Interruptible) -> None:
    read = busy("POST", CONFIG_MAPS, a_config_map("a", n="1")).json
    read["data"]["text"] = TEXT
    other = a_small_write(busy, n="2")
    assert busy.overtaken(other, "PUT", f"{CONFIG_MAPS}/a", read).refusal[:2] == (409, "Conflict")
    assert busy("GET", f"{CONFIG_MAPS}/a").json["data"] == {"n": "2"}


def test_an_update_that_changes_nothing_finds_what_overtook_it(busy: Interruptible) -> None:
    document = a_config_map("a", text=TEXT)
    busy("POST", CONFIG_MAPS, document)

    async def delete() -> None:
        assert (await busy.begin("DELETE", f"{CONFIG_MAPS}/a")).code == 200

    assert busy.overtaken(delete, "PUT", f"{CONFIG_MAPS}/a", document).code == 404


def test_a_refusal_is_by_what_overtook_it(busy: Interruptible) -> None:
    busy("POST", CONFIG_MAPS, a_config_map("a") | {"immutable": True})

    async def replace() -> None:
        assert (await busy.begin("DELETE", f"{CONFIG_MAPS}/a")).code == 200
        assert (await busy.begin("POST", CONFIG_MAPS, a_config_map("a", n="1"))).code == 201

    large = {"data": {"text": TEXT}}
    assert busy.overtaken(replace, "PATCH", f"{CONFIG_MAPS}/a", large, media_type=MERGE).code == 200


def test_nothing_is_created_in_a_namespace_that_goes(busy: Interruptible) -> None:
    async def delete() -> None:
        assert (await busy.begin("DELETE", f"{NAMESPACES}/other")).code == 200

    other = CONFIG_MAPS.replace("default", "other")
    answer = busy.overtaken(delete, "POST", other, a_config_map("a", text=TEXT))
    assert answer.refusal[:2] == (403, "Forbidden")
    assert busy.names(other) == []


def test_what_is_overtaken_again_and_again_is_written_on_the_event_loop(busy: Interruptible) -> None:
    busy("POST", CONFIG_MAPS, a_config_map("a", n="1"))
    counted = iter(range(100))

    async def write() -> None:
        await a_small_write(busy, n=f"{next(counted)}")()

    patched = busy.overtaken(write, "PATCH", f"{CONFIG_MAPS}/a", {"data": {"text": TEXT}}, media_type=MERGE, times=100)
    tries = busy.threads.index(False)
    assert tries > 1
    assert patched.json["data"] == {"n": f"{tries - 1}", "text": TEXT}


def test_an_object_is_checked_by_the_definition_that_is_served_when_it_is_stored(busy: Interruptible) -> None:
    definition = busy("POST", DEFINITIONS, a_definition()).json
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["n"] = {
        "type": "string",
        "maxLength": 10,
    }

    async def change() -> None:
        assert (await busy.begin("PUT", f"{DEFINITIONS}/things.example.com", definition)).code == 200

    thing = a_thing("a", n=1, annotations={"text": TEXT})
    assert busy.overtaken(change, "POST", THINGS, thing).refusal[:2] == (422, "Invalid")
    assert busy.names(THINGS) == []


def test_large_writes_that_wait_are_bounded_for_each_user_and_together(
    busy: Interruptible, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler, "MOST_WAITING", 5 * LARGE_WRITE)
    allow_bob(busy, namespace="default", resources=["configmaps"], verbs=["create"])

    async def ask(*objects: tuple[str, str, int]) -> list[Answer]:
        requests = [
            busy.begin("POST", CONFIG_MAPS, a_config_map(name, text=size * TEXT), token=f"{user}-token")
            for user, name, size in objects
        ]
        return await asyncio.gather(*requests)

    answers = busy.runner.run(ask(("admin", "a", 1), ("admin", "b", 1), ("admin", "c", 1), ("bob", "d", 1)))
    assert [answer.code for answer in answers] == [201, 201, 429, 201]
    assert answers[2].headers["retry-after"] == "1"
    answers = busy.runner.run(ask(("admin", "c", 2), ("bob", "e", 3)))
    assert [answer.code for answer in answers] == [201, 429]
    assert busy.runner.run(ask(("bob", "e", 3)))[0].code == 201


def test_small_changes_of_large_objects_that_wait_count_with_their_objects(
    busy: Interruptible, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert busy("POST", CONFIG_MAPS, a_config_map("a", text=TEXT)).code == 201
    monkeypatch.setattr(handler, "MOST_WAITING", 5 * LARGE_WRITE)

    async def patch(*texts: str) -> list[Answer]:
        path = f"{CONFIG_MAPS}/a"
        return await asyncio.gather(
            *(busy.begin("PATCH", path, {"data": {"more": text}}, media_type=MERGE) for text in texts)
        )

    assert [answer.code for answer in busy.runner.run(patch("b", "c", "d"))] == [200, 200, 429]


def test_garbage_collection_waits_for_a_large_write(busy: Interruptible) -> None:
    """Documents have no cycles, and visiting a large one holds the event loop."""
    found: list[int] = []

    async def look() -> None:
        found.append(gc.get_threshold()[0])

    busy.overtaken(look, "POST", CONFIG_MAPS, a_config_map("a", text=TEXT))
    assert found == [500_000]
    assert gc.get_threshold()[0] < 500_000


def count_collections(act: Callable[[], object]) -> int:
    began: list[str] = []

    def note(phase: str, _: dict[str, int]) -> None:
        began.append(phase)

    gc.collect(0)
    gc.callbacks.append(note)
    try:
        act()
    finally:
        gc.callbacks.remove(note)
    return began.count("start")


def test_deleting_a_large_object_collects_no_garbage(ask: Asker) -> None:
    """Only its metadata is decoded, be it deleted by a request or after its owner."""
    owner = ask("POST", CONFIG_MAPS, a_config_map("owner")).json["metadata"]["uid"]
    owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner}]
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}] * 10_000
    for name, metadata in (("kept", {"finalizers": ["example.com/wait"]}), ("owned", {"ownerReferences": owners})):
        assert ask("POST", ROLES, {"metadata": {"name": name, **metadata}, "rules": rules}).code == 201

    assert count_collections(lambda: ask("DELETE", f"{ROLES}/kept")) == 0
    kept = ask("GET", f"{ROLES}/kept").json
    assert (kept["rules"], "deletionTimestamp" in kept["metadata"]) == (rules, True)

    ask("DELETE", f"{CONFIG_MAPS}/owner")
    assert count_collections(ask.settle) == 0
    assert ask.names(ROLES) == ["kept"]


def test_deleting_a_large_object_in_the_foreground_collects_no_garbage(ask: Asker) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}] * 10_000
    owner = ask("POST", ROLES, {"metadata": {"name": "owner"}, "rules": rules}).json["metadata"]["uid"]
    reference = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "name": "owner", "uid": owner}
    owned = {"name": "owned", "ownerReferences": [{**reference, "blockOwnerDeletion": True}]}
    assert ask("POST", ROLES, {"metadata": owned, "rules": rules}).code == 201

    options = {"propagationPolicy": "Foreground"}
    assert count_collections(lambda: ask("DELETE", f"{ROLES}/owner", options)) == 0
    assert ask.names(ROLES) == ["owned", "owner"]
    assert count_collections(ask.settle) == 0
    assert ask.names(ROLES) == []


def test_a_thread_does_not_wait_for_a_loop_that_was_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "_LOOK_EVERY", 0.01)
    hub = Hub(TOKENS)
    loop = asyncio.new_event_loop()

    async def begin() -> StoreTransaction:
        return StoreTransaction(hub.store, holds=lambda: True)

    writers = hub.write_to(loop.run_until_complete(begin()))
    kind = hub.registry.find("", "v1", "namespaces")
    assert kind is not None
    outcomes: list[BaseException] = []

    def write() -> None:
        try:
            writers.objects.create(kind, "", {"metadata": {"name": "a"}}, WriteOptions(manager="tests"))
        except (Overtaken, RuntimeError) as error:
            outcomes.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    loop.close()
    thread.join(PATIENCE)
    assert len(outcomes) == 1


def test_a_write_that_times_out_itself_is_no_loop_that_has_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub(TOKENS)

    def put(*_: Any) -> Any:
        raise TimeoutError("of the store")

    async def write() -> None:
        monkeypatch.setattr(hub.store, "put", put)
        transaction = StoreTransaction(hub.store, holds=lambda: True)
        await asyncio.wait_for(asyncio.to_thread(transaction.put, "namespaces", {}), PATIENCE)

    with pytest.raises(TimeoutError, match="of the store"):
        asyncio.run(write())
