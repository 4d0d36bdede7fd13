"""Calls that wait to be sent and calls under way: at most one of each per object. Pure; `dispatcher` does the sending.

Each type has a line of its own, in which placements take turns. Of one placement, whoever enters first gets the lower
ticket, and a call that takes the place of another inherits its ticket. A call whose object has another call under way
stands in no line until that one is done.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from functools import partial
from typing import Any

from fleet.scheduler.dispatch.api_calls import Call, CallType, Fate, Outcome
from fleet.scheduler.dispatch.fair_queue import Turns

Answer = asyncio.Future[Outcome[Any]]


@dataclass(slots=True, eq=False)
class Entry:
    key: str
    call: Call[Any]
    ticket: int
    answers: list[Answer]

    def tell(self, outcome: Outcome[Any]) -> None:
        for answer in self.answers:
            if not answer.done():
                answer.set_result(outcome)

    @property
    def is_abandoned(self) -> bool:
        """Nobody wants it any more: an attempt that was cut short must not go on writing."""
        return all(answer.cancelled() for answer in self.answers)


class PendingCalls:
    def __init__(self) -> None:
        self._waiting: dict[str, Entry] = {}
        self._under_way: dict[str, Entry] = {}
        self._lines = {type: Turns() for type in CallType}
        self._tickets = itertools.count()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._under_way)

    def counts(self) -> dict[CallType, int]:
        """Waiting calls."""
        found = dict.fromkeys(CallType, 0)
        for entry in self._waiting.values():
            found[entry.call.type] += 1
        return found

    def add(self, call: Call[Any], answer: Answer) -> None:
        key = call.key
        stronger = self._stronger_than(call.type, key)
        if stronger is not None:
            answer.set_result(Outcome(Fate.SKIPPED, by=stronger))
            return
        held = self._waiting.get(key)
        if held is None:
            self._enter(Entry(key, call, next(self._tickets), [answer]))
        elif held.call.type < call.type:
            held.tell(Outcome(Fate.OVERWRITTEN, by=call.type))
            self._enter(Entry(key, call, held.ticket, [answer]))
        else:
            held.call = call.over(held.call)
            held.answers.append(answer)
        self._drop_if_pointless(key)

    def pop(self, type: CallType) -> Entry | None:
        """The next call of that type, which is under way from now on."""
        return self._lines[type].next(partial(self._take, type))

    def done(self, entry: Entry) -> CallType | None:
        """The call is no longer under way, so that the next one about its object may enter its line: which one."""
        del self._under_way[entry.key]
        successor = self._waiting.get(entry.key)
        if successor is None:
            return None
        self._enter(successor)
        self._drop_if_pointless(entry.key)
        return successor.call.type

    def saw(self, key: str, fresh: object) -> None:
        """The object changed, or our own write about it was answered."""
        entry = self._waiting.get(key)
        if entry is not None:
            entry.call = entry.call.on(fresh)
            self._drop_if_pointless(key)

    def clear(self) -> list[Entry]:
        """Takes out everything that waits."""
        dropped = list(self._waiting.values())
        self._waiting.clear()
        return dropped

    # --- inside -------------------------------------------------------------------------------------------------------

    def _take(self, type: CallType, ticket: int, key: str) -> Entry | None:
        entry = self._waiting.get(key)
        if entry is None or entry.ticket != ticket or entry.call.type is not type:
            return None  # it was dropped or overwritten and its place in this line stayed behind
        del self._waiting[key]
        if entry.is_abandoned:
            return None
        self._under_way[key] = entry
        return entry

    def _stronger_than(self, type: CallType, key: str) -> CallType | None:
        known = [one for one in (self._waiting.get(key), self._under_way.get(key)) if one is not None]
        if not known:
            return None
        return max((one.call.type for one in known if one.call.type > type), default=None)

    def _enter(self, entry: Entry) -> None:
        self._waiting[entry.key] = entry
        if entry.key not in self._under_way:
            self._lines[entry.call.type].enter(entry.call.owner, ticket=entry.ticket, key=entry.key)

    def _drop_if_pointless(self, key: str) -> None:
        """Judged only when no other call is about to change the object."""
        entry = self._waiting.get(key)
        if entry is not None and key not in self._under_way and entry.call.changes_nothing():
            del self._waiting[key]
            entry.tell(Outcome(Fate.SKIPPED))
