"""Checkpoints, and the thread whose computations they end."""

from __future__ import annotations

import asyncio
import threading

import pytest

from fleet.checkpoint import Interrupted, check, interruptible
from fleet.worker_thread import Computation, Precedence, WorkerThread

SOON = 60.0


def stop() -> None:
    raise Interrupted


def compute_until_stopped(begun: threading.Event) -> None:
    begun.set()
    while True:
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
    """Always claimed. Its clock moves when something waits for it, or computes."""

    is_claimed = True

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.waits: list[float] = []

    def wait(self, seconds: float) -> None:
        self.waits.append(round(seconds, 6))
        self.now += seconds


async def gather_claims(precedence: Precedence, gate: asyncio.Event, claims: list[bool]) -> int:
    claims.append(precedence.is_claimed)
    try:
        await gate.wait()
    finally:
        claims.append(precedence.is_claimed)
    return 3


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


def test_a_computation_pauses_as_long_as_it_has_computed_before_and_not_for_long() -> None:
    precedence = Endless()

    def compute() -> None:
        for seconds in (0.01, 0.0, 0.2, 0.002):
            precedence.now += seconds
            check()

    Computation(precedence, monotonic=lambda: precedence.now).run(compute)

    assert precedence.waits == [0.0, 0.01, 0.0, 0.05, 0.002]


def test_what_a_pause_did_not_take_is_kept_for_the_next_one() -> None:
    precedence = Endless()

    def compute() -> None:
        precedence.now += 0.01
        check()

    precedence.wait = lambda seconds: precedence.waits.append(round(seconds, 6))  # type: ignore[method-assign]
    computation = Computation(precedence, monotonic=lambda: precedence.now)
    for _ in range(3):
        computation.run(compute)

    assert precedence.waits == [0.0, 0.01, 0.01, 0.02, 0.02, 0.03]


def test_the_computations_of_a_thread_pause_for_its_precedence() -> None:
    precedence = Endless()
    asyncio.run(WorkerThread("test", precedence).run(check))
    assert len(precedence.waits) == 2
