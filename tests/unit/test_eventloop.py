"""The event loop of the processes, what is left of it when it is closed, and the memory that they keep."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

import msgspec
import pytest

from fleet import eventloop
from fleet.eventloop import (
    free_later,
    handle_first_signal,
    loop_factory,
    pause_collection,
    pause_collection_in_task,
    tune_interpreter,
)
from tests.fake_clock import FakeClock

NUMBERS: Final = (signal.SIGTERM, signal.SIGINT)
DECIDING: Final = """
from resource import RUSAGE_SELF, getrusage

import numpy as np

from fleet.eventloop import tune_interpreter


def compute_columns() -> None:
    columns = [np.ones(rows) for rows in (5_000, 20_000, 100_000) for _ in range(4)]
    del columns


tune_interpreter()
compute_columns()
before = getrusage(RUSAGE_SELF).ru_minflt
for _ in range(20):
    compute_columns()
print(getrusage(RUSAGE_SELF).ru_minflt - before)
"""
DECODING: Final = """
import gc

from fleet.eventloop import tune_interpreter

visited = {0: [0], 1: [0], 2: []}


def note(phase, facts):
    if phase == "start":
        visited[facts["generation"]].append(sum(len(gc.get_objects(n)) for n in range(facts["generation"] + 1)))


tune_interpreter()
gc.collect()
gc.callbacks.append(note)
kept = [[number] for number in range(300_000)]
print(max(visited[0] + visited[1]), len(visited[2]))
"""

KEEPING: Final = """
import gc

from fleet.eventloop import leave_out_present_objects, tune_interpreter


tune_interpreter()
kept, visited = [[number] for number in range(100_000)], []


def note(phase, facts):
    if phase == "start":
        visited.append(sum(len(gc.get_objects(n)) for n in range(facts["generation"] + 1)))


gc.callbacks.append(note)
leave_out_present_objects()
print(max(visited), gc.get_freeze_count(), len(gc.get_objects()))
"""

COMPLETING: Final = """
import gc

from fleet import eventloop

now, complete = 0.0, []
eventloop._collector = eventloop._Collector(lambda: now)
eventloop.tune_interpreter()
eventloop.tune_interpreter()
gc.callbacks.append(lambda phase, facts: complete.append(now) if (phase, facts["generation"]) == ("start", 2) else None)
gc.collect()
for now in (10.0, 29.0, 31.0, 40.0, 60.0, 62.0, 63.0):
    kept = [[number] for number in range(1_200_000)]
    del kept
print(complete, gc.callbacks.count(eventloop._collector.on_collection))
"""
SLICING: Final = """
import ctypes
import json
import os
import platform
import struct
import threading

from fleet.eventloop import prefer_event_loop

CALL = dict(x86_64=315, aarch64=275)[platform.machine()]


def read():
    answer = ctypes.create_string_buffer(64)
    assert ctypes.CDLL(None).syscall(CALL, 0, answer, 48, 0) == 0
    _, policy, _, niceness, _, time_slice, _, _ = struct.unpack("=IIQiIQQQ", answer.raw[:48])
    return policy, niceness, time_slice


def read_in_thread():
    values = []
    thread = threading.Thread(target=lambda: values.append(read()))
    thread.start()
    thread.join()
    return values[0]


{prepare}
before = read()
prefer_event_loop()
print(json.dumps([before, read(), read_in_thread()]))
"""


USUAL: Final = 700
PAUSED: Final = 500_000


class Part:
    freed = 0

    def __del__(self) -> None:
        Part.freed += 1


class Whole(msgspec.Struct):
    parts: tuple[Part, ...] = ()
    name: str = "whole"


@pytest.fixture(params=[signal.default_int_handler, signal.SIG_IGN], ids=["told", "ignoring"])
def handlers(request: pytest.FixtureRequest) -> Iterator[list[object]]:
    """An ignored SIGINT is what `nohup` and jobs in the background begin with."""
    before = signal.signal(signal.SIGINT, request.param)
    yield [signal.getsignal(number) for number in NUMBERS]
    signal.signal(signal.SIGINT, before)


def test_a_closed_loop_gives_the_signals_back(handlers: list[object]) -> None:
    async def handle() -> None:
        for number in NUMBERS:
            asyncio.get_running_loop().add_signal_handler(number, lambda: None)

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(handle())

    assert [signal.getsignal(number) for number in NUMBERS] == handlers


@pytest.mark.parametrize("number", NUMBERS)
def test_the_first_signal_is_a_request_and_the_second_an_end(number: signal.Signals) -> None:
    async def handle() -> list[object]:
        heard: list[signal.Signals] = []
        handle_first_signal(heard.append)
        signal.raise_signal(number)
        signal.raise_signal(number)  # as `timeout` does
        while signal.getsignal(number) != signal.SIG_DFL:
            await asyncio.sleep(0.01)
        assert heard == [number]
        return [signal.getsignal(number) for number in NUMBERS]

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        assert runner.run(handle()) == [signal.SIG_DFL, signal.SIG_DFL]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has time slices of threads")
@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="the call has another number")
def test_the_thread_of_the_event_loop_and_no_other_has_a_short_time_slice() -> None:
    before, after, in_thread = json.loads(run_python(SLICING.format(prepare="os.nice(3)")))
    if before[0] or not before[-1]:
        pytest.skip("another policy, or a kernel older than 6.12")

    assert before[:2] == after[:2] == in_thread[:2]
    assert after[-1] == 100_000 < before[-1] == in_thread[-1]


@pytest.mark.parametrize(
    "prepare",
    [
        "del os.sched_getscheduler",
        "os.sched_getscheduler = lambda _: os.open('/nowhere', 0)",
        "os.getpriority = lambda *_: -5",
    ],
    ids=["musl", "a sandbox", "a priority that children inherit"],
)
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has time slices of threads")
@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="the call has another number")
def test_elsewhere_the_time_slice_stays(prepare: str) -> None:
    before, after, _ = json.loads(run_python(SLICING.format(prepare=prepare)))
    assert before == after


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library has no such option")
def test_columns_of_a_decision_take_the_memory_of_the_last_one() -> None:
    assert count_faults_while_deciding({}) < 100


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library has no such option")
def test_what_an_operator_sets_for_memory_stays() -> None:
    as_by_default = {"MALLOC_TRIM_THRESHOLD_": str(128 << 10), "MALLOC_MMAP_THRESHOLD_": str(128 << 10)}

    assert count_faults_while_deciding(as_by_default) > 100


def test_garbage_collection_visits_a_large_document_in_small_steps() -> None:
    most, complete = run_python(DECODING).split()
    assert int(most) < 20_000
    assert int(complete) == 0


def test_complete_collections_are_half_a_minute_apart_however_many_objects_are_new() -> None:
    assert run_python(COMPLETING) == "[0.0, 31.0, 62.0] 1\n"


def test_present_objects_are_left_out_without_a_visit_to_all_of_them() -> None:
    most, left_out, others = map(int, run_python(KEEPING).split())
    assert most < 20_000
    assert left_out > 100_000
    assert others < 100


# --- pauses of garbage collection -------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def collector(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """Of a process with no pause yet."""
    clock = FakeClock()
    gc.collect()  # what is left of other tests ends its pauses
    gc.set_threshold(USUAL, 10, 10)
    monkeypatch.setattr(eventloop, "_collector", eventloop._Collector(clock.monotonic))
    return clock


def count_new_objects() -> int:
    """That end a pause; the last thresholds are not the same in all versions of Python."""
    return gc.get_threshold()[0]


def test_collection_waits_for_the_end_of_all_pauses_or_for_half_a_million_objects() -> None:
    with pause_collection():
        with pause_collection():
            assert count_new_objects() == PAUSED
        assert count_new_objects() == PAUSED
    assert gc.get_threshold()[:2] == (USUAL, 10)


def test_a_process_is_tuned_in_a_pause_as_without_one() -> None:
    with pause_collection():
        tune_interpreter()
        assert count_new_objects() == PAUSED
    assert count_new_objects() == 2_000


def test_after_ten_seconds_of_pauses_there_is_a_collection(collector: FakeClock) -> None:
    tune_interpreter()
    with pause_collection():
        collector.advance(9.9)
        with pause_collection():
            assert count_new_objects() == PAUSED
            collector.advance(0.2)
        assert count_new_objects() == 2_000
        gc.collect(0)
        assert count_new_objects() == PAUSED


def test_collections_and_pauses_in_other_threads_leave_the_thresholds_as_they_were(collector: FakeClock) -> None:
    tune_interpreter()
    ends = time.monotonic() + 0.5

    def collect() -> None:
        while time.monotonic() < ends:
            collector.advance(40)
            gc.collect(1)

    def pause() -> None:
        while time.monotonic() < ends:
            with pause_collection():
                pass

    threads = [threading.Thread(target=work) for work in (collect, pause, pause)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count_new_objects() == 2_000


def test_a_pause_of_a_task_ends_with_it_whatever_its_end() -> None:
    async def work(ended: asyncio.Event) -> None:
        pause_collection_in_task()
        await asyncio.sleep(0)
        pause_collection_in_task()
        await ended.wait()
        raise RuntimeError

    async def story() -> list[int]:
        ended = asyncio.Event()
        first, second = asyncio.create_task(work(ended)), asyncio.create_task(work(ended))
        await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.wait([first])
        seen = [count_new_objects()]
        ended.set()
        await asyncio.wait([second])
        assert isinstance(second.exception(), RuntimeError)
        await asyncio.sleep(0)
        return [*seen, count_new_objects()]

    assert asyncio.run(story()) == [PAUSED, USUAL]


def test_a_task_that_paused_collection_is_freed_without_it() -> None:
    async def work() -> None:
        pause_collection_in_task()
        await asyncio.sleep(0)

    async def story() -> asyncio.Task[None] | None:
        task = asyncio.create_task(work())
        freed = weakref.ref(task)
        await task
        del task
        await asyncio.sleep(0)
        return freed()

    with pause_collection():
        assert asyncio.run(story()) is None


@pytest.mark.parametrize(
    "hold",
    [
        list,
        lambda parts: {"spec": {"values": parts, "few": [1, "a", None]}},
        lambda parts: {"a": dict(enumerate(parts))},
        lambda parts: Whole(tuple(parts)),
        lambda parts: [Whole(tuple(parts[at : at + 100])) for at in range(0, 2_000, 100)],
        lambda parts: tuple([[part], 1] for part in parts),
    ],
    ids=["list", "document", "mapping", "view", "lists in a list", "short ones"],
)
def test_what_is_long_is_freed_in_many_turns_of_the_loop(hold: Callable[[list[Part]], object]) -> None:
    async def story() -> list[int]:
        Part.freed, counts = 0, list[int]()
        held = hold([Part() for _ in range(2_000)])
        free_later(held)
        del held
        while count_new_objects() == PAUSED:
            await asyncio.sleep(0)
            counts.append(Part.freed)
        return counts

    counts = asyncio.run(story())
    assert counts[0] == 0, "those who have it let go of it first"
    assert counts[-1] == 2_000
    assert max(after - before for before, after in pairwise(counts)) <= 2 * 256


def test_what_others_hold_stays() -> None:
    async def story() -> list[Part]:
        Part.freed, held = 0, [Part() for _ in range(1_000)]
        free_later(held)
        while count_new_objects() == PAUSED:
            await asyncio.sleep(0)
        assert Part.freed == 0
        return held

    assert len(asyncio.run(story())) == 1_000


def test_without_a_loop_all_is_freed_at_once_and_where_it_ends_before_collection_goes_on() -> None:
    async def end_before() -> None:
        free_later([Part() for _ in range(1_000)])

    free_later([Part()], None, 3)
    asyncio.run(end_before())
    assert count_new_objects() == USUAL


def count_faults_while_deciding(variables: dict[str, str]) -> int:
    return int(run_python(DECIDING, **variables))


def run_python(program: str, **variables: str) -> str:
    command = [sys.executable, "-c", program]
    environment = {**os.environ, **variables}
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=environment)
    return run.stdout
