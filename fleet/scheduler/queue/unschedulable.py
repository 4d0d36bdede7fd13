"""The space of placements that only an event can help: rejected ones, and those that may not be queued yet."""

from __future__ import annotations

from collections.abc import Collection

from fleet.scheduler.queue.heap import KeyHeap
from fleet.scheduler.queue.hints import NO_PLUGIN
from fleet.scheduler.queue.item import ItemState, QueueItem
from fleet.scheduler.queue.timing import flush_moment


class Pool:
    def __init__(self, *, longest: int) -> None:
        """`longest`: after which time in the pool items with a timed retry are searched out; 0 for never."""
        self.items: dict[str, QueueItem] = {}
        self.by_plugin: dict[str, dict[str, QueueItem]] = {}
        """Items by the plugin whose mind has to change: all that rejected, or the one that holds."""
        self.gated = 0
        self._longest = longest
        self._leftovers = KeyHeap()

    def put(self, item: QueueItem, now: int) -> None:
        item.state = ItemState.UNSCHEDULABLE
        item.pooled_at = now
        self.items[item.key] = item
        self.gated += item.gate is not None
        for plugin in _listed_under(item):
            self.by_plugin.setdefault(plugin, {})[item.key] = item
        if item.policy.timed_retry and self._longest:
            self._leftovers.push(item.key, now)

    def take(self, item: QueueItem) -> None:
        """Out of the pool, before anything about the item changes."""
        key = item.key
        del self.items[key]
        self.gated -= item.gate is not None
        for plugin in _listed_under(item):
            listed = self.by_plugin[plugin]
            del listed[key]
            if not listed:
                del self.by_plugin[plugin]
        self._leftovers.discard(key)

    def next_flush(self) -> int | None:
        since: int | None = self._leftovers.first_order()
        return None if since is None else flush_moment(since, self._longest)

    def overdue(self, now: int) -> list[str]:
        """Keys that a search found by now. They stay in the pool until they are taken."""
        found = []
        while (due := self.next_flush()) is not None and due <= now:
            found.append(self._leftovers.pop() or "")
        return found


def _listed_under(item: QueueItem) -> Collection[str]:
    if item.gate is not None:
        return (item.gate.plugin,)
    if item.pending:
        return item.rejectors | item.pending
    return item.rejectors or (NO_PLUGIN,)
