"""The answer for programs: complete, versioned, and with a schema that only grows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from fleet.cli.input.simulation import moment_of, simulate
from fleet.cli.output.report import Report, build_report, build_schema, format_json, format_yaml
from fleet.scheduler.profiles.frameworks import build_compiled_profiles
from fleet.settings import Settings, read_settings
from tests.unit.cli.manifests import Manifest, binding, inputs, member, placement, snapshot

SCHEMA = Path(__file__).resolve().parents[3] / "docs" / "simulate.schema.json"


def reported(folder: Path, *manifests: Manifest, settings: Settings | None = None) -> Report:
    found, findings = inputs(folder, *manifests)
    assert findings.problems == []
    settings = settings or Settings()
    return build_report(simulate(found, build_compiled_profiles(settings), moment_of(found)), settings)


FLEET = (
    member("a", zone="x"),
    member("b", zone="x"),
    member("c", zone="y", taints=[{"key": "g", "effect": "NoSchedule"}]),
)
SPREAD = [{"topologyKey": "zone"}]


def test_the_schema_is_the_one_in_the_documentation() -> None:
    """After a change: `make gen`. Fields may be added, nothing else."""
    assert SCHEMA.read_text(encoding="utf-8") == build_schema() + "\n"


def test_json_reads_back_as_the_same_report(tmp_path: Path) -> None:
    found = reported(tmp_path, *FLEET, placement("web", placementType="PickN", numberOfClusters=3))

    assert msgspec.json.decode(format_json(found), type=Report) == found


def test_yaml_says_what_json_says(tmp_path: Path) -> None:
    found = reported(tmp_path, *FLEET, placement("web", placementType="PickFixed", clusterNames=["a", "z"]))

    assert yaml.safe_load(format_yaml(found)) == msgspec.json.decode(format_json(found))


def test_the_report_names_its_version_moment_and_settings(tmp_path: Path) -> None:
    found = reported(tmp_path, *FLEET, placement("web"), settings=read_settings(["status.maxDecisions=7"]))

    assert (found.api_version, found.kind, found.now, found.now_from) == (
        "fleet/v2",
        "Simulation",
        "2026-03-10T09:00:00Z",
        "newest heartbeat",
    )
    assert found.settings == {"status.maxDecisions": 7}


@pytest.mark.parametrize(
    "policy",
    [
        {"placementType": "PickAll"},
        {"placementType": "PickN", "numberOfClusters": 1},
        {"placementType": "PickN", "numberOfClusters": 3, "topologySpreadConstraints": SPREAD},
        {"placementType": "PickFixed", "clusterNames": ["a", "nowhere"]},
    ],
    ids=["all", "n", "spread", "fixed"],
)
def test_W_05_every_cluster_is_there_once_and_the_counts_add_up(tmp_path: Path, policy: dict[str, Any]) -> None:
    (found,) = reported(tmp_path, *FLEET, placement("web", **policy)).decisions

    assert sorted(row.name for row in found.answer.attempt.clusters) == ["a", "b", "c"]
    numbers = msgspec.to_builtins(found.answer.verdict.counts)
    assert numbers.pop("total") == sum(numbers.values()) == 3


def test_every_cluster_has_a_verdict_of_every_plugin(tmp_path: Path) -> None:
    (found,) = reported(tmp_path, *FLEET, placement("web")).decisions

    assert {len(row.rejections) for row in found.answer.attempt.clusters} == {6}


def test_targets_are_in_the_order_of_picking_with_their_bindings(tmp_path: Path) -> None:
    manifests = (
        *FLEET,
        placement("web", placementType="PickN", numberOfClusters=2),
        binding("a", of="web", snapshot="web-9"),
    )

    (found,) = reported(tmp_path, *manifests).decisions

    rows = [row for row in found.answer.attempt.clusters if row.outcome == "selected"]
    assert [(row.name, row.rank, row.standing) for row in rows] == [("a", 1, "refreshed"), ("b", 2, "selected")]
    assert rows[0].bindings[0].name == "web-a-b"
    assert [(change.action, change.group) for change in found.operations] == [
        ("create", "create"),
        ("refresh", "update"),
    ]


def test_names_outside_the_fleet_are_strangers(tmp_path: Path) -> None:
    manifests = (*FLEET, placement("web"), binding("gone", of="web", snapshot="web-0"))

    (found,) = reported(tmp_path, *manifests).decisions

    assert [(row.name, row.standing) for row in found.answer.attempt.strangers] == [("gone", "dangling")]


def test_a_policy_that_makes_no_sense_is_reported_with_field_and_value(tmp_path: Path) -> None:
    terms = [{"labelSelector": {"matchExpressions": [{"key": "tier", "operator": "Like", "values": ["gold"]}]}}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms}}

    (found,) = reported(
        tmp_path, *FLEET, snapshot("web-0", "web", placementType="PickAll", affinity={"clusterAffinity": required})
    ).decisions

    (problem,) = found.answer.verdict.problems
    assert (problem.value, found.outcome, found.fulfilled) == ("Like", "Error", False)
    assert problem.field.endswith("labelSelector.matchExpressions[0].operator")
    assert found.condition is not None
    assert found.condition.message.startswith("scheduling stopped: ")


def test_a_snapshot_without_a_generation_publishes_nothing(tmp_path: Path) -> None:
    manifest = snapshot("web-0", "web")
    del manifest["metadata"]["annotations"]

    (found,) = reported(tmp_path, *FLEET, manifest).decisions

    assert (found.condition, found.published, found.answer.placement.generation) == (None, None, None)


def test_equal_inputs_give_equal_reports_whatever_their_order(tmp_path: Path) -> None:
    policy = placement("web", placementType="PickN", numberOfClusters=2, topologySpreadConstraints=SPREAD)

    assert reported(tmp_path, *FLEET, policy) == reported(tmp_path, policy, *reversed(FLEET))


def test_what_is_published_is_compared_with_what_was(tmp_path: Path) -> None:
    first = snapshot("web-0", "web", placementType="PickFixed", clusterNames=["a"])
    (before,) = reported(tmp_path, *FLEET, first).decisions
    assert before.published is not None
    assert before.condition is not None

    first["status"] = {
        "observedCRPGeneration": 3,
        "targetClusters": before.published.target_clusters,
        "conditions": [
            {**msgspec.to_builtins(before.condition), "lastTransitionTime": "2026-03-10T09:00:00Z"},
        ],
    }
    (after,) = reported(tmp_path, *FLEET, first, binding("a", of="web", snapshot="web-0")).decisions

    assert after.published is not None
    assert (before.published.changed, after.published.changed) == (True, False)
