"""Times of heartbeats: every second brings a new text, for as long as a process runs."""

from __future__ import annotations

import sys

from fleet.model.timestamps import parse_timestamp

TEXTS = 40_000
KEPT = 3 * 5_000
"""Pieces of memory: a text, a number and a link for each."""


def test_the_times_of_a_long_run_are_not_kept() -> None:
    before = sys.getallocatedblocks()
    for number in range(TEXTS):
        minutes, second = divmod(number, 60)
        hours, minute = divmod(minutes, 60)
        parse_timestamp(f"2031-07-01T{hours:02}:{minute:02}:{second:02}Z")

    assert sys.getallocatedblocks() - before < KEPT
