"""One request per operation; what the server made of it is in the store at once."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import msgspec
import pytest

from fleet.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Gone,
    NotFound,
    ServerTimeout,
    Unavailable,
    UnreadableAnswer,
)
from fleet.kube.api import Method, Request
from fleet.kube.cache.store import Codec, build_codec
from fleet.kube.objects import Objects, RetryPolicy, build_merge_patch, call_with_retries, update_with_retries
from fleet.model.views import MemberCluster, Metadata
from tests.fake_hub import Answered, FakeHub, Fault, Lost, Slow, in_turn
from tests.faults.scripted import Hang, Refuse
from tests.faults.virtual import VirtualClock, no_jitter, virtual
from tests.faults.watching import CLUSTERS, Cluster, a_store

PATH = CLUSTERS.item("c1")
PATIENCE = RetryPolicy(VirtualClock(), no_jitter)


def objects_on(server: FakeHub, *, cached: bool = False) -> Objects[Cluster]:
    store = a_store() if cached else None
    if store is not None:
        store.relist().end()
        store.version = "0"
    return Objects(server, CLUSTERS, build_codec(MemberCluster), store=store)


def bodies(server: FakeHub) -> list[Any]:
    return [msgspec.json.decode(request.body) for request in server.requests if request.body]


# --- budgets ----------------------------------------------------------------------------------------------------------


@virtual
async def test_objects_paid_from_another_budget_are_otherwise_the_same() -> None:
    server = FakeHub()
    objects = objects_on(server, cached=True)
    assert objects.with_call_class(objects.call_class) is objects

    await objects.with_call_class("evict").create({"metadata": {"name": "c1"}})

    assert [request.call_class for request in server.requests] == ["evict"]
    assert objects.store is not None
    assert "c1" in objects.store


# --- reading ----------------------------------------------------------------------------------------------------------


@virtual
async def test_an_object_is_found_on_the_server_whatever_the_store_says() -> None:
    server = FakeHub()
    objects = objects_on(server, cached=True)
    server.put(PATH, {"metadata": {"name": "c1", "uid": "theirs"}})
    found = await objects.find("c1")
    assert found is not None
    assert found.view.metadata.uid == "theirs"
    assert objects.store is not None
    assert "c1" not in objects.store


@virtual
async def test_an_object_that_does_not_exist_is_not_found() -> None:
    server = FakeHub()
    assert await objects_on(server).find("c1") is None
    assert [(request.method, request.path) for request in server.requests] == [(Method.GET, PATH)]


@virtual
@pytest.mark.parametrize("refusal, error", [(Refuse(403), Forbidden), (Refuse(410), Gone), (Refuse(503), Unavailable)])
async def test_an_object_that_cannot_be_read_may_still_exist(refusal: Refuse, error: type[Exception]) -> None:
    with pytest.raises(error):
        await objects_on(FakeHub(lambda _: refusal)).find("c1")


# --- writing ----------------------------------------------------------------------------------------------------------


@virtual
async def test_what_is_written_says_its_kind_as_items_of_lists_do_not() -> None:
    server = FakeHub()
    await objects_on(server).create({"metadata": {"name": "c1"}})
    assert bodies(server) == [
        {
            "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
            "kind": "MemberCluster",
            "metadata": {"name": "c1"},
        }
    ]


@virtual
async def test_every_write_is_in_the_store_at_once() -> None:
    server = FakeHub()
    objects = objects_on(server, cached=True)
    store = objects.store
    assert store is not None
    created = await objects.create({"metadata": {"name": "c1"}})
    assert store.get("c1") == created
    patched = await objects.merge_patch("c1", {"metadata": {"labels": {"a": "b"}}})
    assert store.get("c1") == patched
    replaced = await objects.replace({**patched.document(), "spec": {}})
    assert store.get("c1") == replaced
    status = await objects.replace_status({**replaced.document(), "status": {"conditions": []}})
    assert store.get("c1") == status
    await objects.delete("c1", uid=status.view.metadata.uid)
    assert "c1" not in store


@virtual
async def test_an_object_that_finalizers_hold_is_not_gone() -> None:
    server = FakeHub()
    objects = objects_on(server, cached=True)
    await objects.create({"metadata": {"name": "c1", "finalizers": ["a/b"]}})
    await objects.delete("c1")
    assert objects.store is not None
    held = objects.store.get("c1")
    assert held is not None
    assert held.view.metadata.deletion_timestamp


@virtual
async def test_an_object_that_loses_its_last_finalizer_is_gone_at_once() -> None:
    server = FakeHub()
    objects = objects_on(server, cached=True)
    await objects.create({"metadata": {"name": "c1", "finalizers": ["a/b"]}})
    await objects.delete("c1")
    written = await objects.merge_patch("c1", {"metadata": {"finalizers": None}})
    assert written.view.metadata.deletion_timestamp
    assert objects.store is not None
    assert "c1" not in objects.store


@virtual
async def test_a_put_without_a_version_is_refused_here_already() -> None:
    server = FakeHub()
    with pytest.raises(ValueError, match="MemberCluster c1 without a resourceVersion"):
        await objects_on(server).replace({"metadata": {"name": "c1"}})
    assert not server.requests


@virtual
async def test_a_put_of_an_outdated_object_is_a_conflict() -> None:
    server = FakeHub()
    objects = objects_on(server)
    first = await objects.create({"metadata": {"name": "c1"}})
    await objects.merge_patch("c1", {"spec": {}})
    with pytest.raises(Conflict):
        await objects.replace(first.document())


@virtual
async def test_a_status_is_written_to_its_own_path() -> None:
    server = FakeHub()
    objects = objects_on(server)
    created = await objects.create({"metadata": {"name": "c1"}})
    await objects.replace_status({**created.document(), "status": {}})
    assert server.requests[-1].path == f"{PATH}/status"


@virtual
async def test_a_deletion_with_a_uid_spares_a_successor() -> None:
    server = FakeHub()
    objects = objects_on(server)
    await objects.create({"metadata": {"name": "c1"}})
    with pytest.raises(Conflict):
        await objects.delete("c1", uid="of-another")
    assert bodies(server)[-1]["preconditions"] == {"uid": "of-another"}


@virtual
async def test_creating_twice_is_an_error_of_its_own() -> None:
    objects = objects_on(FakeHub())
    await objects.create({"metadata": {"name": "c1"}})
    with pytest.raises(AlreadyExists):
        await objects.create({"metadata": {"name": "c1"}})


@virtual
async def test_an_answer_to_a_deletion_that_is_none_is_an_error() -> None:
    with pytest.raises(UnreadableAnswer):
        await objects_on(FakeHub(lambda _: Answered(b"<html>")), cached=True).delete("c1")


@virtual
async def test_a_live_list_is_read_to_its_end() -> None:
    pages = {
        "": {"metadata": {"resourceVersion": "9", "continue": "more"}, "items": [{"metadata": {"name": "c1"}}]},
        "more": {"metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": "c2"}}]},
    }

    def page(request: Request) -> Answered:
        query = dict(request.query)
        assert query["labelSelector"] == "a=b"
        return Answered(msgspec.json.encode(pages[query.get("continue", "")]))

    found = await objects_on(FakeHub(page)).list(labels="a=b")
    assert [one.view.metadata.name for one in found] == ["c1", "c2"]


@virtual
async def test_others_take_turns_with_a_live_list_of_large_objects() -> None:
    items = [{"metadata": {"name": "x" * 300_000}}] * 4
    answer = Answered(msgspec.json.encode({"metadata": {"resourceVersion": "9"}, "items": items}))
    turns = itertools.count()

    async def take_turns() -> None:
        while True:
            next(turns)
            await asyncio.sleep(0)

    others = asyncio.create_task(take_turns())
    found = await Objects(
        FakeHub(lambda _: answer), CLUSTERS, Codec(lambda _: next(turns), lambda _: Metadata())
    ).list()
    others.cancel()
    assert [later - earlier for earlier, later in itertools.pairwise(found)] == [2, 2, 2]


# --- revising ---------------------------------------------------------------------------------------------------------


def labelled(key: str, value: str) -> Any:
    def change(document: dict[str, Any]) -> dict[str, Any] | None:
        labels = document["metadata"].get("labels", {})
        if labels.get(key) == value:
            return None
        return {**document, "metadata": {**document["metadata"], "labels": {**labels, key: value}}}

    return change


@virtual
async def test_a_revision_of_what_was_seen_needs_one_request() -> None:
    server = FakeHub()
    objects = objects_on(server)
    seen = await objects.create({"metadata": {"name": "c1"}, "unknown": {"kept": True}})
    revised = await update_with_retries(objects, "c1", labelled("a", "b"), retry_policy=PATIENCE, cached=seen)
    assert revised is not None
    assert revised.view.metadata.labels == {"a": "b"}
    assert server.objects[PATH]["unknown"] == {"kept": True}
    assert [request.method for request in server.requests] == [Method.POST, Method.PUT]


@virtual
async def test_after_a_conflict_the_change_is_decided_again_on_the_live_object() -> None:
    server = FakeHub()
    objects = objects_on(server)
    seen = await objects.create({"metadata": {"name": "c1"}})

    def interfere() -> None:
        server.put(PATH, {**server.objects[PATH], "spec": {"theirs": 1}})

    server.before_write = [interfere, interfere]
    revised = await update_with_retries(objects, "c1", labelled("a", "b"), retry_policy=PATIENCE, cached=seen)
    assert revised is not None
    assert server.objects[PATH]["spec"] == {"theirs": 1}
    assert server.objects[PATH]["metadata"]["labels"] == {"a": "b"}


@virtual
async def test_a_change_that_is_there_already_writes_nothing() -> None:
    server = FakeHub()
    objects = objects_on(server)
    seen = await objects.create({"metadata": {"name": "c1", "labels": {"a": "b"}}})
    assert await update_with_retries(objects, "c1", labelled("a", "b"), retry_policy=PATIENCE, cached=seen) == seen
    assert len(server.requests) == 1


@virtual
async def test_a_revision_whose_answer_was_lost_is_not_made_twice() -> None:
    server = FakeHub()
    objects = objects_on(server)
    seen = await objects.create({"metadata": {"name": "c1"}})
    server.fault = in_turn(Lost())
    written = dict(server.objects)
    with pytest.raises(Exception, match="reset"):
        await update_with_retries(objects, "c1", labelled("a", "b"), retry_policy=PATIENCE, cached=seen)
    assert server.objects != written
    assert await update_with_retries(objects, "c1", labelled("a", "b"), retry_policy=PATIENCE) is not None
    assert sum(request.method is Method.PUT for request in server.requests) == 1


@virtual
async def test_a_revision_of_what_is_gone_is_nothing() -> None:
    assert await update_with_retries(objects_on(FakeHub()), "c1", labelled("a", "b"), retry_policy=PATIENCE) is None


@virtual
async def test_endless_conflicts_are_given_up_after_four_attempts() -> None:
    server = FakeHub()
    objects = objects_on(server)
    await objects.create({"metadata": {"name": "c1"}})
    server.before_write = [lambda: server.put(PATH, server.objects[PATH])] * 9
    with pytest.raises(Conflict):
        await update_with_retries(objects, "c1", labelled("a", "b"), retry_policy=PATIENCE)
    puts = [at for at, request in zip(server.times, server.requests, strict=True) if request.method is Method.PUT]
    assert [later - puts[0] for later in puts] == pytest.approx([0, 0.01, 0.06, 0.31])


@virtual
async def test_updates_of_one_object_are_no_conflict() -> None:
    server = FakeHub()
    objects = objects_on(server, cached=True)
    seen = await objects.create({"metadata": {"name": "c1"}})
    await asyncio.gather(
        *(
            update_with_retries(each, "c1", labelled(key, "x"), retry_policy=PATIENCE, cached=seen)
            for each, key in ((objects, "a"), (objects.with_call_class("evict"), "b"), (objects, "c"))
        )
    )
    assert server.objects[PATH]["metadata"]["labels"] == {"a": "x", "b": "x", "c": "x"}
    assert [request.method for request in server.requests] == [Method.POST, *[Method.PUT] * 3]
    assert not objects.turns.locks, "of what is done, nothing is kept"


@virtual
async def test_updates_of_several_objects_do_not_wait_for_each_other() -> None:
    server = FakeHub()
    objects = objects_on(server, cached=True)
    seen = [await objects.create({"metadata": {"name": name}}) for name in ("c1", "c2")]
    server.fault = lambda _: Slow(before=0.5)
    await asyncio.gather(
        *(
            update_with_retries(objects, name, labelled("a", "x"), retry_policy=PATIENCE, cached=each)
            for name, each in zip(("c1", "c2"), seen, strict=True)
        )
    )
    assert server.times[2:] == [0.0, 0.0]


@virtual
@pytest.mark.parametrize("ends", ["by cancellation", "by a refusal", "late"])
async def test_an_update_that_comes_to_nothing_holds_up_no_other(ends: str) -> None:
    server, objects, update = await prepare_updates(Refuse(403) if ends == "by a refusal" else Hang())
    updates = [asyncio.create_task(update(labelled(key, "x"))) for key in ("a", "b", "c")]
    await asyncio.sleep(0.1)
    if ends == "by cancellation":
        updates[1].cancel()
        updates[0].cancel()
    *_, last = await asyncio.gather(*updates, return_exceptions=True)
    assert not isinstance(last, BaseException)
    assert server.objects[PATH]["metadata"]["labels"]["c"] == "x"
    assert server.times[-1] < 3.0
    assert not any(lock.locked() for lock in objects.turns.locks.values())


async def prepare_updates(
    *faults: Fault,
) -> tuple[FakeHub, Objects[Cluster], Callable[..., Coroutine[Any, Any, Cluster | None]]]:
    """Of one object as it was at first; the first updates meet the faults."""
    server = FakeHub()
    objects = objects_on(server, cached=True)
    seen = await objects.create({"metadata": {"name": "c1"}})
    server.fault = in_turn(*faults)
    return server, objects, partial(update_with_retries, objects, "c1", retry_policy=PATIENCE, cached=seen)


@virtual
async def test_an_update_waits_for_those_before_one_that_is_cancelled() -> None:
    server, objects, update = await prepare_updates(Slow(before=0.3))
    first, second = (asyncio.create_task(update(labelled(key, "x"))) for key in ("a", "b"))
    await asyncio.sleep(0.1)
    second.cancel()
    await asyncio.wait((second,))
    await update(labelled("c", "x"))
    await first
    assert [request.method for request in server.requests] == [Method.POST, Method.PUT, Method.PUT]
    assert server.objects[PATH]["metadata"]["labels"] == {"a": "x", "c": "x"}
    assert not any(lock.locked() for lock in objects.turns.locks.values())


@virtual
async def test_who_waits_without_a_turn_holds_up_no_other() -> None:
    server, objects, update = await prepare_updates(Slow(before=0.1))
    first = asyncio.create_task(update(labelled("a", "x")))
    await asyncio.sleep(0)
    await asyncio.gather(objects.turns.wait("c1"), update(labelled("b", "x")), first)
    assert server.times == pytest.approx([0, 0, 0.1])


@virtual
async def test_what_is_waited_for_too_long_is_not_waited_for() -> None:
    server, objects, update = await prepare_updates(Slow(before=2.0))
    slow = asyncio.create_task(update(labelled("a", "x")))
    await asyncio.sleep(0)
    await update(labelled("b", "x"))
    assert asyncio.get_running_loop().time() < 0.5
    await slow
    assert server.objects[PATH]["metadata"]["labels"] == {"a": "x", "b": "x"}
    assert not any(lock.locked() for lock in objects.turns.locks.values())


@virtual
async def test_an_update_begins_with_no_earlier_state() -> None:
    server = FakeHub()
    objects = objects_on(server, cached=True)
    await objects.create({"metadata": {"name": "c1"}})
    later = build_codec(MemberCluster).read(msgspec.json.encode(server.put(PATH, {"metadata": {"name": "c1"}})))
    assert objects.find_newer(later) is later


@virtual
async def test_an_update_begins_with_no_other_object_of_that_name() -> None:
    server = FakeHub()
    objects = objects_on(server, cached=True)
    seen = await objects.create({"metadata": {"name": "c1", "uid": "first"}})
    await objects.delete("c1")
    await objects.create({"metadata": {"name": "c1", "uid": "second"}})
    assert objects.find_newer(seen) is seen


@virtual
async def test_a_request_is_repeated_for_want_of_a_server_and_for_nothing_else() -> None:
    server = FakeHub(in_turn(Refuse(503), Refuse(500, "ServerTimeout", retry_after=2), Refuse(404, "NotFound")))
    with pytest.raises(NotFound):
        await call_with_retries(lambda: objects_on(server).get("c1"), retry_policy=PATIENCE)
    assert server.times == pytest.approx([0, 0.01, 2.01])


@virtual
@pytest.mark.parametrize("refusal, error", [(Refuse(503), Unavailable), (Refuse(504), ServerTimeout)])
async def test_patience_ends(refusal: Refuse, error: type[Exception]) -> None:
    server = FakeHub(lambda _: refusal)
    with pytest.raises(error):
        await call_with_retries(lambda: objects_on(server).get("c1"), retry_policy=PATIENCE)
    assert len(server.requests) == 4


# --- patches ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "old, new, patch",
    [
        ({}, {}, {}),
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1}, {}, {"a": None}),
        ({}, {"a": {}}, {"a": {}}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, {"a": {"c": 3}}),
        ({"a": [1, 2]}, {"a": [1]}, {"a": [1]}),
        ({"a": {"b": 1}}, {"a": 5}, {"a": 5}),
        ({"a": 1}, {"a": True}, {"a": True}),
        ({"a": 1}, {"a": 1.0}, {"a": 1.0}),
    ],
)
def test_the_least_that_has_to_be_sent(old: dict[str, Any], new: dict[str, Any], patch: dict[str, Any]) -> None:
    assert repr(build_merge_patch(old, new)) == repr(patch)


# --- collections ------------------------------------------------------------------------------------------------------


@virtual
async def test_a_collection_is_deleted_by_its_labels_in_one_request() -> None:
    server = FakeHub()
    await objects_on(server).delete_collection(labels="app=web")
    assert [(one.method, one.path, one.query) for one in server.requests] == [
        (Method.DELETE, CLUSTERS.collection(), (("labelSelector", "app=web"),))
    ]


@virtual
async def test_deleting_everything_is_refused() -> None:
    server = FakeHub()
    with pytest.raises(ValueError, match="name labels"):
        await objects_on(server).delete_collection(labels="")
    assert server.requests == []
