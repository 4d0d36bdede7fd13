"""Checkers of watches: no event is missing, none comes twice, and all watchers see the same history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tests.robustness.history import Action, Operation, Result


@dataclass(frozen=True, slots=True)
class WatchEvent:
    revision: int
    type: str
    key: str
    value: str


@dataclass
class Segment:
    """What one watcher saw since a list, over all its reconnections, until it had to list again."""

    watcher: str
    start: int
    """Revision of the list."""
    objects: dict[str, str]
    """Values by key, as listed."""
    events: list[WatchEvent] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.events[-1].revision if self.events else self.start


def check_watches(segments: Sequence[Segment], operations: Sequence[Operation]) -> list[str]:
    """All violations, as texts."""
    return [
        *(text for segment in segments for text in _check_order(segment)),
        *(text for segment in segments for text in _check_fold(segment)),
        *(text for segment in segments for text in _check_gaps(segment, operations)),
        *_check_agreement(segments),
        *_check_origin(segments, operations),
    ]


def _check_order(segment: Segment) -> Iterator[str]:
    last = segment.start
    for event in segment.events:
        if event.revision <= last:
            yield f"{segment.watcher}: revision {event.revision} of {event.key} came after {last}"
        last = max(last, event.revision)


def _check_fold(segment: Segment) -> Iterator[str]:
    objects = dict(segment.objects)
    for event in segment.events:
        if (event.type == "ADDED") == (event.key in objects):
            yield f"{segment.watcher}: {event.type} at {event.revision} does not fit what is known of {event.key}"
        if event.type == "DELETED":
            objects.pop(event.key, None)
        else:
            objects[event.key] = event.value


def _check_gaps(segment: Segment, operations: Iterable[Operation]) -> Iterator[str]:
    """Every acknowledged write of the time that a watcher covers is in its events."""
    seen = {event.revision: event for event in segment.events}
    for write in operations:
        is_covered = segment.start < write.revision <= segment.end
        if not write.is_acknowledged_write or not is_covered or write.action is Action.DELETE:
            continue
        event = seen.get(write.revision)
        if event is None or (event.key, event.value) != (write.key, write.value):
            yield f"{segment.watcher}: the write of {write.key} at {write.revision} is missing"


def _check_agreement(segments: Iterable[Segment]) -> Iterator[str]:
    known: dict[int, tuple[str, WatchEvent]] = {}
    for segment in segments:
        for event in segment.events:
            watcher, other = known.setdefault(event.revision, (segment.watcher, event))
            if other != event:
                yield f"{segment.watcher} and {watcher} saw different changes at revision {event.revision}"


def _check_origin(segments: Iterable[Segment], operations: Iterable[Operation]) -> Iterator[str]:
    """Nothing appears that no client has written."""
    written = {(write.key, write.value) for write in operations if write.is_write}
    for segment in segments:
        for event in segment.events:
            if (event.key, event.value) not in written:
                yield f"{segment.watcher}: {event.key} has the value {event.value!r}, which was never written"


def find_lost_writes(operations: Sequence[Operation], final: dict[str, tuple[str, int]]) -> list[str]:
    """Acknowledged writes that are newer than the final state of their object, and that no deletion explains."""
    lost = []
    for write in operations:
        if not write.is_acknowledged_write or write.action is Action.DELETE:
            continue
        held = final.get(write.key)
        if held is None:
            if not any(_may_delete(other, write) for other in operations):
                lost.append(f"{write.key} at {write.revision} is gone")
        elif held[1] < write.revision:
            lost.append(f"{write.key} is at {held[1]}, although {write.revision} was acknowledged")
    return lost


def _may_delete(other: Operation, write: Operation) -> bool:
    if other.key != write.key or other.action is not Action.DELETE or other.returned < write.called:
        return False
    return other.result in (Result.OK, Result.UNKNOWN)
