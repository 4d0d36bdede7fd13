"""Clocks as a dependency, so that tests run in virtual time.

Three needs are kept apart, because mixing them is how leases outlive their owners: the time of day (may jump), the
monotonic time (never jumps), and sleeping. Deadlines belong to the event loop and are asyncio's.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

# On Linux CLOCK_MONOTONIC stops while the machine sleeps, and a lease does not.
_ELAPSING: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)

SECOND: Final = 1_000_000_000
"""In nanoseconds, the unit of all moments and delays in queues and rate limiters."""


class Clock(Protocol):
    def now(self) -> datetime:
        """The time of day, in UTC: for people and other programs, never for measuring."""

    def monotonic(self) -> float:
        """Seconds since some point in the past. Never decreases, and advances while the machine sleeps."""

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic() if _ELAPSING is None else time.clock_gettime(_ELAPSING)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def epoch_nanoseconds(clock: Clock) -> int:
    """The time of day in the form that decisions use."""
    return (clock.now() - _EPOCH) // _MICROSECOND * 1000


def to_nanoseconds(seconds: float) -> int:
    return round(seconds * SECOND)
