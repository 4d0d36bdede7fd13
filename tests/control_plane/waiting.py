"""Waiting for what servers do in their own time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

SECONDS_TO_HAPPEN: Final = 90.0
"""So long that only what will never happen takes longer, on the slowest machine that runs everything at once: an API
server needs half a second to forget a definition, and Fleet has 28."""
SECONDS_BETWEEN_REFRESHES: Final = 0.02


def soon(look: Callable[[], bool], *, within: float = SECONDS_TO_HAPPEN) -> None:
    """Until it is so; fails when it takes too long."""
    deadline = time.monotonic() + within
    while not look():
        assert time.monotonic() < deadline, f"not within {within:g} s"
        time.sleep(SECONDS_BETWEEN_REFRESHES)
