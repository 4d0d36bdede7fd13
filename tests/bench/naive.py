"""How much quicker than the obvious way: the oracle, which looks at every object again for every pick.

The oracle starts from documents, the product from a frame in use; both go as far as the published status.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fleet.framework.cycle.cycle import DecisionInput
from plugins.default_profile import compile_default
from tests.bench.decisions import FORMS, laps_of
from tests.bench.figures import Figure, Kind
from tests.bench.fleets import fleet_document, frame_of
from tests.bench.measuring import Run
from tests.bench.picks import oracle_picks, picks_of, scenario_of
from tests.bench.policies import Json, policy_snapshot, question
from tests.bench.stopwatch import Sample, clock, measure, sample_of
from tests.oracle.reference import decide_scenario

_FORMS: Final = ("plain", "spread", "hard")
_REPETITIONS: Final = 5


def naive(run: Run) -> Iterator[Figure]:
    size, picks = (200, 5) if run.quick else (1_000, 10)
    frame, fleet, profile = frame_of(size), fleet_document(size), compile_default()
    for form in _FORMS:
        snapshot = policy_snapshot(form, FORMS[form](picks, 0))
        inp, scenario = question(frame, snapshot, profile), scenario_of(fleet, snapshot)
        slow, quick = _oracle(scenario, inp, 1 if run.quick else _REPETITIONS), _product(run, inp)
        case = f"{size:,} clusters, {picks} picks, {form}"
        yield run.figure(case, "oracle", Kind.MILLISECONDS, slow, informal=True)
        yield run.figure(case, "Fleet", Kind.MILLISECONDS, quick, informal=True)
        yield run.number(case, "ratio", Kind.TIMES_FASTER, slow.median / quick.median)


def _oracle(scenario: Json, inp: DecisionInput, repetitions: int) -> Sample:
    readings = []
    for _ in range(repetitions):
        start = clock()
        result = decide_scenario(scenario)
        readings.append(clock() - start)
        assert sorted(oracle_picks(result)) == sorted(picks_of(inp))
    return sample_of(readings)


def _product(run: Run, inp: DecisionInput) -> Sample:
    _, with_status, _ = measure(lambda number: laps_of(inp), run.effort)
    return with_status
