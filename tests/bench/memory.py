"""What a fleet weighs. The frame refers to the decoded objects and does not copy them, so both are counted apart."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from fleet.framework.cycle.cycle import decide
from fleet.model.views import MemberCluster
from fleet.snapshot import Table
from plugins.default_profile import compile_default
from tests.bench.changes import a_heartbeat
from tests.bench.decisions import questions
from tests.bench.figures import Figure, Kind
from tests.bench.fleets import clusters
from tests.bench.measuring import Run
from tests.bench.policies import spread_policy
from tests.bench.stopwatch import undisturbed
from tests.bench.upkeep import ask_everything

T = TypeVar("T")

_FLEET: Final = 10_000
_DECISIONS: Final = 20
_PART: Final = "size"


def memory(run: Run) -> Iterator[Figure]:
    """Bytes that are still there afterwards, numpy's arrays included."""
    ask_everything(Table(clusters(100)).freeze())  # whatever is imported or cached once per process
    tracemalloc.start()
    try:
        objects, objects_bytes = _kept(lambda: clusters(_FLEET))
        table, table_bytes = _kept(lambda: _table(objects))
        frame_held = table.freeze()
        _, next_bytes = _kept(lambda: _next_frame(table))
    finally:
        tracemalloc.stop()
    assert frame_held is not table.freeze()
    yield run.number("frame, per cluster", _PART, Kind.BYTES, table_bytes / _FLEET, target=1_000)
    yield run.number("decoded objects, per cluster", _PART, Kind.BYTES, objects_bytes / _FLEET)
    yield run.number("frame and objects, per cluster", _PART, Kind.BYTES, (table_bytes + objects_bytes) / _FLEET)
    yield run.number("an older frame kept over a heartbeat", _PART, Kind.BYTES, next_bytes)
    yield run.number("objects that a decision leaves to the collector", _PART, Kind.COUNT, _left_behind(table))


def _kept(make: Callable[[], T]) -> tuple[T, int]:
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    made = make()
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    return made, after - before


def _table(objects: list[MemberCluster]) -> Table:
    table = Table(objects)
    ask_everything(table.freeze())
    return table


def _next_frame(table: Table) -> None:
    table.put(a_heartbeat(1, _FLEET))
    table.freeze()


def _left_behind(table: Table) -> float:
    """Reference cycles only: everything else is freed at once."""
    asked = questions(table.freeze(), spread_policy, picks=10, profile=compile_default())
    with undisturbed():
        for number in range(_DECISIONS):
            decision = decide(asked[number % len(asked)])
            assert decision.published is not None
            assert decision.digest
            del decision
        return gc.collect() / _DECISIONS
