"""How long one decision takes, on a frame whose columns are in use: the state of a controller that has run for a while.

Status and digest are made from the decision when first asked for. A controller always asks for the status and, where
it keeps history, for the digest; so both are measured, each column including the ones before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.profiles.profile import CompiledProfile
from fleet.model.keys import BOUND
from fleet.model.views import Binding, MemberCluster
from fleet.snapshot import Frame, Table
from plugins.default_profile import compile_default
from tests.bench.changes import a_heartbeat, another_label
from tests.bench.figures import Figure, Kind
from tests.bench.fleets import clusters, clusters_with_hosts, frame_of
from tests.bench.measuring import Run
from tests.bench.policies import (
    TIERS,
    Json,
    cells_policy,
    everywhere_policy,
    hard_policy,
    hosts_policy,
    plain_policy,
    policy_snapshot,
    question,
    spread_policy,
)
from tests.bench.stopwatch import Sample, clock, measure

Policy = Callable[[int, int], Json]
Laps = tuple[Sample, Sample, Sample]

PARTS: Final = ("decide", "with status", "with digest")
_MOMENT: Final = 1_000_000  # nanoseconds between two decisions


@dataclass(frozen=True, slots=True)
class Case:
    size: int
    picks: int
    form: str
    target: float | None = None
    """Milliseconds, for the decision alone."""

    @property
    def name(self) -> str:
        return f"{self.size:,} clusters, {self.picks} picks, {self.form}"


FORMS: Final[dict[str, Policy]] = {
    "plain": plain_policy,
    "spread": spread_policy,
    "hard": hard_policy,
    "hard, 120 cells": cells_policy,
}
CASES: Final = (
    Case(100, 10, "plain", 0.2),
    Case(100, 10, "spread", 0.5),
    Case(1_000, 10, "plain"),
    Case(1_000, 10, "spread", 1.0),
    Case(5_000, 3, "plain", 0.5),
    Case(5_000, 3, "spread"),
    Case(10_000, 10, "plain", 0.3),
    Case(10_000, 10, "spread", 2.0),
    Case(10_000, 100, "plain", 5.0),
    Case(10_000, 100, "spread", 5.0),
    Case(10_000, 100, "hard", 5.0),
    Case(10_000, 100, "hard, 120 cells"),
    Case(20_000, 3, "plain", 2.0),
    Case(20_000, 3, "spread"),
)
_FLEET: Final = 10_000
_PICKS: Final = 10


def decisions(run: Run) -> Iterator[Figure]:
    profile = compile_default()
    for size in sorted({case.size for case in CASES}):
        frame = frame_of(size)
        for case in CASES:
            if case.size == size:
                laps = time_decisions(run, frame, FORMS[case.form], picks=case.picks, profile=profile)
                yield from _figures(run, case.name, laps, target=case.target)


def other_decisions(run: Run) -> Iterator[Figure]:
    """What else a controller decides all day, without targets."""
    profile, frame = compile_default(), frame_of(_FLEET)
    yield from _figures(run, "nothing to do: all 10 picks in place", _settled(run, frame, profile))
    yield from _figures(run, "10 picks, spread, after a heartbeat", _changing(run, profile, a_heartbeat))
    yield from _figures(run, "10 picks, spread, after a change of labels", _changing(run, profile, another_label))
    hosts = Table(clusters_with_hosts(_FLEET)).freeze()
    laps = time_decisions(run, hosts, hosts_policy, picks=_PICKS, profile=profile)
    yield from _figures(run, "10 picks, hard, every cluster a domain of its own", laps)
    laps = time_decisions(run, frame, everywhere_policy, picks=0, profile=profile)
    yield from _figures(run, "PickAll: 5,000 clusters chosen", laps)


def _figures(run: Run, name: str, laps: Laps, *, target: float | None = None) -> Iterator[Figure]:
    for part, sample in zip(PARTS, laps, strict=True):
        yield run.figure(name, part, Kind.MILLISECONDS, sample, target=target if part == "decide" else None)


# --- repetitions ----------------------------------------------------------------------------------------------------


def time_decisions(run: Run, frame: Frame, policy: Policy, *, picks: int, profile: CompiledProfile) -> Laps:
    """The same question, but for the tier it prefers and the moment."""
    return _in_turn(run, questions(frame, policy, picks=picks, profile=profile))


def questions(frame: Frame, policy: Policy, *, picks: int, profile: CompiledProfile) -> list[DecisionInput]:
    return [question(frame, policy_snapshot(f"tier{tier}", policy(picks, tier)), profile) for tier in TIERS]


def _in_turn(run: Run, asked: Sequence[DecisionInput]) -> Laps:
    def step(number: int) -> tuple[int, int, int]:
        return laps_of(later(asked[number % len(asked)], number))

    decided, published, digested = measure(step, run.effort)
    return decided, published, digested


def later(inp: DecisionInput, number: int) -> DecisionInput:
    return replace(inp, now=inp.now + number * _MOMENT)


def laps_of(inp: DecisionInput) -> tuple[int, int, int]:
    start = clock()
    decision = decide(inp)
    decided = clock()
    assert decision.published is not None
    published = clock()
    assert decision.digest
    return decided - start, published - start, clock() - start


# --- situations -----------------------------------------------------------------------------------------------------


def _settled(run: Run, frame: Frame, profile: CompiledProfile) -> Laps:
    asked = questions(frame, spread_policy, picks=_PICKS, profile=profile)
    return _in_turn(run, [replace(inp, bindings=_bound(inp)) for inp in asked])


def _bound(inp: DecisionInput) -> list[Binding]:
    """The bindings that follow from a decision, some time later."""
    documents = [operation.document(inp.request) for operation in decide(inp).operations]
    for document in documents:
        document["spec"]["state"] = BOUND
    return [msgspec.convert(document, Binding) for document in documents]


def _changing(run: Run, profile: CompiledProfile, change: Callable[[int, int], MemberCluster]) -> Laps:
    """Every decision on a new frame, one row apart from the last. Making the frame is measured elsewhere."""
    table = Table(clusters(_FLEET))
    asked = questions(table.freeze(), spread_policy, picks=_PICKS, profile=profile)

    def step(number: int) -> tuple[int, int, int]:
        table.put(change(number, _FLEET))
        return laps_of(replace(later(asked[number % len(asked)], number), frame=table.freeze()))

    decided, published, digested = measure(step, run.effort)
    return decided, published, digested
