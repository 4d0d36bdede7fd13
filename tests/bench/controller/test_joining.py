"""What the benchmark of a joining cluster measures, in calls: its milliseconds are those of one machine."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, Final

import pytest

from fleet.kube.cache.store import Store
from tests.bench.controller import joining

MOST: Final = 40
"""Python functions for each placement that waits, while nothing but the event is handled."""


def count_calls(placements: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Of the event about the cluster that is of no use."""
    saw, counts = joining._saw, list[int]()

    def count(store: Store[Any], document: bytes) -> None:
        counts.append(0)

        def note(_: FrameType, event: str, __: Any) -> None:
            counts[-1] += event == "call"

        sys.setprofile(note)
        try:
            saw(store, document)
        finally:
            sys.setprofile(None)

    monkeypatch.setattr(joining, "_saw", count)
    joining.join_two(placements)
    monkeypatch.undo()
    return counts[-2]


def test_P_09_a_placement_that_waits_costs_an_event_few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (count_calls(placements, monkeypatch) for placements in (100, 300))

    assert few < many
    assert (many - few) / 200 <= MOST
