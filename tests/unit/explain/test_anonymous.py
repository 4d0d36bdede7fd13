"""What an anonymised snapshot says, part by part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from fleet.explain.replay.anonymize import anonymize
from fleet.explain.whatif.scenario import Scenario
from fleet.framework.cycle.cycle import decide
from fleet.framework.cycle.decision import Decision
from fleet.model.views import Binding, MemberCluster, PolicySnapshot
from tests.builders import NOW, BindingBuilder, ClusterBuilder, PolicyBuilder, a_binding, a_cluster, a_policy, label
from tests.unit.explain.questions import DEFAULT

Json = dict[str, Any]


def exported(fleet: Sequence[ClusterBuilder], policy: PolicyBuilder, *bindings: BindingBuilder) -> Json:
    head = {"apiVersion": "x", "kind": "x"}
    snapshot = policy.snapshot()
    return {
        "apiVersion": "fleet/v1",
        "kind": "FleetSnapshot",
        "at": "2026-03-10T09:00:00Z",
        "configHash": "x",
        "settings": {},
        "clusters": [head | msgspec.to_builtins(one.build()) for one in fleet],
        "placements": [],
        "policySnapshots": [head | msgspec.to_builtins(snapshot)],
        "bindings": [head | msgspec.to_builtins(one.build()) for one in bindings],
        "pending": [],
    }


def decided(document: Json) -> Decision:
    scenario = Scenario.build(
        clusters=msgspec.convert(document["clusters"], list[MemberCluster]),
        snapshot=msgspec.convert(document["policySnapshots"][0], PolicySnapshot),
        bindings=msgspec.convert(document["bindings"], list[Binding]),
        profile=DEFAULT,
        now=NOW,
    )
    return decide(scenario.question)


def test_W_18_a_taint_is_tolerated_by_its_value_as_before() -> None:
    fleet = [a_cluster("a").tainted("team", "red"), a_cluster("b").tainted("team", "blue")]
    document = exported(fleet, a_policy().pick_n(2).tolerate("team", "blue"))

    found = anonymize(document)

    assert [one.cluster for one in decided(document).targets] == ["b"]
    assert [one.cluster for one in decided(found).targets] == ["cluster-0002"]
    assert "red" not in str(found)
    assert "blue" not in str(found)


def test_W_18_a_value_that_is_not_valid_stays_one_that_is_not() -> None:
    document = exported([a_cluster("a")], a_policy().require(label("tier", "In", "a b")).pick_n(1))

    assert len(decided(document).request.problems) == len(decided(anonymize(document)).request.problems) == 1


def test_W_18_options_keep_what_counts_and_lose_what_names() -> None:
    document = exported([a_cluster("ams-1"), a_cluster("bom-1")], a_policy().pick_n(1))
    hints = [
        {"cluster": name, "owner": owner, "expiresAt": "2026-03-10T10:00:00Z"}
        for name, owner in (("bom-1", "planner"), ("bom-1", "other"), ("gone", "planner"))
    ]
    spec = {
        "schedulerName": "secret-profile",
        "priority": 10,
        "requests": {"cpu": "2"},
        "minTargets": 1,
        "placementHints": hints,
        "gates": [{"name": "secret-gate"}],
        "affinity": {"required": [{"placements": {"matchLabels": {"app": "secret"}}}]},
    }
    kind = {"apiVersion": "scheduling.fleet.dev/v1alpha1", "kind": "ClusterPlacementOptions"}
    document["options"] = [kind | {"metadata": {"name": "orders"}, "spec": spec}]

    (found,) = anonymize(document)["options"]

    assert (found["kind"], found["spec"] | {"placementHints": None}) == (
        kind["kind"],
        {"priority": 10, "requests": {"cpu": "2"}, "minTargets": 1, "placementHints": None},
    )
    assert [(each["cluster"], each["owner"]) for each in found["spec"]["placementHints"]] == [
        ("cluster-0002", "owner-0"),
        ("cluster-0002", "owner-1"),
        ("cluster-0003", "owner-2"),
    ]
    assert not {"secret", "planner", "orders", "gone"} & set(str(found).replace("'", " ").split())


def test_W_18_the_keys_of_labels_and_the_figures_stay() -> None:
    fleet = [a_cluster("ams-1").labelled(region="eu").measured({"cost": "7"}).having(available={"cpu": "3"})]

    (one,) = anonymize(exported(fleet, a_policy()))["clusters"]

    assert one["metadata"]["name"] == "cluster-0001"
    assert one["metadata"]["labels"] == {"region": "value-0001"}
    assert one["status"]["properties"]["cost"]["value"] == "7"
    assert one["status"]["resourceUsage"]["available"] == {"cpu": "3"}


def test_W_18_a_binding_belongs_to_the_placement_cluster_and_snapshot_it_belonged_to() -> None:
    found = anonymize(exported([a_cluster("ams-1")], a_policy().pick_n(1), a_binding("ams-1")))

    (binding,), (snapshot,) = found["bindings"], found["policySnapshots"]
    assert binding["spec"]["targetCluster"] == found["clusters"][0]["metadata"]["name"]
    assert binding["spec"]["schedulingPolicySnapshotName"] == snapshot["metadata"]["name"]
    assert binding["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"] == "placement-0001"
    assert snapshot["metadata"]["name"].startswith("placement-0001-")


def test_W_18_namespaces_are_renamed_where_they_are_named() -> None:
    fleet = [a_cluster("a").with_namespaces("shop", "till"), a_cluster("b").with_namespaces("till")]
    document = exported(fleet, a_policy().pick_n(2).in_namespace("shop"))

    found = anonymize(document)

    assert [one.cluster for one in decided(document).targets] == ["a"]
    assert [one.cluster for one in decided(found).targets] == ["cluster-0001"]
    assert found["policySnapshots"][0]["metadata"]["namespace"] == "namespace-0001"


@pytest.mark.parametrize("number", [9, 12_000])
def test_W_18_pseudonyms_are_as_long_as_the_largest_of_them(number: int) -> None:
    policy = a_policy().pick_fixed(*(f"c{one:05}" for one in range(number)))

    names = anonymize(exported([], policy))["policySnapshots"][0]["spec"]["policy"]["clusterNames"]

    assert list(names) == sorted(names)
    assert len({len(name) for name in names}) == 1
