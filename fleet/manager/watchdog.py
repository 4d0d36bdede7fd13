"""The end of a process that was asked to stop, whatever hangs.

All that is waited for at the end has a deadline. What cannot be cut off has none: a thread that looks up a name, or a
plugin that never returns and keeps the event loop from turning.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Final

import structlog

AFTERWARDS: Final = 12.0
"""Seconds after the grace period: the lease and the history take five each at most."""
_FAILED: Final = 1

log = structlog.get_logger(__name__)


def end_within(seconds: float) -> None:
    """Returns at once. A process that is still there by then is ended as it is."""
    timer = threading.Timer(seconds, _end, args=(seconds,))
    timer.daemon = True
    timer.name = "last resort"
    timer.start()


def _end(seconds: float) -> None:
    log.error("the process does not come to its end and is ended as it is", after_seconds=seconds)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_FAILED)
