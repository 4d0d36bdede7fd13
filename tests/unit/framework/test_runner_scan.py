"""Scans in parts: for profiles that pay per cluster, how much of a large fleet is looked at, from where, and what
that is equal to: judging one cluster after the other until enough qualify."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from fleet.framework.cycle.decision import Decision
from fleet.framework.profiles.profile import CompiledProfile
from fleet.framework.verdicts import ALIVE
from fleet.snapshot import Frame, Table
from tests.builders import a_cluster, a_policy
from tests.doubles import Answering, Rejecting, RejectingOneByOne, Scoring, chosen, decided, limited_to, profile_of


def fleet(size: int) -> Frame:
    return Table(a_cluster(f"c{number:05d}").build() for number in range(size)).freeze()


def sampling(*plugins: Any, percentage: int = 0, **changes: Any) -> CompiledProfile:
    return profile_of(*plugins, percentage_of_clusters=percentage, **changes)


def examined(decision: Decision) -> int:
    assert decision.verdicts is not None
    return decision.verdicts.examined.bit_count()


# --- how much ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size, need", [(1000, 420), (2000, 680), (5000, 500), (6000, 300), (10_000, 500)])
def test_an_adaptive_scan_looks_for_a_share_that_shrinks_with_the_fleet(size: int, need: int) -> None:
    decision = decided(fleet(size), a_policy().pick_n(3), profile=sampling(RejectingOneByOne("Door"), Scoring("S")))

    assert examined(decision) == need
    assert decision.next_cursor == need


@pytest.mark.parametrize(
    "percentage, wanted, need",
    [(50, 3, 500), (5, 3, 100), (30, 150, 450), (100, 3, 1000), (99, 3, 990)],
    ids=["configured", "a hundred at least", "three times as many as wanted", "all", "almost all"],
)
def test_a_configured_share_counts_between_its_limits(percentage: int, wanted: int, need: int) -> None:
    profile = sampling(RejectingOneByOne("Door"), Scoring("S"), percentage=percentage)

    assert examined(decided(fleet(1000), a_policy().pick_n(wanted), profile=profile)) == need


def test_below_a_thousand_clusters_all_are_looked_at() -> None:
    profile = sampling(RejectingOneByOne("Door"), Scoring("S"))

    assert examined(decided(fleet(999), a_policy().pick_n(3), profile=profile)) == 999


def test_a_profile_of_vector_plugins_looks_at_all_clusters() -> None:
    profile = sampling(Rejecting("Door"), Scoring("S"))

    assert examined(decided(fleet(1000), a_policy().pick_n(3), profile=profile)) == 1000


def test_a_placement_for_all_clusters_is_not_sampled() -> None:
    profile = sampling(RejectingOneByOne("Door"), Scoring("S"))

    decision = decided(fleet(1000), a_policy(), profile=profile)

    assert (examined(decision), len(decision.targets)) == (1000, 1000)


def test_clusters_not_looked_at_are_reported_as_such() -> None:
    door = RejectingOneByOne("Door", ["c00001"])

    decision = decided(fleet(1000), a_policy().pick_n(3), profile=sampling(door, Scoring("S")))

    verdicts = decision.verdicts
    assert verdicts is not None
    assert verdicts.examined == (1 << 421) - 1
    assert verdicts.first[:3].tolist() == [ALIVE, 0, ALIVE]
    assert verdicts.status(999) is None
    assert not verdicts.alive >> 999 & 1


def test_too_few_qualifying_clusters_are_looked_for_everywhere() -> None:
    door = RejectingOneByOne("Door", [f"c{number:05d}" for number in range(998)])

    decision = decided(fleet(1000), a_policy().pick_n(3), profile=sampling(door, Scoring("S")))

    assert (examined(decision), chosen(decision)) == (1000, ["c00999", "c00998"])


# --- from where -------------------------------------------------------------------------------------------------------


def test_the_scan_starts_at_the_cursor_and_goes_round() -> None:
    decision = decided(
        fleet(1000), a_policy().pick_n(3), profile=sampling(RejectingOneByOne("Door"), Scoring("S")), cursor=900
    )

    verdicts = decision.verdicts
    assert verdicts is not None
    looked_at = [row for row in range(1000) if verdicts.examined >> row & 1]
    assert looked_at == [*range(320), *range(900, 1000)]
    assert decision.next_cursor == 1320


def test_the_scan_takes_domains_in_turn() -> None:
    frame = Table(
        a_cluster(f"c{number:05d}").labelled(half=str(number // 500)).build() for number in range(1000)
    ).freeze()
    profile = sampling(RejectingOneByOne("Door"), Scoring("S"), percentage=10, scan_domain_key="half")

    decision = decided(frame, a_policy().pick_n(3), profile=profile)

    assert decision.verdicts is not None
    assert decision.verdicts.examined == (1 << 50) - 1 | ((1 << 50) - 1) << 500


# --- what it equals ---------------------------------------------------------------------------------------------------


def one_after_the_other(
    frame: Frame, filters: Sequence[Rejecting | RejectingOneByOne], need: int, cursor: int
) -> tuple[dict[str, int], int]:
    """Per cluster looked at the first rejecting filter, and how many were looked at."""
    order = [frame.name(row) for row in frame.scan_order().tolist()]
    first: dict[str, int] = {}
    passed = 0
    for name in order[cursor % len(order) :] + order[: cursor % len(order)]:
        if passed == need:
            break
        first[name] = next((place for place, one in enumerate(filters) if name in one.rejected), ALIVE)
        passed += first[name] == ALIVE
    return first, len(first)


@pytest.mark.parametrize("seed", range(40))
def test_F3_088_F3_089_a_scan_in_parts_equals_judging_one_cluster_after_the_other(seed: int) -> None:
    dice = random.Random(seed)
    names = [f"c{number:05d}" for number in range(dice.choice((1, 7, 63, 64, 65, 150, 400)))]
    frame = Table(a_cluster(name).build() for name in dice.sample(names, len(names))).freeze()
    share = dice.choice((0.0, 0.1, 0.5, 0.95))
    filters: list[Rejecting | RejectingOneByOne] = [
        dice.choice((Rejecting, RejectingOneByOne))(f"P{number}", [name for name in names if dice.random() < share])
        for number in range(3)
    ]
    filters.append(RejectingOneByOne("Last"))
    wanted, cursor = dice.randrange(1, 120), dice.randrange(1000)

    # Without scores as many as are wanted are enough, in a fleet of any size.
    decision = decided(frame, a_policy().pick_n(wanted), profile=profile_of(*filters), cursor=cursor)

    want, looked_at = one_after_the_other(frame, filters, wanted, cursor)
    verdicts = decision.verdicts
    assert verdicts is not None
    got = {frame.name(row): int(verdicts.first[row]) for row in range(frame.size) if verdicts.examined >> row & 1}
    assert got == want
    assert decision.next_cursor == cursor + looked_at
    assert sorted(chosen(decision)) == sorted(name for name, first in want.items() if first == ALIVE)


@pytest.mark.parametrize("seed", range(6))
def test_a_sampled_scan_of_a_large_fleet_equals_it_too(seed: int) -> None:
    dice = random.Random(seed)
    frame = fleet(1500)
    door = RejectingOneByOne("Door", [name for name in frame.names.ordered if dice.random() < 0.4])
    points = {name: dice.randrange(100) for name in frame.names.ordered}
    cursor = dice.randrange(3000)

    decision = decided(frame, a_policy().pick_n(20), profile=sampling(door, Scoring("S", points)), cursor=cursor)

    want, looked_at = one_after_the_other(frame, [door], 1500 * (50 - 12) // 100, cursor)
    feasible = [name for name, first in want.items() if first == ALIVE]
    assert examined(decision) == looked_at
    assert chosen(decision) == sorted(feasible, key=lambda name: (points[name], name), reverse=True)[:20]


def test_rounds_look_at_the_same_part_of_the_fleet_and_move_the_cursor_once() -> None:
    one_by_one = Answering("OneByOne", post_batch=limited_to(1))
    profile = sampling(RejectingOneByOne("Door"), Scoring("S"), one_by_one)

    decision = decided(fleet(1000), a_policy().pick_n(3), profile=profile, cursor=50)

    # Clusters picked in earlier rounds are no longer among those that qualify, so each round looks one row further.
    assert (decision.round_count, examined(decision)) == (3, 422)
    assert decision.next_cursor == 50 + 422
