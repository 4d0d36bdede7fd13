"""Changes of clusters between two recorded attempts, as far as they can affect a decision.

A cluster is recorded when anything but its heartbeat differs. A newer heartbeat alone is recorded only where the older
one would be judged differently at the moment of the decision, or would be shown because it is too old: so 10,000
healthy clusters cost nothing between two decisions, and every decision can be replayed exactly. The same holds for the
times at which pools were reported. For third-party plugins that may read heartbeats, every heartbeat is recorded.

Used by one thread; frames never change, so it need not be the one that decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from fleet.framework.profiles.profile import is_in_tree
from fleet.snapshot.table import differ_beyond_heartbeat

if TYPE_CHECKING:
    from fleet.framework.profiles.profile import CompiledProfile
    from fleet.model.views import MemberCluster
    from fleet.snapshot.columns.bitset import Int64Array
    from fleet.snapshot.frame import Frame

_DECIDING: Final = ("batch", "postBatch", "preFilter", "filter", "postFilter", "preScore", "score", "sort")
_PICKING: Final = tuple(hook for hook in _DECIDING if hook != "postFilter")
_HEARTBEATS: Final = {"signals", "*"}

Row = tuple[str, bytes | None]


class HeartbeatUse(NamedTuple):
    """How the plugins of a profile depend on heartbeats."""

    exactly: bool
    """Whether a plugin from elsewhere may read them."""
    recent: int
    """Nanoseconds. Younger heartbeats are judged alike."""
    recent_pools: int = 0
    """The same for reports of pools; 0 if no plugin judges their age."""


class RecordedFleet:
    def __init__(self) -> None:
        self._frame: Frame | None = None
        self._recorded: dict[str, MemberCluster] = {}
        self._recorded_heartbeats: Int64Array | None = None
        """By row: the heartbeat as recorded."""
        self._recorded_pools: Int64Array | None = None
        """By row: the time of the report of pools as recorded; None while no plugin judges it."""
        self._was_exact = False

    def collect_changes(self, frame: Frame, *, now: int, anew: bool, heartbeats: HeartbeatUse) -> list[Row]:
        """To be recorded before a decision that was made on a frame; with `anew` the whole fleet."""
        exactly = heartbeats.exactly
        before, self._frame = self._frame, frame
        judges_pools = heartbeats.recent_pools > 0
        if (
            anew
            or before is None
            or self._recorded_heartbeats is None
            or (judges_pools and self._recorded_pools is None)
        ):
            self._was_exact = exactly
            return self._record_all(frame, with_pools=judges_pools)
        gone = self._drop_missing(before, frame)
        changed = self._find_changed(before, frame, exactly=exactly)
        self._recorded_heartbeats = _resize_like(frame.signals.last_seen, self._recorded_heartbeats)
        stale = _find_stale(self._recorded_heartbeats, frame.signals.last_seen, now - heartbeats.recent)
        if self._recorded_pools is not None:
            self._recorded_pools = _resize_like(frame.pools.observed_at, self._recorded_pools)
            if judges_pools:
                limit = now - heartbeats.recent_pools
                stale += _find_stale(self._recorded_pools, frame.pools.observed_at, limit)
        rows = list(dict.fromkeys((*changed, *stale)))
        if not rows:
            return gone
        self._recorded_heartbeats[rows] = frame.signals.last_seen[rows]
        if self._recorded_pools is not None:
            self._recorded_pools[rows] = frame.pools.observed_at[rows]
        put = [self._record(cluster) for row in rows if (cluster := frame.clusters[row]) is not None]
        return [*gone, *put]

    def _record_all(self, frame: Frame, *, with_pools: bool) -> list[Row]:
        self._recorded = {}
        self._recorded_heartbeats = frame.signals.last_seen.copy()
        self._recorded_pools = frame.pools.observed_at.copy() if with_pools else None
        return [self._record(frame.cluster(row)) for row in frame.names.order.tolist()]

    def _find_changed(self, before: Frame, frame: Frame, *, exactly: bool) -> list[int]:
        """Rows to be recorded with any heartbeat."""
        changed = []
        rows: Iterable[int] = frame.clusters.changed_since(before.clusters)
        if exactly and not self._was_exact:
            rows = range(frame.size)
        self._was_exact = exactly
        for row in rows:
            cluster = frame.clusters[row]
            if cluster is None or self._differs(before, row, cluster, exactly=exactly):
                changed.append(row)
        return changed

    def _differs(self, before: Frame, row: int, cluster: MemberCluster, *, exactly: bool) -> bool:
        name = cluster.metadata.name
        known = self._recorded.get(name)
        if known is None or before.row_of(name) != row:
            return True
        return known != cluster if exactly else differ_beyond_heartbeat(known, cluster)

    def _drop_missing(self, before: Frame, frame: Frame) -> list[Row]:
        if before.names is frame.names:
            return []
        names = [name for name in self._recorded if name not in frame.names]
        for name in names:
            del self._recorded[name]
        return [(name, None) for name in names]

    def _record(self, cluster: MemberCluster) -> Row:
        self._recorded[cluster.metadata.name] = cluster
        return cluster.metadata.name, msgspec.json.encode(cluster)


def find_heartbeat_use(profile: CompiledProfile) -> HeartbeatUse:
    ages = []
    for _, plugin in profile.find_plugins("eligibility"):
        ages += [plugin.eligibility.heartbeat_timeout, *filter(None, [getattr(plugin, "retention", 0)])]
    of_pools = [plugin.longest_report for _, plugin in profile.find_plugins("longest_report")]
    return HeartbeatUse(
        exactly=reads_heartbeats(profile),
        recent=min(ages, default=0),
        recent_pools=min(filter(None, of_pools), default=0),
    )


def reads_heartbeats(profile: CompiledProfile) -> bool:
    """Whether an out-of-tree plugin may read heartbeats: one that declares them in READS, or has no declaration."""
    return any(_HEARTBEATS & reads for in_tree, reads in _list_reads(profile) if not in_tree)


def reads_sidedata(profile: CompiledProfile, kind: str, *, has_searched: bool = True) -> bool:
    """Whether a plugin may: one that declares it in READS, or is out of tree and has no declaration. Without
    `has_searched`, none of PostFilter had to."""
    reads = _list_reads(profile, _DECIDING if has_searched else _PICKING)
    return any(kind in columns or ("*" in columns and not in_tree) for in_tree, columns in reads)


def _list_reads(profile: CompiledProfile, hooks: tuple[str, ...] = _DECIDING) -> Iterator[tuple[bool, set[str]]]:
    searching = {entry.name for entry in profile.post_filter} if "postFilter" not in hooks else set()
    for entry in (entry for hook in hooks for entry in profile.hooks[hook]):
        if entry.name not in searching:
            plugin = entry.plugin
            yield is_in_tree(plugin), set(getattr(plugin, "READS", ("*",)))


def _find_stale(recorded: Int64Array, seen: Int64Array, limit: int) -> list[int]:
    """Rows whose recorded time would not lead to the same decision, where those after `limit` are alike."""
    if recorded.min(initial=limit) == limit == seen.min(initial=limit):
        return []  # all are recent: the usual case
    rows: list[int] = ((recorded != seen) & ((recorded < limit) | (seen < limit))).nonzero()[0].tolist()
    return rows


def _resize_like(column: Int64Array, other: Int64Array | None) -> Int64Array:
    assert other is not None
    if len(other) == len(column):
        return other
    resized = column.copy()
    shared = min(len(other), len(column))
    resized[:shared] = other[:shared]
    return resized
