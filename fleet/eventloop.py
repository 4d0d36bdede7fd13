"""Event loop of every process that uses the network, and how long garbage collector and threads may hold it."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import platform
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final
from weakref import WeakSet

import msgspec

from fleet.checkpoint import split

_GC_THRESHOLDS: Final = (2_000, 5, 100)
"""Reference cycles are rare here, so the defaults would run it too often. With the second generation some 12,000 new
objects are visited, for a few milliseconds in which the event loop stands still; a large policy is many times as many.
The third is visited after a million, so that no more than some hundred megabytes wait for it."""
_BETWEEN_COMPLETE: Final = 30.0
"""Seconds between two complete collections, which take 40 to 170 ms each. Two questions about a policy of a megabyte
make a million objects: after each million, more than one of a hundred answers would wait."""
_RARE_COMPLETE: Final = 10_000
"""The third threshold until then. A hundred million objects are more than a process makes in that time."""
_MOST_IN_A_PAUSE: Final = 500_000
"""Objects. Cycles that are made meanwhile wait for the end of the pause, or for so many."""
_LONGEST_PAUSE: Final = 10.0
"""Seconds, after which there is a collection between two pauses."""
_FREED_AFTER: Final = 0.05
"""Seconds, in which those who have it let go of it, exceptions too."""
_FREED_AT_ONCE: Final = 128
"""Items of lists and the like."""
_SWITCH_INTERVAL: Final = 0.0001
"""Seconds that a computing thread keeps the interpreter while the event loop wants it. The loop gives it up whenever it
looks for events, many times in each request: with the default of 5 ms those waits add up."""
_TIME_SLICE: Final = 100_000
"""Nanoseconds, the fewest that Linux allows. Where all cores are taken, a thread that wakes up waits for the end of
another one's time slice, which is looked for every 4 ms or so, unless its own would end before."""
_SET_SCHEDULER: Final = {"x86_64": 314, "aarch64": 274}
"""Numbers of the system call `sched_setattr`, for which not all C libraries have a function."""
_SCHEDULING: Final = "=IIQiIQQQ"
"""Of that call: size, policy, flags, niceness, priority, time slice, deadline, period."""
_NOT_OF_CHILDREN: Final = 1
"""Threads and processes that this one starts have the default again, of niceness as well if it is negative."""
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_ONE_SIGNAL: Final = 0.5
"""Seconds within which a second signal counts as the first: `timeout` sends two, to a process and to its group."""
_MALLOC_OPTIONS: Final = {"MALLOC_TRIM_THRESHOLD_": (-1, 16 << 20), "MALLOC_MMAP_THRESHOLD_": (-3, 4 << 20)}
"""Numbers of the options of glibc, and bytes, by the variables with which an operator sets them. With its defaults the
columns of one decision go back to the system as they are freed, and the next one waits for as many clear pages."""


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed: a request costs about a third less."""
    try:
        import uvloop
    except ImportError:
        return None

    class _Loop(uvloop.Loop):
        def __init__(self) -> None:
            super().__init__()
            self._handlers = {number: signal.getsignal(number) for number in _STOP_SIGNALS}

        def close(self) -> None:
            """uvloop would keep the signals for itself: a process that hangs afterwards could not be stopped by one."""
            super().close()
            for number, before in self._handlers.items():
                if getattr(signal.getsignal(number), "__self__", None) is self:
                    signal.signal(number, before)

    return _Loop


def handle_first_signal(stop: Callable[[signal.Signals], object]) -> None:
    """Call it for SIGTERM or SIGINT. A second signal half a second later ends the process at once."""
    loop, is_stopping = asyncio.get_running_loop(), False

    def handle(number: signal.Signals) -> None:
        nonlocal is_stopping
        if not is_stopping:
            is_stopping = True
            loop.call_later(_ONE_SIGNAL, give_up)
            stop(number)

    def give_up() -> None:
        for number in _STOP_SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, handle, number)


def leave_out_present_objects(*, completely: bool = False) -> None:
    """Of garbage collection from now on: what is cached by now lives long, and so do modules.

    To collect `completely` before holds the event loop for 50 to 110 ms. Where a process has just started it finds a
    hundred objects or none; garbage of one that has run for days would stay for good.
    """
    gc.collect(2 if completely else 1)
    gc.freeze()


def prefer_event_loop() -> None:
    """For processes that compute in threads beside the event loop, which runs in the calling thread."""
    sys.setswitchinterval(_SWITCH_INTERVAL)
    _shorten_time_slice()


def _shorten_time_slice() -> None:
    """Of the calling thread. Its share of the processor stays the same. Linux before 6.12 takes no notice; other
    systems, and sandboxes that forbid the calls, are left as they are, and so is a priority that children inherit."""
    call = _SET_SCHEDULER.get(platform.machine()) if sys.platform == "linux" and sys.maxsize > 2**32 else None
    with suppress(OSError, AttributeError):
        policy, niceness = os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)
        if call is None or policy != os.SCHED_OTHER or niceness < 0:
            return
        size = struct.calcsize(_SCHEDULING)
        wanted = struct.pack(_SCHEDULING, size, policy, _NOT_OF_CHILDREN, niceness, 0, _TIME_SLICE, 0, 0)
        ctypes.CDLL(None).syscall(call, 0, wanted, 0)


class _Collector:
    """Garbage collection with pauses, in several threads at a time, and with time between complete collections."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.RLock()  # a collection may begin in the thread that has it
        self._thresholds = gc.get_threshold()
        """Without a pause."""
        self._is_tuned = False
        self._pauses = 0
        self._latest = self._latest_complete = monotonic()

    def tune(self) -> None:
        with self._lock:
            self._thresholds, self._is_tuned = _GC_THRESHOLDS, True
            self._apply()
        if self.on_collection not in gc.callbacks:
            gc.callbacks.append(self.on_collection)

    def begin_pause(self) -> None:
        with self._lock:
            if not self._pauses:
                self._latest = self._monotonic()
                self._thresholds = self._thresholds if self._is_tuned else gc.get_threshold()
            self._pauses += 1
            self._apply()

    def end_pause(self) -> None:
        with self._lock:
            self._pauses -= 1
            self._apply()

    def on_collection(self, phase: str, info: Mapping[str, int]) -> None:
        if phase == "start":
            return
        with self._lock:
            self._latest = self._monotonic()
            if info["generation"] == 2:
                self._latest_complete = self._latest
            is_due = self._latest - self._latest_complete >= _BETWEEN_COMPLETE
            self._thresholds = (*_GC_THRESHOLDS[:2], _GC_THRESHOLDS[2] if is_due else _RARE_COMPLETE)
            self._apply()

    def _apply(self) -> None:
        first, *others = self._thresholds
        is_paused = self._pauses and self._monotonic() - self._latest < _LONGEST_PAUSE
        gc.set_threshold(max(first, _MOST_IN_A_PAUSE) if is_paused else first, *others)


_collector: Final = _Collector()
_tasks_in_a_pause: Final[WeakSet[asyncio.Task[Any]]] = WeakSet()


@contextmanager
def pause_collection() -> Iterator[None]:
    """For work on a large document: it has no cycles, and to visit it holds the event loop. After ten seconds, or half
    a million new objects, there is a collection all the same."""
    _collector.begin_pause()
    try:
        yield
    finally:
        _collector.end_pause()


def pause_collection_in_task() -> None:
    """Until the running task ends. What a request makes of a large document is gone by then; at the end of a shorter
    pause it would be visited."""
    task = asyncio.current_task()
    if task is not None and task not in _tasks_in_a_pause:
        _tasks_in_a_pause.add(task)
        collector = _collector
        collector.begin_pause()
        task.add_done_callback(lambda _: collector.end_pause())


def free_later(*roots: object) -> None:
    """Frees what is long in them, bit by bit between other work, if nothing else refers to it any more by then: at once
    it takes as long as to decode it."""
    with suppress(RuntimeError):  # without a loop nothing waits
        asyncio.get_running_loop().call_later(_FREED_AFTER, _Leftovers(roots).free_next)


class _Leftovers:
    """Collection pauses meanwhile: it would visit what is left."""

    def __init__(self, roots: Iterable[object]) -> None:
        self._steps = _free_in_steps(list(filter(_has_parts, roots)))
        self._collector: _Collector | None = _collector
        self._collector.begin_pause()

    def free_next(self) -> None:
        if next(self._steps, True) is None:
            asyncio.get_running_loop().call_soon(self.free_next)
        else:
            self._end_pause()

    def __del__(self) -> None:
        """If the loop has ended before. One that goes on may keep this object for a while."""
        self._end_pause()

    def _end_pause(self) -> None:
        collector, self._collector = self._collector, None
        if collector is not None:
            collector.end_pause()


def _free_in_steps(left: list[Any]) -> Iterator[None]:
    """What is taken from the list is freed, but for what is in it. Items of what is long are not looked into: to visit
    all takes ten times as long as to free it."""
    parts: list[object] = []
    items = 0
    while left:
        held = left.pop()
        if isinstance(held, dict):
            held = [*held, *held.values()]
        elif isinstance(held, msgspec.Struct):
            held = [getattr(held, name) for name in held.__struct_fields__]
        if len(held) <= _FREED_AT_ONCE:
            left += filter(_has_parts, held)
            items += len(held)
        else:
            for part in split(held, _FREED_AT_ONCE):
                parts.append(part)
                yield
            del part
        del held
        while parts:
            parts.pop()
            yield
        if items > _FREED_AT_ONCE:
            items = 0
            yield


def _has_parts(held: object) -> bool:
    return isinstance(held, list | tuple | dict | msgspec.Struct)


def tune_interpreter() -> None:
    """For processes that keep large caches, and compute in threads beside the event loop."""
    _collector.tune()
    prefer_event_loop()
    with suppress(OSError, AttributeError):  # other C libraries have no such options, and some interpreters none at all
        mallopt = ctypes.CDLL(None).mallopt
        for variable, (option, size) in _MALLOC_OPTIONS.items():
            if variable not in os.environ:
                mallopt(option, size)
