"""Checkpoints, and the thread whose computations they end."""

from __future__ import annotations

import asyncio
import threading

import pytest

from fleet.checkpoint import Interrupted, check, interruptible
from fleet.worker_thread import WorkerThread

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
