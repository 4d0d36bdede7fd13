"""Decisions in words: one line for each attempt that people would notice.

An attempt is noticed when it changed who works where, when the number of clusters in use changed, and when it failed.
Everything else, such as a decision that confirms the last one, is no news.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from fleet.clock import Clock
from fleet.explain import summarize
from fleet.framework.cycle.decision import Decision
from fleet.framework.operations import Action
from fleet.model.keys import PICK_ALL
from fleet.scheduler.attempt_record import AttemptRecord, AttemptResult

KEPT: Final = 200
_NAMED: Final = 6
"""Clusters that are named before the rest is counted."""
_VERBS: Final = ((Action.CREATE, "places on"), (Action.REVIVE, "takes back"), (Action.UNSCHEDULE, "gives up"))


class Headline(NamedTuple):
    at: datetime
    about: str
    text: str

    def __str__(self) -> str:
        return f"{self.at:%H:%M:%S}  {self.about}: {self.text}"


class Headlines:
    """What happened lately, oldest first. A `Recorder` of attempts, and an ear for whatever else is worth telling."""

    def __init__(self, clock: Clock, *, publish: Callable[[Headline], None] = lambda _: None) -> None:
        self._clock = clock
        self._publish = publish
        self._standing: dict[str, str] = {}
        self._latest: deque[Headline] = deque(maxlen=KEPT)

    def record(self, attempt: AttemptRecord) -> None:
        moves, standing = _moves(attempt.decision), _standing(attempt)
        key = str(attempt.key)
        before = self._standing.get(key, "")
        if attempt.result is AttemptResult.GONE:
            self._standing.pop(key, None)
        elif standing:
            self._standing[key] = standing
        if moves or standing not in ("", before):
            self.tell(key, "; ".join([*moves, standing + _obstacles(attempt)]) + _because(attempt.triggers))

    def tell(self, about: str, text: str) -> None:
        headline = Headline(self._clock.now(), about, text)
        self._latest.append(headline)
        self._publish(headline)

    def latest(self, count: int) -> list[Headline]:
        return list(self._latest)[-count:] if count > 0 else []


def _moves(decision: Decision | None) -> list[str]:
    moves: list[str] = []
    operations = () if decision is None else decision.operations
    for action, verb in _VERBS:
        names = sorted({operation.cluster for operation in operations if operation.action is action})
        if names:
            moves.append(f"{verb} {join_names(names)}")
    return moves


def _standing(attempt: AttemptRecord) -> str:
    """Where the placement stands after the attempt; empty where that is for somebody else to say."""
    if attempt.result is AttemptResult.CLEANED_UP:
        return "is being deleted, and its bindings with it"
    if attempt.result.is_failure:
        return f"cannot be scheduled: {attempt.failure}"
    return "" if attempt.decision is None else _count(attempt.decision)


def _obstacles(attempt: AttemptRecord) -> str:
    """Why clusters are missing. That alone is no news: in a large fleet it changes all the time."""
    if attempt.decision is None or attempt.decision.fulfilled or attempt.result.is_failure:
        return ""
    others = summarize(attempt.decision).partition(": ")[2]  # before that it counts again
    return f": {others}" if others else ""


def _count(decision: Decision) -> str:
    request, active = decision.request, decision.active or 0
    wanted = len(request.cluster_names) if request.wanted is None else request.wanted
    if request.placement_type == PICK_ALL:
        return f"{active} {'cluster' if active == 1 else 'clusters'}"
    return f"{active} of {wanted} clusters"


def _because(triggers: Sequence[str]) -> str:
    if not triggers:
        return ""
    more = f" and {len(triggers) - 1} more" if len(triggers) > 1 else ""
    return f" [{triggers[0]}{more}]"


def join_names(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
