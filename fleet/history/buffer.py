"""Buffer of attempts that wait to be written: bounded in memory, and never blocking the scheduler.

While there is room, attempts are buffered whole. Above half of the memory they are buffered without their columns, and
above three quarters without their inputs and only if they changed something: the decision itself is shed last. When the
memory is used up, or there are too many attempts, the oldest are dropped. Everything shed is counted.

A batch counts as buffered until it is written, because a stuck writer still holds it in memory.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from fleet.history.entries import AttemptSource, HistoryCounts
from fleet.history.storage.encoding import SlimAttempt

_LARGEST_BATCH: Final = 200  # attempts per transaction; bounds how long other clients wait for the database
_COLUMNS_UP_TO: Final = 0.5
_INPUTS_UP_TO: Final = 0.75
_LINGERING_UP_TO: Final = 0.25  # leaves room for attempts that arrive during the write, before anything is shed
_MOST_LINGERING: Final = 2_000  # attempts; few enough to be written during shutdown
_BURST: Final = 50  # attempts per second


class AttemptBuffer:
    def __init__(self, *, memory: int, most: int) -> None:
        """`memory` in bytes; `most` is the maximum number of attempts."""
        self._memory = memory
        self._most = most
        self._enough = min(_MOST_LINGERING, most * _LINGERING_UP_TO), memory * _LINGERING_UP_TO
        """Attempts, or bytes, that are enough to write without waiting for more."""
        self._queue: deque[tuple[AttemptSource, int]] = deque()
        self._held_bytes = 0
        """Bytes of buffered attempts and of the batch in flight."""
        self._in_flight = 0
        self._in_flight_bytes = 0
        self._flushes = 0
        """Number of callers that wait until everything is written."""
        self._closed = False
        self._changed = threading.Condition()
        self._counters = dict.fromkeys(("offered", "shed_columns", "shed_inputs", "shed_attempts"), 0)

    # --- producers ----------------------------------------------------------------------------------------------------

    def offer(self, source: AttemptSource) -> None:
        """Holds the lock only to append, and serializes the attempt only if it has to shed."""
        self._counters["offered"] += 1
        taken = self._shed_to_fit(source)
        if taken is None or self._closed:
            self._counters["shed_attempts"] += 1
            return
        with self._changed:
            was_empty, was_ripe = not self._queue, self._has_enough()
            self._queue.append(taken)
            self._held_bytes += taken[1]
            self._drop_oldest()
            if was_empty or (self._has_enough() and not was_ripe):
                self._changed.notify_all()

    def _shed_to_fit(self, source: AttemptSource) -> tuple[AttemptSource, int] | None:
        if self._held_bytes + source.weight <= self._memory * _COLUMNS_UP_TO:
            return source, source.weight
        self._counters["shed_columns"] += 1
        if self._held_bytes + source.light_weight <= self._memory * _INPUTS_UP_TO:
            return source.without_columns(), source.light_weight
        self._counters["shed_inputs"] += 1
        if not source.changed:
            return None
        slim = SlimAttempt(source.without_inputs())
        return slim, slim.weight

    def _drop_oldest(self) -> None:
        while self._queue and (len(self._queue) > self._most or self._held_bytes > self._memory):
            self._held_bytes -= self._queue.popleft()[1]
            self._counters["shed_attempts"] += 1

    # --- the writer ---------------------------------------------------------------------------------------------------

    def wait_for_attempts(self, seconds: float) -> bool:
        """Whether there are attempts; returns at once when closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closed, seconds)
            return bool(self._queue)

    def linger(self, *, quiet: float, longest: float, burst: float) -> None:
        """Wait while more attempts keep arriving, and longer in a burst, because scheduling has priority.

        Ends when there are enough for a batch, or when `wait_until_idle` is waiting."""
        waited = 0.0
        with self._changed:
            while waited < max(longest, burst):
                known = len(self._queue)
                if self._changed.wait_for(self._has_enough, quiet):
                    return
                waited += quiet
                came = len(self._queue) - known
                if not came or (waited >= longest and came < _BURST * quiet):
                    return

    def _has_enough(self) -> bool:
        attempts, held = self._enough
        return self._closed or self._flushes > 0 or len(self._queue) >= attempts or self._held_bytes >= held

    def take_batch(self) -> Sequence[AttemptSource]:
        """The oldest attempts; they stay in flight until `finish_batch`."""
        with self._changed:
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), _LARGEST_BATCH))]
            self._in_flight, self._in_flight_bytes = len(batch), sum(weight for _, weight in batch)
            return [source for source, _ in batch]

    def finish_batch(self) -> None:
        """The batch in flight was written or given up."""
        with self._changed:
            self._held_bytes -= self._in_flight_bytes
            self._in_flight = self._in_flight_bytes = 0
            self._changed.notify_all()

    def wait_before_retry(self, seconds: Callable[[], float]) -> None:
        """Wait until closed. `seconds` is evaluated under the lock, so that the caller sees whether it is closed."""
        with self._changed:
            was_closed = self._closed
            self._changed.wait_for(lambda: self._closed and not was_closed, seconds())

    # --- state --------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Accept no more attempts; buffered ones can still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def is_closed(self) -> bool:
        return self._closed

    def wait_until_idle(self, seconds: float) -> bool:
        """Whether everything offered so far was written or given up in time."""
        with self._changed:
            self._flushes += 1
            self._changed.notify_all()
            try:
                return self._changed.wait_for(lambda: not self._queue and not self._in_flight, seconds)
            finally:
                self._flushes -= 1

    def __len__(self) -> int:
        return len(self._queue) + self._in_flight

    def read_counts(self) -> HistoryCounts:
        return HistoryCounts(waiting=len(self), **self._counters)
