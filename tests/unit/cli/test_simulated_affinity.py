"""Placements near to others and away from them, as `fleet simulate` decides one after the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Fleet
from tests.unit.cli.manifests import NOW, Manifest, member, placement
from tests.unit.cli.profiled import Decide, deciding, rejection, row_of, score_of, simulate_profile, targets


@pytest.fixture
def decide(tmp_path: Path, fleet: Fleet) -> Decide:
    return deciding(simulate_profile(tmp_path, fleet, NOW))


def term(app: str, key: str = "", **more: Any) -> dict[str, Any]:
    return {"placements": {"matchLabels": {"app": app}}, **({"topologyKey": key} if key else {}), **more}


def place(name: str, app: str, number: int = 1, **terms: list[dict[str, Any]]) -> Manifest:
    """Placements are decided by their names."""
    made = placement(name, placementType="PickN", numberOfClusters=number)
    made["metadata"]["labels"] = {"app": app}
    if terms:
        made["metadata"]["annotations"] = {"scheduling.fleet.dev/affinity": json.dumps(terms)}
    return made


REGIONS = (("a", "eu"), ("b", "eu"), ("c", "us"), ("d", "us"))
FLEET = [member(name, region=region) for name, region in REGIONS]


def test_X_16_a_placement_goes_where_those_are_that_it_belongs_with(decide: Decide) -> None:
    db = place("1-db", "db", required=[term("none-like-it", "region", anti=True)])
    web = place("2-web", "web", required=[term("db", "region")])
    cache = place("3-cache", "cache", required=[term("db")])
    decided = decide(*FLEET, db, web, cache)

    first, second, third = decided
    assert [targets(each) for each in (first, third)] == [["a"], ["a"]]
    assert targets(second) == ["a"]
    assert rejection(second, "c") == ("AffinityUnmet", "belongs with app=db, and no such placement is in region=us")
    assert rejection(third, "b") == ("AffinityUnmet", "belongs with app=db, and no such placement is on this cluster")


def test_X_16_a_placement_keeps_away_and_is_kept_away(decide: Decide) -> None:
    loud = place("1-loud", "loud", required=[term("quiet", "region", anti=True)])
    quiet = place("2-quiet", "quiet", 4)
    other = place("3-other", "other", required=[term("loud", "region", anti=True)])
    _, second, third = decide(*FLEET, loud, quiet, other)

    assert targets(second) == ["c", "d"]
    assert rejection(second, "b") == ("Conflict", "is kept away by a placement that is in region=eu")
    assert targets(third) == ["c"]
    assert rejection(third, "a") == ("Conflict", "keeps away from a placement that is in region=eu")


def test_X_16_the_first_of_its_kind_may_go_anywhere_and_the_others_follow_it(decide: Decide) -> None:
    together = {"required": [term("ring", "region")]}
    first, second = decide(*FLEET, place("1-ring", "ring", 3, **together), place("2-ring", "ring", 1, **together))

    assert targets(first) == ["a", "b"]
    assert targets(second) == ["a"]


def test_X_16_picks_of_the_placement_itself_keep_away_from_each_other(decide: Decide) -> None:
    (decided,) = decide(*FLEET, place("1-web", "web", 3, required=[term("web", "region", anti=True)]))

    assert targets(decided) == ["a", "c"]
    assert rejection(decided, "b") == ("Conflict", "keeps away from a placement that is in region=eu")


def test_X_16_clusters_without_the_label_fail_required_terms_and_score_nothing(decide: Decide) -> None:
    bare = member("e")
    db = place("1-db", "db", 5)
    near, far = [term("db", "region")], [term("web", "region", anti=True)]
    _, second, third = decide(
        *FLEET, bare, db, place("2-near", "x", 5, required=near), place("3-far", "x", 5, required=far)
    )

    said = "the cluster has no label region, by which it is near to other placements or not"
    assert rejection(second, "e") == rejection(third, "e") == ("AffinityUnmet", said)
    assert targets(second) == targets(third) == ["a", "b", "c", "d"]


def test_X_16_preferred_terms_rank_by_their_weights(decide: Decide) -> None:
    db = place("1-db", "db", required=[term("none", "region", anti=True)])
    terms = [term("db", "region", weight=30), term("db", anti=True, weight=10), term("absent", weight=100)]
    _, decided = decide(*FLEET, db, place("2-web", "web", preferred=terms))

    assert targets(decided) == ["b"]
    assert [score_of(decided, name, "PlacementAffinity") for name in "abcd"] == [20, 30, 0, 0]
    (score,) = [each for each in row_of(decided, "a")["scores"] if each["plugin"] == "PlacementAffinity"]
    assert (score["normalized"], score["weight"]) == (67, 2)


def test_X_16_namespaces_are_apart_and_without_terms_the_plugin_is_skipped(decide: Decide) -> None:
    (decided,) = decide(*FLEET, placement("web", placementType="PickN", numberOfClusters=1))

    skipped = {(each["plugin"], each["hook"]) for each in decided["answer"]["attempt"]["skipped"]}
    assert any(plugin == "PlacementAffinity" and "filter" in hook for plugin, hook in skipped)


@pytest.mark.parametrize(
    "text, message",
    [
        ("{", "it cannot be read: "),
        ('{"requird": []}', "requird: is no field; use required or preferred"),
        ('{"required": [{"topologykey": "a", "placements": {}}]}', "required[0].topologykey: is no field"),
        ('{"required": [{}]}', "required[0].placements: is missing; write {} for all placements"),
        ('{"required": [{"placements": {}, "weight": 3}]}', "required[0].weight: is no field; use one of"),
        ('{"preferred": [{"placements": {}}]}', "preferred[0].weight: nothing is no weight; use 1 to 100"),
        ('{"preferred": [{"placements": {}, "weight": 101}]}', "preferred[0].weight: 101 is no weight; use 1 to 100"),
        ('{"required": [{"placements": {}, "topologyKey": "a b"}]}', "topologyKey: 'a b' is not a valid label key"),
        (
            '{"required": [{"placements": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}]}',
            "placements.matchExpressions[0].operator: 'Is' is no operator",
        ),
        (json.dumps({"required": [{"placements": {}}] * 9}), "required: 9 terms are more than 8"),
    ],
)
def test_X_16_terms_that_cannot_be_read_refuse_the_placement(decide: Decide, text: str, message: str) -> None:
    made = place("web", "web")
    made["metadata"]["annotations"] = {"scheduling.fleet.dev/affinity": text}
    (decided,) = decide(*FLEET, made)

    assert targets(decided) == []
    assert message in json.dumps(decided["answer"]["verdict"]).replace('\\"', '"')
