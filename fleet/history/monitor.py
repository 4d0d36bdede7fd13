"""The monitor of the history's database: looks at it in the background, and refuses queries while it does not answer.

A query that fails opens the circuit breaker and makes the next look due at once; a look that succeeds closes it. So
only the first queries wait for a database that hangs, and after a short outage the next ones are answered. The state is
known without a query.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import structlog

from fleet.clock import Clock, epoch_nanoseconds
from fleet.errors import FleetError, HistoryUnavailable
from fleet.history.entries import HistoryHealth
from fleet.history.storage.database import HistoryDatabase, reason_of
from fleet.history.storage.schema import check_schema

_FINE: Final = HistoryHealth()

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorTiming:
    """Seconds."""

    interval: float = 15.0
    """Between two looks."""
    patience: float = 10.0
    """After this without an answer the database is unavailable. With the interval, the longest time until that is
    known."""


class HistoryMonitor:
    def __init__(
        self,
        database: HistoryDatabase,
        *,
        clock: Clock,
        timing: MonitorTiming,
        is_recording: Callable[[], bool],
        prepare: Callable[[], None],
    ) -> None:
        """While `is_recording`, a look also tries to begin a write transaction. `prepare` makes the tables: the first
        look calls it if the database cannot be read, later ones only while recording."""
        self._database = database
        self._clock = clock
        self._timing = timing
        self._is_recording = is_recording
        self._prepare = prepare
        self._is_prepared = False
        self._changed = threading.Condition()
        self._is_due = True
        self._is_closed = False
        self._looking_since: tuple[float, int] | None = None
        """Monotonic time, and nanoseconds since the epoch."""
        self._reading = self._writing = _FINE
        self._writes = 0
        """Batches that were written."""
        self._look = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="fleet-history-monitor", daemon=True)

    def start(self) -> None:
        if self._thread.ident is None:
            self._thread.start()

    def close(self, seconds: float) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(seconds)

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    # --- state --------------------------------------------------------------------------------------------------------

    @property
    def health(self) -> HistoryHealth:
        """As the last look found it, or the one that does not end."""
        return min((self.read_health, self._writing), key=lambda health: health.unavailable_since or _NEVER)

    @property
    def read_health(self) -> HistoryHealth:
        began, reading = self._looking_since, self._reading
        if reading.unavailable_since is None and began is not None:
            waited = self._clock.monotonic() - began[0]
            if waited > self._timing.patience:
                reason = f"the history {self._database.name} has not answered for {waited:.0f} s"
                return HistoryHealth(unavailable_since=began[1], reason=reason)
        return reading

    # --- the circuit breaker ------------------------------------------------------------------------------------------

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Around every query. Raises HistoryUnavailable at once while the database does not answer."""
        health = self.read_health
        if self.is_running and health.unavailable_since is not None:
            raise HistoryUnavailable(health.reason)
        try:
            yield
        except HistoryUnavailable as error:
            self.report(error)
            raise

    def report(self, error: Exception) -> None:
        """A query failed, or took too long."""
        if self.is_running:
            self._reading = self._record(self._reading, error)
            self.wake()

    def confirm_write(self, *, is_recovered: bool) -> None:
        """A batch was written; `is_recovered`: after others had failed."""
        self._writes += 1
        if is_recovered:
            self._reading = self._writing = _FINE
        elif self.health.unavailable_since is not None:
            self.wake()

    def wake(self) -> None:
        """The next look is due now."""
        with self._changed:
            self._is_due = True
            self._changed.notify_all()

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while self._wait():
            self.look()

    def _wait(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._is_due or self._is_closed, self._timing.interval)
            self._is_due = False
            return not self._is_closed

    def look(self) -> HistoryHealth:
        """Look now, in this thread. Repeated once if a batch was written meanwhile: what failed may be over."""
        with self._look:
            writes = self._writes
            read, write = self._try_database()
            if writes != self._writes and (read is not None or write is not None):
                read, write = self._try_database()
            was_available = self._reading.unavailable_since is None
            self._reading = self._record(self._reading, read)
            self._writing = self._record(self._writing, write)
        if was_available and read is not None and not self._is_closed:
            log.warning("the history is unavailable; retrying", error=reason_of(read))
        return self.health

    def _try_database(self) -> tuple[Exception | None, Exception | None]:
        """What reading and writing fail with."""
        self._looking_since = self._clock.monotonic(), epoch_nanoseconds(self._clock)
        try:
            read = self._try_reading()
            if read is not None and (self._is_recording() or not self._is_prepared):
                failed = _catch(self._prepare)
                # An error of the database itself names neither the history nor what was tried.
                read = failed if isinstance(failed, FleetError) else self._try_reading()
            self._is_prepared = True
            return read, _catch(self._database.check_writable) if read is None and self._is_recording() else None
        finally:
            self._looking_since = None

    def _try_reading(self) -> Exception | None:
        return _catch(lambda: check_schema(self._database))

    def _record(self, health: HistoryHealth, error: Exception | None) -> HistoryHealth:
        if error is None:
            return _FINE
        since = health.unavailable_since or (self._looking_since or (0.0, epoch_nanoseconds(self._clock)))[1]
        return HistoryHealth(unavailable_since=since, reason=reason_of(error))


_NEVER: Final = 1 << 63


def _catch(work: Callable[[], None]) -> Exception | None:
    try:
        work()
    except Exception as error:
        return error
    return None
