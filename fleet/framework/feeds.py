"""Load of clusters, as plugins read it from a frame: from a feed, or as their members report it.

Loads are percentages of the capacity of a cluster. One that is missing, or older than its feed allows, is NaN.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from fleet.errors import ConfigurationError
from fleet.framework.needs import spread_needs
from fleet.framework.policy.workload_limits import LIMITED, UNSIZED, list_sizes
from fleet.framework.request import PlacementRequest
from fleet.framework.scores import round_half_away
from fleet.model.quantity import nearest_float, quantity_or_none
from fleet.snapshot.columns.bitset import BoolArray, FloatArray, Rows
from fleet.snapshot.frame import Frame
from fleet.snapshot.sidedata import RECENT_PLACEMENTS, REPORTED, Feed, list_recent_columns

_REPORTED_RESOURCES: Final = ("cpu", "memory")
_SECOND: Final = 1_000_000_000
_GREATEST: Final = 1e6
"""Percent: whatever a source says, sums of loads stay finite."""


class DefaultRequests(msgspec.Struct, frozen=True, rename="camel"):
    """Argument of plugins: the use of a placement whose requests are not known."""

    cpu: str | int | float = "1000m"


class CpuEstimate:
    """Thousandths of a core that a placement is expected to use on a cluster."""

    def __init__(self, args: str, default: DefaultRequests, multiplier: str | int | float) -> None:
        """`args` is the name of the arguments, for messages; requests that are known count `multiplier` times."""
        self._default = 1000.0 * _read_amount(f"{args}.defaultRequests.cpu", default.cpu)
        self._multiplier = _read_amount(f"{args}.defaultRequestsMultiplier", multiplier)

    def of(self, req: PlacementRequest, frame: Frame, rows: Rows) -> FloatArray:
        """A container is expected to use its limit, else its request times the multiplier, else the default. A
        placement of whose containers nothing is known counts as one."""
        if not any(req.limits):
            request = req.requests.get("cpu")
            return np.full(len(rows), self._default if request is None else self._multiply(request))
        amounts = {name: amount[rows] for name, amount in spread_needs(req.limits, frame).items()}
        nothing = np.zeros(len(rows), dtype=np.int64)
        expected: FloatArray = amounts.get(LIMITED, nothing) + amounts.get(UNSIZED, nothing) * self._default
        for size, count in list_sizes(amounts):
            expected = expected + count * self._multiply(size)
        return expected

    def of_recent(self, frame: Frame, feed: str, rows: Rows) -> FloatArray:
        """Of all placements that the load may not contain yet."""
        _, limited, requested, unsized = (_read_recent(frame, column, rows) for column in list_recent_columns(feed))
        expected: FloatArray = limited + requested * self._multiplier + unsized * self._default
        return expected

    def _multiply(self, request: int) -> float:
        return float(round_half_away(request * self._multiplier))


def _read_amount(path: str, text: str | int | float) -> float:
    amount = quantity_or_none(text)
    if amount is None or amount < 0:
        raise ConfigurationError(f"{path}: {text!r} should be a quantity such as 500m or 1.5")
    return nearest_float(amount)


def read_load(frame: Frame, feed: str, column: str, rows: Rows, now: int) -> FloatArray:
    """Percent of capacity by row; NaN where there is no number, or an old one."""
    if feed == REPORTED:
        return _read_reported(frame, column, rows)
    sampled = frame.feeds.get(feed)
    values = None if sampled is None else sampled.columns.get(column)
    if sampled is None or values is None:
        return np.full(len(rows), np.nan)
    is_fresh = ~_find_stale(sampled, rows, now)
    fresh: FloatArray = np.where(is_fresh, np.clip(values[rows], 0.0, _GREATEST), np.nan)
    return fresh


def count_recent(frame: Frame, feed: str, rows: Rows) -> FloatArray:
    """How many placements each cluster got that its load may not contain yet."""
    return _read_recent(frame, list_recent_columns(feed)[0], rows)


def read_capacity(frame: Frame, resource: str, rows: Rows) -> FloatArray:
    """In whole units, thousandths for cpu; NaN where the member reports none."""
    values = frame.usage("capacity", resource).values[rows]
    capacity: FloatArray = np.rint(values * 1000.0) if resource == "cpu" else values
    return capacity


def describe_load(frame: Frame, feed: str, column: str, row: int, now: int) -> str:
    """Source and age of a number that there is; else why there is none."""
    if feed == REPORTED:
        known = not np.isnan(_read_reported(frame, column, np.array([row]))[0])
        return "as the member reports it" if known else f"the member reports no {column} capacity and usage"
    sampled = frame.feeds.get(feed)
    values = None if sampled is None else sampled.columns.get(column)
    failure = f"; its source: {sampled.error}" if sampled is not None and sampled.error else ""
    if sampled is None or values is None or np.isnan(values[row]):
        return f"feed {feed} has no {column} for this cluster{failure}"
    age = (now - int(sampled.sampled_at[row])) // _SECOND
    if sampled.is_stale(row, now):
        return f"{column} of feed {feed} is {age}s old and counts for {sampled.max_age // _SECOND}s{failure}"
    return f"feed {feed}, {age}s old"


def _read_recent(frame: Frame, column: str, rows: Rows) -> FloatArray:
    recent = frame.feeds.get(RECENT_PLACEMENTS)
    values = None if recent is None else recent.columns.get(column)
    return np.zeros(len(rows)) if values is None else np.nan_to_num(values[rows])


def _find_stale(feed: Feed, rows: Rows, now: int) -> BoolArray:
    if not feed.max_age:
        return np.zeros(len(rows), dtype=np.bool_)
    stale: BoolArray = now - feed.sampled_at[rows] > feed.max_age
    return stale


def _read_reported(frame: Frame, column: str, rows: Rows) -> FloatArray:
    if column not in _REPORTED_RESOURCES:
        return np.full(len(rows), np.nan)
    capacity, allocatable, available = (
        frame.usage(kind, column).values[rows] for kind in ("capacity", "allocatable", "available")
    )
    used = 100.0 * (allocatable - available) / np.where(capacity > 0, capacity, np.nan)
    reported: FloatArray = np.clip(used, 0.0, _GREATEST)
    return reported
