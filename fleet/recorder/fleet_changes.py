"""Which clusters changed from one recorded attempt to the next, as far as a decision could tell.

A cluster is written down when it differs in anything but its heartbeat. A newer heartbeat alone is written down only
where the older one would be judged differently at the moment of the decision, or is about to be shown to people because
it is too old: so a fleet of 10,000 clusters that are well costs nothing between two decisions, and every decision can
be made again exactly. Plugins that may look at heartbeats in ways of their own are given all of them.

Used by one thread; frames never change, so it need not be the one that decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from fleet.snapshot.table import differ_beyond_heartbeat

if TYPE_CHECKING:
    from fleet.framework.profiles.profile import CompiledProfile
    from fleet.model.views import MemberCluster
    from fleet.settings.tree import Eligibility
    from fleet.snapshot.columns.bitset import Int64Array
    from fleet.snapshot.frame import Frame

_DECIDING: Final = ("batch", "postBatch", "preFilter", "filter", "postFilter", "preScore", "score", "sort")
_IN_TREE: Final = "plugins."
_HEARTBEATS: Final = {"signals", "*"}

Row = tuple[str, bytes | None]


class RecordedFleet:
    def __init__(self, *, recent: int) -> None:
        """Heartbeats of the last `recent` nanoseconds are all judged alike."""
        self._recent = recent
        self._frame: Frame | None = None
        self._written: dict[str, MemberCluster] = {}
        self._heard: Int64Array | None = None
        """By row: the heartbeat as it was written down."""
        self._was_exact = False
        self._placed: tuple[object, bool] = (None, True)
        """Bindings known to be there that were looked at last, and whether there were none."""

    @classmethod
    def judged_by(cls, eligibility: Eligibility) -> RecordedFleet:
        timeouts = (eligibility.heartbeat_timeout.seconds, eligibility.retention.seconds)
        return cls(recent=int(min(one for one in timeouts if one or one == timeouts[0]) * 1e9))

    def is_told_by_clusters(self, frame: Frame) -> bool:
        """Whether a frame holds nothing beside its clusters: no side data, nothing assumed or reserved."""
        if frame.feeds or frame.ledgers or frame.nominations or frame.excluded:
            return False
        if frame.placed is not self._placed[0]:
            self._placed = (frame.placed, not any(frame.placed))
        return self._placed[1]

    def changes(self, frame: Frame, *, now: int, anew: bool, exactly: bool) -> list[Row]:
        """To be written down before a decision that was made on a frame; anew: the whole fleet."""
        before, self._frame = self._frame, frame
        if anew or before is None or self._heard is None:
            self._was_exact = exactly
            return self._everything(frame)
        gone = self._gone(before, frame)
        changed = self._changed(before, frame, exactly=exactly)
        rows = list(dict.fromkeys((*changed, *self._stale(frame, now))))
        if not rows:
            return gone
        self._heard[rows] = frame.signals.last_seen[rows]
        put = [self._write(cluster) for row in rows if (cluster := frame.clusters[row]) is not None]
        return [*gone, *put]

    def _everything(self, frame: Frame) -> list[Row]:
        self._written = {}
        self._heard = frame.signals.last_seen.copy()
        return [self._write(frame.cluster(row)) for row in frame.names.order.tolist()]

    def _changed(self, before: Frame, frame: Frame, *, exactly: bool) -> list[int]:
        """Rows to be written down whatever their heartbeat."""
        found = []
        rows: Iterable[int] = frame.clusters.changed_since(before.clusters)
        if exactly and not self._was_exact:
            rows = range(frame.size)
        self._was_exact = exactly
        for row in rows:
            cluster = frame.clusters[row]
            if cluster is None or self._matters(before, row, cluster, exactly=exactly):
                found.append(row)
        return found

    def _matters(self, before: Frame, row: int, cluster: MemberCluster, *, exactly: bool) -> bool:
        name = cluster.metadata.name
        known = self._written.get(name)
        if known is None or before.row_of(name) != row:
            return True
        return known != cluster if exactly else differ_beyond_heartbeat(known, cluster)

    def _gone(self, before: Frame, frame: Frame) -> list[Row]:
        if before.names is frame.names:
            return []
        names = [name for name in self._written if name not in frame.names]
        for name in names:
            del self._written[name]
        return [(name, None) for name in names]

    def _stale(self, frame: Frame, now: int) -> list[int]:
        """Rows whose heartbeat, as written down, is not good enough for a decision at this moment."""
        seen = frame.signals.last_seen
        heard = self._heard = _as_long_as(seen, self._heard)
        limit = now - self._recent
        if heard.min(initial=limit) == limit == seen.min(initial=limit):
            return []  # all are recent, as they are wherever all is well
        rows: list[int] = ((heard != seen) & ((heard < limit) | (seen < limit))).nonzero()[0].tolist()
        return rows

    def _write(self, cluster: MemberCluster) -> Row:
        self._written[cluster.metadata.name] = cluster
        return cluster.metadata.name, msgspec.json.encode(cluster)


def looks_at_heartbeats(profile: CompiledProfile) -> bool:
    """Whether a plugin that is not ours may look at heartbeats: it is one that says so, or says nothing."""
    hooked = (one.plugin for hook in _DECIDING for one in profile.hooks[hook])
    return any(
        not type(plugin).__module__.startswith(_IN_TREE) and _HEARTBEATS & set(getattr(plugin, "READS", ("*",)))
        for plugin in hooked
    )


def _as_long_as(column: Int64Array, other: Int64Array | None) -> Int64Array:
    assert other is not None
    if len(other) == len(column):
        return other
    resized = column.copy()
    shared = min(len(other), len(column))
    resized[:shared] = other[:shared]
    return resized
