"""The one thread that writes: it makes rows of attempts, and keeps trying when the database is not there.

Whatever happens here happens to the history only. Rows that the database refuses are left out and counted; a database
that is locked, full, gone or of an unknown schema is asked again, and what waits meanwhile is shed by `waiting`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
import sqlalchemy as sql
import structlog

from fleet.clock import Clock, epoch_nanoseconds
from fleet.history.buffer import Waiting
from fleet.history.database import Database, is_unavailable, reason_of
from fleet.history.encoding import pack_columns, pack_inputs
from fleet.history.entries import Counts, Health, Part, Source
from fleet.history.inserts import Batch, Entry, Heads, add, was_written, write
from fleet.history.journal import Journal
from fleet.history.rows import attempt_of
from fleet.history.schema import ensure

_HOUSEKEEPING: Final = 600.0  # seconds between two rounds of retention
_DOUBLINGS: Final = 6
_PARTS: Final = ("columns", "inputs")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds."""

    linger: float = 1.0
    """How long an attempt waits at most for others to share a transaction with, which costs as much as several."""
    quiet: float = 0.2
    """When none came for so long, it waits no longer."""
    burst: float = 5.0
    """How long it waits at most while so many come that writing them would hold up those who decide."""
    retry: float = 0.25
    """After a first failure; each further one doubles it, six times."""


class Writer:
    def __init__(
        self,
        database: Database,
        waiting: Waiting,
        *,
        clock: Clock,
        pace: Pace,
        keeps_inputs: bool,
        keep_house: Callable[[str], object],
    ) -> None:
        """`keep_house` removes what is too old; it is given the session that must stay."""
        self._database = database
        self._waiting = waiting
        self._clock = clock
        self._pace = pace
        self._keeps_inputs = keeps_inputs
        self._keep_house = keep_house
        self._heads = Heads()
        self._journal = Journal()
        self._told_by: object = None
        self._is_checked = False
        self._failures = 0
        self._deadline: float | None = None
        self._tidied = clock.elapsed()
        self._counted = {"written": 0, "folded": 0, "failed": 0}
        self.health = Health()
        self._thread = threading.Thread(target=self._run, name="fleet-history-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, seconds: float) -> None:
        """Write what waits, for that long; the rest is counted as failed."""
        self._deadline = self._clock.elapsed() + seconds
        self._waiting.close()
        if self._thread.is_alive():
            self._thread.join(seconds)
        left = len(self._waiting)
        if left:
            self._count(failed=left)
            log.warning("attempts were not recorded before the end", attempts=left)

    @property
    def session(self) -> str:
        return self._journal.id

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def counted(self) -> Counts:
        return replace(self._waiting.counted(), **self._counted)

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_late() and not (self._waiting.is_closed and not len(self._waiting)):
            sources = self._next()
            if sources and not self._store(sources):
                return
            self._waiting.done()
            if not self._waiting.is_closed and self._clock.elapsed() - self._tidied >= _HOUSEKEEPING:
                self._tidy()

    def _next(self) -> Sequence[Source]:
        if not len(self._waiting):
            if not self._waiting.wait_for_some(_HOUSEKEEPING):
                return ()
            self._waiting.linger(quiet=self._pace.quiet, longest=self._pace.linger, burst=self._pace.burst)
        return self._waiting.take()

    def _store(self, sources: Sequence[Source]) -> bool:
        """Returns when they are written or refused for good; False when the time is up."""
        batch: Batch | None = None
        while True:
            try:
                self._check()
                if batch is None:
                    self._load_heads(sources)
                    batch = self._prepared(sources)
                elif was_written(self._database, batch):
                    self._written(batch)
                    return True
                write(self._database, batch)
                self._written(batch)
                return True
            except Exception as error:
                if not is_unavailable(error):
                    self._write_one_by_one(batch, error, count=len(sources))
                    return True
                self._unavailable(error)
            if self._is_late():
                return False
            self._waiting.pause(self._until_next_try)

    def _until_next_try(self) -> float:
        """At the end in short intervals, and as long as there is time."""
        if self._deadline is None:
            return self._pace.retry * (1 << min(self._failures - 1, _DOUBLINGS))
        return max(min(self._pace.retry, self._deadline - self._clock.elapsed()), 0.0)

    def _check(self) -> None:
        if not self._is_checked:
            ensure(self._database, may_migrate=False)
            self._is_checked = True

    def _load_heads(self, sources: Sequence[Source]) -> None:
        unknown = self._heads.unknown({source.key for source in sources})
        if not unknown:
            return
        with self._database.reading() as connection:
            self._heads.load(connection, unknown, read=attempt_of)

    # --- from sources to rows -----------------------------------------------------------------------------------------

    def _prepared(self, sources: Sequence[Source]) -> Batch:
        batch = Batch(at=epoch_nanoseconds(self._clock))
        self._journal.resume(batch.at)
        for source in sources:
            try:
                entry = add(batch, source.attempt(), self._heads)
            except Exception as error:
                self._refused(error)
                continue
            if entry is not None:
                self._complete(entry, source, batch)
        batch.session = "" if self._journal.is_new else self._journal.id
        return batch

    def _complete(self, entry: Entry, source: Source, batch: Batch) -> None:
        """With what may be missing: an attempt without its inputs is still an attempt."""
        known: dict[str, Any] = {name: Part.SHED if name in source.shed else Part.NONE for name in _PARTS}
        try:
            inputs = source.inputs() if self._keeps_inputs else None
            if inputs is not None:
                entry.inputs, known["inputs"] = pack_inputs(inputs), Part.KEPT
                known["frame_seq"] = self._journalled(source, batch)
            columns = source.columns(with_names=entry.inputs is None)
            if columns is not None:
                entry.columns, known["columns"] = pack_columns(columns), Part.KEPT
        except Exception as error:
            log.warning("an attempt is recorded without its inputs", attempt=entry.attempt.id, exc_info=error)
            known, entry.inputs, entry.columns = dict.fromkeys(_PARTS, Part.SHED), None, None
            self._journal.restart()
        entry.attempt = msgspec.structs.replace(entry.attempt, session=self._journal.id, **known)

    def _journalled(self, source: Source, batch: Batch) -> int:
        if source.fleet is not self._told_by:
            self._journal.restart()
            self._told_by = source.fleet
        is_whole = self._journal.wants_all
        rows = source.clusters(anew=is_whole)
        if self._journal.is_new:
            batch.begun.append(self._journal.begin(rows))
        batch.journal += self._journal.packed(rows, is_whole=is_whole)
        return self._journal.seq

    # --- what became of them ------------------------------------------------------------------------------------------

    def _written(self, batch: Batch) -> None:
        self._heads.written(batch)
        self._count(written=len(batch.entries), folded=batch.folded)
        self._failures = 0
        if self.health.unavailable_since is not None:
            log.warning("the history is available again")
            self.health = Health()

    def _unavailable(self, error: Exception) -> None:
        self._failures += 1
        self._is_checked = False
        reason = reason_of(error)
        if self.health.unavailable_since is None:
            log.warning("the history is unavailable and tried again", error=reason)
            self.health = Health(unavailable_since=epoch_nanoseconds(self._clock), reason=reason)
        else:
            self.health = replace(self.health, reason=reason)

    def _write_one_by_one(self, batch: Batch | None, error: Exception, *, count: int) -> None:
        """Something in the batch cannot be written. The others are, without what leans on the batch as a whole."""
        self._journal.restart()
        if batch is None:
            self._refused(error, count)
            return
        self._heads.forget(batch.heads)
        for entry in batch.entries:
            entry.inputs = entry.columns = None
            lost: dict[str, Any] = {name: Part.SHED for name in _PARTS if getattr(entry.attempt, name) is Part.KEPT}
            entry.attempt = msgspec.structs.replace(entry.attempt, frame_seq=None, **lost)
            self._write_alone(entry)

    def _write_alone(self, entry: Entry) -> None:
        batch, heads = Batch(at=epoch_nanoseconds(self._clock)), Heads()
        try:
            with self._database.reading() as connection:
                heads.load(connection, [entry.attempt.key], read=attempt_of)
            added = add(batch, entry.attempt, heads)
            if added is not None:
                added.repeats, added.last_at = entry.repeats, entry.last_at
            write(self._database, batch)
            self._count(written=len(batch.entries), folded=batch.folded)
        except Exception as error:
            self._refused(error)

    def _refused(self, error: Exception, count: int = 1) -> None:
        told = isinstance(error, sql.exc.SQLAlchemyError)
        log.error("an attempt could not be recorded", error=reason_of(error), exc_info=None if told else error)
        self._count(failed=count)

    def _count(self, **more: int) -> None:
        for name, count in more.items():
            self._counted[name] += count

    def _is_late(self) -> bool:
        return self._deadline is not None and self._clock.elapsed() >= self._deadline

    def _tidy(self) -> None:
        self._tidied = self._clock.elapsed()
        try:
            self._keep_house(self._journal.id)
        except Exception as error:
            log.warning("old records could not be removed, which is tried again", error=reason_of(error))
