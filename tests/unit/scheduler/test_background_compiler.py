"""Compiler of large policies: what it leaves behind for placements that are gone, and what a failure costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from fleet.framework.request import PlacementRequest, compile_request
from fleet.model.keys import PARENT_PLACEMENT
from fleet.model.placement_key import PlacementKey
from fleet.model.views import ClusterSelectorTerm, LabelSelector, Metadata, Observed, PolicySnapshot
from fleet.scheduler.background_compiler import BackgroundCompiler
from fleet.scheduler.requests import PARTS_ON_LOOP, RequestCache
from fleet.worker_thread import WorkerThread
from tests.builders import PLACEMENT, a_policy

KEY: Final = PlacementKey("", PLACEMENT)
SNAPSHOT: Final = Observed(a_policy().snapshot(), b"")


class Scene:
    def __init__(self) -> None:
        self.requests, self.thread = RequestCache(), WorkerThread("test")
        self.compiled: asyncio.Queue[PlacementKey] = asyncio.Queue()
        self.compiler = BackgroundCompiler(self.requests, self.thread, self.compiled.put_nowait)

    def find(self) -> PlacementRequest | None:
        return self.requests.find(SNAPSHOT, placement=Metadata())

    def submit(self, name: str = PLACEMENT) -> None:
        snapshot = PolicySnapshot(Metadata(name=name, labels={PARENT_PLACEMENT: name}))
        self.compiler.submit(
            PlacementKey("", name), SNAPSHOT if name == PLACEMENT else Observed(snapshot, b""), placement=Metadata()
        )


@asynccontextmanager
async def a_running_compiler() -> AsyncIterator[Scene]:
    scene = Scene()
    running = asyncio.create_task(scene.compiler.run())
    try:
        yield scene
    finally:
        running.cancel()
        await asyncio.wait((running,))
        scene.thread.close()


def test_the_request_is_kept_for_the_attempt() -> None:
    async def story() -> None:
        async with a_running_compiler() as scene:
            scene.submit()
            assert scene.find() is None
            assert await scene.compiled.get() == KEY
            assert scene.find() is not None

    asyncio.run(story())


def test_nothing_is_kept_for_a_placement_that_goes_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with a_running_compiler() as scene:
            loop = asyncio.get_running_loop()

            def compile_late(snapshot: PolicySnapshot, **more: Any) -> PlacementRequest:
                loop.call_soon_threadsafe(scene.compiler.drop, KEY)
                return compile_request(snapshot, **more)

            monkeypatch.setattr("fleet.scheduler.requests.compile_request", compile_late)
            scene.submit()
            scene.submit("other")
            assert await scene.compiled.get() == PlacementKey("", "other")
            assert scene.find() is None

    asyncio.run(story())


def test_a_failure_keeps_no_other_placement_from_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_badly(snapshot: PolicySnapshot, **more: Any) -> PlacementRequest:
        if snapshot.metadata.name != "other":
            raise RuntimeError("a defect")
        return compile_request(snapshot, **more)

    async def story() -> None:
        async with a_running_compiler() as scene:
            scene.submit()
            scene.submit("other")
            assert await scene.compiled.get() == PlacementKey("", "other")

    monkeypatch.setattr("fleet.scheduler.requests.compile_request", compile_badly)
    asyncio.run(story())


def test_a_large_request_is_freed_bit_by_bit_when_it_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    freed: list[tuple[object, ...]] = []
    monkeypatch.setattr("fleet.scheduler.requests.free_later", lambda *roots: freed.append(roots))
    cache, small = RequestCache(), Observed(a_policy().snapshot(), b"")
    labels = LabelSelector(match_labels={f"key-{number}": "a" for number in range(PARTS_ON_LOOP + 1)})
    large = Observed(a_policy().require(ClusterSelectorTerm(label_selector=labels)).snapshot(), b"")

    requests = []
    for snapshot in (small, large):
        requests.append(cache.get(snapshot, placement=Metadata()))
        cache.forget(KEY)
        assert cache.find(snapshot, placement=Metadata()) is None
    cache.forget(KEY)

    assert freed == [(requests[1].required, requests[1].preferred)]
