"""Reflector and transport together: a list, a watch that breaks inside a line, and the rest of it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from fleet.clock import SystemClock
from fleet.errors import ApiError, ConnectionLost
from fleet.kube.backoff import ExponentialBackoff
from fleet.kube.cache.reflector import Reflector, ReflectorTimings, WatchProblem
from fleet.kube.client.transport import Transport
from tests.faults.sockets import CHUNKED, a_server, answer, chunk, hangs, real, resets, then
from tests.faults.virtual import no_jitter
from tests.faults.watching import CLUSTERS, Fold, a_store


def a_document(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": str(version)}}


def an_event(type: str, name: str, version: int) -> bytes:
    return msgspec.json.encode({"type": type, "object": a_document(name, version)}) + b"\n"


@real
async def test_a_watch_that_breaks_inside_a_line_is_resumed_where_it_broke() -> None:
    from kubernetes.aio.client import Configuration

    listed = {"metadata": {"resourceVersion": "10"}, "items": [a_document("c1", 5), a_document("c2", 6)]}
    line = an_event("MODIFIED", "c2", 12)
    first = then(CHUNKED, chunk(an_event("ADDED", "c3", 11) + line[:30]), resets)
    second = then(CHUNKED, chunk(line), chunk(an_event("DELETED", "c1", 13)), hangs)
    store, fold, problems = a_store(), Fold(), list[WatchProblem]()
    store.subscribe(fold)
    told = asyncio.Event()
    store.subscribe(lambda old, new: told.set() if new is None else None)
    async with a_server(answer(listed), first, second) as server:

        async def load() -> Configuration:
            return Configuration(host=server.url)

        async with await Transport.connect(load, clock=SystemClock()) as transport, asyncio.TaskGroup() as group:
            reflector = Reflector(
                transport,
                CLUSTERS,
                store,
                clock=SystemClock(),
                jitter=no_jitter,
                timings=ReflectorTimings(pace=ExponentialBackoff(initial=0.01, maximum=0.1)),
                on_problem=problems.append,
            )
            running = group.create_task(reflector.run(), name="reflector")
            async with asyncio.timeout(90):
                await told.wait()
            running.cancel()
        assert fold.state() == {"c2": "12", "c3": "11"}
        assert [type(problem) for problem in problems] == [ConnectionLost]
        assert all(isinstance(problem, ApiError) for problem in problems)
        watches = [request for request in server.requests if b"watch=1" in request]
        assert [b"resourceVersion=10" in watches[0], b"resourceVersion=11" in watches[1]] == [True, True]
