"""Shutdown watchdog: ends a process that does not stop in time.

Every step of the shutdown has a deadline, but some work cannot be cancelled: a thread in a name lookup, or a plugin
that never returns and blocks the event loop.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Final

import structlog

SHUTDOWN_MARGIN: Final = 12.0
"""Seconds added to the grace period: the lease and the history take at most five each."""
_FAILED: Final = 1

log = structlog.get_logger(__name__)


def start_watchdog(seconds: float) -> None:
    """Returns at once. Terminates the process if it still runs after `seconds`."""
    timer = threading.Timer(seconds, _terminate, args=(seconds,))
    timer.daemon = True
    timer.name = "shutdown watchdog"
    timer.start()


def _terminate(seconds: float) -> None:
    try:
        log.error("shutdown timed out: terminating the process", after_seconds=seconds)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(_FAILED)
