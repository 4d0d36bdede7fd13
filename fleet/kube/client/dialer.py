"""Dialer: opens connections in tasks of their own.

Opening a connection is not cancelled together with its caller: at certain moments asyncio would lose the socket, which
then stays open until the server closes it. It continues, with a timeout, and the connection goes to the pool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

TIMEOUT: Final = 30.0
"""Seconds for opening a connection."""
_GRACE: Final = 1.0
"""Seconds after which opening only waits for the server, so that it can be cancelled safely."""

T = TypeVar("T")


class NotConnected(ConnectionError):
    """There is no connection, so no request was sent."""


class Dialer(Generic[T]):
    def __init__(self, *, on_unclaimed: Callable[[T], object]) -> None:
        """`on_unclaimed` gets connections whose callers were cancelled."""
        self._on_unclaimed = on_unclaimed
        self._tasks: set[asyncio.Task[T]] = set()

    async def dial(self, opening: Coroutine[Any, Any, T]) -> T:
        task = asyncio.create_task(_with_timeout(opening), name="opening a connection")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await asyncio.wait((task,))  # newer Pythons report failures of tasks that `asyncio.shield` abandoned
        except asyncio.CancelledError:
            task.add_done_callback(self._hand_over)
            raise
        return task.result()

    async def close(self) -> None:
        """Returns when no connection is being opened."""
        tasks = set(self._tasks)
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=_GRACE)
        for task in late:
            task.cancel()
        await asyncio.wait(tasks)

    def _hand_over(self, task: asyncio.Task[T]) -> None:
        if not task.cancelled() and task.exception() is None:
            self._on_unclaimed(task.result())


async def _with_timeout(opening: Coroutine[Any, Any, T]) -> T:
    try:
        async with asyncio.timeout(TIMEOUT):
            return await opening
    except TimeoutError as error:
        raise NotConnected(str(error) or f"no connection within {TIMEOUT:g} s") from error
    except asyncio.CancelledError as error:  # by `close`: callers are not cancelled
        raise NotConnected("the transport was closed") from error
