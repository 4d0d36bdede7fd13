"""Exponential backoff with jitter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

Jitter = Callable[[], float]
"""A number from 0 to 1."""
JITTER: Final[Jitter] = Random().random
"""From a generator of its own: the shared one may have been seeded by other code."""


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """Delays that double with every failure in a row, in seconds."""

    initial: float
    maximum: float
    jitter: float = 0.0
    """The share of a delay that jitter may add to it."""

    def compute_delay(self, failures: int, jitter: float = 0.0) -> float:
        """The delay of a failure after that many earlier ones."""
        doubled = self.initial * 2.0 ** min(failures, 64)
        return min(doubled, self.maximum) * (1 + self.jitter * jitter)


WATCH_BACKOFF: Final = ExponentialBackoff(initial=0.8, maximum=30.0, jitter=0.5)
"""Between attempts to list or watch. Jitter only adds, so that many clients never retry sooner than one would."""


class FailureBackoff:
    """Counts failures in a row."""

    def __init__(self, backoff: ExponentialBackoff, jitter: Jitter) -> None:
        self._backoff = backoff
        self._jitter = jitter
        self.failures = 0

    def next_delay(self, *, at_least: float | None = None) -> float:
        delay = self._backoff.compute_delay(self.failures, self._jitter())
        self.failures += 1
        return max(delay, at_least or 0.0)

    def reset(self) -> None:
        self.failures = 0
