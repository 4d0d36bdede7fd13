"""The public interface of the history: record attempts without blocking, and query them."""

from __future__ import annotations

from contextlib import suppress
from typing import Self

from fleet.clock import Clock, SystemClock, epoch_nanoseconds
from fleet.errors import HistoryUnavailable
from fleet.history.buffer import AttemptBuffer
from fleet.history.entries import AttemptSource, HistoryCounts, HistoryHealth
from fleet.history.monitor import HistoryMonitor, MonitorTiming
from fleet.history.queries import Queries
from fleet.history.retention import Retention, RetentionLimits
from fleet.history.storage.database import HistoryDatabase, call_within
from fleet.history.storage.schema import ensure_schema
from fleet.history.writer import HistoryWriter, WriterTiming

__all__ = ["History", "MonitorTiming", "RetentionLimits", "WriterTiming"]

_MIB = 1_048_576


class History(Queries):
    """Thread-safe. Queries block, so an event loop must run them in a thread."""

    def __init__(
        self,
        database: HistoryDatabase,
        *,
        limits: RetentionLimits,
        memory_mib: int,
        digests: int,
        keeps_inputs: bool,
        clock: Clock,
        pace: WriterTiming,
        looks: MonitorTiming,
        may_migrate: bool,
    ) -> None:
        self._monitor = HistoryMonitor(
            database,
            clock=clock,
            timing=looks,
            is_recording=lambda: self._writer.is_running,
            prepare=lambda: ensure_schema(database, may_migrate=may_migrate),
        )
        super().__init__(database, guard=self._monitor.guard)
        self._clock = clock
        self._retention = Retention(database, limits)
        self._retention_runs = 0
        self._buffer = AttemptBuffer(memory=memory_mib * _MIB, most=digests)
        self._writer = HistoryWriter(
            database,
            self._buffer,
            clock=clock,
            pace=pace,
            keeps_inputs=keeps_inputs,
            run_retention=self._run_retention,
            most_growth=limits.max_mib * _MIB // 4,
            monitor=self._monitor,
        )

    @classmethod
    def open(
        cls,
        url: str,
        *,
        may_migrate: bool = False,
        limits: RetentionLimits | None = None,
        memory_mib: int = 256,
        digests: int = 200_000,
        keeps_inputs: bool = True,
        clock: Clock | None = None,
        pace: WriterTiming | None = None,
        looks: MonitorTiming | None = None,
        patience: float | None = None,
    ) -> Self:
        """Open for reading; `start` also enables recording, `watch` only the background look at the database.

        Raises ConfigurationError on a wrong URL only. Whatever else is wrong with the database is not an error: the
        history is unavailable until it can be used. After `patience` seconds, by default those of `looks`, the first
        look goes on in the background.
        """
        timing = looks or MonitorTiming()
        opened = cls(
            HistoryDatabase(url),
            limits=limits or RetentionLimits(),
            memory_mib=memory_mib,
            digests=digests,
            keeps_inputs=keeps_inputs,
            clock=clock or SystemClock(),
            pace=pace or WriterTiming(),
            looks=timing,
            may_migrate=may_migrate,
        )
        with suppress(HistoryUnavailable):
            call_within(timing.patience if patience is None else patience, opened._monitor.look)
        return opened

    # --- recording ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start recording, and looking at the database in the background."""
        self._writer.start()
        self._monitor.start()

    def watch(self) -> None:
        """Start looking at the database in the background, for a process that only reads."""
        self._monitor.start()

    def offer(self, source: AttemptSource) -> None:
        """Never blocks. Attempts that do not fit are shed and counted."""
        self._buffer.offer(source)

    def flush(self, *, seconds: float) -> bool:
        """Wait until everything offered is written or given up; returns False on a timeout."""
        return self._buffer.wait_until_idle(seconds)

    def close(self, *, seconds: float = 5.0) -> None:
        """Write buffered attempts for up to `seconds`, then stop."""
        self._monitor.close(min(seconds, 1.0))
        self._writer.close(seconds)
        if not self._writer.is_running:
            self._database.close()

    @property
    def revision(self) -> tuple[object, ...]:
        """Differs after every change that this process has made, and after outages that its writer has noticed."""
        counts = self._writer.read_counts()
        return counts.written, counts.folded, self._retention_runs, self.known_since

    def counts(self) -> HistoryCounts:
        return self._writer.read_counts()

    # --- health -------------------------------------------------------------------------------------------------------

    def state(self) -> HistoryHealth:
        """As the writer and the monitor know it; if neither runs, as a look finds it now."""
        if not self._writer.is_running and not self._monitor.is_running:
            self._monitor.look()
        return self._known_health

    @property
    def known_since(self) -> int | None:
        """When the history became unavailable, as far as known without a query."""
        return self._known_health.unavailable_since

    @property
    def _known_health(self) -> HistoryHealth:
        """The older one of two outages."""
        writer, monitor = self._writer.health, self._monitor.health
        if writer.unavailable_since is None or monitor.unavailable_since is None:
            return monitor if writer.unavailable_since is None else writer
        return min(writer, monitor, key=lambda health: health.unavailable_since or 0)

    def report_timeout(self, seconds: float) -> HistoryUnavailable:
        """A query has not ended after this time: until a look succeeds, others are refused. Returns the error."""
        error = HistoryUnavailable(f"the history {self._database.name} has not answered for {seconds:g} s")
        self._monitor.report(error)
        return error

    def size(self) -> int:
        """Bytes, as retention counts them."""
        return self._retention.size()

    def run_retention(self) -> int:
        """Remove expired records and return the number of removed attempts. The writer also runs it periodically."""
        return self._run_retention(self._writer.session)

    def _run_retention(self, session: str) -> int:
        try:
            return self._retention.run(now=epoch_nanoseconds(self._clock), session=session)
        finally:
            self._retention_runs += 1
