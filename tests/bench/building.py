"""Starting up: from decoded objects to a frame, and the first decisions on it, when nothing is remembered yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from fleet.framework.cycle.cycle import decide
from fleet.framework.request import compile_request
from fleet.model.views import MemberCluster, PolicySnapshot
from fleet.snapshot import Frame, Table
from plugins.default_profile import compile_default
from tests.bench.figures import Figure, Kind
from tests.bench.fleets import CORE_COST, NODE_COUNT, clusters
from tests.bench.measuring import Run
from tests.bench.policies import Json, hard_policy, plain_policy, policy_snapshot, question, spread_policy
from tests.bench.stopwatch import clock, measure

_FLEET: Final = 10_000
_PICKS: Final = 10
_PART: Final = "time"


def building(run: Run) -> Iterator[Figure]:
    objects = clusters(_FLEET)
    yield from _frames(run, objects)
    for name, policy in (("plain", plain_policy), ("spread", spread_policy), ("hard", hard_policy)):
        yield from _first_decisions(run, objects, name, policy_snapshot(name, policy(_PICKS, 0)))
    yield _compiling(run)


def _frames(run: Run, objects: list[MemberCluster]) -> Iterator[Figure]:
    def step(number: int) -> tuple[int, int]:
        del number
        start = clock()
        frame = Table(objects).freeze()
        rows = clock()
        build_columns(frame)
        return rows - start, clock() - start

    rows, columns = measure(step, run.slow_effort)
    yield run.figure("frame of 10,000 decoded objects, rows only", _PART, Kind.MILLISECONDS, rows)
    name = "frame of 10,000 decoded objects, with the columns of all policies"
    yield run.figure(name, _PART, Kind.MILLISECONDS, columns, target=500)


def build_columns(frame: Frame) -> None:
    """Every column that the measured policies read."""
    assert frame.signals is not None
    assert frame.taints is not None
    for key in ("env", "tier"):
        frame.labels(key)
    frame.cells(("region", "zone"))
    for name in (NODE_COUNT, CORE_COST):
        frame.property(name)
    frame.usage("allocatable", "memory")
    frame.usage("available", "cpu")


def _first_decisions(run: Run, objects: list[MemberCluster], name: str, snapshot: Json) -> Iterator[Figure]:
    for state, prepare in (("no column built yet", _nothing), ("columns built, nothing remembered", build_columns)):
        sample = measure(_first_decision(objects, snapshot, prepare), run.slow_effort)[0]
        yield run.figure(f"first decision, {name}, {state}", _PART, Kind.MILLISECONDS, sample)


def _first_decision(
    objects: list[MemberCluster], snapshot: Json, prepare: Callable[[Frame], None]
) -> Callable[[int], tuple[int]]:
    profile = compile_default()

    def step(number: int) -> tuple[int]:
        del number
        frame = Table(objects).freeze()
        prepare(frame)
        inp = question(frame, snapshot, profile)
        start = clock()
        decide(inp)
        return (clock() - start,)

    return step


def _nothing(frame: Frame) -> None:
    del frame


def _compiling(run: Run) -> Figure:
    """Done once per policy snapshot, not per decision."""
    snapshot = msgspec.convert(policy_snapshot("hard", hard_policy(_PICKS, 0)), PolicySnapshot)

    def step(number: int) -> tuple[int]:
        del number
        start = clock()
        compile_request(snapshot)
        return (clock() - start,)

    (sample,) = measure(step, run.effort)
    return run.figure("a request from the hard policy", _PART, Kind.MILLISECONDS, sample)
