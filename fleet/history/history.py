"""The history as the rest of the house knows it: take in attempts, answer questions, stay out of the way."""

from __future__ import annotations

from typing import Self

from fleet.clock import Clock, SystemClock, epoch_nanoseconds
from fleet.errors import ConfigurationError, HistoryUnavailable
from fleet.history.buffer import Waiting
from fleet.history.database import Database, is_unavailable, reason_of
from fleet.history.entries import Counts, Health, Source
from fleet.history.queries import Queries
from fleet.history.retention import Limits, Retention
from fleet.history.schema import ensure
from fleet.history.writer import Pace, Writer

__all__ = ["History", "Limits", "Pace"]

_MIB = 1_048_576


class History(Queries):
    """Any thread may ask; questions block, so a loop asks through a thread of its own."""

    def __init__(
        self,
        database: Database,
        *,
        limits: Limits,
        memory_mib: int,
        digests: int,
        keeps_inputs: bool,
        clock: Clock,
        pace: Pace,
    ) -> None:
        super().__init__(database)
        self._clock = clock
        self._retention = Retention(database, limits)
        self._waiting = Waiting(memory=memory_mib * _MIB, most=digests)
        self._writer = Writer(
            database,
            self._waiting,
            clock=clock,
            pace=pace,
            keeps_inputs=keeps_inputs,
            keep_house=self._keep_house,
        )

    @classmethod
    def open(
        cls,
        url: str,
        *,
        may_migrate: bool = False,
        limits: Limits | None = None,
        memory_mib: int = 256,
        digests: int = 200_000,
        keeps_inputs: bool = True,
        clock: Clock | None = None,
        pace: Pace | None = None,
    ) -> Self:
        """For reading; `start` lets it record as well.

        Raises ConfigurationError on a wrong URL and on a schema that has to be made or migrated. A database that cannot
        be reached, or has a newer schema, is no error: it is unavailable until it can be used.
        """
        database = Database(url)
        chosen = clock or SystemClock()
        missed = None
        try:
            ensure(database, may_migrate=may_migrate)
        except ConfigurationError:
            database.close()
            raise
        except Exception as error:
            if not is_unavailable(error):
                database.close()
                raise
            missed = Health(unavailable_since=epoch_nanoseconds(chosen), reason=reason_of(error))
        opened = cls(
            database,
            limits=limits or Limits(),
            memory_mib=memory_mib,
            digests=digests,
            keeps_inputs=keeps_inputs,
            clock=chosen,
            pace=pace or Pace(),
        )
        opened._writer.health = missed or Health()
        return opened

    # --- recording ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to record."""
        self._writer.start()

    def offer(self, source: Source) -> None:
        """Never blocks. What cannot be taken is counted."""
        self._waiting.offer(source)

    def flush(self, *, seconds: float) -> bool:
        """Wait until all that was offered is written or refused; says whether that was so in time."""
        return self._waiting.wait_until_idle(seconds)

    def close(self, *, seconds: float = 5.0) -> None:
        """Write what waits, for that long, and end."""
        self._writer.close(seconds)
        if not self._writer.is_running:
            self._database.close()

    def counts(self) -> Counts:
        return self._writer.counted()

    # --- how it is ----------------------------------------------------------------------------------------------------

    def state(self) -> Health:
        """What the writer knows; without a writer, what the database says now."""
        if self._writer.is_running:
            return self._writer.health
        try:
            self.last_seq()
        except HistoryUnavailable as error:
            since = self._writer.health.unavailable_since or epoch_nanoseconds(self._clock)
            self._writer.health = Health(unavailable_since=since, reason=reason_of(error))
        else:
            self._writer.health = Health()
        return self._writer.health

    @property
    def known_since(self) -> int | None:
        """When the history became unavailable, if that is known, without asking the database again."""
        return self._writer.health.unavailable_since

    def size(self) -> int:
        """Bytes, as retention counts them."""
        return self._retention.size()

    def keep_house(self) -> int:
        """Remove what is not to be kept; says how many attempts went. The writer does it by itself."""
        return self._keep_house(self._writer.session)

    def _keep_house(self, session: str) -> int:
        return self._retention.run(now=epoch_nanoseconds(self._clock), session=session)
