"""Clusters are left out by a number of a feed: too expensive, too little quota left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from fleet.framework.arguments import RawArgs, decode_into
from fleet.framework.context import HookContext
from fleet.framework.explaining import ClusterEvent
from fleet.framework.handle import Handle
from fleet.framework.request import PlacementRequest
from fleet.framework.state import CycleState
from fleet.framework.status import Code
from fleet.framework.types import PluginTraits, Reason, ReasonTable, Verdict
from fleet.model.views import PlacementPolicy
from fleet.snapshot.frame import Frame

_ABOVE, _BELOW, _UNKNOWN = 1, 2, 3
_SECOND: Final = 1_000_000_000


class FeedBound(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    feed: str
    column: str = "value"
    at_least: float | None = None
    at_most: float | None = None
    accept_unknown: bool = False
    """Whether clusters pass for which the feed has no number."""


@dataclass
class FeedLimitArgs:
    limits: tuple[FeedBound, ...] = ()


class FeedLimit(PluginTraits):
    READS = ("feeds",)
    READS_POLICY_ONLY = True
    ROW_LOCAL = True
    REASONS = ReasonTable(
        Reason("TooHigh", Code.UNSCHEDULABLE, "{feed} {column} is {value}, more than {limit}; {sampled}"),
        Reason("TooLow", Code.UNSCHEDULABLE, "{feed} {column} is {value}, less than {limit}; {sampled}"),
        Reason("Unknown", Code.UNSCHEDULABLE, "{feed} has no {column}"),
    )

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del handle
        self._limits = decode_into(raw, FeedLimitArgs).limits

    def name(self) -> str:
        return "FeedLimit"

    def list_feeds(self) -> tuple[str, ...]:
        return tuple(limit.feed for limit in self._limits)

    def filter(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int) -> Verdict:
        del state, req, alive
        reason = np.zeros(frame.size, dtype=np.uint16)
        broken = np.zeros(frame.size, dtype=np.intp)
        for position, limit in enumerate(self._limits):
            judged = _judge(limit, frame)
            is_first = (reason == 0) & (judged != 0)
            reason[is_first], broken[is_first] = judged[is_first], position
        now = ctx.now
        return Verdict(
            ok=reason == 0, reason=reason, explain=lambda row: _explain(self._limits[broken[row]], frame, row, now)
        )

    def events_to_register(self, policy: PlacementPolicy, namespace: str) -> tuple[ClusterEvent, ...]:
        """None: what changes about a cluster leaves the number as it is."""
        return ()


def _judge(limit: FeedBound, frame: Frame) -> Any:
    feed = frame.feeds.get(limit.feed)
    values = np.full(frame.size, np.nan) if feed is None else feed.columns.get(limit.column)
    if values is None:
        values = np.full(frame.size, np.nan)
    judged = np.zeros(frame.size, dtype=np.uint16)
    if limit.at_most is not None:
        judged[values > limit.at_most] = _ABOVE
    if limit.at_least is not None:
        judged[values < limit.at_least] = _BELOW
    if not limit.accept_unknown:
        judged[np.isnan(values)] = _UNKNOWN
    return judged


def _explain(limit: FeedBound, frame: Frame, row: int, now: int) -> Mapping[str, object]:
    details: dict[str, object] = {"feed": limit.feed, "column": limit.column}
    feed = frame.feeds.get(limit.feed)
    values = None if feed is None else feed.columns.get(limit.column)
    if feed is None or values is None or np.isnan(values[row]):
        return details
    value, age = float(values[row]), (now - int(feed.sampled_at[row])) // _SECOND
    is_stale = feed.is_stale(row, now)
    is_above = limit.at_most is not None and value > limit.at_most
    return {
        **details,
        "value": value,
        "limit": limit.at_most if is_above else limit.at_least,
        "sampled": f"sampled {age}s before{', which is stale' if is_stale else ''}",
        "ageSeconds": age,
        "stale": is_stale,
    }
