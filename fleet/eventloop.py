"""Event loop of every process that uses the network, and how long garbage collector and threads may hold it."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

_GC_THRESHOLDS: Final = (10_000, 5, 20)
"""Reference cycles are rare here, so the defaults would run it too often. The second generation has 50,000 new objects
at most, which takes some ten milliseconds; a large policy is several times as many. The third is visited
after a million, so that no more than some hundred megabytes wait for it."""
_SWITCH_INTERVAL: Final = 0.0005
"""Seconds that a computing thread keeps the interpreter while the event loop wants it. The loop gives it up whenever it
looks for events, many times in each request: with the default of 5 ms those waits add up."""
_MALLOC_OPTIONS: Final = {-1: 16 << 20, -3: 4 << 20}
"""M_TRIM_THRESHOLD and M_MMAP_THRESHOLD, in bytes. With the defaults of glibc the columns of one decision go back to
the system as they are freed, and the next decision waits for the system to clear as many pages."""


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed: a request costs about a third less."""
    try:
        import uvloop
    except ImportError:
        return None

    class _Loop(uvloop.Loop):
        def __init__(self) -> None:
            super().__init__()
            self._handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

        def close(self) -> None:
            """uvloop would keep the signals for itself: a process that hangs afterwards could not be stopped by one."""
            super().close()
            for number, before in self._handlers.items():
                if getattr(signal.getsignal(number), "__self__", None) is self:
                    signal.signal(number, before)

    return _Loop


def tune_interpreter() -> None:
    """For processes that keep large caches, and compute in threads beside the event loop."""
    gc.set_threshold(*_GC_THRESHOLDS)
    sys.setswitchinterval(_SWITCH_INTERVAL)
    with suppress(OSError, AttributeError):  # other C libraries have no such options, and some interpreters none at all
        mallopt = ctypes.CDLL(None).mallopt
        for option, size in _MALLOC_OPTIONS.items():
            mallopt(option, size)
