"""Attempts that wait to be written: bounded in memory, and never a reason to wait for who brings them.

While there is room an attempt waits with all it has. From half of the memory on it comes without its columns, from
three quarters on without its inputs, and then only if it changed something: what it decided is kept to the last. When
the memory is used up, or too many wait, the oldest are given up. All of this is counted.

What was taken to be written counts until it is done: a writer that is stuck holds on to it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from fleet.history.entries import Counts, Source
from fleet.history.slim_attempt import Bare

_LARGEST_BATCH: Final = 200  # attempts per transaction; bounds how long others wait for the database
_COLUMNS_UP_TO: Final = 0.5
_INPUTS_UP_TO: Final = 0.75
_LINGERING_UP_TO: Final = 0.25  # leaves room for what comes while it is written, before anything is shed
_MOST_LINGERING: Final = 2_000  # attempts, which are written within the time that a process takes to end
_BURST: Final = 50  # attempts per second


class Waiting:
    def __init__(self, *, memory: int, most: int) -> None:
        """Bytes, and how many attempts may wait at all."""
        self._memory = memory
        self._most = most
        self._ripe = min(_MOST_LINGERING, most * _LINGERING_UP_TO), memory * _LINGERING_UP_TO
        """So many, or so many bytes, are enough to be written."""
        self._queue: deque[tuple[Source, int]] = deque()
        self._held = 0
        """Bytes of what waits and of what is being written."""
        self._in_work = 0
        self._in_work_held = 0
        self._awaited = 0
        """By how many who wait until all is written."""
        self._closed = False
        self._changed = threading.Condition()
        self._counted = dict.fromkeys(("offered", "shed_columns", "shed_inputs", "shed_attempts"), 0)

    # --- who brings them ----------------------------------------------------------------------------------------------

    def offer(self, source: Source) -> None:
        """Takes no lock for longer than it takes to append, and makes nothing of the attempt unless it has to shed."""
        self._counted["offered"] += 1
        taken = self._fitting(source)
        if taken is None or self._closed:
            self._counted["shed_attempts"] += 1
            return
        with self._changed:
            was_empty, was_ripe = not self._queue, self._is_ripe()
            self._queue.append(taken)
            self._held += taken[1]
            self._give_up_the_oldest()
            if was_empty or (self._is_ripe() and not was_ripe):
                self._changed.notify_all()

    def _fitting(self, source: Source) -> tuple[Source, int] | None:
        if self._held + source.weight <= self._memory * _COLUMNS_UP_TO:
            return source, source.weight
        self._counted["shed_columns"] += 1
        if self._held + source.light_weight <= self._memory * _INPUTS_UP_TO:
            return source.without_columns(), source.light_weight
        self._counted["shed_inputs"] += 1
        if not source.changed:
            return None
        bare = Bare(source.without_inputs())
        return bare, bare.weight

    def _give_up_the_oldest(self) -> None:
        while self._queue and (len(self._queue) > self._most or self._held > self._memory):
            self._held -= self._queue.popleft()[1]
            self._counted["shed_attempts"] += 1

    # --- who writes them ----------------------------------------------------------------------------------------------

    def wait_for_some(self, seconds: float) -> bool:
        """Whether there is something to take; returns at once when closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closed, seconds)
            return bool(self._queue)

    def linger(self, *, quiet: float, longest: float, burst: float) -> None:
        """For as long as more keeps coming, and in a burst for longer, because deciding comes first.

        Ends when there is enough of it, or somebody waits for what is there."""
        waited = 0.0
        with self._changed:
            while waited < max(longest, burst):
                known = len(self._queue)
                if self._changed.wait_for(self._is_ripe, quiet):
                    return
                waited += quiet
                came = len(self._queue) - known
                if not came or (waited >= longest and came < _BURST * quiet):
                    return

    def _is_ripe(self) -> bool:
        attempts, held = self._ripe
        return self._closed or self._awaited > 0 or len(self._queue) >= attempts or self._held >= held

    def take(self) -> Sequence[Source]:
        """What waits, oldest first."""
        with self._changed:
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), _LARGEST_BATCH))]
            self._in_work, self._in_work_held = len(batch), sum(weight for _, weight in batch)
            return [source for source, _ in batch]

    def done(self) -> None:
        """Whatever was taken last has found its end."""
        with self._changed:
            self._held -= self._in_work_held
            self._in_work = self._in_work_held = 0
            self._changed.notify_all()

    def pause(self, seconds: Callable[[], float]) -> None:
        """Until the end begins, which it may have done before. Asked how long, the caller knows which of the two."""
        with self._changed:
            was_closed = self._closed
            self._changed.wait_for(lambda: self._closed and not was_closed, seconds())

    # --- both ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Nothing more is taken in; what waits may still be taken out."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def is_closed(self) -> bool:
        return self._closed

    def wait_until_idle(self, seconds: float) -> bool:
        """Whether everything offered so far found its end in time."""
        with self._changed:
            self._awaited += 1
            self._changed.notify_all()
            try:
                return self._changed.wait_for(lambda: not self._queue and not self._in_work, seconds)
            finally:
                self._awaited -= 1

    def __len__(self) -> int:
        return len(self._queue) + self._in_work

    def counted(self) -> Counts:
        return Counts(waiting=len(self), **self._counted)
