"""`fleet simulate --config` with plugins that read the load of clusters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fleet.model.keys import REQUESTS, SCHEDULER_NAME
from fleet.scheduler.profiles.configuration import build_profiles
from fleet.settings import read_settings
from fleet.settings.document.feeds import HttpSource
from tests.fast_yaml import safe_dump, safe_dump_all
from tests.unit.cli.conftest import Fleet
from tests.unit.cli.manifests import Manifest, binding, member, placement, snapshot
from tests.unit.cli.profiled import HEAD

LOADS = (0, 10, 20, 35, 40, 41, 50, 70, 70.1, 71, 85, 95, 100, 101)
TABLE = {
    40: (40, 55, 70, 93, 100, 39, 33, 20, 20, 19, 10, 3, 0, 0),
    50: (50, 60, 70, 85, 90, 91, 100, 30, 30, 29, 15, 5, 0, 0),
    60: (60, 67, 73, 83, 87, 87, 93, 45, 45, 44, 23, 8, 0, 0),
    70: (70, 74, 79, 85, 87, 88, 91, 100, 70, 68, 35, 12, 0, 0),
    80: (80, 83, 85, 89, 90, 90, 93, 98, 98, 98, 60, 20, 0, 0),
    100: (100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 0),
}
NOTHING = {"defaultRequests": {"cpu": "0"}}


def sized(name: str, cpu: str = "64", **usage: Mapping[str, str]) -> Manifest:
    cluster = member(name)
    cluster["status"]["resourceUsage"] = {"capacity": {"cpu": cpu}, **usage}
    return cluster


def document(static: Mapping[str, Any], *profiles: Mapping[str, Any], plugin: str = "TargetLoadPacking") -> Manifest:
    """A feed `load`, and profiles with the plugin and these arguments."""
    enabled = {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": plugin}]}}
    return {
        **HEAD,
        "feeds": [{"name": "load", "static": static}],
        "profiles": [
            {
                "schedulerName": f"scheduler-{number}" if number else "DefaultScheduler",
                "ranking": "weighted",
                "plugins": enabled,
                "pluginConfig": [{"name": plugin, "args": args}],
            }
            for number, args in enumerate(profiles)
        ],
    }


def simulate(fleet: Fleet, folder: Path, config: Manifest, *objects: Manifest) -> list[dict[str, Any]]:
    (folder / "config.yaml").write_text(safe_dump(config), encoding="utf-8")
    (folder / "objects.yaml").write_text(safe_dump_all(objects), encoding="utf-8")
    ran = fleet("simulate", "-f", str(folder / "objects.yaml"), "--config", str(folder / "config.yaml"), "-o", "json")
    assert "error: " not in ran.err, ran.err
    decisions: list[dict[str, Any]] = json.loads(ran.out)["decisions"]
    return decisions


def scores_of(decision: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Of the only plugin that scores, by cluster."""
    rows = decision["answer"]["attempt"]["clusters"]
    return {row["name"]: row["scores"][0] for row in rows}


@pytest.mark.parametrize("target", TABLE)
def test_T_01_scores_rise_to_the_target_and_fall_from_it(fleet: Fleet, tmp_path: Path, target: int) -> None:
    names = {f"c{number}": load for number, load in enumerate(LOADS)}
    config = document(
        {name: {"cpu": load} for name, load in names.items()},
        {"feed": "load", "targetUtilization": target, **NOTHING},
    )
    web = placement("web", placementType="PickN", numberOfClusters=len(names))
    (decision,) = simulate(fleet, tmp_path, config, web, *map(sized, names))
    scores = scores_of(decision)
    assert tuple(scores[name]["final"] for name in names) == TABLE[target]


def test_T_01_halves_are_rounded_away_from_zero(fleet: Fleet, tmp_path: Path) -> None:
    ties = {"a": (5, 48), "b": (15, 63), "c": (25, 78), "d": (35, 93)}
    config = document({name: {"cpu": load} for name, (load, _) in ties.items()}, {"feed": "load", **NOTHING})
    web = placement("web", placementType="PickN", numberOfClusters=4)
    (decision,) = simulate(fleet, tmp_path, config, web, *map(sized, ties))
    assert {name: each["final"] for name, each in scores_of(decision).items()} == {
        name: score for name, (_, score) in ties.items()
    }


def test_T_04_a_cluster_without_a_load_scores_nothing_and_why_names_the_source(fleet: Fleet, tmp_path: Path) -> None:
    config = document({"a": {"cpu": 30}, "b": {"memory": 1}}, {"feed": "load", "targetUtilization": 70})
    objects = [placement("web", placementType="PickN", numberOfClusters=4), *map(sized, "abd"), member("c")]
    config["feeds"][0]["static"]["c"] = {"cpu": 5}
    (decision,) = simulate(fleet, tmp_path, config, *objects)
    scores = scores_of(decision)
    assert decision["outcome"] == "Selected"
    assert {name: (each["final"], each["remark"]) for name, each in scores.items()} == {
        "a": (84, "cpu load 30.0% (feed load, 0s old); 31.6% with this placement, target 70%"),
        "b": (0, "feed load has no cpu for this cluster"),
        "c": (0, "the member reports no cpu capacity"),
        "d": (0, "feed load has no cpu for this cluster"),
    }


def test_T_04_the_text_about_a_cluster_names_the_source(fleet: Fleet, tmp_path: Path) -> None:
    config, objects = tmp_path / "config.yaml", tmp_path / "objects.yaml"
    config.write_text(safe_dump(document({"a": {"cpu": 30}}, {"feed": "load"})), encoding="utf-8")
    web = placement("web", placementType="PickN", numberOfClusters=2)
    objects.write_text(safe_dump_all([web, *map(sized, "ab")]), encoding="utf-8")
    ran = fleet("simulate", "-f", str(objects), "--config", str(config), "--why", "b")
    assert "TargetLoadPacking scores 0: feed load has no cpu for this cluster" in ran.out.splitlines()


def test_T_04_without_a_feed_the_load_is_what_members_report(fleet: Fleet, tmp_path: Path) -> None:
    half = sized("half", "10", allocatable={"cpu": "9"}, available={"cpu": "4"})
    silent = sized("silent", "10")
    web = placement("web", placementType="PickN", numberOfClusters=2)
    (decision,) = simulate(fleet, tmp_path, document({}, {"targetUtilization": 60}), web, half, silent)
    assert {name: (each["final"], each["remark"]) for name, each in scores_of(decision).items()} == {
        "half": (100, "cpu load 50.0% (as the member reports it); 60.0% with this placement, target 60%"),
        "silent": (0, "the member reports no cpu capacity and usage"),
    }


def test_T_06_two_profiles_have_targets_of_their_own(fleet: Fleet, tmp_path: Path) -> None:
    config = document(
        {"a": {"cpu": 50}},
        *({"feed": "load", "targetUtilization": target, **NOTHING} for target in (40, 70)),
    )
    placements = [placement(name, placementType="PickN", numberOfClusters=1) for name in ("web", "shop")]
    placements[1]["metadata"]["annotations"] = {SCHEDULER_NAME: "scheduler-1"}
    decisions = simulate(fleet, tmp_path, config, *placements, sized("a"))
    finals = {each["answer"]["placement"]["name"]: scores_of(each)["a"]["final"] for each in decisions}
    assert finals == {"web": 33, "shop": 91}


@pytest.mark.parametrize(
    "args, problem",
    [
        ({"targetUtilization": 101}, "args.targetUtilization: 101 should be at most 100"),
        ({"defaultRequests": {"cpu": "much"}}, "args.defaultRequests.cpu: 'much' should be a quantity"),
        ({"defaultRequests": {"gpu": 1}}, "args.defaultRequests.gpu: unknown field"),
        ({"defaultRequestsMultiplier": "-1"}, "args.defaultRequestsMultiplier: '-1' should be a quantity"),
        ({"feed": "lode"}, "no feed named lode exists; did you mean load?"),
    ],
)
def test_arguments_of_packing_that_make_no_sense_are_refused_by_their_path(
    fleet: Fleet, tmp_path: Path, args: Mapping[str, Any], problem: str
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(safe_dump(document({"a": {"cpu": 50}}, args)), encoding="utf-8")
    ran = fleet("config", "check", str(path))
    assert ran.code == 2
    assert problem in ran.out + ran.err


def made(cluster: str, moment: str, *, of: str = "shop", state: str = "Bound") -> Manifest:
    """A binding of that age; NOW is 09:00:00."""
    found = binding(cluster, of=of, snapshot=f"{of}-0", state=state)
    found["metadata"]["creationTimestamp"] = f"2026-03-10T{moment}Z"
    return found


def test_T_03_what_was_placed_after_the_minute_before_the_sample_counts(fleet: Fleet, tmp_path: Path) -> None:
    config = document({name: {"cpu": 10} for name in "abcd"}, {"feed": "load", "targetUtilization": 90})
    objects = [
        placement("web", placementType="PickN", numberOfClusters=4),
        placement("shop", placementType="PickN", numberOfClusters=3),
        *(sized(name, "10") for name in "abcd"),
        made("a", "08:59:30"),
        made("b", "09:00:10"),
        made("c", "08:58:59"),
        made("d", "08:59:30", state="Unscheduled"),
        snapshot("shop-0", of="shop", number=3, placementType="PickN"),
    ]
    decisions = simulate(fleet, tmp_path, config, *objects)
    (web,) = [each for each in decisions if each["answer"]["placement"]["name"] == "web"]
    remark = "cpu load 10.0% (feed load, 0s old); 20.0% with this placement, target 90%"
    recent = "cpu load 10.0% (feed load, 0s old), 1 placed since; 30.0% with this placement, target 90%"
    remarks = {name: each["remark"] for name, each in scores_of(web).items()}
    assert remarks == {"a": recent, "b": recent, "c": remark, "d": remark}


def test_T_03_reports_of_members_miss_what_was_placed_after_the_minute_before_them(
    fleet: Fleet, tmp_path: Path
) -> None:
    late = sized("late", "10", allocatable={"cpu": "10"}, available={"cpu": "9"})
    late["status"]["agentStatus"][0]["lastReceivedHeartbeat"] = "2026-03-10T08:58:00Z"
    prompt = sized("prompt", "10", allocatable={"cpu": "10"}, available={"cpu": "9"})
    objects = [made("late", "08:58:30"), made("prompt", "08:58:30"), late, prompt]
    objects += [placement(name, placementType="PickN", numberOfClusters=2) for name in ("web", "shop")]
    objects += [snapshot("shop-0", of="shop", number=2, placementType="PickN")]
    decisions = simulate(fleet, tmp_path, document({}, {"targetUtilization": 90}), *objects)
    (web,) = [each for each in decisions if each["answer"]["placement"]["name"] == "web"]
    loads = {name: each["remark"].partition("; ")[2] for name, each in scores_of(web).items()}
    assert loads == {
        "late": "30.0% with this placement, target 90%",
        "prompt": "20.0% with this placement, target 90%",
    }


@pytest.mark.parametrize(
    "plugin, args, problem",
    [
        ("LoadVariationRiskBalancing", {"safeVarianceMargin": -1}, "args.safeVarianceMargin: -1 should be 0 or more"),
        (
            "LoadVariationRiskBalancing",
            {"safeVarianceSensitivity": 0},
            "args.safeVarianceSensitivity: 0 should be more",
        ),
        ("Peaks", {"powerModel": {"k1": 0}}, "args.powerModel.k1: 0 should be more than 0"),
        ("Peaks", {"clusterPowerModels": {"a": {"k2": 31}}}, "args.clusterPowerModels.a.k2: 31 should be more than 0"),
    ],
)
def test_arguments_of_its_siblings_that_make_no_sense_are_refused_by_their_path(
    fleet: Fleet, tmp_path: Path, plugin: str, args: Mapping[str, Any], problem: str
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(safe_dump(document({"a": {"cpu": 50}}, {"feed": "load", **args}, plugin=plugin)), encoding="utf-8")
    ran = fleet("config", "check", str(path))
    assert ran.code == 2
    assert problem in ran.out + ran.err


def test_T_07_the_placements_of_a_simulation_count_for_those_that_follow(fleet: Fleet, tmp_path: Path) -> None:
    """By what each of them requests, if it does."""
    config = document({"a": {"cpu": 10}, "b": {"cpu": 0}}, {"feed": "load", "targetUtilization": 60})
    placements = [placement(f"web-{number}", placementType="PickN", numberOfClusters=1) for number in range(3)]
    placements[0]["metadata"]["annotations"] = {REQUESTS: "cpu=2"}
    decisions = simulate(fleet, tmp_path, config, *placements, *(sized(name, "10") for name in "ab"))
    remarks = [scores_of(each)["a"]["remark"].partition("0s old)")[2] for each in decisions]
    assert remarks == [
        "; 40.0% with this placement, target 60%",
        ", 1 placed since; 50.0% with this placement, target 60%",
        ", 2 placed since; 60.0% with this placement, target 60%",
    ]


# --- siblings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args, load, score",
    [
        ({}, {"cpu": 40, "cpuDeviation": 20}, 70),
        ({"safeVarianceSensitivity": 2}, {"cpu": 40, "cpuDeviation": 20}, 58),
        ({"safeVarianceMargin": 2}, {"cpu": 40, "cpuDeviation": 20}, 60),
        ({}, {"cpu": 40, "cpuDeviation": 20, "memory": 70, "memoryDeviation": 10}, 60),
        ({}, {"memory": 70, "memoryDeviation": 10}, 60),
        ({}, {"cpu": 40}, 80),
        ({"safeVarianceMargin": 9}, {"cpu": 150, "cpuDeviation": 90}, 0),
    ],
)
def test_T_09_a_low_and_steady_load_is_preferred(
    fleet: Fleet, tmp_path: Path, args: Mapping[str, Any], load: Mapping[str, float], score: int
) -> None:
    config = document({"a": load, "b": {"disk": 1}}, {"feed": "load", **args}, plugin="LoadVariationRiskBalancing")
    web = placement("web", placementType="PickN", numberOfClusters=2)
    (decision,) = simulate(fleet, tmp_path, config, web, *map(sized, "ab"))
    scores = scores_of(decision)
    assert (scores["a"]["final"], scores["b"]["final"]) == (score, 0)
    assert scores["b"]["remark"] == "feed load has no cpu for this cluster"


def test_T_09_the_remark_has_both_loads_and_their_deviations(fleet: Fleet, tmp_path: Path) -> None:
    load = {"cpu": 40, "cpuDeviation": 20, "memory": 70, "memoryDeviation": 10}
    args = {"feed": "load", "safeVarianceMargin": 2}
    config = document({"a": load}, args, plugin="LoadVariationRiskBalancing")
    (decision,) = simulate(
        fleet, tmp_path, config, placement("web", placementType="PickN", numberOfClusters=1), sized("a")
    )
    assert scores_of(decision)["a"]["remark"] == (
        "cpu load 40.0%, weighed deviation 40.0%, memory load 70.0%, weighed deviation 20.0% (feed load, 0s old)"
    )


def test_T_11_the_cluster_whose_power_rises_least_is_preferred(fleet: Fleet, tmp_path: Path) -> None:
    config = document(
        {"low": {"cpu": 25}, "high": {"cpu": 50}, "between": {"cpu": 37.5}},
        {"feed": "load", "powerModel": {"k1": 1, "k2": 2}},
        plugin="Peaks",
    )
    web = placement("web", placementType="PickN", numberOfClusters=4)
    clusters = [sized(name, "4") for name in ("low", "high", "between", "silent")]
    (decision,) = simulate(fleet, tmp_path, config, web, *clusters)
    scores = scores_of(decision)
    assert {name: each["final"] for name, each in scores.items()} == {"low": 100, "between": 56, "high": 0, "silent": 0}
    assert scores["low"]["remark"] == "power rises by 1.0696: cpu load 25.0% to 50.0% (feed load, 0s old)"
    assert scores["high"]["remark"] == "power rises by 1.7634: cpu load 50.0% to 75.0% (feed load, 0s old)"
    assert scores["silent"]["remark"] == "feed load has no cpu for this cluster"


def test_T_11_a_cluster_may_have_a_model_of_its_own(fleet: Fleet, tmp_path: Path) -> None:
    models = {"clusterPowerModels": {"low": {"k1": 9, "k2": 2}}, "powerModel": {"k1": 1, "k2": 2}}
    config = document({"low": {"cpu": 25}, "high": {"cpu": 50}}, {"feed": "load", **models}, plugin="Peaks")
    web = placement("web", placementType="PickN", numberOfClusters=2)
    (decision,) = simulate(fleet, tmp_path, config, web, *(sized(name, "4") for name in ("low", "high")))
    assert {name: each["final"] for name, each in scores_of(decision).items()} == {"low": 0, "high": 100}


# --- providers and profiles -------------------------------------------------------------------------------------------

COMPAT = """\
apiVersion: kubescheduler.config.k8s.io/v1beta1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
profiles:
- schedulerName: load-aware
  plugins:
    score:
      disabled:
      - name: NodeResourcesBalancedAllocation
      - name: NodeResourcesLeastAllocated
      enabled:
      - name: TargetLoadPacking
  pluginConfig:
  - name: TargetLoadPacking
    args:
      targetUtilization: 70
      defaultRequests:
        cpu: "2000m"
      defaultRequestsMultiplier: "1"
      metricProvider:
        type: Prometheus
        address: https://prometheus.example.com
        token: ${PROM_TOKEN}
"""


def test_arguments_of_the_other_scheduler_are_taken_as_they_are(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, native = tmp_path / "compat.yaml", tmp_path / "native.yaml"
    path.write_text(COMPAT, encoding="utf-8")
    refused = fleet("config", "check", str(path))
    assert refused.code == 2
    at = "profiles[0].pluginConfig[0].args.metricProvider.token"
    assert f"{at}: ${{PROM_TOKEN}} has no source" in refused.out + refused.err
    converted = fleet("config", "convert", str(path))
    lines = [line.split() for line in converted.err.splitlines()]
    verdicts = {line[1]: line[0] for line in lines if len(line) > 1 and ".args." in line[1]}
    args = "profiles[0].pluginConfig[0].args"
    provider = [f"metricProvider.{name}" for name in ("type", "address", "token")]
    names = ["targetUtilization", "defaultRequests.cpu", "defaultRequestsMultiplier", *provider]
    assert verdicts == {f"{args}.{name}": "honoured" for name in names}

    native.write_text(f"{converted.out}\nsubstitution:\n  fromEnv: [PROM_TOKEN]\n", encoding="utf-8")
    monkeypatch.setenv("PROM_TOKEN", "hush-hush-hush")
    checked = fleet("config", "check", str(native))
    assert (checked.code, "warning" in checked.err) == (0, False)
    shown = fleet("config", "show", str(native))
    assert "hush" not in shown.out
    rows = {row[0]: row[1:] for line in shown.out.splitlines() if (row := line.split())}
    assert rows[f"{args}.metricProvider.address"][0] == "https://prometheus.example.com"
    assert rows[f"{args}.targetUtilization"][0] == "70"

    settings = read_settings((), native, {"PROM_TOKEN": "hush-hush-hush"})
    (profile,) = build_profiles(settings)[0]
    scores = {ref.name: ref.weight for ref in profile.plugins["score"]}
    assert scores["TargetLoadPacking"] == 1
    assert not {"ResourceFit", "BalancedAllocation"} & scores.keys()
    assert "ResourceFit" in {ref.name for ref in profile.plugins["filter"]}
    (feed,) = settings.feeds
    assert isinstance(feed.source, HttpSource)
    assert (feed.name, list(feed.source.columns)) == ("load-aware.TargetLoadPacking", ["cpu"])
    assert (feed.source.bearer_token, feed.source.tls.insecure) == ("hush-hush-hush", False)


def test_a_document_of_the_other_scheduler_packs_unchanged(fleet: Fleet, tmp_path: Path) -> None:
    path, objects = tmp_path / "compat.yaml", tmp_path / "objects.yaml"
    path.write_text("\n".join(line for line in COMPAT.splitlines() if "token" not in line), encoding="utf-8")
    web = placement("web", placementType="PickN", numberOfClusters=1)
    web["metadata"]["annotations"] = {SCHEDULER_NAME: "load-aware"}
    objects.write_text(safe_dump_all([web, sized("a")]), encoding="utf-8")
    ran = fleet("simulate", "-f", str(objects), "--config", str(path), "-o", "json")
    assert ran.code == 0, ran.err
    (decision,) = json.loads(ran.out)["decisions"]
    (row,) = decision["answer"]["attempt"]["clusters"]
    (score,) = [score for score in row["scores"] if score["plugin"] == "TargetLoadPacking"]
    assert (score["final"], score["remark"]) == (0, "feed load-aware.TargetLoadPacking has no cpu for this cluster")


@pytest.mark.parametrize(
    "provider",
    [
        {"metricProvider": {"type": "Static", "values": {"a": 10, "b": {"cpu": 40}}}},
        {"feed": "load"},
    ],
)
def test_T_01_loads_may_stand_in_the_arguments(fleet: Fleet, tmp_path: Path, provider: Mapping[str, Any]) -> None:
    config = document({"a": {"cpu": 10}, "b": {"cpu": 40}}, {**provider, **NOTHING})
    web = placement("web", placementType="PickN", numberOfClusters=2)
    (decision,) = simulate(fleet, tmp_path, config, web, *map(sized, "ab"))
    scores = scores_of(decision)
    name = provider.get("feed", "DefaultScheduler.TargetLoadPacking")
    assert {cluster: each["final"] for cluster, each in scores.items()} == {"a": 55, "b": 100}
    assert f"(feed {name}, 0s old)" in scores["a"]["remark"]


def test_the_provider_that_is_the_members_is_no_feed(fleet: Fleet, tmp_path: Path) -> None:
    config = document({}, {"metricProvider": {"type": "ClusterStatus"}, **NOTHING})
    used = sized("a", "10", allocatable={"cpu": "10"}, available={"cpu": "9"})
    (decision,) = simulate(fleet, tmp_path, config, placement("web", placementType="PickN", numberOfClusters=1), used)
    assert scores_of(decision)["a"]["final"] == 55


def test_the_load_aware_profile_packs_without_further_plugins(fleet: Fleet, tmp_path: Path) -> None:
    profile = {"base": "LoadAware", "pluginConfig": [{"name": "TargetLoadPacking", "args": {"feed": "load"}}]}
    config = {**HEAD, "feeds": [{"name": "load", "static": {"a": {"cpu": 38}, "b": {"cpu": 2}}}], "profiles": [profile]}
    web = placement("web", placementType="PickN", numberOfClusters=1)
    (decision,) = simulate(fleet, tmp_path, config, web, *map(sized, "ab"))
    (row,) = [row for row in decision["answer"]["attempt"]["clusters"] if row["outcome"] == "selected"]
    assert row["name"] == "a"
    assert [score["final"] for score in row["scores"] if score["plugin"] == "TargetLoadPacking"] == [99]


@pytest.mark.parametrize(
    "args, problem",
    [
        ({"metricProvider": {"type": "Promethius"}}, ".metricProvider.type: 'Promethius' is no provider: use"),
        ({"metricProvider": {"type": "SignalFx"}}, ".metricProvider.address: is missing"),
        ({"metricProvider": {"type": "KubernetesMetricsServer"}}, ".metricProvider.addresses: is missing"),
        (
            {"metricProvider": {"type": "KubernetesMetricsServer", "addresses": {"a": "a.b"}}},
            ".metricProvider.addresses.a: 'a.b' should be an address",
        ),
        (
            {"metricProvider": {"type": "SignalFx", "address": "http://a", "addresses": {"a": "http://a"}}},
            ".metricProvider.addresses: has no meaning with type SignalFx: it belongs to KubernetesMetricsServer",
        ),
        ({"metricProvider": {"type": "Prometheus"}}, ".metricProvider.address: is missing"),
        (
            {"metricProvider": {"type": "Static", "address": "http://a"}},
            ".metricProvider.address: has no meaning with type Static",
        ),
        (
            {"metricProvider": {"type": "Prometheus", "address": "a.b"}},
            ".metricProvider.address: 'a.b' should be an address",
        ),
        (
            {"metricProvider": {"type": "Prometheus", "address": "http://a", "token": "open"}},
            ".metricProvider.token: a token has to come from a variable or a Secret",
        ),
        (
            {"metricProvider": {"type": "Prometheus", "address": "http://a", "tokenFrom": {"secretName": "x"}}},
            ".metricProvider.tokenFrom.key: is missing",
        ),
        ({"metricProvider": {}, "feed": "load"}, ".feed: stands for the load alone"),
        ({"metricProvider": {}, "watcherAddress": "http://a"}, ".watcherAddress: stands for the load alone"),
        ({"watcherAddress": "a"}, ".watcherAddress: 'a' should be an address"),
    ],
)
def test_providers_that_make_no_sense_are_refused_by_their_path(
    fleet: Fleet, tmp_path: Path, args: Mapping[str, Any], problem: str
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(safe_dump(document({"a": {"cpu": 50}}, args)), encoding="utf-8")
    ran = fleet("config", "check", str(path))
    assert ran.code == 2
    assert f"profiles[0].pluginConfig[0].args{problem}" in ran.out + ran.err
