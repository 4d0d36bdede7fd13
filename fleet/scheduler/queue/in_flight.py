"""What workers have, and what happened meanwhile.

An item decided about in a moment may be rejected for a reason that an event took away while it was decided about. So
events are kept as long as somebody is in work who was taken before them, and whoever comes back gets its share.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from fleet.scheduler.queue.hints import QueueEvent
from fleet.scheduler.queue.item import QueueItem, coalesced


@dataclass(slots=True)
class Flight:
    item: QueueItem
    again: tuple[str, ...] = ()
    """Triggers for which it has to run once more when it is back."""
    at_once: bool = False
    """One of them stands no back-off."""
    deleted: bool = False
    """The placement is gone; what came after that is about a new one of the same name."""

    def note(self, trigger: str, *, at_once: bool) -> None:
        self.again = coalesced(self.again, trigger)
        self.at_once |= at_once

    def forget(self) -> None:
        self.deleted = True
        self.again = ()
        self.at_once = False


class InFlight:
    def __init__(self) -> None:
        self._flights: dict[str, Flight] = {}
        self._listening: dict[str, int] = {}
        """How many events there had been when the item was taken; oldest first."""
        self._events: deque[QueueEvent] = deque()
        self._trimmed = 0
        """How many events were there and are not kept any more."""

    def __len__(self) -> int:
        return len(self._flights)

    @property
    def events(self) -> Sequence[QueueEvent]:
        """Kept for somebody."""
        return self._events

    def of(self, key: str) -> Flight:
        return self._flights[key]

    def take_off(self, item: QueueItem) -> None:
        self._flights[item.key] = Flight(item)
        self._listening[item.key] = self._trimmed + len(self._events)

    def record(self, event: QueueEvent) -> None:
        if self._listening:
            self._events.append(event)

    def stop_listening(self, key: str) -> None:
        """From here on events are no concern of the item."""
        if self._listening.pop(key, None) is not None:
            self._trim()

    def events_since_taken(self, key: str) -> list[QueueEvent] | None:
        """What the item missed; None if it had stopped listening."""
        since = self._listening.get(key)
        return None if since is None else list(islice(self._events, since - self._trimmed, None))

    def land(self, key: str) -> Flight:
        flight = self._flights.pop(key, None)
        if flight is None:
            raise ValueError(f"{key!r} is not in work")
        self.stop_listening(key)
        return flight

    def _trim(self) -> None:
        oldest = next(iter(self._listening.values()), self._trimmed + len(self._events))
        while self._trimmed < oldest:
            self._events.popleft()
            self._trimmed += 1
