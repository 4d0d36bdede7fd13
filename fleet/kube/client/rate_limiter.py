"""Client-side rate limits: one token bucket per call class, so that no class of requests can starve another.

Callers define the call classes; this module has a default limit and exempts leases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fleet.clock import SECOND, Clock, to_nanoseconds
from fleet.kube.api import LEASE_CLASS


@dataclass(frozen=True, slots=True)
class RateLimit:
    rate: float
    """Tokens per second."""
    burst: int


DEFAULT_RATE_LIMIT: Final = RateLimit(rate=250, burst=1000)


class TokenBucket:
    """Tokens are reserved in advance, first come, first served. Moments and delays are in nanoseconds."""

    def __init__(self, limit: RateLimit) -> None:
        if limit.rate <= 0 or limit.burst < 1:
            raise ValueError(f"a limit of {limit.rate:g} per second with a burst of {limit.burst} lets nothing pass")
        self._interval = round(SECOND / limit.rate)
        self._credit = (limit.burst - 1) * self._interval
        self._reserved_until = 0

    def reserve(self, now: int) -> int:
        """Takes a token; returns the delay until it may be used."""
        start = max(self._reserved_until, now)
        self._reserved_until = start + self._interval
        return max(0, start - now - self._credit)

    def cancel(self) -> None:
        """Returns a token that was not used."""
        self._reserved_until -= self._interval


@dataclass(slots=True)
class RateLimiter:
    """Lease renewals are never delayed: being late there costs the leadership."""

    clock: Clock
    limits: Mapping[str, RateLimit] = field(default_factory=dict)
    default: RateLimit = DEFAULT_RATE_LIMIT
    _buckets: dict[str, TokenBucket] = field(default_factory=dict, init=False)

    async def acquire(self, call_class: str) -> None:
        if call_class == LEASE_CLASS:
            return
        bucket = self._buckets.get(call_class) or self._add_bucket(call_class)
        delay = bucket.reserve(to_nanoseconds(self.clock.monotonic()))
        if delay:
            await self._wait(bucket, delay / SECOND)

    async def _wait(self, bucket: TokenBucket, seconds: float) -> None:
        try:
            await self.clock.sleep(seconds)
        except BaseException:
            bucket.cancel()
            raise

    def _add_bucket(self, call_class: str) -> TokenBucket:
        bucket = self._buckets[call_class] = TokenBucket(self.limits.get(call_class, self.default))
        return bucket
