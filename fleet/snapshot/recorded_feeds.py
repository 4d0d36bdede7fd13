"""Feeds of a frame as bytes, in the order of names: what of them a replay needs."""

from __future__ import annotations

import msgspec
import numpy as np

from fleet.snapshot.frame import Frame
from fleet.snapshot.table import Table


class _RecordedFeed(msgspec.Struct, frozen=True, array_like=True):
    columns: dict[str, bytes]
    sampled_at: bytes
    max_age: int


def encode_feeds(frame: Frame) -> bytes:
    """Empty without any."""
    order = frame.names.order
    feeds = {
        name: _RecordedFeed(
            {column: values[order].astype("<f8").tobytes() for column, values in feed.columns.items()},
            feed.sampled_at[order].astype("<i8").tobytes(),
            feed.max_age,
        )
        for name, feed in sorted(frame.feeds.items())
    }
    return msgspec.msgpack.encode(feeds) if feeds else b""


def restore_feeds(table: Table, encoded: bytes) -> None:
    """Into a table with the same clusters."""
    if not encoded:
        return
    names = table.freeze().names.ordered
    for name, feed in msgspec.msgpack.decode(encoded, type=dict[str, _RecordedFeed]).items():
        columns = {
            column: dict(zip(names, np.frombuffer(values, "<f8").tolist(), strict=True))
            for column, values in feed.columns.items()
        }
        times = dict(zip(names, np.frombuffer(feed.sampled_at, "<i8").tolist(), strict=True))
        table.feed(name, columns, sampled_at=times, max_age=feed.max_age)
