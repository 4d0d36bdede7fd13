"""Placements whose rollout staged update runs control."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from tests.fake_hub import FakeHub, Json
from tests.faults.scripted import Refuse
from tests.faults.virtual import virtual
from tests.unit.placement.workbench import RUNNING, Neighbours, Workbench, a_placement, pick_n

RUNS: Final = "clusterstagedupdateruns"


@asynccontextmanager
async def external(*clusters: str) -> AsyncIterator[tuple[Workbench, Neighbours]]:
    async with Workbench() as bench:
        a_placement(bench.hub, policy=pick_n(len(clusters)), strategy={"type": "External"})
        for index in (0, 1):
            a_resource_snapshot(bench.hub, index)
        await bench.settle()
        others = Neighbours(bench.hub)
        others.schedule(*clusters)
        yield bench, others


def a_resource_snapshot(hub: FakeHub, index: int) -> None:
    labels = {
        "kubernetes-fleet.io/parent-CRP": "web",
        "kubernetes-fleet.io/resource-index": str(index),
        "kubernetes-fleet.io/is-latest-snapshot": "true" if index else "false",
    }
    annotations = {"kubernetes-fleet.io/number-of-resource-snapshots": "1"}
    inside = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"settings-{index}", "namespace": "shop"}}
    hub.put(
        f"clusterresourcesnapshots/web-{index}-snapshot",
        {"metadata": {"labels": labels, "annotations": annotations}, "spec": {"selectedResources": [inside]}},
    )


def a_run(hub: FakeHub, name: str, *, placement: str = "web") -> Json:
    return hub.put(f"{RUNS}/{name}", {"spec": {"placementName": placement}})


@virtual
async def test_no_resource_snapshots_are_made() -> None:
    async with external("c1") as (bench, _):
        await bench.settle()
        assert not [write for write in bench.hub.writes() if "resourcesnapshots" in write]


@virtual
async def test_a_common_version_is_described_even_if_it_is_an_older_one() -> None:
    async with external("c1", "c2") as (bench, others):
        for cluster in ("c1", "c2"):
            others.report(cluster, RUNNING, snapshot="web-0-snapshot")
        await bench.settle()
        status = bench.status()
        assert status["observedResourceIndex"] == "0"
        assert [one["name"] for one in status["selectedResources"]] == ["settings-0"]
        assert bench.condition("Available")[:2] == ("True", "ResourceAvailable")


@virtual
@pytest.mark.parametrize("second", ["web-0-snapshot", "", "web-9-snapshot"], ids=["another", "none", "unknown"])
async def test_without_a_common_version_the_rollout_is_somebody_else_s(second: str) -> None:
    async with external("c1", "c2") as (bench, others):
        a_run(bench.hub, "run-2")
        a_run(bench.hub, "run-1")
        a_run(bench.hub, "run-3", placement="other")
        others.report("c1", RUNNING, snapshot="web-1-snapshot")
        others.report("c2", RUNNING, snapshot=second)
        await bench.settle()
        status, reason, message = bench.condition("RolloutStarted")
        assert (status, reason) == ("Unknown", "RolloutControlledByExternalController")
        assert message.endswith("the rollout is controlled by run-1, run-2")
        assert bench.conditions() == {"Scheduled": "True", "RolloutStarted": "Unknown"}
        assert not {"observedResourceIndex", "selectedResources"} & set(bench.status())
        assert bench.entry("c1")["observedResourceIndex"] == "1"


@virtual
@pytest.mark.parametrize("refusal", [Refuse(403, "Forbidden"), Refuse(404, "NotFound")], ids=["forbidden", "unknown"])
async def test_runs_that_cannot_be_read_are_not_named(refusal: Refuse) -> None:
    async with external("c1") as (bench, _):
        bench.hub.fault = lambda request: refusal if RUNS in request.path else None
        await bench.settle()
        assert "create a staged update run" in bench.condition("RolloutStarted")[2]


@virtual
async def test_without_a_cluster_there_is_nothing_to_control() -> None:
    async with external() as (bench, _):
        await bench.settle()
        assert bench.conditions() == {"Scheduled": "True"}


@virtual
async def test_while_it_is_being_scheduled_the_last_known_version_stays() -> None:
    async with external("c1") as (bench, others):
        others.report("c1", RUNNING)
        await bench.settle()
        bench.hub.edit("clusterresourceplacements/web", spec={"policy": {"numberOfClusters": 2}})
        await bench.settle()
        assert bench.status()["observedResourceIndex"] == "0"
