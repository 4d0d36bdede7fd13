"""W-18: an anonymised snapshot is decided as the one it came from, and nobody's names are in it."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from fleet.explain.replay.anonymize import anonymize
from fleet.framework.cycle.cycle import decide
from fleet.framework.cycle.decision import Decision
from tests.oracle.documents import Json
from tests.strategies import random_scenario
from tests.vectors.engine import decision_input


@pytest.fixture
def seeds(*, long: bool) -> range:
    return range(1000 if long else 60)


def exported(scenario: Json) -> Json:
    snapshot = scenario["policySnapshot"]
    namespace = snapshot["metadata"].get("namespace", "")
    name = snapshot["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"]
    kind = "ResourcePlacement" if namespace else "ClusterResourcePlacement"
    metadata = {"name": name, "namespace": namespace, "uid": scenario.get("placementUid", "")}
    placement = {
        "apiVersion": "x",
        "kind": kind,
        "metadata": metadata,
        "spec": {"policy": snapshot["spec"].get("policy")},
    }
    return {
        "apiVersion": "fleet/v1",
        "kind": "FleetSnapshot",
        "at": scenario["now"],
        "configHash": "x",
        "settings": {},
        "clusters": scenario["memberClusters"],
        "placements": [placement],
        "policySnapshots": [{"apiVersion": "x", "kind": "x", **snapshot}],
        "bindings": [{"apiVersion": "x", "kind": "x", **one} for one in scenario["bindings"]],
        "pending": [f"{namespace}/{name}" if namespace else name],
    }


def under_other_names(scenario: Json) -> tuple[Json, Json]:
    """The anonymised snapshot, and the scenario made of it."""
    found = anonymize(copy.deepcopy(exported(scenario)))
    return found, {
        **scenario,
        "memberClusters": found["clusters"],
        "policySnapshot": found["policySnapshots"][0],
        "bindings": found["bindings"],
        "placementUid": found["placements"][0]["metadata"]["uid"],
    }


def outline(decision: Decision, names: dict[str, str]) -> list[Any]:
    """All that makes a decision, but the names of bindings, which follow from others."""
    verdicts, order = decision.verdicts, decision.frame.names.order

    def renamed(name: str) -> str:
        return names.get(name, name)

    return [
        decision.outcome,
        decision.active,
        decision.fulfilled,
        [(renamed(one.cluster), one.action, one.scores, one.step, one.obsolete) for one in decision.targets],
        [(one.action, renamed(one.cluster)) for one in decision.operations],
        [renamed(name) for name in decision.invalid],
        [renamed(name) for name in decision.missing],
        None if verdicts is None else verdicts.first[order].tolist(),
        None if verdicts is None else verdicts.codes()[order].tolist(),
        decision.round_count,
        len(decision.request.problems),
    ]


def clusters_of(scenario: Json) -> list[str]:
    return sorted(one["metadata"]["name"] for one in scenario["memberClusters"])


def test_W_18_an_anonymised_snapshot_is_decided_alike_up_to_names(seeds: range) -> None:
    chosen = 0
    for seed in seeds:
        scenario = random_scenario(seed)
        _, other = under_other_names(scenario)
        before, after = decide(decision_input(scenario)), decide(decision_input(other))
        names = dict(zip(clusters_of(scenario), clusters_of(other), strict=True))
        known = {**names, **listed(scenario, other)}
        assert outline(before, known) == outline(after, {}), seed
        chosen += bool(before.targets)
    assert chosen > len(seeds) // 4


def listed(scenario: Json, other: Json) -> dict[str, str]:
    """Names that only the policy and the bindings know."""
    pairs = zip(policy_names(scenario), policy_names(other), strict=True)
    bound = zip(bound_names(scenario), bound_names(other), strict=True)
    return dict([*pairs, *bound])


def policy_names(scenario: Json) -> list[str]:
    return list((scenario["policySnapshot"]["spec"].get("policy") or {}).get("clusterNames") or [])


def bound_names(scenario: Json) -> list[str]:
    return [one["spec"]["targetCluster"] for one in scenario["bindings"]]


def test_W_18_pseudonyms_stand_in_the_order_of_the_names(seeds: range) -> None:
    for seed in seeds:
        scenario = random_scenario(seed)
        _, other = under_other_names(scenario)
        original = [one["metadata"]["name"] for one in scenario["memberClusters"]]
        renamed = [one["metadata"]["name"] for one in other["memberClusters"]]
        assert sorted(range(len(original)), key=original.__getitem__) == sorted(
            range(len(renamed)), key=renamed.__getitem__
        ), seed


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (text for item in value.values() for text in texts(item))
    elif isinstance(value, list):
        yield from (text for item in value for text in texts(item))


def secrets(scenario: Json) -> set[str]:
    """What nobody may read: names and values, as words."""
    found = {*clusters_of(scenario), *policy_names(scenario), *bound_names(scenario)}
    found |= {one["metadata"]["name"] for one in (*scenario["bindings"], scenario["policySnapshot"])}
    for one in scenario["memberClusters"]:
        found |= {*(one["metadata"].get("labels") or {}).values(), *(one["status"].get("namespaces") or {})}
        found |= {taint.get("value", "") for taint in one["spec"].get("taints") or ()}
    return found - {""}


KEPT = re.compile(r"true|[0-9]+|True|False|Unknown")
"""Words that names may share with what is kept."""


def test_W_18_no_name_and_no_value_of_a_label_is_left(seeds: range) -> None:
    for seed in seeds:
        scenario = random_scenario(seed)
        found, _ = under_other_names(scenario)
        words = {word for text in texts(found) for word in (text, *re.split(r"[\s\"',:/=]+", text))}
        left = {one for one in secrets(scenario) & words if not KEPT.fullmatch(one)}
        assert not left, (seed, left)


def test_W_18_equal_names_have_equal_pseudonyms_wherever_they_stand(seeds: range) -> None:
    for seed in seeds:
        scenario = random_scenario(seed)
        found, other = under_other_names(scenario)
        names = dict(zip(clusters_of(scenario), clusters_of(other), strict=True))
        for before, after in zip(scenario["bindings"], found["bindings"], strict=True):
            target = before["spec"]["targetCluster"]
            assert after["spec"]["targetCluster"] == names.get(target, after["spec"]["targetCluster"])
            ours = before["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"] == found_parent(scenario)
            theirs = after["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"]
            assert (theirs == found["placements"][0]["metadata"]["name"]) is ours
        assert found["pending"] == [key_of(found["placements"][0])]


def found_parent(scenario: Json) -> str:
    return str(scenario["policySnapshot"]["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"])


def key_of(document: Json) -> str:
    metadata = document["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


def test_W_18_what_is_unknown_is_left_out(seeds: range) -> None:
    scenario = random_scenario(seeds[0])
    for one in (*scenario["memberClusters"], scenario["policySnapshot"]):
        one["metadata"]["annotations"] = {**(one["metadata"].get("annotations") or {}), "owner": "somebody"}
        one["spec"]["comment"] = "a secret"

    found, _ = under_other_names(scenario)

    assert not {"somebody", "a secret"} & {*texts(found)}
    assert msgspec.json.encode(found)
