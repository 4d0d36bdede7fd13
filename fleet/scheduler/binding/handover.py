"""Handover of an attempt: from the worker that decided it to the writes and waits that follow.

A worker takes the next placement as soon as an attempt is decided. The attempts that write are bounded by slots; one
that waits for an approval holds none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fleet.scheduler.attempt_record import AttemptRecord


class Handover:
    """Of one attempt."""

    def __init__(self, slots: asyncio.Semaphore, *, epoch: int, on_park: Callable[[AttemptRecord], None]) -> None:
        """`epoch` is recorded with the attempt. `on_park` is called with the record so far when it begins to wait."""
        self.epoch = epoch
        self._slots = slots
        self._on_park = on_park
        self._holds_slot = False
        self._left: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def leave_worker(self) -> None:
        """Before the first write. Once a slot is free, the worker is."""
        if not self._left.done():
            await self._take_slot()
            self._left.set_result(None)

    async def wait_until_left(self) -> None:
        await self._left

    def park(self, record: AttemptRecord) -> None:
        """Before a wait."""
        self._release_slot()
        record.epoch = self.epoch
        self._on_park(record)

    def pause(self) -> None:
        """Before a meeting with other attempts."""
        self._release_slot()

    async def resume(self) -> None:
        """After a wait."""
        await self._take_slot()

    def end(self) -> None:
        self._release_slot()
        if not self._left.done():
            self._left.set_result(None)

    async def _take_slot(self) -> None:
        await self._slots.acquire()
        self._holds_slot = True

    def _release_slot(self) -> None:
        if self._holds_slot:
            self._holds_slot = False
            self._slots.release()
