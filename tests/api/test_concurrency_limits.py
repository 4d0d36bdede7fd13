"""Concurrency limits, and the Retry-After of refused requests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest
from starlette.types import Message

from api.http.limits import STREAMS, STREAMS_OF_A_CALLER, ConcurrencyLimit, CountedStream, EvaluationLimiter
from api.http.problems import ProblemError
from tests.api.stage import ADMIN, OPERATOR, Stage, staged
from tests.faults.virtual import VirtualClock, virtual


@virtual
async def test_a_slot_is_released() -> None:
    limit = ConcurrencyLimit(1, "streams", VirtualClock(), estimate=1)
    async with limit.slot():
        with pytest.raises(ProblemError):
            limit.require_slot()

    limit.require_slot()


@virtual
async def test_of_simultaneous_streams_only_as_many_as_the_limit_start() -> None:
    limit, leave = ConcurrencyLimit(1, "streams", VirtualClock(), estimate=1), asyncio.Event()

    async def lines() -> AsyncIterator[bytes]:
        await leave.wait()
        yield b""

    async def status_of_one() -> int:
        sent: list[Message] = []

        async def receive() -> Message:
            await asyncio.Event().wait()
            return {}

        async def send(message: Message) -> None:
            sent.append(message)

        stream = CountedStream(limit, lines(), media_type="text/event-stream", headers={})
        await stream({"type": "http"}, receive, send)
        return int(sent[0]["status"])

    asking = [asyncio.create_task(status_of_one()) for _ in range(3)]
    for _ in range(20):
        await asyncio.sleep(0)
    leave.set()

    assert sorted(await asyncio.gather(*asking)) == [200, 429, 429]
    assert limit.in_flight == 0


# --- when to come again -----------------------------------------------------------------------------------------------


async def compute_retry_after(clock: VirtualClock, *, stays: list[float], ages: list[float]) -> int:
    """The Retry-After of a refused request, after requests of these durations, and with these ages in flight."""
    limit, leave = ConcurrencyLimit(len(ages), "streams", clock, estimate=2), asyncio.Event()

    async def stay(until: Coroutine[Any, Any, Any]) -> None:
        async with limit.slot():
            await until

    for seconds in stays:
        await stay(clock.sleep(seconds))
    begun, staying = clock.monotonic(), []
    for age in sorted(ages, reverse=True):
        await clock.sleep(begun + max(ages) - age - clock.monotonic())
        staying.append(asyncio.create_task(stay(leave.wait())))
        await asyncio.sleep(0)
    await clock.sleep(begun + max(ages) - clock.monotonic())
    with pytest.raises(ProblemError) as refused:
        limit.require_slot()
    leave.set()
    await asyncio.gather(*staying)
    seconds = int(refused.value.headers["Retry-After"])
    assert refused.value.problem.next == f"try again in {seconds} s"
    return seconds


@pytest.mark.parametrize(
    "stays, ages, seconds",
    [
        ([], [0, 0], 2),
        ([9] * 8, [0, 3], 6),
        ([9] * 8, [0, 8.9], 1),
        ([0.1] * 8, [0, 0], 1),
        ([0.1] * 8, [13, 12], 12),
        ([600] * 8, [0, 300], 30),
        ([1, 600] + [9] * 8, [0, 0], 9),
        ([9] * 7 + [600], [0, 0], 9),
    ],
    ids=[
        "the first request",
        "the first will be through soon",
        "at once",
        "they are quick",
        "longer than usual is half done",
        "for ever",
        "long ago things were different",
        "one took longer",
    ],
)
@virtual
async def test_a_refused_request_gets_the_time_of_the_next_free_slot(
    stays: list[float], ages: list[float], seconds: int
) -> None:
    assert await compute_retry_after(VirtualClock(), stays=stays, ages=ages) == seconds


@virtual
async def test_while_placements_wait_a_refused_request_gets_a_longer_retry_after() -> None:
    """EvaluationLimiter of 20 ms take 0.66 s each then, three for an answer."""
    clock = VirtualClock()

    async def wait_for(evaluations: EvaluationLimiter) -> int:
        async def ask() -> None:
            async with evaluations.admit():
                for _ in range(3):
                    async with evaluations.turn():
                        await clock.sleep(0.02)

        for _ in range(2):
            await asyncio.gather(*(ask() for _ in range(8)))
        asking = [asyncio.create_task(ask()) for _ in range(8)]
        await asyncio.sleep(0)
        with pytest.raises(ProblemError) as refused:
            await ask()
        await asyncio.gather(*asking)
        return int(refused.value.headers["Retry-After"])

    assert await wait_for(EvaluationLimiter(clock, yields_to=lambda: False)) == 1
    assert await wait_for(EvaluationLimiter(clock, yields_to=lambda: True)) > 5


# --- shares -----------------------------------------------------------------------------------------------------------


@virtual
async def test_a_caller_with_everything_under_way_keeps_no_other_caller_out() -> None:
    limit = ConcurrencyLimit(2, "evaluations", VirtualClock(), estimate=1)
    async with limit.slot("greedy"), limit.slot("greedy"):
        with pytest.raises(ProblemError):
            limit.require_slot("greedy")
        limit.require_slot("modest")
        async with limit.slot("modest"):
            with pytest.raises(ProblemError):
                limit.require_slot("modest")
            limit.require_slot("another")


@virtual
async def test_callers_with_one_each_are_admitted_up_to_a_bound() -> None:
    limit = ConcurrencyLimit(2, "evaluations", VirtualClock(), estimate=1)
    async with contextlib.AsyncExitStack() as stack:
        for number in range(8):
            limit.require_slot(f"caller {number}")
            await stack.enter_async_context(limit.slot(f"caller {number}"))
        with pytest.raises(ProblemError):
            limit.require_slot("one more")

    assert limit.count_of("caller 1") == limit.in_flight == 0


@virtual
async def test_a_caller_has_a_share_of_the_streams() -> None:
    limit = ConcurrencyLimit(64, "streams", VirtualClock(), estimate=600, of_a_caller=2)
    async with limit.slot("greedy"), limit.slot("greedy"):
        with pytest.raises(ProblemError) as refused:
            limit.require_slot("greedy")
        limit.require_slot("modest")

    assert refused.value.problem.detail == "2 streams of yours are under way already"


@virtual
async def test_the_first_question_of_a_caller_comes_before_the_further_ones_of_another() -> None:
    clock = VirtualClock()
    evaluations, order = EvaluationLimiter(clock), []

    async def ask(caller: str) -> None:
        async with evaluations.admit(caller), evaluations.turn():
            order.append(caller)
            await clock.sleep(1)

    await asyncio.gather(*(ask(caller) for caller in ("greedy", "greedy", "greedy", "greedy", "modest")))

    assert order == ["greedy", "modest", "greedy", "greedy", "greedy"]


@staged
async def test_a_caller_with_a_share_of_the_streams_leaves_the_others_to_other_callers(stage: Stage) -> None:
    path, streams = "/v1/decisions?follow=true", stage.app.state.shared.streams
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(STREAMS_OF_A_CALLER):
            await stack.enter_async_context(streams.slot("root"))
        refused, other = await stage.get(path, ADMIN), await stage.get(path, OPERATOR)

    assert STREAMS_OF_A_CALLER * 4 <= STREAMS
    assert (refused.status_code, other.status_code) == (429, 200), (refused.text, other.text)
