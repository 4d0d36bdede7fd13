"""What it costs to keep the frame true: one row at a time, each time up to the new frame a decision would read."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Final

from fleet.framework.cycle.cycle import decide
from fleet.model.views import MemberCluster
from fleet.snapshot import Frame, Table
from plugins.default_profile import compile_default
from tests.bench.changes import a_heartbeat, all_at_once, another_label, another_property
from tests.bench.decisions import questions
from tests.bench.figures import Figure, Kind
from tests.bench.fleets import as_watched, cluster_document, clusters
from tests.bench.measuring import Run
from tests.bench.policies import hard_policy, plain_policy, spread_policy
from tests.bench.stopwatch import Sample, clock, measure

Change = Callable[[int, int], MemberCluster]

_FLEET: Final = 10_000
_TARGET: Final = 50
_REFRESHED_FLEET: Final = 5_000
_DIRTY_ROWS: Final = 10
_REFRESH_TARGET: Final = 500
_PART: Final = "put and freeze"
_CHANGES: Final[dict[str, Change]] = {
    "a heartbeat": a_heartbeat,
    "a changed property": another_property,
    "a changed label": another_label,
    "a heartbeat with a changed property and label": all_at_once,
}


def table_in_use(size: int) -> Table:
    """A table whose frames hold every column, mask and cell that the measured policies ask for."""
    table = Table(clusters(size))
    ask_everything(table.freeze())
    return table


def ask_everything(frame: Frame) -> None:
    profile = compile_default()
    for policy in (plain_policy, spread_policy, hard_policy):
        for inp in questions(frame, policy, picks=10, profile=profile):
            decide(inp)


def upkeep(run: Run) -> Iterator[Figure]:
    for name, change in _CHANGES.items():
        sample = _time_changes(run, change, fleet=_FLEET, rows=1)
        yield run.figure(name, _PART, Kind.MICROSECONDS, sample, target=_TARGET)
    sample = _time_changes(run, all_at_once, fleet=_REFRESHED_FLEET, rows=_DIRTY_ROWS)
    name = f"the same in {_DIRTY_ROWS} rows of {_REFRESHED_FLEET:,}"
    yield run.figure(name, _PART, Kind.MICROSECONDS, sample, target=_REFRESH_TARGET)
    table = table_in_use(_FLEET)
    yield from _coming_and_going(run, table)
    yield _collection(run, table)


def _time_changes(run: Run, change: Change, *, fleet: int, rows: int) -> Sample:
    table = table_in_use(fleet)

    def step(number: int) -> tuple[int]:
        changed = [change(rows * number + place, fleet) for place in range(rows)]
        start = clock()
        for cluster in changed:
            table.put(cluster)
        table.freeze()
        return (clock() - start,)

    (sample,) = measure(step, run.effort)
    return sample


def _coming_and_going(run: Run, table: Table) -> Iterator[Figure]:
    """Into a free row: the rare growth of the table falls into the warm-up."""

    def step(number: int) -> tuple[int, int]:
        cluster = as_watched(cluster_document(_FLEET + number % 7))
        start = clock()
        table.put(cluster)
        table.freeze()
        joined = clock()
        table.remove(cluster.metadata.name)
        table.freeze()
        return joined - start, clock() - joined

    joined, left = measure(step, run.effort)
    yield run.figure("a cluster joins", _PART, Kind.MICROSECONDS, joined)
    yield run.figure("a cluster leaves", _PART, Kind.MICROSECONDS, left)


def _collection(run: Run, table: Table) -> Figure:
    """What the collections that are off here would cost: a full one, with the fleet frozen, after one decision."""
    inp = questions(table.freeze(), spread_policy, picks=10, profile=compile_default())[0]

    def step(number: int) -> tuple[int]:
        del number
        decide(inp)
        start = clock()
        gc.collect()
        return (clock() - start,)

    (sample,) = measure(step, run.effort)
    return run.figure("a full garbage collection, fleet frozen", _PART, Kind.MICROSECONDS, sample)
