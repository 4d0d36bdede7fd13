"""Room in single pools of clusters, as `fleet simulate` tells it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.unit.cli.conftest import Fleet
from tests.unit.cli.manifests import NOW, Manifest, member, wanting
from tests.unit.cli.profiled import (
    HEAD,
    Decide,
    Run,
    deciding,
    rejection,
    row_of,
    score_of,
    simulate_profile,
    targets,
)

LATER: Final = "2026-03-10T09:05:00Z"
GPU: Final = "nvidia.com/gpu"
GPUS: Final = {"a": {GPU: ("4", "4")}, "b": {GPU: ("8", "8")}}
Pools = Mapping[str, Mapping[str, tuple[str, str]]]
"""By pool and resource: what is allocatable and available."""


def pooled(name: str, pools: Pools, *, at: str = NOW, **totals: str) -> Manifest:
    cluster = member(name)
    cluster["status"]["properties"] = {
        f"{kind}.pools.fleet.dev/{pool}.{resource.replace('/', '_')}": {"value": value, "observationTime": at}
        for pool, resources in pools.items()
        for resource, quantities in resources.items()
        for kind, value in zip(("allocatable", "available"), quantities, strict=True)
    }
    has = {**totals, GPU: totals.pop("gpus", "12")}
    cluster["status"]["resourceUsage"] = {"capacity": has, "allocatable": has, "available": has, "observationTime": NOW}
    return cluster


@pytest.fixture
def run(tmp_path: Path, fleet: Fleet) -> Run:
    return simulate_profile(tmp_path, fleet, LATER, "PoolTopologyMatch")


@pytest.fixture
def decide(run: Run) -> Decide:
    return deciding(run)


def test_T_12_what_fits_in_total_needs_a_single_pool(decide: Decide) -> None:
    (fits,), (misses,) = (decide(pooled("c", GPUS), wanting("web", f"{GPU}={count}")) for count in (8, 9))

    assert (targets(fits), targets(misses)) == (["c"], [])
    assert rejection(misses, "c") == (
        "NoSinglePool",
        f"needs {GPU} 9 in one pool, and b, which lacks least, has 8 of 8 free: 1 is missing",
    )


def test_T_12_all_resources_need_the_same_pool(decide: Decide) -> None:
    one, two = {"cpu": ("8", "8"), "memory": ("4Gi", "4Gi")}, {"cpu": ("2", "2"), "memory": ("32Gi", "32Gi")}
    apart, both = pooled("apart", {"a": one, "b": two}), pooled("both", {"a": one, "b": {**two, "cpu": ("8", "6")}})
    (decided,) = decide(apart, both, wanting("web", "cpu=4,memory=8Gi", 2))

    assert targets(decided) == ["both"]
    reason, message = rejection(decided, "apart")
    assert reason == "NoSinglePool"
    assert message == "needs memory 8Gi in one pool, and a, which lacks least, has 4Gi of 4Gi free: 4Gi is missing"


def test_T_12_why_lists_what_each_pool_lacks(run: Run) -> None:
    ran = run(pooled("c", GPUS), wanting("web", f"{GPU}=9"), options=("--why", "c"))

    unwrapped = " ".join(ran.out.split())
    assert f"pool a has 4 of 4 {GPU} free: 5 is missing" in unwrapped
    assert f"pool b has 8 of 8 {GPU} free: 1 is missing" in unwrapped


def test_T_12_two_placements_in_a_row_see_each_other(decide: Decide) -> None:
    """Which pool the first one took is up to the cluster, so it counts in both."""
    first, second = decide(pooled("c", GPUS), wanting("a-first", f"{GPU}=5"), wanting("b-second", f"{GPU}=4"))

    assert targets(first) == ["c"]
    assert rejection(second, "c")[1].endswith("and b, which lacks least, has 3 of 8 free: 1 is missing")


def test_T_12_a_stale_report_of_pools_rejects_and_says_how_old_it_is(decide: Decide) -> None:
    stale, recent = (pooled(at[-3:-1], GPUS, at=at) for at in ("2026-03-10T08:59:59Z", "2026-03-10T09:00:00Z"))
    (decided,) = decide(stale, recent, wanting("web", f"{GPU}=8", 2))

    assert targets(decided) == ["00"]
    assert rejection(decided, "59") == ("StaleTopology", "reported its pools 301s ago, and that counts for 300s")
    (row,) = [each for each in row_of(decided, "59")["rejections"] if each["verdict"] == "reject"]
    assert row["details"]["ageSeconds"] == 301


def test_T_12_the_age_of_reports_that_count_is_an_argument(decide: Decide) -> None:
    old = pooled("c", GPUS, at="2026-03-10T01:00:00Z")
    (decided,) = decide(old, wanting("web", f"{GPU}=8"), PoolTopologyMatch={"maxAgeSeconds": 0})

    assert targets(decided) == ["c"]


@pytest.mark.parametrize(
    "strategy, expected", [("LeastAllocated", 25), ("MostAllocated", 50), ("BalancedAllocation", 75)]
)
def test_T_12_the_worst_pool_that_fits_is_scored(decide: Decide, strategy: str, expected: int) -> None:
    """With the placement, a is used to 0.5 and 1, b to 0.5 and 0.5; c is too small."""
    pools = {
        "a": {"cpu": ("4", "4"), "memory": ("8Gi", "4Gi")},
        "b": {"cpu": ("8", "6"), "memory": ("8Gi", "8Gi")},
        "c": {"cpu": ("1", "1"), "memory": ("8Gi", "8Gi")},
    }
    (decided,) = decide(
        pooled("x", pools), wanting("web", "cpu=2,memory=4Gi"), PoolTopologyMatch={"strategy": strategy}
    )

    assert score_of(decided, "x", "PoolTopologyMatch") == expected


def test_clusters_without_pools_pass_with_a_remark_unless_the_profile_says_otherwise(decide: Decide) -> None:
    manifests = (pooled("c", {}), wanting("web", f"{GPU}=1"))
    (passing,), (rejecting,) = decide(*manifests), decide(*manifests, PoolTopologyMatch={"unknown": "Reject"})

    assert targets(passing) == ["c"]
    assert score_of(passing, "c", "PoolTopologyMatch") == 0
    (warning,) = passing["answer"]["attempt"]["warnings"]
    assert (warning["kind"], warning["subject"], warning["clusters"]) == ("ResourceUnknown", f"{GPU} by pool", ["c"])
    assert rejection(rejecting, "c") == ("PoolsUnknown", "reports no pools")


def test_what_no_pool_of_a_cluster_reports_is_left_to_other_plugins(decide: Decide) -> None:
    (decided,) = decide(
        pooled("fits", GPUS, cpu="4"), pooled("short", GPUS, cpu="1"), wanting("web", f"{GPU}=8,cpu=2", 2)
    )

    assert targets(decided) == ["fits"]
    assert rejection(decided, "short")[0] == "NeverFits"


@pytest.mark.parametrize(
    "args, problem",
    [
        ({"strategy": "LeastNUMANodes"}, "args.strategy: Invalid enum value 'LeastNUMANodes'"),
        ({"maxAgeSeconds": 59}, "args.maxAgeSeconds: 59 should be at least 60, or 0: at any age"),
        ({"maxAgeSeconds": -1}, "args.maxAgeSeconds: -1 should be at least 60"),
        ({"pools": []}, "args.pools: unknown field"),
    ],
)
def test_arguments_are_checked(run: Run, args: Mapping[str, Any], problem: str) -> None:
    assert problem in run(pooled("c", GPUS), wanting("web", "cpu=1"), PoolTopologyMatch=args).err


def test_documents_of_kube_scheduler_may_name_its_counterpart(fleet: Fleet, tmp_path: Path) -> None:
    file = tmp_path / "foreign.yaml"
    plugins = {"multiPoint": {"enabled": [{"name": "NodeResourceTopologyMatch"}]}}
    foreign = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    file.write_text(json.dumps({**foreign, "profiles": [{"plugins": plugins}]}), encoding="utf-8")
    converted = fleet("config", "convert", str(file))

    assert "PoolTopologyMatch" in converted.out
    assert HEAD["apiVersion"] in converted.out


def test_the_plugin_is_listed_with_its_arguments(fleet: Fleet) -> None:
    assert "PoolTopologyMatch" in fleet("plugins", "list").out
