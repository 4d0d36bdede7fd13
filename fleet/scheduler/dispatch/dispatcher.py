"""Dispatcher: sends calls to the API server, several at a time, never two about one object, and as few as possible.

Every type of call has its own slots and its own rate limit (`CallType.call_class`), so a flood of status writes that
waits for its rate limit does not delay the others. A slot is taken before a call is chosen: waiting calls can still be
merged, replaced, rebased on a newer object, or dropped as no-ops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

from fleet.clock import Clock
from fleet.errors import QueueClosed
from fleet.kube.cache.store import Store
from fleet.scheduler.dispatch.call_queue import Call, CallOutcome, CallQueue, CallResult, CallType, QueuedCall

T = TypeVar("T")
S = TypeVar("S")

CONCURRENCY: Final = 32

ObserveCall = Callable[[CallType, CallResult, float], None]
"""Called after every call that was sent, with its type, its result and its duration in seconds."""


class Dispatcher:
    def __init__(
        self, *, clock: Clock, concurrency: int = CONCURRENCY, on_executed: ObserveCall = lambda *_: None
    ) -> None:
        """`concurrency` limits the calls of one type in flight."""
        self._calls = CallQueue()
        self._clock = clock
        self._on_executed = on_executed
        self._free = dict.fromkeys(CallType, concurrency)
        self._group: asyncio.TaskGroup | None = None
        self._closing = asyncio.Event()

    def submit(self, call: Call[T]) -> asyncio.Future[CallOutcome[T]]:
        """The future is always resolved, never with an exception. Cancel it to withdraw a call that still waits."""
        future: asyncio.Future[CallOutcome[T]] = asyncio.get_running_loop().create_future()
        if self._closing.is_set():
            future.set_result(_closed_outcome())
            return future
        self._calls.add(call, future)
        self._send_next(call.type)
        return future

    def follow(self, store: Store[S]) -> None:
        """Rebases waiting calls on every newer object that the store receives."""
        metadata_of = store.codec.metadata_of

        def on_change(_: S | None, new: S | None) -> None:
            if new is not None and len(self._calls):
                self.rebase(metadata_of(new).uid, new)

        store.subscribe(on_change)

    def rebase(self, key: str, fresh: object) -> None:
        self._calls.rebase(key, fresh)

    def count_waiting(self) -> dict[CallType, int]:
        """Calls that wait for a slot, or for another call about their object."""
        return self._calls.count_waiting()

    async def run(self) -> None:
        """Until closed, and then until the last call in flight is answered."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for type in CallType:
                    self._send_next(type)
                await self._closing.wait()
            finally:
                self.close()

    def close(self) -> None:
        """Stops sending. Waiting calls fail with QueueClosed."""
        self._closing.set()
        for queued in self._calls.clear():
            queued.resolve(_closed_outcome())

    # --- inside -------------------------------------------------------------------------------------------------------

    def _send_next(self, type: CallType) -> None:
        """As many as there are slots for."""
        group = self._group
        if group is not None and not self._closing.is_set():
            while self._free[type] and (queued := self._calls.pop(type)):
                self._free[type] -= 1
                group.create_task(self._execute(queued), name=f"{type.call_class} {queued.key}")

    async def _execute(self, queued: QueuedCall) -> None:
        type, started = queued.call.type, self._clock.monotonic()
        sent: CallOutcome[Any] | None = None
        try:
            sent = await _send(queued.call)
        finally:
            outcome = _closed_outcome() if sent is None else sent
            self._free[type] += 1
            queued.resolve(outcome)
            successor = self._calls.finish(queued)
            self._on_executed(type, outcome.result, self._clock.monotonic() - started)
            self._send_next(type)
            if successor is not None and successor is not type:
                self._send_next(successor)


async def _send(call: Call[T]) -> CallOutcome[T]:
    try:
        return CallOutcome(CallResult.DONE, await call.send())
    except Exception as error:  # every error is the caller's to handle
        return CallOutcome(CallResult.FAILED, error=error)


def _closed_outcome() -> CallOutcome[Any]:
    return CallOutcome(CallResult.FAILED, error=QueueClosed("the write was not sent: the dispatcher is closed"))
