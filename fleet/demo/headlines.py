"""Headlines: one line per scheduling attempt with a visible effect.

That is an attempt that changed bindings or the number of clusters in use, or that failed. Others, such as a decision
that confirms the last one, have no headline.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from fleet.clock import Clock
from fleet.explain.facts.summary import summarize
from fleet.framework.cycle.decision import Decision
from fleet.framework.operations import Action
from fleet.framework.status import message_of
from fleet.model.keys import PICK_ALL
from fleet.name_lists import join_first
from fleet.scheduler.attempt_record import AttemptRecord, AttemptResult

KEPT: Final = 200
_NAMED: Final = 6
"""Clusters that are named; the others are counted."""
_VERBS: Final = ((Action.CREATE, "places on"), (Action.REVIVE, "takes back"), (Action.UNSCHEDULE, "gives up"))
_WITHOUT_WRITES: Final = (AttemptResult.WAITING, AttemptResult.REJECTED)


class Headline(NamedTuple):
    at: datetime
    about: str
    text: str

    def __str__(self) -> str:
        return f"{self.at:%H:%M:%S}  {self.about}: {self.text}"


class Headlines:
    """The latest headlines, oldest first. A `Recorder` of attempts that also accepts other announcements."""

    def __init__(self, clock: Clock, *, publish: Callable[[Headline], None] = lambda _: None) -> None:
        self._clock = clock
        self._publish = publish
        self._last_results: dict[str, str] = {}
        self._latest: deque[Headline] = deque(maxlen=KEPT)

    def record(self, attempt: AttemptRecord) -> None:
        moves, result = _describe_moves(attempt), _describe_result(attempt)
        key = str(attempt.key)
        before = self._last_results.get(key, "")
        if attempt.result is AttemptResult.GONE:
            self._last_results.pop(key, None)
        elif result:
            self._last_results[key] = result
        if moves or result not in ("", before):
            text = "; ".join([*moves, result + _describe_obstacles(attempt)])
            self.announce(key, text + _describe_triggers(attempt.triggers))

    def announce(self, about: str, text: str) -> None:
        headline = Headline(self._clock.now(), about, text)
        self._latest.append(headline)
        self._publish(headline)

    def latest(self, count: int) -> list[Headline]:
        return list(self._latest)[-count:] if count > 0 else []


def _describe_moves(attempt: AttemptRecord) -> list[str]:
    moves: list[str] = []
    operations = () if attempt.decision is None or attempt.result in _WITHOUT_WRITES else attempt.decision.operations
    for action, verb in _VERBS:
        names = sorted({operation.cluster for operation in operations if operation.action is action})
        if names:
            moves.append(f"{verb} {join_names(names)}")
    return moves


def _describe_result(attempt: AttemptRecord) -> str:
    """The state of the placement after the attempt; empty if there is no decision."""
    if attempt.result is AttemptResult.CLEANED_UP:
        return "is being deleted, and its bindings with it"
    if attempt.result.is_failure:
        return f"cannot be scheduled: {attempt.failure}"
    if attempt.result is AttemptResult.WAITING:
        return "waits, with its clusters reserved"
    if attempt.failed is not None:
        return f"not placed: {message_of(attempt.failed.status)}"
    return "" if attempt.decision is None else _describe_count(attempt.decision)


def _describe_obstacles(attempt: AttemptRecord) -> str:
    """Why clusters are missing. A change of this alone has no headline: in a large fleet it changes all the time."""
    if attempt.decision is None or attempt.decision.fulfilled or attempt.result.is_failure or attempt.failed:
        return ""
    others = summarize(attempt.decision).partition(": ")[2]  # the part before it repeats the count
    return f": {others}" if others else ""


def _describe_count(decision: Decision) -> str:
    request, active = decision.request, decision.active or 0
    wanted = len(request.cluster_names) if request.wanted is None else request.wanted
    if request.placement_type == PICK_ALL:
        return f"{active} {'cluster' if active == 1 else 'clusters'}"
    return f"{active} of {wanted} clusters"


def _describe_triggers(triggers: Sequence[str]) -> str:
    if not triggers:
        return ""
    more = f" and {len(triggers) - 1} more" if len(triggers) > 1 else ""
    return f" [{triggers[0]}{more}]"


def join_names(names: Sequence[str]) -> str:
    return join_first(names, _NAMED)
