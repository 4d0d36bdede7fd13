"""How fast requests may leave: a budget per class of calls, so that one class can never starve another.

Which classes there are is decided by whoever makes the requests; this module knows a default and who goes free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fleet.clock import Clock
from fleet.kube.api import LEASE_CLASS


@dataclass(frozen=True, slots=True)
class RateLimit:
    rate: float
    """Requests per second."""
    burst: int


DEFAULT_RATE_LIMIT: Final = RateLimit(rate=250, burst=1000)


class TokenBucket:
    """Tokens are promised in advance: whoever takes one learns how long to wait for it, first come, first served."""

    def __init__(self, budget: RateLimit, clock: Clock) -> None:
        if budget.rate <= 0 or budget.burst < 1:
            raise ValueError(f"a budget of {budget.rate:g} per second with a burst of {budget.burst} lets nothing pass")
        self._budget = budget
        self._clock = clock
        self._tokens = float(budget.burst)
        self._counted_at = clock.elapsed()

    def reserve(self) -> float:
        """Takes a token and says in how many seconds it is there."""
        now = self._clock.elapsed()
        refilled = self._tokens + (now - self._counted_at) * self._budget.rate
        self._tokens = min(refilled, float(self._budget.burst)) - 1
        self._counted_at = now
        return max(0.0, -self._tokens / self._budget.rate)

    def cancel(self) -> None:
        self._tokens += 1


@dataclass(slots=True)
class RateLimiter:
    """Lease renewals are never held back: being late there costs the leadership."""

    clock: Clock
    limits: Mapping[str, RateLimit] = field(default_factory=dict)
    default: RateLimit = DEFAULT_RATE_LIMIT
    _buckets: dict[str, TokenBucket] = field(default_factory=dict, init=False)

    async def acquire(self, call_class: str) -> None:
        if call_class == LEASE_CLASS:
            return
        bucket = self._buckets.get(call_class) or self._open(call_class)
        wait = bucket.reserve()
        if wait:
            await self._wait(bucket, wait)

    async def _wait(self, bucket: TokenBucket, seconds: float) -> None:
        try:
            await self.clock.sleep(seconds)
        except BaseException:
            bucket.cancel()
            raise

    def _open(self, call_class: str) -> TokenBucket:
        bucket = TokenBucket(self.limits.get(call_class, self.default), self.clock)
        self._buckets[call_class] = bucket
        return bucket
