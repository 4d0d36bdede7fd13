"""Clusters are preferred by a number of a feed: the cheapest, or the one with most quota left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from fleet.framework.arguments import RawArgs, decode_into
from fleet.framework.context import HookContext
from fleet.framework.handle import Handle
from fleet.framework.request import PlacementRequest
from fleet.framework.scores import round_half_away_array
from fleet.framework.state import CycleState
from fleet.framework.status import MAX_CLUSTER_SCORE
from fleet.framework.types import PluginTraits
from fleet.snapshot.columns.bitset import Int64Array, Rows
from fleet.snapshot.frame import Frame

_MOST_NOTED: Final = 100
_SECOND: Final = 1_000_000_000


@dataclass
class FeedPreferenceArgs:
    feed: str = ""
    column: str = "value"
    prefer: Literal["lowest", "highest"] = "lowest"


class FeedPreference(PluginTraits):
    """From 100 for the best feasible cluster to 0 for the worst, and 0 where the feed has no number."""

    READS = ("feeds",)

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del handle
        self._args = decode_into(raw, FeedPreferenceArgs)

    def name(self) -> str:
        return "FeedPreference"

    def list_feeds(self) -> tuple[str, ...]:
        return (self._args.feed,) if self._args.feed else ()

    def score(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, rows: Rows) -> Int64Array:
        del state, req
        feed = frame.feeds.get(self._args.feed)
        column = None if feed is None else feed.columns.get(self._args.column)
        if feed is None or column is None:
            return np.zeros(len(rows), dtype=np.int64)
        values = column[rows] / 2  # so that the distance of no two numbers is infinite
        self._note(ctx, frame, rows)
        known = ~np.isnan(values)
        low, high = (values[known].min(), values[known].max()) if known.any() else (0.0, 0.0)
        distance = values - low if self._args.prefer == "highest" else high - values
        share = distance / (high - low) if high > low else np.ones(len(rows))
        return round_half_away_array(np.where(known, share, 0.0) * MAX_CLUSTER_SCORE)

    def _note(self, ctx: HookContext, frame: Frame, rows: Rows) -> None:
        """The numbers and the age of the first clusters by name, for explanations."""
        feed = frame.feeds[self._args.feed]
        noted = {}
        for row in sorted(rows.tolist(), key=frame.name)[:_MOST_NOTED]:
            value = float(feed.columns[self._args.column][row])
            if not np.isnan(value):
                age = (ctx.now - int(feed.sampled_at[row])) // _SECOND
                noted[frame.name(row)] = {"value": value, "ageSeconds": age, "stale": feed.is_stale(row, ctx.now)}
        ctx.note(f"{self._args.feed} {self._args.column}", noted)
