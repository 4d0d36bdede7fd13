"""What becomes of a placement after its attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from fleet.errors import DeadlineExceeded, NotLeading, QueueClosed
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Observed
from fleet.scheduler.attempt_record import AttemptRecord, AttemptResult
from fleet.scheduler.binding.handover import Handover
from fleet.scheduler.loop import Loop
from fleet.scheduler.queue.async_queue import AsyncQueue
from fleet.scheduler.queue.scheduling_queue import SchedulingQueue
from fleet.scheduler.telemetry.metrics import SchedulerMetrics, new_registry
from tests.builders import a_binding
from tests.faults.virtual import VirtualClock, virtual

DELAY = 60.0
SLOTS = 5


@dataclass
class Scripted:
    """Attempts that end as the test says, in order; then successfully."""

    endings: list[AttemptResult | Exception]
    ran: list[tuple[str, float]] = field(default_factory=list)
    meanwhile: list[str] = field(default_factory=list)
    """Bindings that appear during the next attempt."""
    appeared: set[str] = field(default_factory=set)
    inputs: Any = None
    writes: list[Any] = field(default_factory=list)
    seconds: float = 0.0
    """How long an attempt of a large policy takes: those whose names begin with large."""

    def is_large(self, key: PlacementKey) -> bool:
        return key.name.startswith("large")

    @contextmanager
    def deciding(self, _: PlacementKey) -> Iterator[set[str]]:
        self.appeared = set()
        yield self.appeared

    async def run(
        self,
        key: PlacementKey,
        handover: Handover,
        *,
        number: int,
        triggers: tuple[str, ...] = (),
        group: None = None,
        is_unseen: bool = False,
    ) -> AttemptRecord:
        self.ran.append((str(key), asyncio.get_running_loop().time()))
        await asyncio.sleep(self.seconds if self.is_large(key) else 0)
        while self.meanwhile:
            self.appeared.add(self.meanwhile.pop())
        ending = self.endings.pop(0) if self.endings else AttemptResult.DECIDED
        if isinstance(ending, Exception):
            raise ending
        error = DeadlineExceeded("scripted") if ending.is_failure else None
        return AttemptRecord(
            key=key,
            number=number,
            triggers=triggers,
            result=ending,
            error=error,
            inputs=self.inputs,
            writes=self.writes,
        )


@dataclass
class Recorded:
    records: list[AttemptRecord] = field(default_factory=list)
    fails: bool = False

    def record(self, attempt: AttemptRecord) -> None:
        self.records.append(attempt)
        if self.fails:
            raise OSError("disk full")


def a_loop(*endings: AttemptResult | Exception, recorder: Recorded | None = None) -> tuple[Loop, Any, AsyncQueue]:
    clock = VirtualClock()
    attempts: Any = Scripted(list(endings))
    queue = AsyncQueue(SchedulingQueue(), clock=clock)
    loop = Loop(
        queue=queue,
        attempts=attempts,
        track_attempt=attempts.deciding,
        recorder=recorder or Recorded(),
        metrics=SchedulerMetrics(new_registry(), clock=clock),
        clock=clock,
        max_delay=DELAY,
        slots=asyncio.Semaphore(SLOTS),
    )
    return loop, attempts, queue


async def ran_for(seconds: float, loop: Loop, *, workers: int = 2) -> None:
    working = asyncio.create_task(loop.run(workers))
    await asyncio.sleep(seconds)
    loop.queue.close()
    await working


@virtual
async def test_an_attempt_that_succeeds_is_not_repeated() -> None:
    loop, attempts, queue = a_loop(AttemptResult.DECIDED)
    queue.add(PlacementKey.parse("web"), trigger="test")
    await ran_for(1000, loop)
    assert [key for key, _ in attempts.ran] == ["web"]


@virtual
async def test_an_attempt_is_recorded_with_the_epoch_of_the_leadership() -> None:
    recorder = Recorded()
    loop, _, queue = a_loop(recorder=recorder)
    queue.add(PlacementKey.parse("web"), trigger="test")
    working = asyncio.create_task(loop.run(1, epoch=7))
    await asyncio.sleep(1)
    queue.close()
    await working
    assert [record.epoch for record in recorder.records] == [7]


@virtual
async def test_a_binding_that_appears_during_an_attempt_and_is_not_its_own_makes_another() -> None:
    """A create of an earlier attempt, carried out late: it was neither read nor written, and may be one too many."""
    loop, attempts, queue = a_loop(AttemptResult.DECIDED)
    attempts.meanwhile.append("web-c7-late")
    queue.add(PlacementKey.parse("web"), trigger="test")
    await ran_for(1000, loop)
    assert len(attempts.ran) == 2


@virtual
@pytest.mark.parametrize("known_as", ["read", "written"])
async def test_bindings_that_an_attempt_knows_of_make_no_other(known_as: str) -> None:
    loop, attempts, queue = a_loop(AttemptResult.DECIDED)
    binding = a_binding("c7").build()
    attempts.meanwhile.append(binding.metadata.name)
    if known_as == "read":
        attempts.inputs = SimpleNamespace(bindings=(binding,))
    else:
        attempts.writes.append(SimpleNamespace(written=Observed(binding, b"{}")))
    queue.add(PlacementKey.parse("web"), trigger="test")
    await ran_for(1000, loop)
    assert len(attempts.ran) == 1


@virtual
async def test_a_transient_failure_is_repeated_within_milliseconds() -> None:
    loop, attempts, queue = a_loop(AttemptResult.TRANSIENT, AttemptResult.INTERNAL)
    queue.add(PlacementKey.parse("web"), trigger="test")
    await ran_for(1, loop)
    assert len(attempts.ran) == 3


@virtual
async def test_a_policy_that_cannot_be_evaluated_is_looked_at_again_after_the_longest_delay() -> None:
    loop, attempts, queue = a_loop(AttemptResult.BAD_INPUT)
    queue.add(PlacementKey.parse("web"), trigger="test")
    await ran_for(DELAY + 5, loop)
    first, second = (moment for _, moment in attempts.ran)
    assert second - first >= DELAY


@virtual
async def test_an_edit_ends_the_wait_of_a_policy_that_could_not_be_evaluated() -> None:
    loop, attempts, queue = a_loop(AttemptResult.BAD_INPUT)
    queue.add(PlacementKey.parse("web"), trigger="test")
    asyncio.get_running_loop().call_later(1, lambda: queue.add(PlacementKey.parse("web"), trigger="edit"))
    await ran_for(2, loop)
    assert [moment for _, moment in attempts.ran] == pytest.approx([0, 1], abs=0.01)


@virtual
async def test_a_placement_that_lacks_clusters_waits_for_an_event() -> None:
    loop, attempts, queue = a_loop(AttemptResult.SHORT)
    queue.add(PlacementKey.parse("web"), trigger="test")
    await ran_for(10_000, loop)
    assert len(attempts.ran) == 1


@virtual
async def test_a_placement_that_is_gone_leaves_nothing_behind_and_may_come_back() -> None:
    loop, attempts, queue = a_loop(AttemptResult.GONE)
    queue.add(PlacementKey.parse("web"), trigger="test")
    asyncio.get_running_loop().call_later(1, lambda: queue.add(PlacementKey.parse("web"), trigger="made again"))
    await ran_for(2, loop)
    assert [key for key, _ in attempts.ran] == ["web", "web"]
    assert sum(queue.count_items()) == 0


@virtual
async def test_losing_the_right_to_write_ends_the_workers() -> None:
    loop, _, queue = a_loop(NotLeading("scripted"))
    queue.add(PlacementKey.parse("web"), trigger="test")
    with pytest.raises(ExceptionGroup) as caught:
        await ran_for(1, loop)
    assert caught.group_contains(NotLeading)


@virtual
async def test_writes_that_are_refused_at_the_end_end_the_worker_in_order() -> None:
    loop, _, queue = a_loop(QueueClosed("scripted"))
    queue.add(PlacementKey.parse("web"), trigger="test")
    await ran_for(1, loop, workers=1)


@virtual
async def test_a_record_that_cannot_be_kept_harms_no_placement() -> None:
    recorder = Recorded(fails=True)
    loop, attempts, queue = a_loop(recorder=recorder)
    queue.add(PlacementKey.parse("web"), trigger="test")
    queue.add(PlacementKey.parse("db"), trigger="test")
    with capture_logs() as said:
        await ran_for(1, loop)
    assert sorted(key for key, _ in attempts.ran) == ["db", "web"]
    assert [one["log_level"] for one in said if "could not be reported" in one["event"]] == ["error", "error"]


@virtual
async def test_records_say_what_woke_the_placement() -> None:
    recorder = Recorded()
    loop, _, queue = a_loop(recorder=recorder)
    queue.add(PlacementKey.parse("web"), trigger="one")
    queue.add(PlacementKey.parse("web"), trigger="two")
    await ran_for(1, loop)
    assert [one.triggers for one in recorder.records] == [("one", "two")]


@virtual
async def test_large_policies_leave_every_worker_to_the_small_ones() -> None:
    loop, attempts, queue = a_loop()
    attempts.seconds = 10.0
    for number in range(24):
        queue.add(PlacementKey.parse(f"large-{number:02}"), trigger="test")
    working = asyncio.create_task(loop.run(1))
    await asyncio.sleep(1)
    for number in range(3):
        queue.add(PlacementKey.parse(f"small-{number}"), trigger="test")
        await asyncio.sleep(1)
    assert [(key, at) for key, at in attempts.ran if key.startswith("small")] == [
        ("small-0", 1.0),
        ("small-1", 2.0),
        ("small-2", 3.0),
    ]
    await asyncio.sleep(200)
    assert [key for key, _ in attempts.ran if key.startswith("large")] == [f"large-{number:02}" for number in range(24)]
    queue.close()
    await working


@virtual
async def test_a_large_policy_that_waits_has_one_attempt() -> None:
    loop, attempts, queue = a_loop()
    attempts.seconds = 10.0
    working = asyncio.create_task(loop.run(1))
    for name in ("large-a", "large-b", "large-c", "large-c", "large-c"):
        queue.add(PlacementKey.parse(name), trigger="test")
        await asyncio.sleep(1)
    await asyncio.sleep(100)
    queue.close()
    await working
    assert [key for key, _ in attempts.ran].count("large-c") == 2  # it was requested while it waited


@virtual
async def test_large_policies_that_wait_at_the_end_are_left_to_the_next_leader() -> None:
    loop, attempts, queue = a_loop()
    attempts.seconds = 10.0
    for number in range(24):
        queue.add(PlacementKey.parse(f"large-{number:02}"), trigger="test")
    await ran_for(1, loop)
    assert len(attempts.ran) == 2
    assert asyncio.get_running_loop().time() == 10.0
