"""Decisions to talk about: the one the scheduler would make now, and recorded ones, made once more.

What stands on the watched fleet is computed on the event loop, as the scheduler does. A recorded fleet is nobody
else's: reading and deciding it, which takes longer, is done in a thread with a profile of its own.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from api.http.limits import Evaluations
from fleet.explain.replay.replay import load_recorded_scenario
from fleet.explain.whatif.scenario import Scenario
from fleet.framework.cycle.decision import Decision, Published
from fleet.framework.profiles.profile import CompiledProfile
from fleet.history import History, HistoryAttempt, PartState
from fleet.model.views import PolicySnapshotStatus

T = TypeVar("T")

_REMEMBERED: Final = 32
_ROWS_REMEMBERED: Final = 40_000
"""Of clusters, in all remembered fleets: each takes some 3 KiB."""
_IDLE: Final = frozenset({"Unchanged", "Shrink"})
"""Outcomes for which nobody was asked."""
_UNDECIDED: Final = frozenset({"NeedsAnswer", "Error", ""})
_LOOKED_BACK: Final = 50


@dataclass(frozen=True, slots=True)
class Evaluated:
    world: Scenario
    decision: Decision
    attempt: HistoryAttempt | None = None
    """The record it comes from; None for what is true now."""
    on_loop: bool = True

    @property
    def cluster_names(self) -> tuple[str, ...]:
        return tuple(self.decision.frame.names.ordered)


class Recollections:
    """Recorded attempts, evaluated again. The last few are kept: people ask several things about one decision."""

    def __init__(self, profile: CompiledProfile) -> None:
        self.profile = profile
        self._known: OrderedDict[str, Evaluated] = OrderedDict()

    async def of(self, attempt: HistoryAttempt, history: History, evaluations: Evaluations) -> Evaluated | None:
        """None if its inputs are not kept."""
        known = self._known.get(attempt.id)
        if known is not None:
            self._known.move_to_end(attempt.id)
            return Evaluated(known.world, known.decision, attempt, on_loop=False)
        if attempt.inputs is not PartState.KEPT:
            return None
        async with evaluations.turn():
            found = await asyncio.to_thread(self._evaluated, attempt, history)
        if found is not None:
            self._remember(attempt.id, found)
        return found

    def _evaluated(self, attempt: HistoryAttempt, history: History) -> Evaluated | None:
        recorded = history.inputs(attempt.id)
        if recorded is None:
            return None
        scenario = load_recorded_scenario(recorded, self.profile)
        return Evaluated(scenario, scenario.decide(), attempt, on_loop=False)

    def _remember(self, attempt_id: str, found: Evaluated) -> None:
        self._known[attempt_id] = found
        while len(self._known) > 1 and (len(self._known) > _REMEMBERED or self._rows() > _ROWS_REMEMBERED):
            self._known.popitem(last=False)

    def _rows(self) -> int:
        return sum(one.decision.frame.count for one in self._known.values())


def telling(history: History, key: str) -> HistoryAttempt | None:
    """The newest attempt that says why the placement is where it is: the newest of all, or, where that only found that
    nothing was to be done, the last one before it that chose, if what it chose is what there is."""
    attempts = history.attempts(key, limit=_LOOKED_BACK)
    newest = next((one for one in attempts if one.outcome), None)
    if newest is None or newest.outcome not in _IDLE:
        return newest
    decided = (one for one in attempts if one.outcome not in _UNDECIDED and one.outcome != "Unchanged")
    chose = next(decided, newest)
    return chose if _still_holds(chose, newest) else newest


def _still_holds(chose: HistoryAttempt, newest: HistoryAttempt) -> bool:
    """Nothing was given up since, and as many are wanted and in use as then."""
    then, now = ((one.snapshot, one.wanted, one.active, one.fulfilled) for one in (chose, newest))
    return chose.outcome not in _IDLE and then == now and chose.inputs is PartState.KEPT


def is_behind(told: HistoryAttempt, past: Sequence[HistoryAttempt], shown: PolicySnapshotStatus) -> bool:
    """Whether the hub shows something else than what was published last according to the record: decisions of the last
    seconds may still wait to be written."""
    same = (one for one in past if one.snapshot == told.snapshot and one.status_written and one.published)
    last = next(same, None)
    return last is not None and msgspec.json.decode(last.published, type=Published).differs_from(shown)


async def computed(evaluated: Evaluated, evaluations: Evaluations, work: Callable[[], T]) -> T:
    """Whatever is asked of a decision, where its fleet may be touched."""
    async with evaluations.turn():
        return work() if evaluated.on_loop else await asyncio.to_thread(work)
