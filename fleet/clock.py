"""Time as something that is handed in, so that what depends on it can be tested in no time at all.

Three questions, kept apart because mixing them is how leases outlive their owners: which time of day it is (may jump),
how long something took (never jumps), and waiting. Deadlines belong to the event loop and are asyncio's.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

# On Linux CLOCK_MONOTONIC stands still while the machine sleeps, and a lease does not.
_ELAPSING: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)


class Clock(Protocol):
    def now(self) -> datetime:
        """The time of day, in UTC. For what people and other programs read; never for measuring."""

    def elapsed(self) -> float:
        """Seconds since some point in the past. Never goes back, and goes on while the machine sleeps."""

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def elapsed(self) -> float:
        return time.monotonic() if _ELAPSING is None else time.clock_gettime(_ELAPSING)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def epoch_nanoseconds(clock: Clock) -> int:
    """The time of day as decisions take it."""
    return (clock.now() - _EPOCH) // _MICROSECOND * 1000
