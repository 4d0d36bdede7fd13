"""Connections on their way.

An opening is never cancelled together with whoever waits for it: at certain moments asyncio would forget the socket,
which then stays open for as long as the server likes. It goes on, bounded, and what comes of it is used by the next or
hung up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

WITHIN: Final = 30.0
"""Seconds that an opening may take."""
_TO_FINISH: Final = 1.0
"""Seconds after which an opening waits for the server and for nothing else, so that it can be cancelled safely."""

T = TypeVar("T")


class NotConnected(ConnectionError):
    """There was no connection, so nothing was sent."""


class Dialer(Generic[T]):
    """`left_over` gets the connections that nobody waits for any more."""

    def __init__(self, *, left_over: Callable[[T], object]) -> None:
        self._left_over = left_over
        self._under_way: set[asyncio.Task[T]] = set()

    async def wait_for(self, opening: Coroutine[Any, Any, T]) -> T:
        task = asyncio.create_task(_bounded(opening), name="opening a connection")
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        try:
            await asyncio.wait((task,))  # newer Pythons call it an error if what `asyncio.shield` was left for fails
        except asyncio.CancelledError:
            task.add_done_callback(self._take_back)
            raise
        return task.result()

    async def close(self) -> None:
        """Returns when none is under way. What comes meanwhile is for those who wait, or for `left_over`."""
        under_way = set(self._under_way)
        if not under_way:
            return
        _, late = await asyncio.wait(under_way, timeout=_TO_FINISH)
        for task in late:
            task.cancel()
        await asyncio.wait(under_way)

    def _take_back(self, task: asyncio.Task[T]) -> None:
        if not task.cancelled() and task.exception() is None:
            self._left_over(task.result())


async def _bounded(opening: Coroutine[Any, Any, T]) -> T:
    try:
        async with asyncio.timeout(WITHIN):
            return await opening
    except TimeoutError as error:
        raise NotConnected(str(error) or f"no connection within {WITHIN:g} s") from error
    except asyncio.CancelledError as error:  # by `close`: those who wait are not cancelled
        raise NotConnected("the transport was closed") from error
