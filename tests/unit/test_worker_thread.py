"""Checkpoints, and the thread whose computations they end."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import types
import weakref
from collections.abc import Generator

import pytest

from fleet.checkpoint import Interrupted, check, consume, interruptible
from fleet.cli.scenario.virtual_time import run_virtually
from fleet.eventloop import pause_collection
from fleet.worker_thread import Computation, Precedence, WorkerThread

SOON = 60.0


def stop() -> None:
    raise Interrupted


def compute_until_stopped(begun: threading.Event) -> None:
    begun.set()
    while True:
        check()


def compute_a_thousand_steps() -> None:
    for _ in range(1000):
        check()


def test_a_checkpoint_is_passed_where_nothing_can_be_interrupted() -> None:
    check()


def test_a_checkpoint_ends_a_computation_that_is_not_wanted() -> None:
    with pytest.raises(Interrupted), interruptible(stop):
        check()


def test_what_handles_the_errors_of_plugins_does_not_handle_an_interruption() -> None:
    assert not issubclass(Interrupted, Exception)


def test_after_an_interruptible_computation_checkpoints_are_passed_again() -> None:
    with pytest.raises(Interrupted), interruptible(stop):
        check()

    check()


def test_it_computes_in_another_thread_and_hands_results_and_errors_back() -> None:
    async def compute() -> tuple[int, bool]:
        thread = WorkerThread("test")
        with pytest.raises(ZeroDivisionError):
            await thread.run(divmod, 1, 0)
        return await thread.run(abs, -3), await thread.run(threading.get_ident) != threading.get_ident()

    assert asyncio.run(compute()) == (3, True)


def test_who_gives_up_ends_the_computation_at_its_next_checkpoint() -> None:
    async def give_up() -> int:
        thread, begun = WorkerThread("test"), threading.Event()
        computing = asyncio.create_task(thread.run(compute_until_stopped, begun))
        assert await asyncio.to_thread(begun.wait, SOON)
        computing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await computing
        return await thread.run(abs, -3)  # the thread is free

    assert asyncio.run(asyncio.wait_for(give_up(), SOON)) == 3


def test_who_gives_up_while_others_compute_lets_nothing_begin() -> None:
    async def give_up() -> list[int]:
        thread, begun, done = WorkerThread("test"), threading.Event(), list[int]()
        first = asyncio.create_task(thread.run(compute_until_stopped, begun))
        assert await asyncio.to_thread(begun.wait, SOON)
        second = asyncio.create_task(thread.run(done.append, 2))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait((first, second))
        return done

    assert asyncio.run(asyncio.wait_for(give_up(), SOON)) == []


# --- precedence -------------------------------------------------------------------------------------------------------


class Endless(Precedence):
    """Always claimed. Its clock moves when something computes, or waits for it."""

    is_claimed = True

    def __init__(self, *, overshoots: float = 0.0) -> None:
        super().__init__()
        self.now = 100.0
        self.waits: list[float] = []
        self._overshoots = overshoots

    def wait(self, seconds: float) -> None:
        self.waits.append(round(seconds, 6))
        self.now += seconds + self._overshoots

    def compute(self, *steps: float) -> None:
        for seconds in steps:
            self.now += seconds
            check()


async def gather_claims(precedence: Precedence, gate: asyncio.Event, claims: list[bool]) -> int:
    claims.append(precedence.is_claimed)
    try:
        await gate.wait()
    finally:
        claims.append(precedence.is_claimed)
    return 3


def test_who_gives_up_before_the_computation_has_begun_does_not_wait_for_others() -> None:
    async def compute() -> None:
        thread, begun, goes_on = WorkerThread("test"), threading.Event(), threading.Event()

        def wait() -> None:
            begun.set()
            goes_on.wait(SOON)

        first = asyncio.create_task(thread.run(wait))
        await asyncio.to_thread(begun.wait, SOON)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await thread.run(pytest.fail, "it was carried out")
        assert not first.done()
        goes_on.set()
        await first
        thread.close()

    asyncio.run(compute())


def test_virtual_time_does_not_pass_while_it_computes() -> None:
    async def compute() -> None:
        thread = WorkerThread("test")
        async with asyncio.timeout(1):
            await thread.run(time.sleep, 0.05)
        thread.close()

    run_virtually(compute())


def test_computations_are_carried_out_side_by_side() -> None:
    async def compute() -> None:
        thread, meeting = WorkerThread("test", side_by_side=3), threading.Barrier(3)
        await asyncio.gather(*(thread.run(meeting.wait, SOON) for _ in range(3)))
        thread.close()

    asyncio.run(compute())


def test_a_coroutine_has_precedence_while_it_runs_and_not_while_it_waits() -> None:
    async def story() -> tuple[int, list[bool]]:
        precedence, gate, claims = Precedence(), asyncio.Event(), list[bool]()
        running = asyncio.create_task(precedence.run(gather_claims(precedence, gate, claims)))
        await asyncio.sleep(0)
        claims.append(precedence.is_claimed)
        gate.set()
        return await running, [*claims, precedence.is_claimed]

    assert asyncio.run(story()) == (3, [True, False, True, False])


def test_a_coroutine_with_precedence_is_cancelled_where_it_waits() -> None:
    async def story() -> list[bool]:
        precedence, claims = Precedence(), list[bool]()
        running = asyncio.create_task(precedence.run(gather_claims(precedence, asyncio.Event(), claims)))
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return [*claims, precedence.is_claimed]

    assert asyncio.run(story()) == [True, True, False]


def test_an_error_ends_precedence_and_is_raised() -> None:
    async def fail() -> None:
        raise LookupError("lost")

    precedence = Precedence()
    with pytest.raises(LookupError, match="lost"):
        asyncio.run(precedence.run(fail()))
    assert not precedence.is_claimed


def test_an_error_of_what_a_coroutine_with_precedence_waits_for_is_raised_there() -> None:
    async def story() -> str:
        failing: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def wait_for_it() -> str:
            try:
                await failing
            except LookupError as error:
                return f"caught {error}"
            return "nothing"

        running = asyncio.create_task(Precedence().run(wait_for_it()))
        await asyncio.sleep(0)
        failing.set_exception(LookupError("lost"))
        return await running

    assert asyncio.run(story()) == "caught lost"


def test_a_coroutine_with_precedence_is_closed_where_it_waits() -> None:
    ended: list[bool] = []

    @types.coroutine
    def suspend() -> Generator[None]:
        yield

    async def wait() -> None:
        try:
            await suspend()
        finally:
            ended.append(True)

    running = Precedence().run(wait())
    running.send(None)
    running.close()
    assert ended


def test_a_cancelled_coroutine_is_freed_without_the_garbage_collector() -> None:
    class Body: ...

    async def story() -> Body | None:
        bodies: list[weakref.ref[Body]] = []

        async def answer() -> None:
            body = Body()
            bodies.append(weakref.ref(body))
            await asyncio.Event().wait()

        running = asyncio.create_task(Precedence().run(answer()))
        await asyncio.sleep(0)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        del running
        await asyncio.sleep(0)
        return bodies[0]()

    with pause_collection():
        assert asyncio.run(story()) is None


def test_a_computation_pauses_as_long_as_it_has_computed_before_and_not_for_long() -> None:
    precedence = Endless()
    computation = Computation(precedence, monotonic=lambda: precedence.now)
    computation.run(lambda: precedence.compute(0.01, 0.0, 0.2, 0.002))

    assert precedence.waits == [0.01, 0.02, 0.002]


def test_what_a_pause_did_not_take_is_kept_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    precedence = Endless()
    monkeypatch.setattr(precedence, "wait", lambda seconds: precedence.waits.append(round(seconds, 6)))
    computation = Computation(precedence, monotonic=lambda: precedence.now)
    computation.run(lambda: precedence.compute(0.005, 0.005, 0.005))

    assert precedence.waits == [0.005, 0.01, 0.015]


def test_what_a_pause_took_too_long_is_computed_before_the_next_one() -> None:
    precedence = Endless(overshoots=0.0001)
    computation = Computation(precedence, monotonic=lambda: precedence.now)
    begun = precedence.now
    computation.run(lambda: precedence.compute(*(0.00001 for _ in range(1000))))

    assert precedence.now - begun < 0.0202
    assert len(precedence.waits) < 110


def test_the_computations_of_a_thread_pause_for_its_precedence() -> None:
    precedence = Endless()
    asyncio.run(WorkerThread("test", precedence).run(compute_a_thousand_steps))
    assert precedence.waits


def test_what_is_consumed_comes_in_order_and_is_freed_after_its_use() -> None:
    class Item:
        def __init__(self, number: int) -> None:
            self.number = number

    items = [Item(number) for number in range(3)]
    alive, numbers = [weakref.ref(item) for item in items], []
    for item in consume(items):
        numbers.append((item.number, sum(one() is not None for one in alive)))

    assert numbers == [(0, 3), (1, 2), (2, 1)]
