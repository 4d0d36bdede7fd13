"""`fleet simulate` on the demo: what the README shows, in this process and in one of its own."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from fleet.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
DEMO = str(ROOT / "examples")
PROGRAM = """
import sys
from fleet.cli.main import run
try:
    run()
finally:
    print("loaded aiohttp:", "aiohttp" in sys.modules, file=sys.stderr)
"""


def simulate(*arguments: str, columns: int = 120) -> Result:
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(app, ["simulate", "-f", DEMO, *arguments])


simulated = functools.cache(simulate)


def as_json(*arguments: str) -> dict[str, Any]:
    result = simulated("-o", "json", *arguments)
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def decision(name: str, *arguments: str) -> dict[str, Any]:
    decisions: list[dict[str, Any]] = as_json(*arguments)["decisions"]
    return next(decision for decision in decisions if decision["answer"]["placement"]["name"] == name)


def chosen(name: str, *arguments: str) -> list[str]:
    return [row["name"] for row in rows(decision(name, *arguments)) if row["outcome"] == "selected"]


def rows(decision: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = decision["answer"]["attempt"]["clusters"]
    return found


# --- what it says -----------------------------------------------------------------------------------------------------


def test_the_demo_is_read_without_a_word() -> None:
    result = simulated("-v")

    assert (result.exit_code, result.stderr) == (0, "")


def test_five_placements_meet_twelve_clusters() -> None:
    assert simulated().stdout.startswith("12 clusters, 5 placements, as of 2026-03-02T09:14:00Z (newest heartbeat)\n")


def test_one_placement_cannot_be_fulfilled_and_the_region_to_blame_is_named() -> None:
    found = as_json()["decisions"]

    assert [one["answer"]["placement"]["name"] for one in found if not one["fulfilled"]] == ["storefront"]
    (held_up,) = decision("storefront")["answer"]["attempt"]["fullDomains"]
    assert (held_up["key"], held_up["domain"]) == ("region", "us-east")


def test_picks_are_spread_over_regions() -> None:
    regions = {one: one.partition("-")[0] for one in chosen("storefront")}

    assert sorted(regions) == ["ams-1", "bom-1", "dub-1", "iad-1", "sin-1"]


def test_a_change_of_policy_moves_only_what_it_has_to() -> None:
    actions = {one["cluster"]: one["action"] for one in decision("batch-reports")["operations"]}

    assert actions == {
        "ams-2": "create",
        "bom-1": "create",
        "iad-1": "refresh",
        "ams-1": "unschedule",
        "sin-1": "unschedule",
    }


def test_a_namespaced_placement_goes_where_its_namespace_is() -> None:
    refused = {one["reason"]: one["count"] for one in decision("catalog-cache")["answer"]["attempt"]["groups"]}

    assert refused["NamespaceMissing"] == 6


def test_the_demo_covers_every_placement_type() -> None:
    found = {(one["answer"]["placement"]["kind"], one["policy"]["type"]) for one in as_json()["decisions"]}

    assert found == {
        ("ClusterResourcePlacement", "PickAll"),
        ("ClusterResourcePlacement", "PickFixed"),
        ("ClusterResourcePlacement", "PickN"),
        ("ResourcePlacement", "PickN"),
    }


@pytest.mark.parametrize("columns", [80, 120])
def test_every_line_fits_the_terminal(columns: int) -> None:
    for arguments in ([], ["--why", "edge-lab"]):
        lines = simulated(*arguments, columns=columns).stdout.splitlines()
        assert max(map(len, lines)) <= columns


def test_nothing_is_coloured_when_nobody_is_watching() -> None:
    assert "\x1b" not in simulated().stdout


def test_yaml_says_what_json_says() -> None:
    assert yaml.safe_load(simulated("-o", "yaml").stdout) == as_json()


# --- options ----------------------------------------------------------------------------------------------------------


def test_a_cluster_is_explained_for_every_placement() -> None:
    text = simulated("--why", "edge-lab").stdout

    assert text.count("profile DefaultScheduler") == 5
    assert "term 1: env In [prod] (is lab)" in text
    assert "term 1: kubernetes-fleet.io/node-count Ge 5 (is 1)" in text


def test_several_clusters_are_explained_in_the_order_they_were_asked_for() -> None:
    text = simulated("--why", "sin-2", "--why", "ams-1", "--why", "sin-2").stdout

    assert [line for line in text.splitlines() if line in ("ams-1", "sin-2")] == ["sin-2", "ams-1"]


def test_the_wall_clock_finds_every_heartbeat_old() -> None:
    found = as_json("--now", "now")

    assert found["nowFrom"] == "wall clock"
    assert not any(row["outcome"] == "selected" for one in found["decisions"] for row in rows(one))


def test_the_moment_can_be_chosen() -> None:
    found = as_json("--now", "2026-03-02T10:20:00+01:00")

    assert (found["now"], found["nowFrom"]) == ("2026-03-02T09:20:00Z", "--now")


def test_a_setting_changes_who_is_eligible() -> None:
    assert chosen("storefront", "--set", "eligibility.heartbeatTimeout=1h").count("iad-2") == 1


def test_a_setting_changes_what_counts_as_a_domain() -> None:
    assert (
        decision("storefront")["answer"]["attempt"]["configHash"]
        != decision("storefront", "--set", "spread.missingKey=Exclude")["answer"]["attempt"]["configHash"]
    )


def test_equal_runs_give_equal_bytes() -> None:
    assert simulate("-o", "json").stdout == simulate("-o", "json").stdout


# --- the end of the story ---------------------------------------------------------------------------------------------


def test_an_unfulfilled_policy_is_a_failure_only_where_it_is_expected_to_be_fulfilled() -> None:
    assert simulated().exit_code == 0
    assert simulated("--expect-fulfilled").exit_code == 1
    assert simulated("--expect-fulfilled", "-o", "json").exit_code == 1


def test_expectations_that_are_met_are_no_failure() -> None:
    arguments = ["simulate", "-f", f"{DEMO}/fleet", f"{DEMO}/placements/payments-ledger.yaml", "--expect-fulfilled"]

    assert CliRunner().invoke(app, arguments).exit_code == 0


def test_a_process_of_its_own_says_the_same() -> None:
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "FORCE_COLOR")}
    command = [sys.executable, "-c", PROGRAM, "simulate", "-f", "examples/", "--expect-fulfilled", "-o", "json"]

    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)

    assert (done.returncode, done.stderr) == (1, "loaded aiohttp: False\n"), "it asks no service"
    assert json.loads(done.stdout) == as_json()


def test_standard_input_is_read() -> None:
    text = "\n---\n".join(path.read_text(encoding="utf-8") for path in sorted(Path(DEMO).rglob("*.yaml")))

    done = CliRunner().invoke(app, ["simulate", "-f", "-", "-o", "json"], input=text)

    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["decisions"] == as_json()["decisions"]


def test_a_reader_who_has_seen_enough_is_no_accident() -> None:
    command = f"{sys.executable} -m fleet.cli simulate -f examples/ -o json | head -1"

    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, cwd=ROOT, check=False)

    assert (done.stdout, done.stderr) == ("{\n", "")
