"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from fleet.clock import SECOND, to_nanoseconds
from tests.builders import NOW


class FakeClock:
    """`step` seconds pass with every reading of the monotonic time. Sleepers wake when the clock has been advanced."""

    def __init__(self, now: int | datetime = NOW, *, monotonic: float = 0.0, step: float = 0.0) -> None:
        self.set(now)
        self.seconds = monotonic
        self._step = step
        self._sleepers: list[tuple[float, asyncio.Event]] = []
        self._somebody_sleeps = asyncio.Event()

    def now(self) -> datetime:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self.moment // 1000)

    def monotonic(self) -> float:
        self.seconds += self._step
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        self._sleepers.append((self.seconds + seconds, woken))
        self._somebody_sleeps.set()
        await woken.wait()

    # --- what tests do ------------------------------------------------------------------------------------------------

    def set(self, now: int | datetime) -> None:
        """The time of day alone, as an administrator does."""
        self.moment = now if isinstance(now, int) else int(now.timestamp()) * SECOND

    def advance(self, seconds: float) -> None:
        self.moment += to_nanoseconds(seconds)
        self.seconds += seconds
        for until, woken in self._sleepers:
            if until <= self.seconds:
                woken.set()

    async def wait_for_sleeper(self) -> None:
        await self._somebody_sleeps.wait()
