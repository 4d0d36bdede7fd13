"""The work queue's promises, one by one. `tests/property/test_kube_queue.py` tries them all at once."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext

import pytest

from fleet.errors import QueueClosed
from fleet.kube.client.rate_limiter import RateLimit
from fleet.kube.workqueue import WorkQueue
from tests.faults.virtual import VirtualClock, virtual


def a_queue(budget: RateLimit | None = None) -> WorkQueue[str]:
    return WorkQueue(clock=VirtualClock(), limit=budget or RateLimit(rate=10, burst=100))


def now() -> float:
    return asyncio.get_running_loop().time()


@virtual
async def test_keys_come_out_in_the_order_they_went_in() -> None:
    queue = a_queue()
    for key in "abc":
        queue.add(key)
    assert [await queue.get() for _ in "abc"] == ["a", "b", "c"]


@virtual
async def test_preferred_keys_come_first_but_for_one_in_four() -> None:
    queue: WorkQueue[str] = WorkQueue(clock=VirtualClock(), is_preferred=str.isupper)
    for key in "abcABCDEFGH":
        queue.add(key)
    assert "".join([await queue.get() for _ in range(11)]) == "ABCaDEFbGHc"


@virtual
async def test_a_waiting_key_is_not_queued_twice() -> None:
    queue = a_queue()
    queue.add("a")
    queue.add("a")
    assert len(queue) == 1


@virtual
async def test_a_key_in_work_is_not_given_to_a_second_worker_but_comes_again_when_done() -> None:
    queue = a_queue()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    queue.finish("a")
    assert len(queue) == 1
    assert await queue.get() == "a"
    queue.finish("a")
    assert len(queue) == 0


@virtual
async def test_a_worker_that_waits_is_woken() -> None:
    queue = a_queue()
    worker = asyncio.create_task(queue.get(), name="worker")
    await asyncio.sleep(1)
    queue.add("a")
    assert await worker == "a"


@virtual
async def test_a_cancelled_worker_takes_no_key_with_it() -> None:
    queue = a_queue()
    first = asyncio.create_task(queue.get(), name="first")
    second = asyncio.create_task(queue.get(), name="second")
    await asyncio.sleep(1)
    queue.add("a")
    first.cancel()
    assert await second == "a"


@virtual
async def test_a_delayed_key_comes_when_it_is_due() -> None:
    queue = a_queue()
    queue.add_after("a", 5)
    assert await queue.get() == "a"
    assert now() == pytest.approx(5)


@virtual
async def test_adding_again_can_only_make_a_key_come_earlier() -> None:
    queue = a_queue()
    queue.add_after("a", 5)
    queue.add_after("a", 9)
    queue.add_after("b", 9)
    queue.add_after("b", 2)
    assert [await queue.get(), await queue.get()] == ["b", "a"]
    assert now() == pytest.approx(5)


@virtual
async def test_a_delayed_key_that_is_added_comes_at_once_and_only_once() -> None:
    queue = a_queue()
    queue.add_after("a", 5)
    queue.add("a")
    assert await queue.get() == "a"
    queue.finish("a")
    assert (len(queue), queue.delayed) == (0, 0)


@virtual
async def test_a_delayed_key_in_work_waits_for_its_worker() -> None:
    queue = a_queue()
    queue.add("a")
    await queue.get()
    queue.add_after("a", 1)
    await asyncio.sleep(2)
    assert len(queue) == 0
    queue.finish("a")
    assert len(queue) == 1


@virtual
async def test_waits_double_with_every_failure_up_to_the_most() -> None:
    queue = a_queue(RateLimit(rate=1e9, burst=1))
    waits = [queue.retry("a") for _ in range(16)]
    assert waits[:4] == pytest.approx([0.005, 0.010, 0.020, 0.040])
    assert waits[-2:] == [60, 60]


@virtual
async def test_a_success_makes_the_waits_start_over() -> None:
    queue = a_queue()
    queue.retry("a")
    queue.retry("a")
    queue.forget("a")
    assert queue.retry("a") == pytest.approx(0.005)


@virtual
async def test_failures_of_all_keys_share_a_budget() -> None:
    queue = a_queue(RateLimit(rate=10, burst=3))
    waits = [queue.retry(key) for key in "abcde"]
    assert waits == pytest.approx([0.005, 0.005, 0.005, 0.1, 0.2])


@virtual
async def test_closing_sends_workers_home_and_drops_what_waits() -> None:
    queue = a_queue()
    idle = asyncio.create_task(queue.get(), name="idle worker")
    queue.add_after("b", 5)
    await asyncio.sleep(1)
    queue.close()
    with pytest.raises(QueueClosed):
        await idle
    queue.add("c")
    assert (len(queue), queue.delayed) == (0, 0)
    with pytest.raises(QueueClosed):
        await queue.get()


@virtual
async def test_closing_lets_running_work_finish() -> None:
    queue = a_queue()
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.close()
    finished = asyncio.create_task(queue.wait_until_idle(), name="shutdown")
    await asyncio.sleep(1)
    assert not finished.done()
    queue.finish("a")
    await finished
    assert len(queue) == 0


@virtual
async def test_only_a_key_in_work_can_be_done() -> None:
    with pytest.raises(ValueError, match="'a' is not in flight"):
        a_queue().finish("a")


@virtual
async def test_a_worker_processes_keys_until_the_queue_is_closed() -> None:
    queue = a_queue()
    seen: list[tuple[str, frozenset[str]]] = []
    queue.add("a")
    queue.add("b")

    async def process(key: str) -> None:
        seen.append((key, queue.in_flight))
        if key == "b":
            queue.close()

    await queue.work(process)
    assert seen == [("a", frozenset("a")), ("b", frozenset("b"))]
    assert not queue.in_flight


@virtual
async def test_a_worker_that_reports_retries_what_fails_with_growing_delays_until_it_succeeds() -> None:
    queue, reported, at = a_queue(), [], []
    queue.add("a")

    async def process(_: str) -> None:
        at.append(now())
        if len(at) == 3:
            queue.close()
        else:
            raise ValueError(len(at))

    await queue.work(process, report=lambda key, error: reported.append((key, str(error))))
    assert reported == [("a", "1"), ("a", "2")]
    assert at[2] - at[1] > at[1] - at[0] > 0
    assert queue.count_failures("a") == 0


@virtual
async def test_a_worker_that_does_not_report_ends_with_the_error_and_one_that_does_with_a_closed_queue() -> None:
    async def fail(_: str) -> None:
        raise ValueError

    async def find_closed(_: str) -> None:
        raise QueueClosed

    for process, expected in ((fail, ValueError), (find_closed, None)):
        queue = a_queue()
        queue.add("a")
        with pytest.raises(expected) if expected else nullcontext():
            await queue.work(process, report=None if expected else lambda *_: None)
        assert not queue.in_flight
