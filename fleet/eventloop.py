"""Event loop of every process that uses the network, and how long the garbage collector may hold it."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Final

_GC_THRESHOLDS: Final = (10_000, 5, 20)
"""Reference cycles are rare here, so the defaults would run it too often. The second generation has 50,000 new objects
at most, which takes some ten milliseconds; a large policy is several times as many. The third is visited
after a million, so that no more than some hundred megabytes wait for it."""


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed: a request costs about a third less."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def tune_collector() -> None:
    """For processes that keep large caches."""
    gc.set_threshold(*_GC_THRESHOLDS)
