"""Event loop of every process that uses the network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed: a request costs about a third less."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
