"""Parked placements: attempts with reserved clusters that wait until every Permit plugin has allowed them.

Deadlines are absolute; the first one to pass refuses the attempt. The first decision about a placement wins. Plugins
may call from threads of their own, and an answer may come while Permit is still running: it is kept for the wait.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from fleet.clock import SECOND, Clock, epoch_nanoseconds
from fleet.errors import QueueClosed
from fleet.framework.request import PlacementRequest
from fleet.framework.status import Code, Status
from fleet.model.placement_key import PlacementKey
from fleet.model.timestamps import format_timestamp
from fleet.scheduler.binding.waiting_store import WaitingEntry

ANY_TARGET: Final = "*"
SPEC_CHANGED: Final = "SpecChanged"


class Refusal(NamedTuple):
    """Why a wait ended without permission."""

    status: Status
    cluster: str = ""
    """Empty if it is about the placement as a whole."""
    result: str = "rejected"
    """For the metric: rejected, timeout or ended."""


class ParkedPlacement:
    """Implements `fleet.framework.handle.WaitingPlacement`. Opened before Permit runs, parked if a plugin waits."""

    def __init__(
        self, key: PlacementKey, placement: PlacementRequest, lock: threading.Lock, *, is_partial: bool = False
    ) -> None:
        self.key, self.placement, self.is_partial = key, placement, is_partial
        self.targets: tuple[str, ...] = ()
        self.parked_on: tuple[str, ...] = ()
        """The targets when the wait began."""
        self.is_parked = False
        self._lock = lock
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._entries: dict[tuple[str, str], tuple[WaitingEntry, ...]] = {}
        """By cluster and plugin, one for each rule."""
        self._timeout_codes: Mapping[str, Code] = {}
        self._early: set[tuple[str, str]] = set()
        """Plugins and targets that were allowed before the wait began."""
        self._early_refusals: list[Refusal] = []
        """Of a placement that goes on with the clusters that are not refused."""
        self._left_out: list[Refusal] = []
        self._refusal: Refusal | None = None
        self._closed = False

    @property
    def uid(self) -> str:
        return self.placement.uid

    @property
    def entries(self) -> tuple[WaitingEntry, ...]:
        with self._lock:
            return tuple(entry for entries in self._entries.values() for entry in entries)

    @property
    def pending(self) -> Mapping[str, Mapping[str, int]]:
        by_cluster: dict[str, dict[str, int]] = {}
        for entry in self.entries:
            by_cluster.setdefault(entry.cluster, {})[entry.plugin] = entry.deadline or 0
        return by_cluster

    @property
    def has_early_answers(self) -> bool:
        return bool(self._early or self._early_refusals) or self._refusal is not None

    @property
    def waits_since(self) -> int | None:
        """None unless it waits, and can be refused."""
        with self._lock:
            is_open = self.is_parked and self._refusal is None
            entries = [entry.since for each in self._entries.values() for entry in each] if is_open else []
        return min(entries, default=None)

    def pending_plugins(self, target: str | None = None) -> list[str]:
        return sorted({entry.plugin for entry in self.entries if target in (None, entry.cluster)})

    # --- answers ------------------------------------------------------------------------------------------------------

    def allow(self, plugin: str, target: str = ANY_TARGET) -> bool:
        with self._lock:
            if self._refusal is not None:
                return False
            if not self.is_parked:
                self._early.add((plugin, target))
                return True
            allowed = self._allow(plugin, target)
        if allowed:
            self._notify()
        return allowed

    def reject(self, plugin: str, message: str, target: str = ANY_TARGET) -> bool:
        status = Status(Code.UNSCHEDULABLE, (message,), plugin=plugin)
        return self._refuse(Refusal(status, "" if target == ANY_TARGET else target))

    def end(self, message: str) -> bool:
        """The wait has lost its purpose. No plugin is the rejector."""
        return self._refuse(Refusal(Status.new(Code.UNSCHEDULABLE, message), result="ended"))

    def close(self) -> None:
        """Without an answer: the next leader takes over."""
        self._closed = True
        self._notify()

    # --- the wait -----------------------------------------------------------------------------------------------------

    def park(
        self, entries: Iterable[WaitingEntry], *, targets: Iterable[str], timeout_codes: Mapping[str, Code]
    ) -> None:
        """`timeout_codes`: by plugin, of the refusal when its time is over."""
        with self._lock:
            self.targets = self.parked_on = tuple(targets)
            self._timeout_codes, self.is_parked = timeout_codes, True
            for entry in entries:
                pair = (entry.cluster, entry.plugin)
                self._entries[pair] = (*self._entries.get(pair, ()), entry)
            for refusal in self._early_refusals:
                self._take(refusal)
            for plugin, target in self._early:
                self._allow(plugin, target)

    async def wait_for_change(self, clock: Clock) -> Refusal | None:
        """Returns at the next answer, or with the refusal that ends the wait. Without entries everything is allowed."""
        self._changed.clear()
        first = min(self.entries, key=_deadline_of, default=None)
        if self._closed:
            raise QueueClosed("the wait was not finished: the scheduler stops")
        if self._refusal is None and first is not None:
            remaining = _deadline_of(first) - epoch_nanoseconds(clock)
            if remaining <= 0:
                self._refuse(_time_out(first, self._timeout_codes.get(first.plugin, Code.UNSCHEDULABLE)))
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), remaining / SECOND)
        return self._refusal

    def take_left_out(self) -> list[Refusal]:
        """The clusters that were refused since the last call, while the others go on."""
        with self._lock:
            taken, self._left_out = self._left_out, []
        return taken

    # --- inside -------------------------------------------------------------------------------------------------------

    def _allow(self, plugin: str, target: str) -> bool:
        pairs = [pair for pair in self._entries if pair[1] == plugin and target in (ANY_TARGET, pair[0])]
        for pair in pairs:
            del self._entries[pair]
        return bool(pairs)

    def _refuse(self, refusal: Refusal) -> bool:
        with self._lock:
            is_taken = self._take(refusal)
        if is_taken:
            self._notify()
        return is_taken

    def _take(self, refusal: Refusal) -> bool:
        if self._refusal is not None or (self.is_parked and not self._entries):
            return False
        status, cluster, result = refusal
        if self.is_partial and result != "ended" and status.code is not Code.PENDING:
            if not self.is_parked:
                self._early_refusals.append(refusal)
                return True
            waiting = {name for name, plugin in self._entries if plugin == status.plugin}
            refused = [name for name in self.targets if name in ({cluster} if cluster else waiting)]
            if cluster and not refused:
                return False
            if refused and len(refused) < len(self.targets):
                self._leave_out(refusal, refused)
                return True
        self._refusal = refusal
        return True

    def _leave_out(self, refusal: Refusal, clusters: Collection[str]) -> None:
        self.targets = tuple(name for name in self.targets if name not in clusters)
        self._entries = {pair: entries for pair, entries in self._entries.items() if pair[0] not in clusters}
        self._left_out += [refusal._replace(cluster=name) for name in clusters]

    def _notify(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._changed.set)


class ParkedPlacements:
    """Implements `fleet.framework.handle.WaitingRoom`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_uid: dict[str, ParkedPlacement] = {}
        self._by_key: dict[PlacementKey, ParkedPlacement] = {}
        self._by_cluster: dict[str, set[str]] = {}
        """UIDs of parked placements."""
        self._closed = False
        self.on_change: Callable[[PlacementKey], None] = lambda _: None
        """Called on the event loop when a placement begins to wait, leaves a cluster or has ended."""

    def __len__(self) -> int:
        return sum(item.is_parked for item in self._list())

    # --- for plugins, and for those who answer ------------------------------------------------------------------------

    def for_each(self, visit: Callable[[ParkedPlacement], None]) -> None:
        for item in self._list():
            if item.is_parked:
                visit(item)

    def get(self, uid: str) -> ParkedPlacement | None:
        item = self._by_uid.get(uid)
        return item if item is not None and item.is_parked else None

    def allow(self, uid: str, plugin: str, target: str = ANY_TARGET) -> bool:
        item = self._by_uid.get(uid)
        return item is not None and item.allow(plugin, target)

    def reject(self, uid: str, plugin: str, message: str, target: str = ANY_TARGET) -> bool:
        item = self._by_uid.get(uid)
        return item is not None and item.reject(plugin, message, target)

    # --- for the scheduler --------------------------------------------------------------------------------------------

    @contextmanager
    def open(
        self, key: PlacementKey, placement: PlacementRequest, *, is_partial: bool = False
    ) -> Iterator[ParkedPlacement]:
        """Of an attempt, until it ends. `is_partial`: a cluster that is refused leaves the others."""
        item = ParkedPlacement(key, placement, self._lock, is_partial=is_partial)
        if self._closed:
            item.close()
        self._by_uid[item.uid] = self._by_key[key] = item
        try:
            yield item
        finally:
            del self._by_uid[item.uid], self._by_key[key]
            for cluster in item.parked_on:
                self._leave(cluster, item.uid)
            if item.parked_on:
                self.on_change(key)

    def park(
        self,
        item: ParkedPlacement,
        entries: Iterable[WaitingEntry],
        *,
        targets: Iterable[str],
        timeout_codes: Mapping[str, Code],
    ) -> None:
        item.park(entries, targets=targets, timeout_codes=timeout_codes)
        for cluster in item.targets:
            self._by_cluster.setdefault(cluster, set()).add(item.uid)
        self.on_change(item.key)

    # --- for those who need the room ----------------------------------------------------------------------------------

    def list_waits(self, key: PlacementKey) -> dict[str, int]:
        """The clusters whose room a placement has while it waits, with the moment since when."""
        item = self._by_key.get(key)
        since = None if item is None else item.waits_since
        return {} if item is None or since is None else dict.fromkeys(item.targets, since)

    def holds(self, key: PlacementKey, cluster: str) -> bool:
        """Whether it waits for the cluster, or has waited and its attempt has not ended."""
        item = self._by_key.get(key)
        return item is not None and item.is_parked and cluster in item.targets

    def refuse(self, key: PlacementKey, cluster: str, *, plugin: str, message: str) -> bool:
        item = self._by_key.get(key)
        return item is not None and item.reject(plugin, message, cluster)

    # --- when something ends ------------------------------------------------------------------------------------------

    def end(self, key: PlacementKey, trigger: str) -> None:
        """The placement itself has changed. A wait that has not begun yet ends at once."""
        item = self._by_key.get(key)
        if item is not None:
            item.end(f"{SPEC_CHANGED}: the placement changed while it waited ({trigger})")

    def end_departed(self, cluster: str) -> None:
        """The cluster has left, or is leaving."""
        for uid in tuple(self._by_cluster.get(cluster, ())):
            item = self.get(uid)
            if item is not None and cluster in item.targets:
                item.end(f"cluster {cluster} left the fleet while the placement waited")

    def close(self) -> None:
        """Also for attempts that have not come to their wait yet."""
        self._closed = True
        for item in self._list():
            item.close()

    def _list(self) -> Collection[ParkedPlacement]:
        return tuple(self._by_uid.values())

    def _leave(self, cluster: str, uid: str) -> None:
        waiting = self._by_cluster.get(cluster, set())
        waiting.discard(uid)
        if not waiting:
            self._by_cluster.pop(cluster, None)


def describe_wait(entries: Collection[WaitingEntry]) -> str:
    """For people; empty if nothing waits."""
    if not entries:
        return ""
    plugins = ", ".join(sorted({entry.plugin for entry in entries}))
    clusters = ", ".join(dict.fromkeys(entry.cluster for entry in entries))
    deadlines = [entry.deadline for entry in entries if entry.deadline is not None]
    until = f" until {format_timestamp(min(deadlines))}" if deadlines else ""
    return f"waits for {plugins} on {clusters}{until}"


def _deadline_of(entry: WaitingEntry) -> int:
    assert entry.deadline is not None
    return entry.deadline


def _time_out(entry: WaitingEntry, code: Code) -> Refusal:
    seconds = (_deadline_of(entry) - entry.since) / SECOND
    message = f"rejected due to timeout after waiting {seconds:g}s at plugin {entry.plugin}"
    return Refusal(Status(code, (message,), plugin=entry.plugin), entry.cluster, "timeout")
