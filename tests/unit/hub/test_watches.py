"""Watches: what one sees, in which order, and when it is too late."""

from __future__ import annotations

import asyncio

from fleet.hub.listwatch.selectors import ObjectSelector
from fleet.hub.listwatch.watches import Watch
from fleet.hub.wire.options import ListOptions
from tests.unit.hub.asking import CONFIG_MAPS, Asker, a_config_map

WATCH = f"{CONFIG_MAPS}?watch=1&timeoutSeconds=1"


def revision(ask: Asker) -> str:
    return str(ask("GET", CONFIG_MAPS).json["metadata"]["resourceVersion"])


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


def test_tables_are_watched_too(ask: Asker) -> None:
    ask("POST", CONFIG_MAPS, a_config_map("a", key="1"))
    ask("POST", CONFIG_MAPS, a_config_map("b"))
    accept = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")]
    first, second = (event["object"] for event in ask("GET", WATCH, headers=accept).events)
    assert (first["rows"][0]["cells"][:2], second["rows"][0]["cells"][:2]) == (["a", 1], ["b", 0])
    assert (len(first["columnDefinitions"]), second["columnDefinitions"]) == (3, [])


def test_a_change_while_a_bookmark_is_sent_is_sent_at_once(ask: Asker, runner: asyncio.Runner) -> None:
    kind = ask.hub.registry.find("", "v1", "configmaps")
    assert kind is not None
    options = ListOptions(revision=revision(ask), timeout=600, bookmarks=True)
    chunks = Watch(ask.hub.store, kind, ObjectSelector(), options).chunks()

    async def read_next() -> tuple[bytes, float]:
        return await anext(chunks), asyncio.get_running_loop().time()

    bookmark, sent = runner.run(read_next())
    ask("POST", CONFIG_MAPS, a_config_map("a"))
    event, received = runner.run(read_next())

    assert b"BOOKMARK" in bookmark
    assert b"ADDED" in event
    assert received == sent
