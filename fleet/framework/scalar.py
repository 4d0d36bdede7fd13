"""Plugins that judge one cluster at a time: their base class, and their view of a cluster."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fleet.framework.types import PluginTraits
from fleet.model.quantity import quantity_to_float
from fleet.model.views import MemberCluster

if TYPE_CHECKING:
    from fleet.snapshot.frame import Frame


class ClusterView:
    """One row, read-only."""

    __slots__ = ("_frame", "cluster", "row")

    def __init__(self, frame: Frame, row: int) -> None:
        self._frame, self.row = frame, row
        self.cluster: MemberCluster = frame.cluster(row)

    @property
    def name(self) -> str:
        return self.cluster.metadata.name

    @property
    def labels(self) -> Mapping[str, str]:
        return self.cluster.metadata.labels or {}

    @property
    def properties(self) -> Mapping[str, float]:
        """Properties that are quantities, as numbers."""
        numbers = {
            name: quantity_to_float(measured.value) for name, measured in (self.cluster.status.properties or {}).items()
        }
        return {name: number for name, number in numbers.items() if number == number}

    def feed(self, name: str, column: str = "value") -> float:
        """The number of a feed for this cluster; not a number (NaN) where there is none."""
        feed = self._frame.feeds.get(name)
        values = None if feed is None else feed.columns.get(column)
        return math.nan if values is None else float(values[self.row])

    def sampled_at(self, feed: str) -> int:
        """Nanoseconds since the epoch; 0 where the cluster was never sampled."""
        sampled = self._frame.feeds.get(feed)
        return 0 if sampled is None else int(sampled.sampled_at[self.row])

    def ledger(self, name: str) -> int:
        return int(self._frame.ledger(name)[self.row])


class ScalarPlugin(PluginTraits):
    """Base of per-cluster plugins. Implement any of `filter_one`, `score_one`, `normalize_list`,
    `pre_filter_names`, `add_one` and `remove_one`."""

    def name(self) -> str:
        return type(self).__name__
