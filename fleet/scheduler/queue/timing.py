"""How long placements wait: the queue's settings, growing delays, windows, and the budget that failures share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fleet.errors import ConfigurationError

SECOND: Final = 1_000_000_000
"""In nanoseconds, like every moment and wait in the queue."""

FLUSH_PERIOD: Final = 30 * SECOND
"""How often the pool is searched for placements that no event has woken."""

HOLD_REPORT_DELAY: Final = 5 * SECOND
"""Holds that pass sooner are nobody's business."""

BATCH_LIMIT: Final = 20_000
"""Keys that one move takes from the slow lane."""


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """Seconds, as operators give them."""

    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    max_in_unschedulable: float = 300.0
    """0: nothing leaves the pool without an event."""
    early_pop: bool = True
    """Workers with nothing else to do take rejected placements before their back-off ends."""
    base_delay: float = 0.005
    max_delay: float = 60.0
    rate: float = 10.0
    burst: int = 100
    batch_period: float = 0.0
    """How long changes of clusters are gathered before they wake anybody; 0: not at all."""

    def __post_init__(self) -> None:
        if not 0 < self.initial_backoff <= self.max_backoff:
            raise ConfigurationError(
                f"queue.initialBackoffSeconds {self.initial_backoff:g}: must be above 0 and at most "
                f"queue.maxBackoffSeconds, which is {self.max_backoff:g}"
            )
        if self.rate <= 0 or self.burst < 1:
            raise ConfigurationError(
                f"queue.rate {self.rate:g} with queue.burst {self.burst}: no failed placement would ever run again; "
                "give a rate above 0 and a burst of at least 1"
            )


def nanoseconds(seconds: float) -> int:
    return round(seconds * SECOND)


@dataclass(frozen=True, slots=True)
class Doubling:
    """Waits that double from the first to the longest."""

    first: int
    most: int

    def nth(self, number: int) -> int:
        """The wait after the n-th time; none after none."""
        if number <= 0:
            return 0
        return min(self.first << min(number - 1, 64), self.most)


def window_of(expiry: int) -> int:
    """Back-offs end in windows of a whole second: whoever ends in the same one is ordered by rank, not by luck."""
    return expiry // SECOND


def window_end(window: int) -> int:
    """When everybody in the window is ready: a wait of d takes more than d and at most a second more."""
    return (window + 1) * SECOND


def flush_moment(pooled_at: int, longest: int) -> int:
    """The first search of the pool at which something has been there for longer than that."""
    return ((pooled_at + longest) // FLUSH_PERIOD + 1) * FLUSH_PERIOD


class TokenBucket:
    """Tokens are promised in advance: whoever takes one learns how long to wait for it."""

    def __init__(self, rate: float, burst: int) -> None:
        self._interval = round(SECOND / rate)
        self._credit = (burst - 1) * self._interval
        self._spent_until: int | None = None

    def take(self, now: int) -> int:
        start = now if self._spent_until is None else max(self._spent_until, now)
        self._spent_until = start + self._interval
        return max(0, start - now - self._credit)
