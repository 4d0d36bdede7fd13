"""Shares of the reviews that the hub does for the API, so that no caller waits for the reviews of others."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from api.http.problems import busy

REVIEWS_OF_A_CALLER: Final = 32
"""Access reviews in flight; further ones of the same caller wait."""
UNKNOWN_TOKENS: Final = 16
"""Reviews in flight of tokens that the hub has not accepted before."""
UNKNOWN_TOKENS_WAITING: Final = 512
_MOST_ACCEPTED: Final = 10_000

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class _Share:
    slots: asyncio.Semaphore
    users: int = 0


class KeyedLimit(Generic[K]):
    """At most `limit` in flight for each key."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._shares: dict[K, _Share] = {}

    @asynccontextmanager
    async def slot(self, key: K) -> AsyncIterator[None]:
        share = self._shares.setdefault(key, _Share(asyncio.Semaphore(self._limit)))
        share.users += 1
        try:
            async with share.slots:
                yield
        finally:
            share.users -= 1
            if not share.users:
                del self._shares[key]


@dataclass(slots=True)
class TokenLanes:
    """Tokens that were accepted before never wait for unknown ones, which anybody can send any number of."""

    limit: int = UNKNOWN_TOKENS
    most_waiting: int = UNKNOWN_TOKENS_WAITING
    _accepted: OrderedDict[bytes, None] = field(default_factory=OrderedDict, init=False)
    _unknown: KeyedLimit[None] = field(init=False)
    _under_way: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._unknown = KeyedLimit(self.limit)

    def note_result(self, digest: bytes, *, is_accepted: bool) -> None:
        self._accepted.pop(digest, None)
        if is_accepted:
            self._accepted[digest] = None
            if len(self._accepted) > _MOST_ACCEPTED:
                self._accepted.popitem(last=False)

    @asynccontextmanager
    async def slot(self, digest: bytes) -> AsyncIterator[None]:
        """Refuses an unknown token when too many others wait."""
        if digest in self._accepted:
            yield
            return
        if self._under_way >= self.limit + self.most_waiting:
            raise busy(self._under_way, "reviews of unknown tokens", seconds=1)
        self._under_way += 1
        try:
            async with self._unknown.slot(None):
                yield
        finally:
            self._under_way -= 1
