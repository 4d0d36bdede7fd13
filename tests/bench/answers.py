"""How long an answer to "why?" takes to make: the decision, the rows, verified fixes, and the bytes.

As the API makes it from the current state, without the API: processor time of one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import msgspec

from fleet.explain.answer.answer import ROWS_SHOWN, build_answer
from fleet.explain.fixes.fixes import find_fixes
from fleet.explain.whatif.scenario import Scenario
from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.request import compile_request
from fleet.model.views import PolicySnapshot
from fleet.snapshot import Frame
from tests.bench.fleets import NODE_COUNT, NOW, frame_of
from tests.bench.policies import TIERS, hard_policy, plain_policy, policy_snapshot, spread_policy
from tests.bench.stopwatch import undisturbed
from tests.vectors.engine import profile_for

Json = dict[str, Any]
Policy = Callable[[int, int], Json]

CLUSTERS: Final = 5_000
_MOST_ROWS: Final = 500
"""As many as one answer has room for."""
_WARM_UP: Final = 5
_MOMENT: Final = 1_000_000


def short_of(policy: Policy) -> Policy:
    """One cluster in a hundred qualifies, and more are wanted."""

    def made(picks: int, tier: int) -> Json:
        found = policy(picks * 10, tier)
        affinity = found["affinity"]["clusterAffinity"]
        required = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["clusterSelectorTerms"]
        large = {"matchExpressions": [{"name": NODE_COUNT, "operator": "Ge", "values": ["100"]}]}
        terms = [{**term, "propertySelector": large} for term in required]
        chosen = {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms}}
        return {**found, "affinity": {"clusterAffinity": {**affinity, **chosen}}}

    return made


SITUATIONS: Final[dict[str, Policy]] = {
    "plain, placed": plain_policy,
    "spread, placed": spread_policy,
    "spread, too few qualify": short_of(spread_policy),
    "hard, too few qualify": short_of(hard_policy),
}


def times(situation: str, *, everything: bool, calls: int, clusters: int = CLUSTERS) -> list[int]:
    """Nanoseconds of each call."""
    worlds = list(_worlds(frame_of(clusters), SITUATIONS[situation]))
    for number in range(_WARM_UP):
        _explained(worlds[number % len(worlds)], number, everything=everything)
    with undisturbed():
        return [
            _explained(worlds[number % len(worlds)], _WARM_UP + number, everything=everything)
            for number in range(calls)
        ]


def _worlds(frame: Frame, policy: Policy) -> Iterator[Scenario]:
    for tier in TIERS:
        snapshot = msgspec.convert(policy_snapshot(f"tier{tier}", policy(10, tier)), PolicySnapshot)
        request = compile_request(snapshot, placement_uid=f"tier{tier}-uid")
        yield Scenario(
            DecisionInput(frame=frame, request=request, bindings=(), profile=profile_for(()), now=NOW), snapshot
        )


def _explained(scenario: Scenario, number: int, *, everything: bool) -> int:
    begun = time.thread_time_ns()
    asked = replace(scenario, question=replace(scenario.question, now=NOW + number * _MOMENT))
    decision = asked.decide()
    limit = _MOST_ROWS if everything else ROWS_SHOWN
    found = build_answer(
        asked.question, decision, everything=everything, limit=limit, fixes=find_fixes(asked, decision)
    )
    assert msgspec.json.encode(found)
    return time.thread_time_ns() - begun
