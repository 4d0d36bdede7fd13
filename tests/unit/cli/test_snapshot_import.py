"""`fleet simulate --snapshot`: what was exported is decided as of then, with the settings of then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Fleet
from tests.unit.cli.manifests import binding, member, placement, snapshot
from tests.unit.cli.scripted_api import ScriptedApi, in_json

THEN = "2026-03-10T09:02:00Z"
"""Two minutes after the heartbeats."""


def exported(folder: Path, **changes: Any) -> str:
    clusters = [member("a"), member("b")]
    for one in clusters:
        del one["spec"]["identity"]  # is not watched
    document = {
        "apiVersion": "fleet/v1",
        "kind": "FleetSnapshot",
        "at": THEN,
        "configHash": "x",
        "settings": {},
        "clusters": clusters,
        "placements": [placement("web", placementType="PickAll")],
        "policySnapshots": [snapshot("web-0", "web", placementType="PickAll")],
        "bindings": [binding("a", of="web", snapshot="web-0")],
        "pending": [],
        **changes,
    }
    file = folder / "fleet.json"
    file.write_text(json.dumps(document))
    return str(file)


def test_what_is_empty_may_be_missing(fleet: Fleet, tmp_path: Path) -> None:
    cluster = member("a")
    for condition in cluster["status"]["agentStatus"][0]["conditions"]:
        del condition["message"]

    found = decided(fleet, "--snapshot", exported(tmp_path, clusters=[cluster], bindings=[]))

    assert found["decisions"][0]["answer"]["verdict"]["counts"]["selected"] == 1


def decided(fleet: Fleet, *arguments: str) -> dict[str, Any]:
    ran = fleet("simulate", *arguments, "-o", "json")
    assert ran.code == 0, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    return found


def test_a_snapshot_is_decided_as_of_then(fleet: Fleet, tmp_path: Path) -> None:
    found = decided(fleet, "--snapshot", exported(tmp_path))

    assert (found["now"], found["nowFrom"]) == (THEN, "--snapshot")
    assert found["decisions"][0]["answer"]["placement"]["name"] == "web"
    assert found["decisions"][0]["policy"]["source"] == "snapshot"
    assert found["clusterCount"] == 2


def test_a_snapshot_is_decided_with_the_settings_of_then(fleet: Fleet, tmp_path: Path) -> None:
    patient = decided(fleet, "--snapshot", exported(tmp_path))
    hasty = decided(fleet, "--snapshot", exported(tmp_path, settings={"eligibility.heartbeatTimeout": "90s"}))

    assert patient["decisions"][0]["answer"]["verdict"]["counts"]["rejected"] == 0
    assert hasty["settings"] == {"eligibility.heartbeatTimeout": "90s"}
    assert (
        hasty["decisions"][0]["answer"]["verdict"]["summary"] != patient["decisions"][0]["answer"]["verdict"]["summary"]
    )


def test_the_command_line_counts_more_than_the_snapshot(fleet: Fleet, tmp_path: Path) -> None:
    file = exported(tmp_path, settings={"eligibility.heartbeatTimeout": "90s"})

    found = decided(
        fleet, "--snapshot", file, "--now=2026-03-10T09:03:00Z", "--set", "eligibility.heartbeatTimeout=10m"
    )

    assert found["now"] == "2026-03-10T09:03:00Z"
    assert found["settings"] == {"eligibility.heartbeatTimeout": "10m"}


def test_further_files_are_added(fleet: Fleet, tmp_path: Path) -> None:
    more = tmp_path / "more.json"
    more.write_text(json.dumps(member("c")))

    assert decided(fleet, "--snapshot", exported(tmp_path), "-f", str(more))["clusterCount"] == 3


def test_an_edited_placement_in_further_files_counts_with_the_bindings_of_the_export(
    fleet: Fleet, tmp_path: Path
) -> None:
    """As on the hub after an apply: the policy of the export is an earlier one."""
    edited = tmp_path / "web.json"
    expression = {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"env": "prod"}}}]}
    required = {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": expression}}
    edited.write_text(json.dumps(placement("web", placementType="PickAll", affinity=required)))
    labeled = tmp_path / "b.json"
    labeled.write_text(json.dumps({**member("b", env="prod"), "status": None, "spec": {}}))

    found = decided(fleet, "--snapshot", exported(tmp_path), "-f", str(edited), "-f", str(labeled))["decisions"][0]

    assert (found["policy"]["source"], found["policy"]["snapshot"]) == ("placement", "web-1")
    assert [(each["action"], each["cluster"]) for each in found["operations"]] == [("create", "b"), ("unschedule", "a")]


@pytest.mark.parametrize(
    "content, said",
    [
        ("{", "is not JSON: "),
        ("[]", "is not a FleetSnapshot of fleet/v1; create one with `fleet snapshot export FILE`"),
        ('{"apiVersion": "fleet/v2", "kind": "FleetSnapshot"}', "is not a FleetSnapshot of fleet/v1"),
    ],
)
def test_what_is_no_snapshot_is_refused(content: str, said: str, fleet: Fleet, tmp_path: Path) -> None:
    file = tmp_path / "fleet.json"
    file.write_text(content)

    ran = fleet("simulate", "--snapshot", str(file))

    assert ran.code == 2
    assert ran.err.startswith(f"error: --snapshot: {file} {said}")


def test_a_snapshot_that_is_not_there_is_named(fleet: Fleet, tmp_path: Path) -> None:
    file = tmp_path / "none.json"

    assert fleet("simulate", "--snapshot", str(file)).err == (
        f"error: --snapshot: {file} cannot be read: No such file or directory\nnext: see `fleet simulate --help`\n"
    )


# --- under other names ------------------------------------------------------------------------------------------------


def busy(folder: Path) -> str:
    """Two of three are wanted, one is tainted; names decide between equals."""
    tainted = member("b", tier="gold", taints=[{"key": "team", "value": "red", "effect": "NoSchedule"}])
    clusters = [member("c", tier="gold"), tainted, member("a", tier="gold")]
    policy: dict[str, Any] = {
        "placementType": "PickN",
        "numberOfClusters": 2,
        "affinity": {
            "clusterAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"tier": "gold"}}}]
                }
            }
        },
    }
    return exported(
        folder,
        clusters=clusters,
        placements=[placement("web", **policy)],
        policySnapshots=[snapshot("web-0", "web", number=2, **policy)],
        pending=["web"],
    )


def test_W_18_an_anonymised_export_is_decided_alike(fleet: Fleet, api: ScriptedApi, tmp_path: Path) -> None:
    original = busy(tmp_path)
    api.says("/v1/snapshot", in_json(json.loads(Path(original).read_text())))
    file = tmp_path / "anonymous.json"

    ran = fleet("snapshot", "export", "--anonymize", str(file))
    before, after = decided(fleet, "--snapshot", original), decided(fleet, "--snapshot", str(file))

    assert ran.code == 0, ran.err
    names = {"a": "cluster-0001", "b": "cluster-0002", "c": "cluster-0003"}
    assert chosen(after) == [names[name] for name in chosen(before)] != []
    (one,), (other,) = before["decisions"], after["decisions"]
    assert other["answer"]["verdict"]["counts"] == one["answer"]["verdict"]["counts"]
    assert other["answer"]["placement"]["name"] == "placement-0001"
    assert not {"gold", "red", "web", "web-0"} & {*words(json.loads(file.read_text()))}


def chosen(found: dict[str, Any]) -> list[str]:
    rows = found["decisions"][0]["answer"]["attempt"]["clusters"]
    return [row["name"] for row in rows if row["outcome"] == "selected"]


def words(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [word for item in value.values() for word in words(item)]
    if isinstance(value, list):
        return [word for item in value for word in words(item)]
    return [str(value)]


def test_W_18_what_cannot_be_anonymised_is_not_written(fleet: Fleet, api: ScriptedApi, tmp_path: Path) -> None:
    api.says("/v1/snapshot", in_json({"kind": "FleetSnapshot", "clusters": [{"metadata": {"name": "secret"}}]}))
    file = tmp_path / "anonymous.json"

    ran = fleet("snapshot", "export", "--anonymize", str(file))

    assert ran.code == 2
    assert "cannot be anonymized" in ran.err
    assert "nothing was written" in ran.err
    assert not file.exists()
