"""The random scenarios are what they promise, and the oracle keeps the contract's invariants on them."""

from __future__ import annotations

import copy
import random
from collections import Counter

import pytest

from tests.oracle.documents import COUNT_ANNOTATION, PARENT_LABEL, Json, annotations_of, labels_of, name_of
from tests.oracle.naming import new_name
from tests.oracle.reference import Result, decide_scenario
from tests.strategies import random_scenario
from tests.vectors.comparison import compare_explanations, compare_outcomes
from tests.vectors.generation.scenarios import settle


@pytest.fixture(scope="session")
def scenarios(*, long: bool) -> list[Json]:
    return [random_scenario(seed) for seed in range(5000 if long else 120)]


def test_a_seed_always_gives_the_same_scenario() -> None:
    for seed in range(50):
        assert random_scenario(seed) == random_scenario(seed)


def test_deciding_leaves_the_scenario_alone(scenarios: list[Json]) -> None:
    for scenario in scenarios:
        before = copy.deepcopy(scenario)
        decide_scenario(scenario)
        assert scenario == before


def test_the_order_of_clusters_and_bindings_does_not_matter(scenarios: list[Json]) -> None:
    shuffler = random.Random(7)
    for scenario in scenarios:
        shuffled = copy.deepcopy(scenario)
        shuffler.shuffle(shuffled["memberClusters"])
        shuffler.shuffle(shuffled["bindings"])
        want, got = decide_scenario(scenario), decide_scenario(shuffled)
        assert compare_outcomes(want, got) + compare_explanations(want, got) == []


def test_the_second_cycle_touches_no_binding_and_the_third_writes_nothing(scenarios: list[Json]) -> None:
    """The second may still update the status: a cluster that lost its old binding is no longer retained, and of more
    selected clusters than the status holds others are listed once none of them is new."""
    for scenario in copy.deepcopy(scenarios):
        settle(scenario)
        assert decide_scenario(scenario).operations == []
        settle(scenario)
        assert not decide_scenario(scenario).status_written


def test_pick_n_never_uses_more_clusters_than_asked_for(scenarios: list[Json]) -> None:
    judged = 0
    for scenario in scenarios:
        result, wanted = decide_scenario(scenario), wanted_by(scenario)
        if wanted is None or result.error_class != "none":
            continue
        current = name_of(scenario["policySnapshot"])
        holding = {each["cluster"] for each in result.bindings if is_active(each, current)}
        assert len(holding) <= wanted
        judged += 1
    assert judged > len(scenarios) // 4


def wanted_by(scenario: Json) -> int | None:
    snapshot = scenario["policySnapshot"]
    is_pick_n = (snapshot["spec"].get("policy") or {}).get("placementType") == "PickN"
    count = annotations_of(snapshot).get(COUNT_ANNOTATION, "")
    return int(count) if is_pick_n and count.isdigit() else None


def is_active(binding: Json, snapshot: str) -> bool:
    is_live = binding["state"] in ("Scheduled", "Bound") and "deleting" not in binding
    return bool(is_live and binding["snapshot"] == snapshot)


@pytest.mark.servers  # thousands of scenarios
def test_the_scenarios_reach_every_outcome() -> None:
    """2,000 of them: what is missing here would be missing from the comparison with the product as well."""
    seen: Counter[str] = Counter()
    for seed in range(2000):
        scenario = random_scenario(seed)
        seen.update(happenings(scenario, decide_scenario(scenario)))

    expected = [
        *("create", "refresh", "revive", "unschedule", "dropFinalizer", "fallback name", "input error", "nothing new"),
        *("retained", "satisfied", "downscaled", "short", "kept explanations", "stopped", "many steps"),
        *("ClusterAffinity", "ClusterEligibility", "NamespaceAffinity", "TaintToleration"),
        *("SamePlacementAntiAffinity", "TopologySpreadConstraints", "not picked", "soft violation"),
        *("spreadMissingKey", "spreadUsableDomainsOnly", "downscaleOrder", "sorterPopulation", "maxDecisions"),
    ]
    assert {happening: seen[happening] for happening in expected if seen[happening] < 2} == {}


def happenings(scenario: Json, result: Result) -> set[str]:
    happened = {operation["operation"] for operation in result.operations}
    happened |= {verdict.plugin or verdict.outcome for verdict in result.verdicts.values()}
    if result.error_class == "input":
        happened.add("input error" if result.status_written else "stopped")
    elif not result.operations and not result.status_written:
        happened.add("nothing new")
    if any(is_fallback(binding, scenario) for binding in result.bindings):
        happened.add("fallback name")
    if any(verdict.topology <= -900 for verdict in result.verdicts.values()):
        happened.add("soft violation")
    if any(verdict.step > 5 for verdict in result.verdicts.values()):
        happened.add("many steps")
    return happened | pick_n_branch(scenario, result) | settings_that_matter(scenario, result)


def is_fallback(binding: Json, scenario: Json) -> bool:
    placement, uid = labels_of(scenario["policySnapshot"])[PARENT_LABEL], scenario["placementUid"]
    return not binding["preexisting"] and binding["name"] != new_name(placement, binding["cluster"], uid, {})


def pick_n_branch(scenario: Json, result: Result) -> set[str]:
    if wanted_by(scenario) is None or result.condition is None or result.error_class != "none":
        return set()
    if result.verdicts:
        return {"short"} if result.condition["status"] == "False" else set()
    if any(operation["operation"] == "unschedule" for operation in result.operations):
        return {"downscaled"}
    listed_unselected = any(not decision["selected"] for decision in result.decisions)
    return {"satisfied"} | ({"kept explanations"} if listed_unselected else set())


def settings_that_matter(scenario: Json, result: Result) -> set[str]:
    """The options without which the outcome would be another."""
    matter = set()
    ordinary = {
        "spreadMissingKey": "Neutral",
        "spreadUsableDomainsOnly": False,
        "downscaleOrder": "StoredScore",
        "sorterPopulation": "AllClusters",
        "maxDecisions": 1000,
    }
    options = scenario["options"]
    for option, value in ordinary.items():
        if options.get(option, value) != value and differs(scenario, result, {option: value}):
            matter.add(option)
    if options.get("retentionSeconds") != 0 and differs(scenario, result, {"retentionSeconds": 0}):
        matter.add("retained")
    return matter


def differs(scenario: Json, result: Result, options: Json) -> bool:
    changed = {**scenario, "options": {**scenario["options"], **options}}
    return bool(compare_outcomes(result, decide_scenario(changed)))
