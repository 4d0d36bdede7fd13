"""The text of a simulation, as people see it. After a change: look at it, then `FLEET_GOLDEN=1` writes it down anew."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from fleet.cli.input.simulation import Simulation, moment_of, simulate
from fleet.cli.output.console import page_of
from fleet.cli.output.simulation_text import render_simulation
from fleet.framework.operations import build_binding_name
from fleet.scheduler.profiles.frameworks import build_compiled_profiles
from fleet.settings import Settings
from tests.unit.cli.manifests import Manifest, binding, inputs, member, placement, snapshot

GOLDEN = Path(__file__).with_name("golden")
GPU = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}
FLEET = (
    member("ams-1", region="eu", tier="gold"),
    member("ams-2", region="eu"),
    member("ams-gpu", region="eu", taints=[GPU]),
    member("nyc-1", region="us", heard="2026-03-10T08:17:40Z"),
    member("nyc-2", region="us"),
)
GOLD_FIRST = {
    "clusterAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 20, "preference": {"labelSelector": {"matchLabels": {"tier": "gold"}}}}
        ]
    }
}
LIKE = {
    "clusterAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "clusterSelectorTerms": [
                {"labelSelector": {"matchExpressions": [{"key": "tier", "operator": "Like", "values": ["gold"]}]}}
            ]
        }
    }
}
EVENLY = [{"topologyKey": "region", "maxSkew": 1}]


def simulated(folder: Path, *manifests: Manifest) -> Simulation:
    found, findings = inputs(folder, *manifests)
    assert findings.problems == []
    return simulate(found, build_compiled_profiles(Settings()), moment_of(found))


def shown(simulation: Simulation, *, why: list[str] | None = None, columns: int = 100) -> str:
    stream = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        return render_simulation(simulation, why or (), page_of(stream))


def check(name: str, text: str) -> None:
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("FLEET_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


SITUATIONS: dict[str, tuple[Manifest, ...]] = {
    "pick-all": (placement("agents", placementType="PickAll"),),
    "pick-n-ranked": (placement("web", placementType="PickN", numberOfClusters=1, affinity=GOLD_FIRST),),
    "pick-n-held-up": (
        member("ams-3", region="eu"),
        placement("web", placementType="PickN", numberOfClusters=5, topologySpreadConstraints=EVENLY),
    ),
    "pick-fixed": (placement("ledger", placementType="PickFixed", clusterNames=["ams-2", "nyc-1", "lon-1"]),),
    "policy-change": (
        placement("web", placementType="PickN", numberOfClusters=2, affinity=GOLD_FIRST),
        snapshot("web-0", "web", latest="false"),
        binding("ams-1", of="web", snapshot="web-0"),
        binding("ams-2", of="web", snapshot="web-0"),
        binding("lon-1", of="web", snapshot="web-0"),
    ),
    "downscale": (
        snapshot("web-0", "web", number=1, placementType="PickN"),
        binding("ams-1", of="web", snapshot="web-0"),
        binding("ams-2", of="web", snapshot="web-0", state="Scheduled"),
    ),
    "satisfied": (
        snapshot("web-0", "web", number=1, placementType="PickN"),
        binding("ams-1", of="web", snapshot="web-0"),
    ),
    "policy-problem": (
        snapshot("web-0", "web", placementType="PickN"),
        binding("ams-1", of="web", snapshot="web-0"),
    ),
    "policy-problems": (
        snapshot(
            "web-0", "web", placementType="PickN", topologySpreadConstraints=[{"topologyKey": "x"}], affinity=LIKE
        ),
        binding("ams-1", of="web", snapshot="web-0"),
    ),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_situation_reads_like_this(name: str, tmp_path: Path) -> None:
    check(name, shown(simulated(tmp_path, *FLEET, *SITUATIONS[name])))


def test_why_reads_like_this(tmp_path: Path) -> None:
    manifests = (*SITUATIONS["pick-n-held-up"], *SITUATIONS["pick-fixed"], *SITUATIONS["pick-all"])

    check("why", shown(simulated(tmp_path, *FLEET, *manifests), why=["ams-2", "nyc-1", "lon-1"]))


def test_a_narrow_terminal_reads_like_this(tmp_path: Path) -> None:
    check("pick-n-held-up-narrow", shown(simulated(tmp_path, *FLEET, *SITUATIONS["pick-n-held-up"]), columns=72))


def test_an_empty_fleet_reads_like_this(tmp_path: Path) -> None:
    simulation = simulated(tmp_path, placement("web", placementType="PickN", numberOfClusters=1))
    first, rest = shown(simulation).split("\n", 1)

    assert first.startswith("0 clusters, 1 placement, as of ")
    check("empty-fleet", rest)


def test_of_many_clusters_that_were_not_picked_a_few_are_shown(tmp_path: Path) -> None:
    many = [member(f"c{number:02}") for number in range(30)]
    text = shown(simulated(tmp_path, *many, placement("web", placementType="PickN", numberOfClusters=1)))

    level = [line for line in text.splitlines() if line.endswith("the tie-break decides")]
    assert [line.partition("  ")[0] for line in level] == ["c28", "c27", "c26", "… 17 more"]
    assert "… and 9 more" in text


def test_oddities_are_warnings(tmp_path: Path) -> None:
    text = shown(simulated(tmp_path, *FLEET, member("odd"), *SITUATIONS["pick-n-held-up"]))

    assert text.endswith("REMARKS\n  no label region, so spreading ignores them: odd\n")


@pytest.mark.parametrize(
    "manifests, line",
    [
        (
            (
                snapshot("web-1", "web", placementType="PickAll"),
                binding("ams-gpu", of="web", snapshot="web-0"),
            ),
            "ams-gpu       web-ams-gpu-b  Bound  untolerated taint {gpu: a100}",
        ),
        (
            (
                snapshot("web-1", "web", number=1, placementType="PickN"),
                binding("ams-1", of="web", snapshot="web-0"),
                binding("nyc-2", of="web", snapshot="web-1"),
            ),
            "ams-1         web-ams-1-b  Bound  made for an earlier policy",
        ),
        (
            (
                snapshot("web-1", "web", placementType="PickAll"),
                binding("ams-1", of="web", snapshot="web-1"),
                binding("ams-1", of="web", snapshot="web-1", state="Scheduled", name="second"),
            ),
            "ams-1         second   Scheduled  a second binding for the cluster",
        ),
        (
            (
                snapshot("web-1", "web", number=1, placementType="PickN", affinity=GOLD_FIRST),
                binding("ams-2", of="web", snapshot="web-0"),
            ),
            "ams-2         web-ams-2-b  Bound  not picked again, rank 2",
        ),
    ],
    ids=["filtered", "earlier policy", "second", "not picked again"],
)
def test_a_removal_has_its_reason(tmp_path: Path, manifests: tuple[Manifest, ...], line: str) -> None:
    assert f"\n{line}\n" in shown(simulated(tmp_path, *FLEET, *manifests))


def test_a_decision_that_fails_says_so(tmp_path: Path) -> None:
    name = build_binding_name(placement="web", placement_uid="", cluster="ams-1")
    limbo = binding("ams-1", of="web", snapshot="web-0", state="Limbo", name=name)

    text = shown(simulated(tmp_path, *FLEET, placement("web"), limbo))

    assert f"\nweb: binding {name} for cluster ams-1 is in the way" in text
    assert f"  {name} is in an unknown state and left alone" in text
