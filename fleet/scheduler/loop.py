"""Workers: take placements from the queue, run one attempt for each, and report its result to the queue."""

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
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.attempt import AttemptRunner
from fleet.scheduler.attempt_record import AttemptRecord, AttemptResult, Recorder
from fleet.scheduler.dispatch.binding_calls import WriteResult
from fleet.scheduler.queue.item import QueueItem
from fleet.scheduler.queue.scheduling_queue import AsyncQueue
from fleet.scheduler.telemetry.metrics import SchedulerMetrics

UNEXPECTED: Final = "Binding/Unexpected"
_COMPLETED: Final = (AttemptResult.DECIDED, AttemptResult.SHORT)

_NAMES_LOGGED: Final = 20

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    queue: AsyncQueue
    attempts: AttemptRunner
    track_attempt: Callable[[PlacementKey], AbstractContextManager[Set[str]]]
    """Entered during an attempt, so that no event is missed meanwhile. Yields the names of the bindings that appear."""
    recorder: Recorder
    metrics: SchedulerMetrics
    clock: Clock
    max_delay: float
    """Seconds before a policy that cannot be evaluated is tried again, unless it is edited."""

    async def run(self, workers: int) -> None:
        """Until the queue is closed and every worker has finished its attempt."""
        numbers = iter(range(2**63)).__next__
        async with asyncio.TaskGroup() as group:
            for position in range(workers):
                group.create_task(self._work(numbers), name=f"scheduling worker {position}")

    async def _work(self, next_number: Callable[[], int]) -> None:
        with suppress(QueueClosed):
            while True:
                await self._schedule_one(await self.queue.get(), next_number())

    async def _schedule_one(self, item: QueueItem, number: int) -> None:
        started = self.clock.monotonic()
        self.metrics.observe_dequeue(item)
        with self.metrics.track_worker(), self.track_attempt(item.key) as appeared:
            record = await self.attempts.run(item.key, number=number, triggers=item.triggers)
        if appeared and record.result in _COMPLETED and not appeared <= record.bindings:
            self.queue.add(
                item.key, trigger=UNEXPECTED
            )  # the late result of a create that was given up on: it may be surplus
        self._report_to_queue(record)
        try:
            self._observe(record, self.clock.monotonic() - started)
            if record.result is not AttemptResult.FOREIGN:
                self.recorder.record(record)
        except Exception:
            log.exception("the attempt could not be reported", placement=str(item.key))

    def _report_to_queue(self, record: AttemptRecord) -> None:
        """The queue decides whether and when the placement is tried again."""
        key, decision = record.key, record.decision
        if record.result is AttemptResult.SHORT and decision is not None:
            self.queue.mark_unschedulable(key, rejectors=decision.rejectors, pending=decision.pending)
        elif record.result is AttemptResult.BAD_INPUT:
            self.queue.mark_failed(key, at_least_seconds=self.max_delay)
        elif record.result.is_failure:
            self.queue.mark_failed(key)
        else:
            self.queue.mark_succeeded(key)

    def _observe(self, record: AttemptRecord, seconds: float) -> None:
        self.metrics.observe_attempt(record, seconds)
        if record.result is AttemptResult.INTERNAL:
            log.error("the attempt failed", placement=str(record.key), exc_info=record.error)
        elif record.result.is_failure:
            log.warning("the attempt failed", placement=str(record.key), error=record.failure)
        elif record.decision is not None and (record.writes or record.status_written):
            if log.is_enabled_for(logging.INFO):  # the summary is expensive
                log.info("decided", placement=str(record.key), **_summarize(record))
        else:
            log.debug("nothing to change", placement=str(record.key), result=record.result.value)


def _summarize(record: AttemptRecord) -> dict[str, object]:
    decision = record.decision
    assert decision is not None
    return {
        "decision": decision.digest,
        "outcome": decision.outcome.value,
        "clusters": decision.active,
        "writes": _group_by_action(record.writes),
        "because": list(record.triggers),
        "milliseconds": round(sum(record.seconds.values()) * 1000, 1),
    }


def _group_by_action(writes: Iterable[WriteResult]) -> dict[str, list[str]]:
    """The clusters of each kind of write; of many, the first."""
    clusters: dict[str, list[str]] = {}
    for write in writes:
        clusters.setdefault(write.operation.action.value, []).append(write.operation.cluster)
    return {action: shorten_names(sorted(names)) for action, names in clusters.items()}


def shorten_names(names: list[str]) -> list[str]:
    """For log lines: the first names, and the number of the others."""
    more = len(names) - _NAMES_LOGGED
    return [*names[:_NAMES_LOGGED], f"and {more} more"] if more > 0 else names
