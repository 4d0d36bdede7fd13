"""Answers that hold for a short while, asked for once however many wait for them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from fleet.clock import Clock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Remembered(Generic[K, V]):
    """Bounded; what failed is not remembered."""

    def __init__(self, *, clock: Clock, lifetime: Callable[[V], float], most: int) -> None:
        """`lifetime` is in seconds."""
        self._clock = clock
        self._lifetime = lifetime
        self._most = most
        self._known: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._asked: dict[K, asyncio.Future[V]] = {}

    def known(self, key: K) -> V | None:
        found = self._known.get(key)
        return found[1] if found is not None and found[0] > self._clock.elapsed() else None

    async def get(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        known = self.known(key)
        if known is not None:
            return known
        asked = self._asked.get(key)
        if asked is None:
            asked = self._asked[key] = asyncio.ensure_future(ask())
            asked.add_done_callback(lambda done: self._told(key, done))
        # Whoever gives up does not take the answer from the others. Not by `asyncio.shield`: newer Pythons call it an
        # error if what it was left for fails.
        await asyncio.wait((asked,))
        return asked.result()

    def _told(self, key: K, done: asyncio.Future[V]) -> None:
        del self._asked[key]
        if done.cancelled() or done.exception() is not None:
            return
        value = done.result()
        self._known[key] = self._clock.elapsed() + self._lifetime(value), value
        self._known.move_to_end(key)
        while len(self._known) > self._most:
            self._known.popitem(last=False)
