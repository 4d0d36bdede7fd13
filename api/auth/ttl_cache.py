"""A bounded TTL cache with single-flight loading: concurrent misses of one key share one load."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from fleet.clock import Clock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TTLCache(Generic[K, V]):
    """Failed loads are not cached."""

    def __init__(self, *, clock: Clock, ttl: Callable[[V], float], max_entries: int) -> None:
        """`ttl` gives the seconds for which a value holds."""
        self._clock = clock
        self._ttl = ttl
        self._max_entries = max_entries
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._loading: dict[K, asyncio.Future[V]] = {}

    def peek(self, key: K) -> V | None:
        entry = self._entries.get(key)
        return entry[1] if entry is not None and entry[0] > self._clock.monotonic() else None

    async def get(self, key: K, load: Callable[[], Awaitable[V]]) -> V:
        value = self.peek(key)
        if value is not None:
            return value
        loading = self._loading.get(key)
        if loading is None:
            loading = self._loading[key] = asyncio.ensure_future(load())
            loading.add_done_callback(lambda done: self._store(key, done))
        # A cancelled caller must not cancel the load of the others. `asyncio.shield` would not do: newer Pythons report
        # an error if the shielded load fails after that.
        await asyncio.wait((loading,))
        return loading.result()

    def _store(self, key: K, done: asyncio.Future[V]) -> None:
        del self._loading[key]
        if done.cancelled() or done.exception() is not None:
            return
        value = done.result()
        self._entries[key] = self._clock.monotonic() + self._ttl(value), value
        self._entries.move_to_end(key)
        while len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)
