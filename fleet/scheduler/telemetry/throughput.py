"""Throughput: placements bound per second while some were pending.

Time is divided into windows of fixed length. A window counts if something was pending at any moment of it: idle time
is not a measure of the scheduler's speed. Bound placements always count, whichever window they fall into.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

WINDOW: Final = 1.0
"""Seconds."""
_KEPT: Final = 600
_RECENT: Final = 60


class Throughput:
    """Times are seconds of one monotonic clock."""

    def __init__(self, *, window: float = WINDOW, kept: int = _KEPT) -> None:
        self._window = window
        self._finished: deque[int] = deque(maxlen=kept)
        self._arrivals: deque[int] = deque(maxlen=_RECENT)
        self._number: int | None = None
        self._bound = 0
        self._arrived = 0
        self._is_pending = False
        self._counts = False
        """Whether something was pending in the current window."""

    # --- events -------------------------------------------------------------------------------------------------------

    def add_arrivals(self, now: float, count: int = 1) -> None:
        self._advance(now)
        self._arrived += count

    def add_bound(self, now: float, count: int = 1) -> None:
        self._advance(now)
        self._bound += count
        self._counts = True

    def set_pending(self, now: float, *, is_pending: bool) -> None:
        self._advance(now)
        self._is_pending = is_pending
        self._counts |= is_pending

    # --- results ------------------------------------------------------------------------------------------------------

    def windows(self, now: float) -> list[int]:
        """The number bound in each finished window that counts, oldest first."""
        self._advance(now)
        return list(self._finished)

    def per_second(self, now: float) -> float:
        """The mean of the last minute of windows that count."""
        return self._rate(self.windows(now)[-_RECENT:])

    def arrivals_per_second(self, now: float) -> float:
        """The mean of the last minute of all windows."""
        self._advance(now)
        return self._rate(self._arrivals)

    def quantile(self, now: float, share: float) -> float:
        """The rate that this share of the windows that count did not exceed."""
        ordered = sorted(self.windows(now))
        if not ordered:
            return 0.0
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] / self._window

    # --- inside -------------------------------------------------------------------------------------------------------

    def _advance(self, now: float) -> None:
        number = int(now // self._window)
        if self._number is None:
            self._number = number
        if number <= self._number:
            return
        passed = number - self._number - 1
        if self._counts:
            self._finished.append(self._bound)
        if self._is_pending:
            self._finished.extend([0] * min(passed, self._finished.maxlen or 0))
        self._arrivals.append(self._arrived)
        self._arrivals.extend([0] * min(passed, _RECENT))
        self._number, self._bound, self._arrived, self._counts = number, 0, 0, self._is_pending

    def _rate(self, counts: Iterable[int]) -> float:
        numbers = list(counts)
        return sum(numbers) / len(numbers) / self._window if numbers else 0.0
