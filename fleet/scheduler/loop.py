"""Workers: take placements from the queue, run one attempt for each, and report its result to the queue.

A worker is free for the next placement when an attempt is decided; its writes and waits go on in a task of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Set
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import structlog

from fleet.clock import Clock
from fleet.errors import QueueClosed
from fleet.framework.cycle.decision import Decision
from fleet.framework.runtime.effects import Failure
from fleet.framework.status import REJECTIONS, Code, is_success
from fleet.model.keys import PICK_ALL
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.attempt import AttemptRunner
from fleet.scheduler.attempt_record import AttemptRecord, AttemptResult, Recorder
from fleet.scheduler.binding.handover import Handover
from fleet.scheduler.dispatch.binding_calls import WriteResult
from fleet.scheduler.groups.group_attempt import GroupAttempt
from fleet.scheduler.queue.async_queue import AsyncQueue
from fleet.scheduler.queue.hints import EventKind, QueueEvent
from fleet.scheduler.queue.item import QueueItem
from fleet.scheduler.telemetry.metrics import SchedulerMetrics

UNEXPECTED: Final = "Binding/Unexpected"
BINDING_DELETED: Final = EventKind("Binding", "Delete")
_COMPLETED: Final = (AttemptResult.DECIDED, AttemptResult.SHORT)

_NAMES_LOGGED: Final = 20
_LARGE_WORKERS: Final = 2
"""For large policies: one attempt computes while the other one reads."""

StartAttempt = Callable[[list[QueueItem]], Awaitable[None]]
"""Of an item, with those of its group."""

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
    slots: asyncio.Semaphore
    """Bounds the attempts that write after they have left their worker."""
    list_siblings: Callable[[PlacementKey], Iterable[PlacementKey]] = lambda _: ()
    """The other placements of its group, which are tried with it."""
    begin_group: Callable[[PlacementKey, Iterable[PlacementKey]], GroupAttempt | None] = lambda *_: None

    async def run(self, workers: int, *, epoch: int = 0) -> None:
        """Until the queue is closed and every attempt has finished. `epoch` is recorded with each."""
        numbers, large = iter(range(2**63)).__next__, LargeItems()
        async with asyncio.TaskGroup() as group:
            start = partial(self._start_attempt, group, numbers, epoch)
            for position in range(_LARGE_WORKERS):
                group.create_task(self._work_on_large(large, start), name=f"scheduling large {position}")
            working = [
                group.create_task(self._work(large, start), name=f"scheduling worker {position}")
                for position in range(workers)
            ]
            await asyncio.wait(working)
            large.close()

    async def _work(self, large: LargeItems, start: StartAttempt) -> None:
        """Large policies are left to their own workers: the thread that decides about them takes one at a time."""
        with suppress(QueueClosed):
            while True:
                item = await self.queue.get()
                items = [item, *self._take_siblings(item)]
                if any(self.attempts.is_large(each.key) for each in items):
                    large.put(items)
                else:
                    await start(items)

    async def _work_on_large(self, large: LargeItems, start: StartAttempt) -> None:
        with suppress(QueueClosed):
            while True:
                await start(await large.get())

    def _take_siblings(self, item: QueueItem) -> list[QueueItem]:
        return self.queue.take(self.list_siblings(item.key))

    async def _start_attempt(
        self, group: asyncio.TaskGroup, next_number: Callable[[], int], epoch: int, items: list[QueueItem]
    ) -> None:
        """Returns when the attempt, and those of its group, need their worker no longer."""
        items = [*items, *self._take_siblings(items[0])]  # it may have waited, and others have come
        gang = self.begin_group(items[0].key, [each.key for each in items])
        handovers = [Handover(self.slots, epoch=epoch, on_park=self._report_parked) for _ in items]
        with self.metrics.track_worker():
            for each, handover in zip(items, handovers, strict=True):
                group.create_task(self._run_attempt(each, next_number(), handover, gang), name=f"attempt {each.key}")
            for handover in handovers:
                await handover.wait_until_left()

    async def _run_attempt(self, item: QueueItem, number: int, handover: Handover, gang: GroupAttempt | None) -> None:
        with suppress(QueueClosed):
            try:
                await self._schedule_one(item, number, handover, gang)
            finally:
                handover.end()

    async def _schedule_one(self, item: QueueItem, number: int, handover: Handover, gang: GroupAttempt | None) -> None:
        started = self.clock.monotonic()
        self.metrics.observe_dequeue(item)
        with self.track_attempt(item.key) as appeared:
            record = await self.attempts.run(
                item.key, handover, number=number, triggers=item.triggers, group=gang, is_unseen=item.is_unseen
            )
        record.epoch = handover.epoch
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

    def _report_parked(self, record: AttemptRecord) -> None:
        """The clusters are settled: no event changes anything for this attempt any more."""
        self.queue.mark_permitted(record.key)
        try:
            self.recorder.record(record)
        except Exception:
            log.exception("the attempt could not be reported", placement=str(record.key))

    def _report_to_queue(self, record: AttemptRecord) -> None:
        """The queue decides whether and when the placement is tried again."""
        key, decision = record.key, record.decision
        if record.result not in _COMPLETED:
            self._report_given_back(record)
        refusing = {each.plugin for each in record.effects if each.status.code in REJECTIONS}
        is_short = record.result is AttemptResult.SHORT
        if decision is not None and (is_short or (refusing and _is_on_all(record.result, decision))):
            self.queue.mark_unschedulable(key, rejectors={*decision.rejectors, *refusing}, pending=decision.pending)
        elif record.rejectors:
            self.queue.mark_unschedulable(key, rejectors=record.rejectors, keeps_rank=True)
        elif record.result is AttemptResult.REJECTED and record.failed is not None:
            self._report_rejection(key, record.failed)
        elif record.result is AttemptResult.BAD_INPUT:
            self.queue.mark_failed(key, at_least_seconds=self.max_delay)
        elif record.result.is_failure:
            self.queue.mark_failed(key)
        else:
            self.queue.mark_succeeded(key)

    def _report_given_back(self, record: AttemptRecord) -> None:
        """What it had reserved is free for the others."""
        reserved = {each.plugin for each in record.effects if each.hook == "reserve" and is_success(each.status)}
        if reserved:
            self.queue.handle_event(QueueEvent(BINDING_DELETED, excluding=record.key, plugins=reserved, backs_off=True))

    def _report_rejection(self, key: PlacementKey, failed: Failure) -> None:
        names = (failed.rejector,) if failed.rejector else ()
        is_pending = failed.status.code is Code.PENDING
        self.queue.mark_unschedulable(key, rejectors=() if is_pending else names, pending=names if is_pending else ())

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


def _is_on_all(result: AttemptResult, decision: Decision) -> bool:
    """A placement on all clusters has never too few of them, but may lack one that was refused."""
    return result is AttemptResult.DECIDED and decision.request.placement_type == PICK_ALL


class LargeItems:
    """Items with large policies, with those of their groups, in the order of the queue. They stay in flight there, so
    that each has one attempt."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[list[QueueItem] | None] = asyncio.Queue()

    def put(self, items: list[QueueItem]) -> None:
        self._waiting.put_nowait(items)

    async def get(self) -> list[QueueItem]:
        items = await self._waiting.get()
        if items is None:
            raise QueueClosed
        return items

    def close(self) -> None:
        """What waits is dropped, as in the queue."""
        while not self._waiting.empty():
            self._waiting.get_nowait()
        for _ in range(_LARGE_WORKERS):
            self._waiting.put_nowait(None)


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
