"""The scheduling queue for workers: they wait, are woken, and stop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fleet.errors import QueueClosed
from fleet.scheduler.queue.async_queue import AsyncQueue
from fleet.scheduler.queue.hints import EventRegistration, QueueEvent, QueueingHints
from fleet.scheduler.queue.item import PlacementTraits, QueueItem, QueuePolicy
from fleet.scheduler.queue.scheduling_queue import SchedulingQueue
from fleet.scheduler.queue.settings import QueueSettings
from tests.faults.virtual import VirtualClock, run_virtually, virtual
from tests.unit.scheduler.queue_fakes import CLUSTER_ADDED, EXTENDED, Gatekeeper, a_key


def a_queue(*, policy: QueuePolicy = EXTENDED, on_gated: Any = None, **more: Any) -> AsyncQueue:
    pure = SchedulingQueue(describe=lambda key: PlacementTraits(uid=str(key), policy=policy), **more)
    return AsyncQueue(pure, clock=VirtualClock(), on_gated=on_gated)


def now() -> float:
    return asyncio.get_running_loop().time()


async def rejected(queue: AsyncQueue, key: str) -> None:
    queue.add(a_key(key), trigger="created")
    queue.mark_unschedulable((await queue.get()).key, rejectors=["Taints"])


async def taken(queue: AsyncQueue) -> tuple[str, float]:
    """Who comes next, and when, to the millisecond."""
    return str((await queue.get()).key), round(now(), 3)


@virtual
async def test_a_worker_that_waits_is_woken() -> None:
    queue = a_queue()
    worker = asyncio.create_task(queue.get(), name="worker")
    await asyncio.sleep(1)
    queue.add(a_key("a"), trigger="created")
    assert str((await worker).key) == "a"


@virtual
async def test_one_call_wakes_as_many_workers_as_there_are_items() -> None:
    queue = a_queue()
    workers = [asyncio.create_task(queue.get(), name=f"worker {number}") for number in range(3)]
    await asyncio.sleep(1)
    queue.requeue([a_key("a"), a_key("b")], trigger="cluster")
    await asyncio.sleep(1)
    assert [str(worker.result().key) for worker in workers if worker.done()] == ["a", "b"]
    queue.add(a_key("c"), trigger="created")
    await asyncio.gather(*workers)


@virtual
async def test_a_cancelled_worker_takes_no_item_with_it() -> None:
    queue = a_queue()
    first = asyncio.create_task(queue.get(), name="first")
    second = asyncio.create_task(queue.get(), name="second")
    await asyncio.sleep(1)
    queue.add(a_key("a"), trigger="created")
    first.cancel()
    assert str((await second).key) == "a"


@virtual
async def test_a_failed_item_comes_back_in_time() -> None:
    queue = a_queue()
    queue.add(a_key("a"), trigger="created")
    await queue.get()
    assert queue.mark_failed(a_key("a"), at_least_seconds=20) == 20
    assert await taken(queue) == ("a", 20)


@virtual
async def test_the_earlier_of_two_waits_is_not_missed() -> None:
    queue = a_queue()
    for key, wait in [("late", 30.0), ("early", 3.0)]:
        queue.add(a_key(key), trigger="created")
        await queue.get()
        queue.mark_failed(a_key(key), at_least_seconds=wait)
    assert await taken(queue) == ("early", 3)
    assert await taken(queue) == ("late", 30)


@virtual
async def test_Q_16_an_item_that_enters_back_off_wakes_an_idle_worker() -> None:
    queue = a_queue()
    await rejected(queue, "a")
    worker = asyncio.create_task(taken(queue), name="worker")
    await asyncio.sleep(0.5)
    queue.requeue([a_key("a")], trigger="cluster")
    assert await worker == ("a", 0.5)


@virtual
async def test_Q_18_without_early_popping_a_worker_waits_for_the_flush() -> None:
    queue = a_queue(settings=QueueSettings(early_pop=False))
    await asyncio.sleep(0.3)
    await rejected(queue, "a")
    queue.requeue([a_key("a")], trigger="cluster")
    assert len(queue) == 0
    assert await taken(queue) == ("a", 2)


@virtual
async def test_Q_04_an_item_that_nobody_wakes_comes_after_five_minutes_and_a_half() -> None:
    queue = a_queue()
    await rejected(queue, "a")
    assert await taken(queue) == ("a", 330)


@virtual
async def test_an_event_wakes_whom_it_helps() -> None:
    queue = a_queue(hints=QueueingHints({"Taints": [EventRegistration(CLUSTER_ADDED)]}))
    await rejected(queue, "a")
    queue.handle_event(QueueEvent(CLUSTER_ADDED))
    assert (await queue.get()).triggers == ("MemberCluster/Add",)


@virtual
async def test_Q_15_the_owner_of_a_held_placement_hears_of_it_after_five_seconds() -> None:
    heard: list[tuple[str, float]] = []

    def on_gated(item: QueueItem) -> None:
        heard.append((str(item.key), round(now(), 3)))

    queue = a_queue(pre_enqueue=Gatekeeper("a"), on_gated=on_gated)
    queue.add(a_key("a"), trigger="created")
    await asyncio.sleep(60)
    assert heard == [("a", 5.0)]


@virtual
async def test_a_batch_is_moved_in_time_or_on_a_signal() -> None:
    queue = a_queue(policy=QueuePolicy(), settings=QueueSettings(batch_period=300))
    queue.requeue([a_key("a")], trigger="cluster", batched=True)
    assert await taken(queue) == ("a", 300)
    queue.requeue([a_key("b")], trigger="cluster", batched=True)
    queue.flush_batch()
    assert str((await queue.get()).key) == "b"


@virtual
async def test_a_deleted_placement_is_not_handed_out() -> None:
    queue = a_queue()
    queue.add(a_key("a"), trigger="created")
    queue.add(a_key("b"), trigger="created")
    queue.delete(a_key("a"))
    assert str((await queue.get()).key) == "b"
    assert a_key("a") not in queue


@virtual
async def test_Q_46_force_activating_ends_the_wait_of_a_worker() -> None:
    queue = a_queue(policy=QueuePolicy())
    await rejected(queue, "a")
    worker = asyncio.create_task(taken(queue), name="worker")
    await asyncio.sleep(1)
    queue.activate([a_key("a")])
    assert await worker == ("a", 1)


# --- the end ----------------------------------------------------------------------------------------------------------


@virtual
async def test_closing_lets_waiting_workers_return_and_hands_out_nothing_more() -> None:
    queue = a_queue()
    worker = asyncio.create_task(queue.get(), name="worker")
    await asyncio.sleep(1)
    queue.close()
    with pytest.raises(QueueClosed):
        await worker
    queue.add(a_key("a"), trigger="created")
    queue.requeue([a_key("b")], trigger="cluster")
    with pytest.raises(QueueClosed):
        await queue.get()
    assert len(queue) == 0


@virtual
async def test_closing_stops_the_mover() -> None:
    queue = a_queue(policy=QueuePolicy(), settings=QueueSettings(batch_period=300))
    queue.requeue([a_key("a")], trigger="cluster", batched=True)
    queue.close()
    await asyncio.sleep(1000)
    assert queue.count_items().batched == 1


@virtual
async def test_items_in_work_are_finished_after_closing() -> None:
    queue = a_queue()
    for key in "abc":
        queue.add(a_key(key), trigger="created")
        await queue.get()
    queue.close()
    waiting = asyncio.create_task(queue.wait_until_idle(), name="shutdown")
    queue.mark_succeeded(a_key("a"))
    queue.mark_unschedulable(a_key("b"), rejectors=["Taints"])
    await asyncio.sleep(1)
    assert not waiting.done()
    queue.mark_failed(a_key("c"))
    await waiting
    assert now() == 1


@virtual
async def test_a_queue_that_nobody_took_from_is_idle() -> None:
    await a_queue().wait_until_idle()


def test_a_quiet_queue_sets_no_timer() -> None:
    async def wait_for_nothing() -> None:
        queue = a_queue(policy=QueuePolicy())
        await rejected(queue, "a")
        await queue.get()

    with pytest.raises(AssertionError, match="nothing will ever happen"):
        run_virtually(wait_for_nothing())
