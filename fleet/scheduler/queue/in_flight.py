"""In-flight placements, and the events recorded while they are being scheduled.

An attempt may reject a placement for a reason that an event removes during the attempt. So an event is recorded as long
as an item is in flight that was popped before it, and an item that is returned to the queue gets the events it missed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from fleet.model.placement_key import PlacementKey
from fleet.scheduler.queue.hints import QueueEvent
from fleet.scheduler.queue.item import QueueItem, merge_trigger


@dataclass(slots=True)
class InFlightPlacement:
    item: QueueItem
    triggers: tuple[str, ...] = ()
    """Why it has to run once more after this attempt."""
    immediate: bool = False
    """One of them skips backoff."""
    deleted: bool = False
    """The placement is gone; later triggers are about a new one of the same name."""

    def add_trigger(self, trigger: str, *, immediate: bool) -> None:
        self.triggers = merge_trigger(self.triggers, trigger)
        self.immediate |= immediate

    def mark_deleted(self) -> None:
        self.deleted = True
        self.triggers = ()
        self.immediate = False


class InFlightPlacements:
    def __init__(self) -> None:
        self._placements: dict[PlacementKey, InFlightPlacement] = {}
        self._recording: dict[PlacementKey, int] = {}
        """How many events there had been when the item was popped; oldest first."""
        self._events: deque[QueueEvent] = deque()
        self._trimmed = 0
        """How many events have been dropped."""

    def __len__(self) -> int:
        return len(self._placements)

    @property
    def events(self) -> Sequence[QueueEvent]:
        """Those that an item in flight may have missed."""
        return self._events

    def get(self, key: PlacementKey) -> InFlightPlacement:
        return self._placements[key]

    def start(self, item: QueueItem) -> None:
        self._placements[item.key] = InFlightPlacement(item)
        self._recording[item.key] = self._trimmed + len(self._events)

    def record(self, event: QueueEvent) -> None:
        if self._recording:
            self._events.append(event)

    def stop_recording(self, key: PlacementKey) -> None:
        """From here on events are irrelevant for the item."""
        if self._recording.pop(key, None) is not None:
            self._trim()

    def list_missed_events(self, key: PlacementKey) -> list[QueueEvent] | None:
        """The events since the item was popped; None after `stop_recording`."""
        since = self._recording.get(key)
        return None if since is None else list(islice(self._events, since - self._trimmed, None))

    def finish(self, key: PlacementKey) -> InFlightPlacement:
        placement = self._placements.pop(key, None)
        if placement is None:
            raise ValueError(f"{str(key)!r} is not in flight")
        self.stop_recording(key)
        return placement

    def _trim(self) -> None:
        oldest = next(iter(self._recording.values()), self._trimmed + len(self._events))
        while self._trimmed < oldest:
            self._events.popleft()
            self._trimmed += 1
