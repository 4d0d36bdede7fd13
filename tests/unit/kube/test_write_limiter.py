"""Writes in flight follow the latency and the refusals of the server, and wait in the order of their classes."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from fleet.errors import Conflict, ServerTimeout, TooManyRequests, Unavailable
from fleet.kube.api import LEASE_CLASS, READ_CLASS
from fleet.kube.client.write_limiter import FEWEST_BY_LATENCY, SLOW_SECONDS, WriteLimiter
from tests.faults.virtual import VirtualClock, virtual


async def write(limiter: WriteLimiter, *, seconds: float = 0.01, call_class: str = "bind") -> None:
    async with limiter.slot(call_class):
        await asyncio.sleep(seconds)


async def refuse(limiter: WriteLimiter, error: Exception) -> None:
    async def fail() -> None:
        async with limiter.slot("bind"):
            await asyncio.sleep(0.01)
            raise error

    with pytest.raises(type(error)):
        await fail()


async def write_many(limiter: WriteLimiter, count: int, *, seconds: float = 0.01) -> int:
    """The most that were in flight at once."""
    most = 0

    async def write_one() -> None:
        nonlocal most
        async with limiter.slot("bind"):
            most = max(most, limiter.in_flight)
            await asyncio.sleep(seconds)

    await asyncio.gather(*(write_one() for _ in range(count)))
    return most


@virtual
async def test_no_more_writes_are_in_flight_than_allowed() -> None:
    assert await write_many(WriteLimiter(VirtualClock(), ceiling=5), 50) == 5


@virtual
@pytest.mark.parametrize("call_class", [LEASE_CLASS, READ_CLASS])
async def test_leases_and_reads_do_not_wait(call_class: str) -> None:
    limiter = WriteLimiter(VirtualClock(), ceiling=1)
    async with limiter.slot("bind"), asyncio.timeout(1):
        await write(limiter, call_class=call_class)


@virtual
@pytest.mark.parametrize("error", [TooManyRequests("busy"), Unavailable("no"), ServerTimeout("late")])
async def test_an_overloaded_server_gets_fewer_writes(error: Exception) -> None:
    limiter = WriteLimiter(VirtualClock(), ceiling=10)
    await refuse(limiter, error)
    assert limiter.limit == 7
    await refuse(limiter, error)
    assert limiter.limit == 4


@virtual
async def test_a_slow_response_is_a_sign_of_overload() -> None:
    limiter = WriteLimiter(VirtualClock(), ceiling=20)
    await write(limiter, seconds=SLOW_SECONDS)
    assert limiter.limit == 20
    await write(limiter, seconds=SLOW_SECONDS + 0.1)
    assert limiter.limit == 14


@virtual
@pytest.mark.parametrize("ceiling, fewest", [(20, FEWEST_BY_LATENCY), (3, 3)])
async def test_a_server_that_is_slow_anyway_keeps_some_writes(ceiling: int, fewest: int) -> None:
    limiter = WriteLimiter(VirtualClock(), ceiling=ceiling)
    for _ in range(20):
        await write(limiter, seconds=SLOW_SECONDS + 0.1)
    assert limiter.limit == fewest


@virtual
async def test_a_deadline_is_a_sign_of_overload() -> None:
    limiter = WriteLimiter(VirtualClock(), ceiling=20)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(SLOW_SECONDS + 0.1):
            await write(limiter, seconds=60)
    assert (limiter.limit, limiter.in_flight) == (14, 0)


@virtual
async def test_a_conflict_says_nothing_about_load() -> None:
    limiter = WriteLimiter(VirtualClock(), ceiling=10)
    await refuse(limiter, Conflict("changed"))
    assert limiter.limit == 10


@virtual
async def test_writes_refused_together_count_once() -> None:
    limiter = WriteLimiter(VirtualClock(), ceiling=10)
    await asyncio.gather(*(refuse(limiter, TooManyRequests("busy")) for _ in range(10)))
    assert limiter.limit == 7


@virtual
async def test_one_write_is_always_allowed() -> None:
    limiter = WriteLimiter(VirtualClock(), ceiling=4)
    for _ in range(20):
        await refuse(limiter, TooManyRequests("busy"))
    assert limiter.limit == 1
    await write(limiter)


@virtual
async def test_the_limit_grows_back_while_all_slots_are_taken_and_only_then() -> None:
    limiter = WriteLimiter(VirtualClock(), ceiling=10)
    for _ in range(4):
        await refuse(limiter, TooManyRequests("busy"))
    reduced = limiter.limit
    for _ in range(100):
        await asyncio.gather(write(limiter))
    assert limiter.limit == reduced == 2, "one write at a time shows nothing about more"
    assert await write_many(limiter, 1000) == 10
    assert limiter.limit == 10


@virtual
async def test_what_completes_a_placement_goes_first_and_nothing_starves() -> None:
    limiter = WriteLimiter(VirtualClock(), ceiling=1)
    order: list[str] = []

    async def note(call_class: str) -> None:
        async with limiter.slot(call_class):
            order.append(call_class)
            await asyncio.sleep(0.01)

    async with asyncio.TaskGroup() as group:
        for call_class in ("events", *["write"] * 3, *["bind"] * 8, "status", "evict"):
            group.create_task(note(call_class))
    assert order == ["events", "status", "evict", *["bind"] * 5, "write", *["bind"] * 3, "write", "write"]


@virtual
async def test_a_write_that_is_given_up_leaves_its_slot() -> None:
    limiter = WriteLimiter(VirtualClock(), ceiling=1)
    held = asyncio.create_task(write(limiter, seconds=1))
    await asyncio.sleep(0)
    waiting = [asyncio.create_task(write(limiter)) for _ in range(3)]
    await asyncio.sleep(0.5)
    waiting[0].cancel()
    await held
    waiting[1].cancel()  # admitted at this very moment
    await asyncio.gather(*waiting, return_exceptions=True)
    assert limiter.in_flight == 0
    async with asyncio.timeout(1):
        await write(limiter)


@virtual
async def test_a_write_that_is_given_up_as_a_slot_gets_free_takes_none_with_it() -> None:
    limiter, done = WriteLimiter(VirtualClock(), ceiling=1), asyncio.Event()

    async def hold() -> None:
        async with limiter.slot("bind"):
            await done.wait()

    holding = asyncio.create_task(hold())
    await asyncio.sleep(0)
    waiting = asyncio.create_task(write(limiter))
    await asyncio.sleep(0)
    done.set()
    waiting.cancel()
    await holding
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert limiter.in_flight == 0


@virtual
async def test_many_writes_given_up_together_leave_no_slot_taken() -> None:
    limiter = WriteLimiter(VirtualClock(), ceiling=4)
    writing = [asyncio.create_task(write(limiter, seconds=1)) for _ in range(64)]
    await asyncio.sleep(0.5)
    for task in writing:
        task.cancel()
    outcomes = await asyncio.gather(*writing, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {asyncio.CancelledError}
    assert limiter.in_flight == 0
    async with asyncio.timeout(1):
        await write(limiter)


@virtual
async def test_no_class_starves() -> None:
    limiter = WriteLimiter(VirtualClock(), ceiling=2)
    written: Counter[str] = Counter()

    async def write_always(call_class: str) -> None:
        while True:
            await write(limiter, call_class=call_class)
            written[call_class] += 1

    classes = ("status", "evict", "bind", "write")
    tasks = [asyncio.create_task(write_always(call_class)) for call_class in classes for _ in range(4)]
    await asyncio.sleep(20)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert min(written[call_class] for call_class in classes) > 50
