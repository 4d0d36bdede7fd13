"""The writer thread: converts attempts to rows, and retries while the database is unavailable.

A failure here affects the history only. Rows that the database rejects are left out and counted. If the database is
locked, full, unreachable or has an unknown schema, the write is retried, and the buffer sheds attempts meanwhile.
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
from fleet.history.buffer import AttemptBuffer
from fleet.history.entries import AttemptSource, HistoryCounts, HistoryHealth, PartState
from fleet.history.inserts import (
    Batch,
    LatestRecords,
    PendingRow,
    StaleRecords,
    add_attempt,
    is_committed,
    write_batch,
)
from fleet.history.monitor import HistoryMonitor
from fleet.history.storage.database import HistoryDatabase, is_unavailable, reason_of
from fleet.history.storage.encoding import pack_columns, pack_inputs
from fleet.history.storage.journal import ClusterJournal
from fleet.history.storage.rows import build_attempt
from fleet.history.storage.schema import ensure_schema

_HOUSEKEEPING: Final = 600.0  # seconds between two rounds of retention
_BUSY_HOUSEKEEPING: Final = 30.0  # if enough was written since the last one
_DOUBLINGS: Final = 6
_PARTS: Final = ("columns", "inputs")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterTiming:
    """Seconds."""

    linger: float = 1.0
    """How long an attempt waits at most for others to share its transaction, which is the expensive part."""
    quiet: float = 0.2
    """The wait ends when no attempt arrived for this long."""
    burst: float = 5.0
    """The longest wait during a burst, in which writing would slow down the scheduler."""
    retry: float = 0.25
    """Backoff after a first failure; the next six double it."""


class HistoryWriter:
    def __init__(
        self,
        database: HistoryDatabase,
        waiting: AttemptBuffer,
        *,
        clock: Clock,
        pace: WriterTiming,
        keeps_inputs: bool,
        run_retention: Callable[[str], object],
        most_growth: int,
        monitor: HistoryMonitor,
    ) -> None:
        """`run_retention` removes old records; its argument is the session in use. It does not wait for its time when
        more than `most_growth` bytes have been written since."""
        self._database = database
        self._buffer = waiting
        self._clock = clock
        self._pace = pace
        self._keeps_inputs = keeps_inputs
        self._run_retention, self._most_growth = run_retention, most_growth
        self._monitor = monitor
        self._generation = database.generation
        self._latest = LatestRecords()
        self._journal = ClusterJournal()
        self._journal_fleet: object = None
        self._is_schema_checked = False
        self._failures = 0
        self._deadline: float | None = None
        self._last_housekeeping = clock.monotonic()
        self._growth = 0
        """Bytes since then."""
        self._counters = {"written": 0, "folded": 0, "failed": 0}
        self.health = HistoryHealth()
        self._thread = threading.Thread(target=self._run, name="fleet-history-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, seconds: float) -> None:
        """Write buffered attempts for up to `seconds`; the rest is counted as failed."""
        self._deadline = self._clock.monotonic() + seconds
        self._buffer.close()
        if self._thread.is_alive():
            self._thread.join(seconds)
        left = len(self._buffer)
        if left:
            self._add_counts(failed=left)
            log.warning("attempts were not recorded before shutdown", attempts=left)

    @property
    def session(self) -> str:
        return self._journal.id

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def read_counts(self) -> HistoryCounts:
        return replace(self._buffer.read_counts(), **self._counters)

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_late() and not (self._buffer.is_closed and not len(self._buffer)):
            sources = self._next_batch()
            if sources and not self._store_batch(sources):
                return
            self._buffer.finish_batch()
            if not self._buffer.is_closed and self._is_housekeeping_due():
                self._run_housekeeping()

    def _next_batch(self) -> Sequence[AttemptSource]:
        if not len(self._buffer):
            if not self._buffer.wait_for_attempts(_HOUSEKEEPING):
                return ()
            self._buffer.linger(quiet=self._pace.quiet, longest=self._pace.linger, burst=self._pace.burst)
        return self._buffer.take_batch()

    def _store_batch(self, sources: Sequence[AttemptSource]) -> bool:
        """Write or reject all of them, retrying while the database is unavailable; False on the shutdown deadline."""
        batch: Batch | None = None
        while True:
            try:
                self._check_schema()
                if self._is_replaced():
                    batch = None
                if batch is None:
                    self._load_latest(sources)
                    batch = self._build_batch(sources)
                elif is_committed(self._database, batch):
                    self._record_success(batch)
                    return True
                write_batch(self._database, batch)
                self._record_success(batch)
                return True
            except StaleRecords:
                self._discard(batch)
                batch = None
                continue
            except Exception as error:
                if not is_unavailable(error):
                    self._write_one_by_one(batch, error, count=len(sources))
                    return True
                self._record_outage(error)
            if self._is_late():
                return False
            self._buffer.wait_before_retry(self._compute_backoff)

    def _discard(self, batch: Batch | None) -> None:
        """To be built again, on the records of the other writer."""
        log.info("another process records attempts of the same placements")
        self._latest.forget(() if batch is None else batch.latest)
        self._journal.restart()

    def _compute_backoff(self) -> float:
        """Short and constant during shutdown, up to the deadline."""
        if self._deadline is None:
            return self._pace.retry * (1 << min(self._failures - 1, _DOUBLINGS))
        return max(min(self._pace.retry, self._deadline - self._clock.monotonic()), 0.0)

    def _check_schema(self) -> None:
        if not self._is_schema_checked:
            ensure_schema(self._database, may_migrate=False)
            self._is_schema_checked = True

    def _is_replaced(self) -> bool:
        """Whether the file is another one than for the batch before: nothing of that is in it."""
        generation, self._generation = self._generation, self._database.generation
        if generation == self._generation:
            return False
        log.warning("the file of the history was replaced: what was recorded in the former one is not in it")
        self._latest = LatestRecords()
        self._journal.restart()
        return True

    def _load_latest(self, sources: Sequence[AttemptSource]) -> None:
        unknown = self._latest.unknown({source.key for source in sources})
        if not unknown:
            return
        with self._database.reading() as connection:
            self._latest.load(connection, unknown, read=build_attempt)

    # --- building rows ------------------------------------------------------------------------------------------------

    def _build_batch(self, sources: Sequence[AttemptSource]) -> Batch:
        batch = Batch(at=epoch_nanoseconds(self._clock))
        self._journal.resume(batch.at)
        for source in sources:
            try:
                entry = add_attempt(batch, source.attempt(), self._latest)
            except Exception as error:
                self._record_refusal(error)
                continue
            if entry is not None:
                self._complete(entry, source, batch)
        batch.session = "" if self._journal.is_new else self._journal.id
        return batch

    def _complete(self, entry: PendingRow, source: AttemptSource, batch: Batch) -> None:
        """Add the inputs and columns. If that fails, the attempt is recorded without them."""
        known: dict[str, Any] = {name: PartState.SHED if name in source.shed else PartState.NONE for name in _PARTS}
        try:
            inputs = source.inputs() if self._keeps_inputs else None
            if inputs is not None:
                entry.inputs, known["inputs"] = pack_inputs(inputs), PartState.KEPT
                known["frame_seq"] = self._append_to_journal(source, batch)
                self._add_profile(entry.attempt.config_hash, source, batch)
            columns = source.columns(with_names=entry.inputs is None)
            if columns is not None:
                entry.columns, known["columns"] = pack_columns(columns), PartState.KEPT
        except Exception as error:
            log.warning("an attempt is recorded without its inputs", attempt=entry.attempt.id, exc_info=error)
            known, entry.inputs, entry.columns = dict.fromkeys(_PARTS, PartState.SHED), None, None
            self._journal.restart()
        entry.attempt = msgspec.structs.replace(entry.attempt, session=self._journal.id, **known)

    def _add_profile(self, config_hash: str, source: AttemptSource, batch: Batch) -> None:
        if config_hash not in batch.profiles and (document := source.profile()):
            batch.profiles[config_hash] = document

    def _append_to_journal(self, source: AttemptSource, batch: Batch) -> int:
        if source.fleet is not self._journal_fleet:
            self._journal.restart()
            self._journal_fleet = source.fleet
        is_whole = self._journal.needs_full_fleet
        rows = source.clusters(anew=is_whole)
        if self._journal.is_new:
            batch.new_sessions.append(self._journal.begin(rows))
        batch.journal += self._journal.build_rows(rows, is_whole=is_whole)
        return self._journal.seq

    # --- results ------------------------------------------------------------------------------------------------------

    def _record_success(self, batch: Batch) -> None:
        self._latest.confirm_written(batch)
        self._growth += batch.size
        self._add_counts(written=len(batch.entries), folded=batch.folded)
        self._failures = 0
        is_recovered = self.health.unavailable_since is not None
        if is_recovered:
            log.warning("the history is available again")
            self.health = HistoryHealth()
        self._monitor.confirm_write(is_recovered=is_recovered)

    def _record_outage(self, error: Exception) -> None:
        self._failures += 1
        self._is_schema_checked = False
        reason = reason_of(error)
        if self.health.unavailable_since is None:
            log.warning("the history is unavailable; retrying", error=reason)
            self.health = HistoryHealth(unavailable_since=epoch_nanoseconds(self._clock), reason=reason)
            self._monitor.wake()
        else:
            self.health = replace(self.health, reason=reason)

    def _write_one_by_one(self, batch: Batch | None, error: Exception, *, count: int) -> None:
        """Isolate the attempts that cannot be written; the others lose their inputs, which need the whole batch."""
        self._journal.restart()
        if batch is None:
            self._record_refusal(error, count)
            return
        self._latest.forget(batch.latest)
        for entry in batch.entries:
            entry.inputs = entry.columns = None
            lost: dict[str, Any] = {
                name: PartState.SHED for name in _PARTS if getattr(entry.attempt, name) is PartState.KEPT
            }
            entry.attempt = msgspec.structs.replace(entry.attempt, frame_seq=None, **lost)
            self._write_alone(entry)

    def _write_alone(self, entry: PendingRow) -> None:
        batch, latest = Batch(at=epoch_nanoseconds(self._clock)), LatestRecords()
        try:
            with self._database.reading() as connection:
                latest.load(connection, [entry.attempt.key], read=build_attempt)
            added = add_attempt(batch, entry.attempt, latest)
            if added is not None:
                added.repeats, added.last_at = entry.repeats, entry.last_at
            write_batch(self._database, batch)
            self._add_counts(written=len(batch.entries), folded=batch.folded)
        except Exception as error:
            self._record_refusal(error)

    def _record_refusal(self, error: Exception, count: int = 1) -> None:
        is_expected = isinstance(error, sql.exc.SQLAlchemyError)
        log.error("an attempt could not be recorded", error=reason_of(error), exc_info=None if is_expected else error)
        self._add_counts(failed=count)

    def _add_counts(self, **more: int) -> None:
        for name, count in more.items():
            self._counters[name] += count

    def _is_late(self) -> bool:
        return self._deadline is not None and self._clock.monotonic() >= self._deadline

    def _is_housekeeping_due(self) -> bool:
        interval = _BUSY_HOUSEKEEPING if self._growth > self._most_growth else _HOUSEKEEPING
        return self._clock.monotonic() - self._last_housekeeping >= interval

    def _run_housekeeping(self) -> None:
        self._last_housekeeping, self._growth = self._clock.monotonic(), 0
        try:
            self._run_retention(self._journal.id)
        except Exception as error:
            log.warning("retention failed and is retried later", error=reason_of(error))
