"""The workers: they take placements from the queue, let them be decided, and put them where they belong afterwards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Set
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Final

import structlog

from fleet.clock import Clock
from fleet.errors import QueueClosed
from fleet.scheduler.attempt import Attempts
from fleet.scheduler.attempt_record import AttemptRecord, Ending, Recorder
from fleet.scheduler.dispatch.binding_writes import WriteResult
from fleet.scheduler.queue.async_queue import AsyncQueue
from fleet.scheduler.queue.item import QueueItem
from fleet.scheduler.telemetry.metrics import SchedulerMetrics

UNEXPECTED: Final = "Binding/Unexpected"
_CARRIED_OUT: Final = (Ending.DECIDED, Ending.SHORT)

_NAMES_LOGGED: Final = 20

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    queue: AsyncQueue
    attempts: Attempts
    deciding: Callable[[str], AbstractContextManager[Set[str]]]
    """Entered while a placement is in work: what happens meanwhile must not pass it by. Gives the names of the bindings
    that appear."""
    recorder: Recorder
    metrics: SchedulerMetrics
    clock: Clock
    max_delay: float
    """Seconds before a policy that cannot be evaluated is looked at again, unless it is edited."""

    async def run(self, workers: int) -> None:
        """Until the queue is closed and every worker is done with what it has."""
        numbers = iter(range(2**63)).__next__
        async with asyncio.TaskGroup() as group:
            for position in range(workers):
                group.create_task(self._work(numbers), name=f"scheduling worker {position}")

    async def _work(self, next_number: Callable[[], int]) -> None:
        with suppress(QueueClosed):
            while True:
                await self._attempt(await self.queue.get(), next_number())

    async def _attempt(self, item: QueueItem, number: int) -> None:
        started = self.clock.elapsed()
        self.metrics.taken(item)
        with self.metrics.working(), self.deciding(item.key) as appeared:
            record = await self.attempts.run(item.key, number=number, triggers=item.triggers)
        if appeared and record.ending in _CARRIED_OUT and not appeared <= record.bindings:
            self.queue.add(item.key, trigger=UNEXPECTED)  # a create that was given up on, and may be one too many
        self._settle(record)
        try:
            self._tell(record, self.clock.elapsed() - started)
            self.recorder.record(record)
        except Exception:
            log.exception("the attempt could not be reported", placement=item.key)

    def _settle(self, record: AttemptRecord) -> None:
        """What becomes of the placement in the queue."""
        key, decision = record.key, record.decision
        if record.ending is Ending.SHORT and decision is not None:
            self.queue.rejected(key, rejectors=decision.rejectors, pending=decision.pending)
        elif record.ending is Ending.BAD_INPUT:
            self.queue.failed(key, at_least_seconds=self.max_delay)
        elif record.ending.is_failure:
            self.queue.failed(key)
        else:
            self.queue.succeeded(key)

    def _tell(self, record: AttemptRecord, seconds: float) -> None:
        self.metrics.attempted(record, seconds)
        if record.ending is Ending.INTERNAL:
            log.error("the attempt failed", placement=record.key, exc_info=record.error)
        elif record.ending.is_failure:
            log.warning("the attempt failed", placement=record.key, error=record.failure)
        elif record.decision is not None and (record.writes or record.status_written):
            if log.is_enabled_for(logging.INFO):  # an outline costs more than a line that nobody reads is worth
                log.info("decided", placement=record.key, **_outline(record))
        else:
            log.debug("nothing to change", placement=record.key, ending=record.ending.value)


def _outline(record: AttemptRecord) -> dict[str, object]:
    decision = record.decision
    assert decision is not None
    return {
        "decision": decision.digest,
        "outcome": decision.outcome.value,
        "clusters": decision.active,
        "writes": _by_action(record.writes),
        "because": list(record.triggers),
        "milliseconds": round(sum(record.seconds.values()) * 1000, 1),
    }


def _by_action(writes: Iterable[WriteResult]) -> dict[str, list[str]]:
    """The clusters of each kind of write; of many, the first."""
    found: dict[str, list[str]] = {}
    for one in writes:
        found.setdefault(one.operation.action.value, []).append(one.operation.cluster)
    return {action: shortened(sorted(names)) for action, names in found.items()}


def shortened(names: list[str]) -> list[str]:
    """As logs name them: not thousands."""
    more = len(names) - _NAMES_LOGGED
    return [*names[:_NAMES_LOGGED], f"and {more} more"] if more > 0 else names
