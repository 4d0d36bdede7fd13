"""Where simulated members stand."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from fleet.demo.demo import TOURED
from fleet.demo.locations import LONGEST_FLEET, find_location, location_at

DOZEN = [location_at(number) for number in range(12)]


def test_a_dozen_members_stand_in_three_regions_with_four_each() -> None:
    assert Counter(one.region for one in DOZEN) == {"us-east": 4, "eu-west": 4, "ap-south": 4}


def test_a_dozen_members_have_what_policies_ask_for() -> None:
    assert Counter(one.env for one in DOZEN) == {"prod": 8, "staging": 4}
    assert {one.tier for one in DOZEN} == {"gold", "silver", "bronze"}
    assert len({one.core_price for one in DOZEN}) == 12
    assert [one.name for one in DOZEN if one.taints] == ["dub-gpu-2", "ams-2"]


def test_the_cluster_that_the_tour_relabels_lacks_nothing_else_for_as_long_as_a_tour_takes() -> None:
    readme = Path(__file__).parents[3].joinpath("README.md").read_text(encoding="utf-8")
    (name,) = re.findall(r"kubectl label membercluster (\S+) env=prod", readme)
    location = find_location(name)

    assert name in TOURED
    assert (location.env, location.taints) == ("staging", ())
    assert location.nodes >= 7, "storefront wants 4, and sizes drift"


def test_no_two_members_of_the_largest_fleet_share_a_name() -> None:
    names = {location_at(number).name for number in range(LONGEST_FLEET)}

    assert len(names) == LONGEST_FLEET
    assert max(map(len, names)) <= 63


def test_a_member_stands_at_the_same_place_every_time() -> None:
    assert location_at(4711) == location_at(4711)


def test_a_home_is_found_again_by_its_name() -> None:
    numbers = (0, 5, 7, 11, 12, 17, 18, 30, 4711, LONGEST_FLEET - 1)

    assert [find_location(location_at(number).name) for number in numbers] == [
        location_at(number) for number in numbers
    ]


def test_a_name_that_is_none_of_ours_gets_an_ordinary_home() -> None:
    for name in ("edge-lab", "iad", "iad-0", "iad-gpu-1", "xyz-3", "my-cluster-7"):
        found = find_location(name)
        assert (found.name, found.taints) == (name, ())
        assert found.nodes > 0
