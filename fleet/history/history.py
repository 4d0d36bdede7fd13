"""The public interface of the history: record attempts without blocking, and query them."""

from __future__ import annotations

from typing import Self

from fleet.clock import Clock, SystemClock, epoch_nanoseconds
from fleet.errors import ConfigurationError, HistoryUnavailable
from fleet.history.buffer import AttemptBuffer
from fleet.history.database import HistoryDatabase, is_unavailable, reason_of
from fleet.history.entries import AttemptSource, HistoryCounts, HistoryHealth
from fleet.history.queries import Queries
from fleet.history.retention import Retention, RetentionLimits
from fleet.history.schema import ensure_schema
from fleet.history.writer import HistoryWriter, WriterTiming

__all__ = ["History", "RetentionLimits", "WriterTiming"]

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
    ) -> None:
        super().__init__(database)
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
    ) -> Self:
        """Open for reading; `start` also enables recording.

        Raises ConfigurationError on a wrong URL and on a schema that has to be created or migrated. An unreachable
        database, or one with a newer schema, is not an error: the history is unavailable until it can be used.
        """
        database = HistoryDatabase(url)
        chosen = clock or SystemClock()
        outage = None
        try:
            ensure_schema(database, may_migrate=may_migrate)
        except ConfigurationError:
            database.close()
            raise
        except Exception as error:
            if not is_unavailable(error):
                database.close()
                raise
            outage = HistoryHealth(unavailable_since=epoch_nanoseconds(chosen), reason=reason_of(error))
        opened = cls(
            database,
            limits=limits or RetentionLimits(),
            memory_mib=memory_mib,
            digests=digests,
            keeps_inputs=keeps_inputs,
            clock=chosen,
            pace=pace or WriterTiming(),
        )
        opened._writer.health = outage or HistoryHealth()
        return opened

    # --- recording ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start recording."""
        self._writer.start()

    def offer(self, source: AttemptSource) -> None:
        """Never blocks. Attempts that do not fit are shed and counted."""
        self._buffer.offer(source)

    def flush(self, *, seconds: float) -> bool:
        """Wait until everything offered is written or given up; returns False on a timeout."""
        return self._buffer.wait_until_idle(seconds)

    def close(self, *, seconds: float = 5.0) -> None:
        """Write buffered attempts for up to `seconds`, then stop."""
        self._writer.close(seconds)
        if not self._writer.is_running:
            self._database.close()

    @property
    def revision(self) -> tuple[object, ...]:
        """Differs after every change that this process has made, and after outages that its writer has noticed."""
        counts = self._writer.read_counts()
        return counts.written, counts.folded, self._retention_runs, self._writer.health

    def counts(self) -> HistoryCounts:
        return self._writer.read_counts()

    # --- health -------------------------------------------------------------------------------------------------------

    def state(self) -> HistoryHealth:
        """The state seen by the writer; without a running writer, of a query made now."""
        if self._writer.is_running:
            return self._writer.health
        try:
            self.last_seq()
        except HistoryUnavailable as error:
            since = self._writer.health.unavailable_since or epoch_nanoseconds(self._clock)
            self._writer.health = HistoryHealth(unavailable_since=since, reason=reason_of(error))
        else:
            self._writer.health = HistoryHealth()
        return self._writer.health

    @property
    def known_since(self) -> int | None:
        """When the history became unavailable, as far as known without a query."""
        return self._writer.health.unavailable_since

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
