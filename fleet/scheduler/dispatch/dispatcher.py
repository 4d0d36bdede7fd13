"""Sends calls to the API server: several at a time, never two about one object, and as few as possible.

Every type of call has its own slots, and its requests have their own budget (`CallType.call_class`). So a flood of
status writes that waits for its budget holds up nothing else, and within a type placements take turns (`turns`). A slot
is taken before a call is chosen: what has to wait can still be merged, overwritten, re-based on a newer object, or
dropped because nothing is left to change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

from fleet.clock import Clock
from fleet.errors import QueueClosed
from fleet.kube.informer.store import Store
from fleet.scheduler.dispatch.api_calls import Call, CallType, Fate, Outcome
from fleet.scheduler.dispatch.call_queue import Entry, PendingCalls

T = TypeVar("T")
S = TypeVar("S")

CONCURRENCY: Final = 32

OnExecuted = Callable[[CallType, Fate, float], None]
"""Told of every call that was sent: its type, what became of it, and how many seconds it took."""


class Dispatcher:
    def __init__(
        self, *, clock: Clock, concurrency: int = CONCURRENCY, on_executed: OnExecuted = lambda *_: None
    ) -> None:
        """`concurrency` is how many calls of one type may be under way."""
        self._calls = PendingCalls()
        self._clock = clock
        self._on_executed = on_executed
        self._free = dict.fromkeys(CallType, concurrency)
        self._group: asyncio.TaskGroup | None = None
        self._closing = asyncio.Event()

    def submit(self, call: Call[T]) -> asyncio.Future[Outcome[T]]:
        """Always answered, and never with an exception. Cancel the answer to withdraw a call that still waits."""
        answer: asyncio.Future[Outcome[T]] = asyncio.get_running_loop().create_future()
        if self._closing.is_set():
            answer.set_result(_closed())
            return answer
        self._calls.add(call, answer)
        self._send_next(call.type)
        return answer

    def follow(self, store: Store[S]) -> None:
        """Re-bases waiting calls on whatever the store learns about their objects."""
        metadata_of = store.codec.metadata_of

        def tell(_: S | None, new: S | None) -> None:
            if new is not None and len(self._calls):
                self.saw(metadata_of(new).uid, new)

        store.subscribe(tell)

    def saw(self, key: str, fresh: object) -> None:
        self._calls.saw(key, fresh)

    def counts(self) -> dict[CallType, int]:
        """Calls that wait for a slot, or for another call about their object."""
        return self._calls.counts()

    async def run(self) -> None:
        """Until closed, and then until the last call under way is answered."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for type in CallType:
                    self._send_next(type)
                await self._closing.wait()
            finally:
                self.close()

    def close(self) -> None:
        """Nothing more is sent. Who waits for a call that was not sent is told so."""
        self._closing.set()
        for entry in self._calls.clear():
            entry.tell(_closed())

    # --- inside -------------------------------------------------------------------------------------------------------

    def _send_next(self, type: CallType) -> None:
        """As many as there are slots for."""
        group = self._group
        if group is not None and not self._closing.is_set():
            while self._free[type] and (entry := self._calls.pop(type)):
                self._free[type] -= 1
                group.create_task(self._carry_out(entry), name=f"{type.call_class} {entry.key}")

    async def _carry_out(self, entry: Entry) -> None:
        type, started = entry.call.type, self._clock.elapsed()
        outcome: Outcome[Any] = _closed()
        try:
            outcome = await _sent(entry.call)
        finally:
            self._free[type] += 1
            entry.tell(outcome)
            successor = self._calls.done(entry)
            self._on_executed(type, outcome.fate, self._clock.elapsed() - started)
            self._send_next(type)
            if successor is not None and successor is not type:
                self._send_next(successor)


async def _sent(call: Call[T]) -> Outcome[T]:
    try:
        return Outcome(Fate.DONE, await call.send())
    except Exception as error:  # whatever it is, it is the caller's to judge
        return Outcome(Fate.FAILED, error=error)


def _closed() -> Outcome[Any]:
    return Outcome(Fate.FAILED, error=QueueClosed("the write was not sent: the dispatcher is closed"))
