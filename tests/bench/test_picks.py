"""The benchmark's first part, which the suite runs too: what is measured gives the right answers."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.bench import picks
from tests.bench.picks import how_many_are_checked, input_hashes, recorded, wrong_picks


def test_the_questions_are_those_that_the_record_answers() -> None:
    assert input_hashes() == recorded()["sha256"]


def test_every_pick_is_right() -> None:
    assert wrong_picks() == []


def test_twenty_policies_on_two_fleets_and_three_harder_ones_are_checked() -> None:
    assert how_many_are_checked() == 20 * 2 + 3


def swap_two(wanted: list[Any]) -> None:
    wanted[3], wanted[4] = wanted[4], wanted[3]


def change_a_score(wanted: list[Any]) -> None:
    wanted[3][1] += 1


def ask_one_more(wanted: list[Any]) -> None:
    wanted.append(["member-00001", 0, 0])


@pytest.mark.parametrize(
    "spoil, complaint",
    [
        (swap_two, "spread-n10-tier2 on 1000 clusters: pick 4 should be"),
        (change_a_score, "spread-n10-tier2 on 1000 clusters: pick 4 should be"),
        (ask_one_more, "spread-n10-tier2 on 1000 clusters: 10 picks instead of 11"),
    ],
)
def test_a_wrong_pick_is_named(spoil: Any, complaint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = copy.deepcopy(recorded())
    spoil(other["fleets"]["1000"]["spread-n10-tier2"])
    monkeypatch.setattr(picks, "recorded", lambda: other)

    (found,) = wrong_picks()

    assert found.startswith(complaint)
