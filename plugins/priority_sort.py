"""The order of the queue: higher priority first, then the longest wait."""

from __future__ import annotations

from typing import Protocol

from fleet.framework.arguments import RawArgs
from fleet.framework.handle import Handle


class QueuedPlacement(Protocol):
    """A queued placement, as the queue passes it to QueueSort."""

    @property
    def priority(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def uid(self) -> str: ...


class PrioritySort:
    """Higher priority first, then the longest wait, then by UID."""

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del raw, handle

    def name(self) -> str:
        return "PrioritySort"

    def key(self, item: QueuedPlacement) -> tuple[int, int, str]:
        return (-item.priority, item.timestamp, item.uid)
