"""Decisions that answers explain: the one the scheduler would make now, and recorded ones, evaluated again.

Small policies on small fleets are decided on the event loop, which takes a few milliseconds. Everything else runs in a
thread: searches for fixes, large policies and fleets, proposals, and recorded decisions, which have a profile of their
own. What a thread reads of the live state are values that do not change: a frame, views of objects, compiled policies.
They are collected on the event loop before. Records are read before the turn, in the threads of the history reader: a
database that hangs keeps no evaluation waiting.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, ParamSpec, TypeVar

from api.http.limits import EvaluationLimiter
from api.http.problems import ProblemError
from api.live.history_reader import HistoryReader
from api.live.live import LivePlacement, LiveState
from fleet.errors import HistoryUnavailable
from fleet.eventloop import free_later, pause_collection_in_task
from fleet.explain.facts.redaction import Hidden
from fleet.explain.replay.replay import load_recorded_scenario
from fleet.explain.whatif.edits import Edit
from fleet.explain.whatif.scenario import Scenario
from fleet.external.extender_client import ExtenderClient
from fleet.framework.context import NO_QUERY_RESULTS, decode_results
from fleet.framework.cycle.decision import Decision
from fleet.framework.policy.quotas import Quotas
from fleet.framework.types import ExternalResult
from fleet.history import HistoryAttempt, PartState, ReplayInputs
from fleet.model.views import Observed, PolicySnapshot
from fleet.scheduler.profiles.frameworks import CompiledProfiles
from fleet.scheduler.profiles.recorded import find_recorded_profile
from fleet.snapshot.frame import Frame
from fleet.worker_thread import Precedence, WorkerThread

P = ParamSpec("P")
T = TypeVar("T")

PARTS_ON_LOOP: Final = 32
CLUSTERS_ON_LOOP: Final = 500
"""The largest policy and fleet whose decision is worth no thread."""
_LARGE_DOCUMENT: Final = 8 * 1024
"""Bytes of a recorded or proposed one, from which on its policy counts as large. It has some hundred parts."""
_BODIES: Final = 8
"""Large bodies that are read side by side: one caller's would hold up those of others."""
_MAX_CACHED: Final = 32
_MAX_CACHED_ROWS: Final = 40_000
"""Clusters in all cached fleets: each takes some 3 KiB."""


@dataclass(frozen=True, slots=True)
class Lane:
    """Turns and a thread for evaluations: those on large policies have their own."""

    limiter: EvaluationLimiter
    thread: WorkerThread
    is_large: bool

    def turn(self, *, requeue: bool = False) -> AbstractAsyncContextManager[None]:
        if self.is_large:
            pause_collection_in_task()
        return self.limiter.turn(is_large=self.is_large, requeue=requeue)


@dataclass(frozen=True, slots=True)
class EvaluatedDecision:
    scenario: Scenario
    decision: Decision
    lane: Lane
    attempt: HistoryAttempt | None = None
    """The record it comes from; None for the present state."""
    before: Decision | None = None
    """Of a proposed change of a placement: the decision on the placement as it is."""
    has_asked: bool = False
    """Whether an extender was asked for it, which may say something else now."""

    @property
    def depends_on_others(self) -> bool:
        """On services outside of the hub, whose changes are not seen."""
        return self.has_asked or bool(self.decision.frame.feeds)

    @property
    def cluster_names(self) -> tuple[str, ...]:
        return tuple(self.decision.frame.names.ordered)

    @property
    def is_large(self) -> bool:
        """Whether computations on it belong into a thread."""
        return self.attempt is not None or self.decision.frame.count > CLUSTERS_ON_LOOP or self.lane.is_large

    def turn(self) -> AbstractAsyncContextManager[None]:
        return self.lane.turn()

    def free_later(self) -> None:
        """What is long in a proposed policy."""
        request = self.decision.request
        free_later(self.scenario.snapshot, request.required, request.preferred)

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs a computation on the decision, in the thread if it may take long. Needs a turn."""
        if self.is_large:
            return await self.lane.thread.run(function, *args, **kwargs)
        return function(*args, **kwargs)


class DecisionEvaluator:
    """Evaluates placements within the limits of the process. The last recorded decisions are cached: callers ask for
    several views of one decision."""

    def __init__(
        self,
        live: LiveState,
        history: HistoryReader,
        limiter: EvaluationLimiter,
        profiles: CompiledProfiles,
        extenders: ExtenderClient,
    ) -> None:
        """`profiles` are for recorded fleets, apart from the frameworks that evaluate live state."""
        self._live = live
        self._history = history
        self.extenders = extenders
        self._limiter = limiter
        self.profiles = profiles
        self.precedence: Final = Precedence()
        """Of requests over what is evaluated in threads."""
        self.bodies: Final = WorkerThread("bodies", self.precedence, side_by_side=_BODIES)
        """For those of requests."""
        self._small = Lane(limiter, WorkerThread("evaluations", self.precedence), is_large=False)
        self._large = Lane(limiter, WorkerThread("large-evaluations", self.precedence), is_large=True)
        self._cache: OrderedDict[str, EvaluatedDecision] = OrderedDict()

    def admit(self, caller: str) -> AbstractAsyncContextManager[None]:
        return self._limiter.admit(caller)

    def lane(self, *, is_large: bool) -> Lane:
        return self._large if is_large else self._small

    def close(self) -> None:
        """The threads end with what they are doing."""
        for thread in (self.bodies, self._small.thread, self._large.thread):
            thread.close()

    async def evaluate_live(self, placement: LivePlacement, *, requeue: bool = False) -> EvaluatedDecision:
        """With `requeue` after all others that wait: for one of many evaluations of a request. Those have the answers
        of extenders that are on record; others ask for those that are not."""
        results = await self._find_results(placement)
        lane = self.lane(is_large=placement.is_larger(PARTS_ON_LOOP))
        async with lane.turn(requeue=requeue):
            frame = self._live.frame()
            if frame.count <= CLUSTERS_ON_LOOP and not lane.is_large:
                evaluated = self._evaluate(placement, frame, results, lane)
            else:
                try:
                    evaluated = await lane.thread.run(self._evaluate, placement, frame, results, lane)
                finally:
                    self._live.forget_if_deleted(placement)
        return evaluated if requeue else await self._ask_extenders(evaluated)

    def _evaluate(
        self, placement: LivePlacement, frame: Frame, results: Mapping[str, ExternalResult], lane: Lane
    ) -> EvaluatedDecision:
        scenario = self._live.build_scenario(placement, frame).answer(results)
        return EvaluatedDecision(scenario, scenario.decide(), lane)

    # --- extenders ----------------------------------------------------------------------------------------------------

    async def _find_results(self, placement: LivePlacement) -> Mapping[str, ExternalResult]:
        """The answers of extenders in the last recorded attempt, without their failures."""
        if not self._live.asks_extenders(placement):
            return NO_QUERY_RESULTS
        try:
            history = self._history.require()
            attempt = await self._history.call(history.latest, placement.key)
            inputs = None if attempt is None else await self._history.call(history.inputs, attempt.id)
        except (HistoryUnavailable, ProblemError):
            return NO_QUERY_RESULTS
        results = decode_results(b"" if inputs is None else inputs.results)
        return {key: result for key, result in results.items() if not result.error}

    async def _ask_extenders(self, evaluated: EvaluatedDecision) -> EvaluatedDecision:
        """Not within a turn: an extender may take its time."""
        while (query := evaluated.decision.pending_query) is not None and self.extenders.can_answer(query):
            question = await self.extenders.answer(evaluated.scenario.question, query)
            scenario = replace(evaluated.scenario, question=question)
            async with evaluated.turn():
                decision = await evaluated.run(scenario.decide)
            evaluated = replace(evaluated, scenario=scenario, decision=decision, has_asked=True)
        return evaluated

    async def answer_edited(
        self, evaluated: EvaluatedDecision, edits: Sequence[Edit], hidden: Hidden | None
    ) -> EvaluatedDecision:
        """With what extenders say about the edited scenario. Records are edited with the answers that they have."""
        if evaluated.attempt is not None or not evaluated.scenario.question.profile.asks_extenders:
            return evaluated
        while True:
            async with evaluated.turn():
                thread = evaluated.lane.thread
                edited = await thread.run(evaluated.scenario.apply, edits, hidden=hidden)
                query = (await thread.run(edited.decide)).pending_query
            if query is None or not self.extenders.can_answer(query):
                return evaluated
            question = await self.extenders.answer(edited.question, query)
            evaluated = replace(evaluated, scenario=evaluated.scenario.answer(question.query_results))

    async def evaluate_proposed(self, document: Mapping[str, Any], existing: LivePlacement | None) -> EvaluatedDecision:
        """`existing` is what the hub has under the name of the document."""
        lane = self.lane(is_large=is_large_document(document))
        async with lane.turn():
            known = () if existing is None else self._live.list_policy_snapshots(existing)
            quotas, frame = self._live.list_proposed_quotas(document), self._live.frame()
            try:
                evaluated, before = await lane.thread.run(
                    self._evaluate_proposed, document, existing, known, quotas, frame, lane
                )
            finally:
                if existing is not None:
                    self._live.forget_if_deleted(existing)
        if before is not None:
            before = await self._ask_extenders(before)
        evaluated = await self._ask_extenders(evaluated)
        return replace(evaluated, before=None if before is None else before.decision)

    def _evaluate_proposed(
        self,
        document: Mapping[str, Any],
        existing: LivePlacement | None,
        known: Sequence[Observed[PolicySnapshot]],
        quotas: Quotas,
        frame: Frame,
        lane: Lane,
    ) -> tuple[EvaluatedDecision, EvaluatedDecision | None]:
        scenario = self._live.build_proposed_scenario(document, existing, known, quotas, frame)
        before = None if existing is None else self._evaluate(existing, frame, NO_QUERY_RESULTS, lane)
        return EvaluatedDecision(scenario, scenario.decide(), lane), before

    async def evaluate_attempt(self, attempt: HistoryAttempt) -> EvaluatedDecision | None:
        """None if the inputs of the attempt are not kept."""
        cached = self._cache.get(attempt.id)
        if cached is not None:
            self._cache.move_to_end(attempt.id)
            return EvaluatedDecision(cached.scenario, cached.decision, cached.lane, attempt)
        if attempt.inputs is not PartState.KEPT:
            return None
        inputs = await self._history.call(self._history.require().inputs, attempt.id)
        if inputs is None:
            return None
        lane = self.lane(is_large=len(inputs.request) > _LARGE_DOCUMENT)
        async with lane.turn():
            evaluated = await lane.thread.run(self._evaluate_recorded, inputs, attempt, lane)
        self._store(attempt.id, evaluated)
        return evaluated

    def _evaluate_recorded(self, inputs: ReplayInputs, attempt: HistoryAttempt, lane: Lane) -> EvaluatedDecision:
        scenario = load_recorded_scenario(inputs, find_recorded_profile(self.profiles, inputs))
        return EvaluatedDecision(scenario, scenario.decide(), lane, attempt)

    def _store(self, attempt_id: str, evaluated: EvaluatedDecision) -> None:
        self._cache[attempt_id] = evaluated
        while len(self._cache) > 1 and (len(self._cache) > _MAX_CACHED or self._count_rows() > _MAX_CACHED_ROWS):
            self._cache.popitem(last=False)

    def _count_rows(self) -> int:
        return sum(evaluated.decision.frame.count for evaluated in self._cache.values())


def is_large_document(document: Any) -> bool:
    """About as long in JSON as `_LARGE_DOCUMENT`. Looks at no more of it than that takes."""
    size, left = 0, [document]
    while left and size <= _LARGE_DOCUMENT:
        value = left.pop()
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, dict | list):
            size += len(value)
            left += islice(value, _LARGE_DOCUMENT)
            left += islice(value.values(), _LARGE_DOCUMENT) if isinstance(value, dict) else ()
    return size > _LARGE_DOCUMENT
