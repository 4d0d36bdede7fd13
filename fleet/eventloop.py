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
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

_GC_THRESHOLDS: Final = (2_000, 5, 100)
"""Reference cycles are rare here, so the defaults would run it too often. With the second generation some 12,000 new
objects are visited, for a few milliseconds in which the event loop stands still; a large policy is many times as many.
The third is visited after a million, so that no more than some hundred megabytes wait for it."""
_BETWEEN_COMPLETE: Final = 30.0
"""Seconds between two complete collections, which take 40 to 170 ms each. Two questions about a policy of a megabyte
make a million objects: after each million, more than one of a hundred answers would wait."""
_RARE_COMPLETE: Final = (*_GC_THRESHOLDS[:2], 10_000)
"""Until then. A hundred million objects are more than a process makes in that time."""
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


@contextmanager
def pause_collection() -> Iterator[None]:
    """Without garbage collection, for work on a large document: it has no cycles, and visiting it holds the loop."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


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


class _Spacing:
    """Of complete garbage collections."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._latest = monotonic()

    def on_collection(self, phase: str, info: Mapping[str, int]) -> None:
        if phase == "start" or info["generation"] == 0:
            return
        if info["generation"] == 2:
            self._latest = self._monotonic()
            gc.set_threshold(*_RARE_COMPLETE)
        elif self._monotonic() - self._latest >= _BETWEEN_COMPLETE:
            gc.set_threshold(*_GC_THRESHOLDS)


_spacing: Final = _Spacing()


def tune_interpreter() -> None:
    """For processes that keep large caches, and compute in threads beside the event loop."""
    gc.set_threshold(*_GC_THRESHOLDS)
    if _spacing.on_collection not in gc.callbacks:
        gc.callbacks.append(_spacing.on_collection)
    prefer_event_loop()
    with suppress(OSError, AttributeError):  # other C libraries have no such options, and some interpreters none at all
        mallopt = ctypes.CDLL(None).mallopt
        for variable, (option, size) in _MALLOC_OPTIONS.items():
            if variable not in os.environ:
                mallopt(option, size)
