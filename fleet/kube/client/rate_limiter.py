"""Client-side limits of requests: by default the concurrency of writes, and where one is set a rate per call class.

A class has its own token bucket, so that no class of requests can starve another. Leases are exempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fleet.clock import SECOND, Clock, to_nanoseconds
from fleet.kube.api import LEASE_CLASS
from fleet.kube.client.write_limiter import CONCURRENCY, WriteLimiter


@dataclass(frozen=True, slots=True)
class RateLimit:
    rate: float
    """Tokens per second."""
    burst: int


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
    default: RateLimit | None = None
    """Of every other class; None for no fixed rate."""
    concurrency: int = CONCURRENCY
    writes: WriteLimiter = field(init=False)
    _buckets: dict[str, TokenBucket] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.writes = WriteLimiter(self.clock, ceiling=self.concurrency)

    async def acquire(self, call_class: str) -> None:
        limit = self.limits.get(call_class, self.default)
        if limit is None or call_class == LEASE_CLASS:
            return
        bucket = self._buckets.get(call_class)
        if bucket is None:
            bucket = self._buckets[call_class] = TokenBucket(limit)
        delay = bucket.reserve(to_nanoseconds(self.clock.monotonic()))
        if delay:
            await self._wait(bucket, delay / SECOND)

    async def _wait(self, bucket: TokenBucket, seconds: float) -> None:
        try:
            await self.clock.sleep(seconds)
        except BaseException:
            bucket.cancel()
            raise
