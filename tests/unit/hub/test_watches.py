"""Watches: what one sees, in which order, and when it is too late."""

from __future__ import annotations

import asyncio
import json

import pytest

from fleet.hub.listwatch.selectors import ObjectSelector, parse_label_selector
from fleet.hub.listwatch.watches import Watch
from fleet.hub.wire.options import ListOptions
from tests.unit.hub.asking import CONFIG_MAPS, NAMESPACES, Asker, a_config_map

WATCH = f"{CONFIG_MAPS}?watch=1&timeoutSeconds=1"


def revision(ask: Asker) -> str:
    return str(ask("GET", CONFIG_MAPS).json["metadata"]["resourceVersion"])


def seen(ask: Asker, since: str, selector: str = "") -> list[tuple[str, str]]:
    """What a watch that began at a revision has to tell at once."""
    kind = ask.hub.registry.find("", "v1", "configmaps")
    assert kind is not None
    watch = Watch(
        ask.hub.store, kind, ObjectSelector("default", parse_label_selector(selector)), ListOptions(revision=since)
    )
    lines = watch._next_chunk().splitlines()
    return [(event["type"], event["object"]["metadata"]["name"]) for event in map(json.loads, lines)]


def test_a_watch_tells_what_happened_since_a_revision(ask: Asker) -> None:
    since = revision(ask)
    created = ask("POST", CONFIG_MAPS, a_config_map("a", key="1")).json
    ask("PUT", f"{CONFIG_MAPS}/a", created | {"data": {"key": "2"}})
    ask("DELETE", f"{CONFIG_MAPS}/a")
    assert seen(ask, since) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


def test_a_deletion_shows_the_last_state_at_the_revision_of_the_deletion(ask: Asker) -> None:
    created = ask("POST", CONFIG_MAPS, a_config_map("a", key="1")).json
    ask("DELETE", f"{CONFIG_MAPS}/a")
    event = ask("GET", f"{WATCH}&resourceVersion={created['metadata']['resourceVersion']}").events[0]
    assert event["object"]["data"] == {"key": "1"}
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])


def test_an_object_that_leaves_the_selection_is_deleted_for_the_watcher(ask: Asker) -> None:
    since = revision(ask)
    made = ask("POST", CONFIG_MAPS, {"metadata": {"name": "a", "labels": {"on": "yes"}}}).json
    made["metadata"]["labels"] = {"on": "no"}
    left = ask("PUT", f"{CONFIG_MAPS}/a", made).json
    left["metadata"]["labels"] = {"on": "yes"}
    ask("PUT", f"{CONFIG_MAPS}/a", left)
    assert seen(ask, since, "on=yes") == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a")]
    assert seen(ask, since, "on=no") == [("ADDED", "a"), ("DELETED", "a")]


def test_other_namespaces_are_not_seen(ask: Asker) -> None:
    since = revision(ask)
    ask("POST", f"{NAMESPACES}/kube-system/configmaps", a_config_map("a"))
    assert seen(ask, since) == []


def test_without_a_revision_a_watch_begins_with_what_there_is(ask: Asker) -> None:
    ask("POST", CONFIG_MAPS, a_config_map("a"))
    assert [event["type"] for event in ask("GET", WATCH).events] == ["ADDED"]


def test_a_watch_list_ends_its_beginning_with_a_bookmark(ask: Asker) -> None:
    ask("POST", CONFIG_MAPS, a_config_map("a"))
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    first, mark = ask("GET", f"{WATCH}&{query}").events
    assert (first["type"], mark["type"]) == ("ADDED", "BOOKMARK")
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert mark["object"]["metadata"]["resourceVersion"] == revision(ask)


def test_a_watch_from_a_forgotten_revision_is_told_to_list_again(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    since = revision(ask)
    monkeypatch.setattr(ask.hub.store.collection("configmaps"), "floor", int(since) + 5)
    (event,) = ask("GET", f"{WATCH}&resourceVersion={since}").events
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


def test_a_watcher_that_falls_behind_is_told_in_the_stream(ask: Asker, runner: asyncio.Runner) -> None:
    kind = ask.hub.registry.find("", "v1", "configmaps")
    assert kind is not None
    watch = Watch(ask.hub.store, kind, ObjectSelector(), ListOptions(revision=revision(ask), timeout=60))
    ask.hub.store.collection("configmaps").floor = ask.hub.store.revision + 1

    async def chunks() -> list[bytes]:
        return [chunk async for chunk in watch.chunks()]

    (only,) = runner.run(chunks())
    assert b'"type":"ERROR"' in only
    assert b'"code":410' in only


def test_a_change_wakes_the_watcher(ask: Asker, runner: asyncio.Runner) -> None:
    kind = ask.hub.registry.find("", "v1", "configmaps")
    assert kind is not None
    watch = Watch(ask.hub.store, kind, ObjectSelector(), ListOptions(revision=revision(ask), timeout=60))

    async def first_chunk() -> bytes:
        chunks = watch.chunks()
        waiting = asyncio.ensure_future(anext(chunks))
        await asyncio.sleep(0)
        ask.hub.store.put("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}})
        return await waiting

    assert b'"late"' in runner.run(first_chunk())


@pytest.mark.parametrize(
    "query, text",
    [
        ("sendInitialEvents=true", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        (
            "resourceVersionMatch=NotOlderThan",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
    ],
)
def test_options_that_do_not_fit_a_watch_are_refused(ask: Asker, query: str, text: str) -> None:
    code, reason, message = ask("GET", f"{WATCH}&{query}").refusal
    assert (code, reason) == (422, "Invalid")
    assert text in message


def test_tables_are_watched_too(ask: Asker) -> None:
    ask("POST", CONFIG_MAPS, a_config_map("a", key="1"))
    ask("POST", CONFIG_MAPS, a_config_map("b"))
    accept = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")]
    first, second = (event["object"] for event in ask("GET", WATCH, headers=accept).events)
    assert (first["rows"][0]["cells"][:2], second["rows"][0]["cells"][:2]) == (["a", 1], ["b", 0])
    assert (len(first["columnDefinitions"]), second["columnDefinitions"]) == (3, [])
