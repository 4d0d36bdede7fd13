"""Virtual time: it waits for threads that work, however seldom they have their turn; timers keep their order."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextvars import ContextVar, copy_context
from itertools import count, repeat

import pytest

from fleet.cli.scenario import virtual_time
from fleet.cli.scenario.memory_hub import MemoryHub
from fleet.cli.scenario.virtual_time import VirtualClock, run_virtually
from fleet.hub.http.handler import LARGE_WRITE
from fleet.kube.api import Method, Request

HOUR = 3600.0
LOOKS = 4
"""After so many without progress a thread hangs."""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_time, "_SECONDS_FOR_A_THREAD", LOOKS * virtual_time._SECONDS_OF_A_LOOK)


@pytest.mark.parametrize("processor_time, is_waited_for", [(count(0, 0.001), True), (repeat(0.0), False)])
def test_time_does_not_pass_while_a_thread_has_processor_time(
    processor_time: Iterator[float],
    is_waited_for: bool,  # noqa: FBT001 - drawn
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks, may_end = count(), threading.Event()

    def read_clock() -> float:
        if next(looks) > 2 * 3 * LOOKS:
            may_end.set()
        return next(processor_time)

    async def scene() -> bool:
        thread = asyncio.create_task(asyncio.to_thread(may_end.wait))
        await asyncio.wait({thread}, timeout=HOUR)
        may_end.set()
        return thread.done()

    monkeypatch.setattr(virtual_time, "process_time", read_clock)
    assert run_virtually(scene()) == is_waited_for


def test_time_passes_without_a_thread_that_works_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end = threading.Event()

    async def scene() -> None:
        thread = asyncio.create_task(asyncio.to_thread(may_end.wait))
        await asyncio.wait({thread}, timeout=HOUR)
        may_end.set()

    monkeypatch.setattr(virtual_time, "process_time", count(0, 0.1).__next__)
    run_virtually(scene())


def test_timers_of_one_moment_run_in_the_order_in_which_they_were_set() -> None:
    ran: list[int] = []

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        for number in range(8):
            loop.call_later(HOUR, ran.append, number)
        await asyncio.sleep(HOUR)

    run_virtually(scene())
    assert ran == list(range(8))


def test_a_timer_runs_in_the_context_that_it_is_given() -> None:
    name: ContextVar[str] = ContextVar("name")
    context, read = copy_context(), []
    context.run(name.set, "given")

    async def scene() -> None:
        asyncio.get_running_loop().call_later(1, lambda: read.append(name.get()), context=context)
        await asyncio.sleep(2)

    run_virtually(scene())
    assert read == ["given"]


def test_a_hub_in_virtual_time_writes_large_objects() -> None:
    """Its clock is that of the event loop, which threads do not have."""
    clock = VirtualClock()
    document = {"metadata": {"name": "a"}, "data": {"text": "x" * LARGE_WRITE}}
    request = Request(Method.POST, "/api/v1/namespaces/default/configmaps", body=json.dumps(document).encode())

    async def write() -> bytes:
        return await MemoryHub.boot(clock=lambda: clock.now().timestamp()).call(request)

    assert json.loads(run_virtually(write()))["data"] == document["data"]
