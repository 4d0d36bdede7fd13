"""Unschedulable pool: placements that only an event can help, and those that PreEnqueue plugins keep out."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from fleet.clock import SECOND
from fleet.kube.heap import KeyHeap
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.queue.hints import NO_PLUGIN
from fleet.scheduler.queue.item import ItemState, QueueItem

FLUSH_PERIOD: Final = 30 * SECOND
"""How often the pool is flushed of placements that have been in it for too long."""


def flush_time(pooled_at: int, max_time: int) -> int:
    """The first flush at which an item has been in the pool for longer than that."""
    return ((pooled_at + max_time) // FLUSH_PERIOD + 1) * FLUSH_PERIOD


class UnschedulablePool:
    def __init__(self, *, max_time: int) -> None:
        """Items with a timed retry are flushed after `max_time` in the pool; 0 for never."""
        self.items: dict[PlacementKey, QueueItem] = {}
        self.by_plugin: dict[str, dict[PlacementKey, QueueItem]] = {}
        """Items by the plugins that rejected them, or by the one that gates them."""
        self.gated = 0
        self._max_time = max_time
        self._timed: KeyHeap[PlacementKey] = KeyHeap()
        """By the time at which they entered the pool."""

    def add(self, item: QueueItem, now: int) -> None:
        item.state = ItemState.UNSCHEDULABLE
        item.pooled_at = now
        self.items[item.key] = item
        self.gated += item.gate is not None
        for plugin in _plugins_of(item):
            self.by_plugin.setdefault(plugin, {})[item.key] = item
        if item.policy.timed_retry and self._max_time:
            self._timed.push(item.key, now)

    def remove(self, item: QueueItem) -> None:
        """Before anything about the item changes."""
        key = item.key
        del self.items[key]
        self.gated -= item.gate is not None
        for plugin in _plugins_of(item):
            items = self.by_plugin[plugin]
            del items[key]
            if not items:
                del self.by_plugin[plugin]
        self._timed.discard(key)

    def next_flush(self) -> int | None:
        since: int | None = self._timed.first_order()
        return None if since is None else flush_time(since, self._max_time)

    def list_overdue(self, now: int) -> Iterator[QueueItem]:
        """Items to flush. They stay in the pool until they are removed."""
        while (due := self.next_flush()) is not None and due <= now:
            yield self.items[self._timed.pop_existing()]


def _plugins_of(item: QueueItem) -> Collection[str]:
    if item.gate is not None:
        return (item.gate.plugin,)
    if item.pending:
        return item.rejectors | item.pending
    return item.rejectors or (NO_PLUGIN,)
