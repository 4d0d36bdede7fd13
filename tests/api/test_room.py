"""So many at a time, and what whoever comes beyond that is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest
from starlette.types import Message

from api.http.limits import Budget, CountedStream, Evaluations
from api.http.problems import Refused
from tests.faults.virtual import VirtualClock, virtual


@virtual
async def test_a_budget_is_given_back() -> None:
    budget = Budget(1, "streams", VirtualClock(), stay=1)
    async with budget.one():
        with pytest.raises(Refused):
            budget.require_room()

    budget.require_room()


@virtual
async def test_of_streams_that_begin_at_once_only_so_many_get_in() -> None:
    budget, leave = Budget(1, "streams", VirtualClock(), stay=1), asyncio.Event()

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

        stream = CountedStream(budget, lines(), media_type="text/event-stream", headers={})
        await stream({"type": "http"}, receive, send)
        return int(sent[0]["status"])

    asking = [asyncio.create_task(status_of_one()) for _ in range(3)]
    for _ in range(20):
        await asyncio.sleep(0)
    leave.set()

    assert sorted(await asyncio.gather(*asking)) == [200, 429, 429]
    assert budget.under_way == 0


# --- when to come again -----------------------------------------------------------------------------------------------


async def told_to_wait(clock: VirtualClock, *, stays: list[float], ages: list[float]) -> int:
    """The seconds that who comes too late is told, where others have taken so long, and are at it for so long."""
    budget, leave = Budget(len(ages), "streams", clock, stay=2), asyncio.Event()

    async def stay(until: Coroutine[Any, Any, Any]) -> None:
        async with budget.one():
            await until

    for seconds in stays:
        await stay(clock.sleep(seconds))
    begun, staying = clock.elapsed(), []
    for age in sorted(ages, reverse=True):
        await clock.sleep(begun + max(ages) - age - clock.elapsed())
        staying.append(asyncio.create_task(stay(leave.wait())))
        await asyncio.sleep(0)
    await clock.sleep(begun + max(ages) - clock.elapsed())
    with pytest.raises(Refused) as refused:
        budget.require_room()
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
        "nobody was here before",
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
async def test_who_comes_too_late_is_told_when_there_is_probably_room(
    stays: list[float], ages: list[float], seconds: int
) -> None:
    assert await told_to_wait(VirtualClock(), stays=stays, ages=ages) == seconds


@virtual
async def test_while_placements_wait_who_comes_too_late_is_sent_away_for_longer() -> None:
    """Evaluations of 20 ms take 0.66 s each then, three for an answer."""
    clock = VirtualClock()

    async def wait_for(evaluations: Evaluations) -> int:
        async def ask() -> None:
            async with evaluations.one():
                for _ in range(3):
                    async with evaluations.turn():
                        await clock.sleep(0.02)

        for _ in range(2):
            await asyncio.gather(*(ask() for _ in range(8)))
        asking = [asyncio.create_task(ask()) for _ in range(8)]
        await asyncio.sleep(0)
        with pytest.raises(Refused) as refused:
            await ask()
        await asyncio.gather(*asking)
        return int(refused.value.headers["Retry-After"])

    assert await wait_for(Evaluations(clock, gives_way_to=lambda: False)) == 1
    assert await wait_for(Evaluations(clock, gives_way_to=lambda: True)) > 5
