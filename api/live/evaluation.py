"""Decisions that answers explain: the one the scheduler would make now, and recorded ones, evaluated again.

Live state is evaluated on the event loop, as the scheduler does it. A recorded fleet is shared with nothing else, so
that reading and evaluating it, which takes longer, runs in a thread with a profile of its own.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, ParamSpec, TypeVar

from api.http.limits import EvaluationLimiter
from api.live.history_reader import HistoryReader
from api.live.live import LivePlacement, LiveState
from fleet.explain.replay.replay import load_recorded_scenario
from fleet.explain.whatif.scenario import Scenario
from fleet.framework.cycle.decision import Decision
from fleet.history import History, HistoryAttempt, PartState
from fleet.scheduler.profiles import CompiledProfiles

P = ParamSpec("P")
T = TypeVar("T")

_MAX_CACHED: Final = 32
_MAX_CACHED_ROWS: Final = 40_000
"""Clusters in all cached fleets: each takes some 3 KiB."""


@dataclass(frozen=True, slots=True)
class EvaluatedDecision:
    scenario: Scenario
    decision: Decision
    attempt: HistoryAttempt | None = None
    """The record it comes from; None for the present state."""
    before: Decision | None = None
    """Of a proposed change of a placement: the decision on the placement as it is."""

    @property
    def cluster_names(self) -> tuple[str, ...]:
        return tuple(self.decision.frame.names.ordered)

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs a computation on the decision where its fleet may be read. Needs a turn of the evaluator."""
        if self.attempt is None:
            return function(*args, **kwargs)
        return await asyncio.to_thread(function, *args, **kwargs)


class DecisionEvaluator:
    """Evaluates placements within the limits of the process. The last recorded decisions are cached: callers ask for
    several views of one decision."""

    def __init__(
        self, live: LiveState, history: HistoryReader, limiter: EvaluationLimiter, profiles: CompiledProfiles
    ) -> None:
        """`profiles` are for recorded fleets, apart from the frameworks that evaluate live state."""
        self._live = live
        self._history = history
        self._limiter = limiter
        self.profiles = profiles
        self._cache: OrderedDict[str, EvaluatedDecision] = OrderedDict()

    def admit(self) -> AbstractAsyncContextManager[None]:
        return self._limiter.admit()

    def turn(self, *, requeue: bool = False) -> AbstractAsyncContextManager[None]:
        return self._limiter.turn(requeue=requeue)

    async def evaluate_live(self, placement: LivePlacement, *, requeue: bool = False) -> EvaluatedDecision:
        """With `requeue` after all others that wait: for one of many evaluations of a request."""
        async with self.turn(requeue=requeue):
            scenario = self._live.build_scenario(placement)
            return EvaluatedDecision(scenario, scenario.decide())

    async def evaluate_proposed(self, document: Mapping[str, Any], existing: LivePlacement | None) -> EvaluatedDecision:
        """`existing` is what the hub has under the name of the document."""
        async with self.turn():
            scenario = self._live.build_proposed_scenario(document, existing)
            before = None if existing is None else self._live.build_scenario(existing).decide()
            return EvaluatedDecision(scenario, scenario.decide(), before=before)

    async def evaluate_attempt(self, attempt: HistoryAttempt) -> EvaluatedDecision | None:
        """None if the inputs of the attempt are not kept."""
        cached = self._cache.get(attempt.id)
        if cached is not None:
            self._cache.move_to_end(attempt.id)
            return EvaluatedDecision(cached.scenario, cached.decision, attempt)
        if attempt.inputs is not PartState.KEPT:
            return None
        async with self.turn():
            evaluated = await asyncio.to_thread(_evaluate_recorded, self._history.require(), attempt, self.profiles)
        if evaluated is not None:
            self._store(attempt.id, evaluated)
        return evaluated

    def _store(self, attempt_id: str, evaluated: EvaluatedDecision) -> None:
        self._cache[attempt_id] = evaluated
        while len(self._cache) > 1 and (len(self._cache) > _MAX_CACHED or self._count_rows() > _MAX_CACHED_ROWS):
            self._cache.popitem(last=False)

    def _count_rows(self) -> int:
        return sum(evaluated.decision.frame.count for evaluated in self._cache.values())


def _evaluate_recorded(
    history: History, attempt: HistoryAttempt, profiles: CompiledProfiles
) -> EvaluatedDecision | None:
    inputs = history.inputs(attempt.id)
    if inputs is None:
        return None
    scenario = load_recorded_scenario(inputs, profiles.find_recorded(attempt.config_hash))
    return EvaluatedDecision(scenario, scenario.decide(), attempt)
