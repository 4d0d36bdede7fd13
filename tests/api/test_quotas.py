"""Quotas of tenants, as the API answers about them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

from fleet.kube.resource import Resource
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS
from tests.api.stage import Json, Stage, a_stage
from tests.e2e.world import ANYTHING, all_recorded

QUOTAS: Final = """
apiVersion: scheduling.fleet.dev/v1
kind: FleetSchedulerConfiguration
profiles:
- base: ExtendedProfile
  plugins: {multiPoint: {enabled: [{name: QuotaFit}]}}
"""
NAMESPACE: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
DEPLOYMENT: Final = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)


async def place(stage: Stage, name: str, requests: str = "", selector: Json | None = None, number: int = 1) -> None:
    annotations = {"scheduling.fleet.dev/requests": requests} if requests else {}
    policy = {"placementType": "PickN", "numberOfClusters": number}
    document = {
        "metadata": {"name": name, "labels": {"team": "a"}, "annotations": annotations},
        "spec": {"resourceSelectors": [selector or ANYTHING], "policy": policy},
    }
    await stage.world.create(CLUSTER_SCOPED.placement, document)


async def allow(stage: Stage, name: str, **most: str) -> None:
    spec = {"placements": {"matchLabels": {"team": "a"}}, "max": most}
    await stage.world.create(CLUSTER_SCOPED.quota, {"metadata": {"name": name}, "spec": spec})


def with_a_stage(folder: Path, test: Any) -> None:
    async def main() -> None:
        file = folder / "fleet.yaml"
        file.write_text(QUOTAS, encoding="utf-8")
        async with a_stage(folder, file=file) as stage:
            await test(stage)

    asyncio.run(main())


def test_X_20_why_has_the_numbers_its_fixes_are_tried_and_attempts_replay(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        await allow(stage, "team-a", cpu="40")
        await place(stage, "first", "cpu=30")
        await stage.world.soon_scheduled("first")
        await place(stage, "second", "cpu=12")
        await stage.world.soon_scheduled("second", status="False")
        why = await stage.json("/v1/placements/-/second/why?fixes=deep")
        messages = {
            (rejection["plugin"], rejection["message"])
            for row in why["attempt"]["clusters"]
            for rejection in row["rejections"]
            if rejection["verdict"] == "reject"
        }
        assert ("QuotaFit", "quota team-a: cpu 30 of 40 used, asked 12, 2 short") in messages
        assert ("PlacementQuota/Update", "QuotaFit") in {
            (one["event"], one["plugin"]) for one in why["queue"]["wakesOn"]
        }
        edits = [fix["edits"] for fix in why["fixes"]]
        assert [{"op": "setRequest", "resource": "cpu", "value": "10"}] in edits
        for fix in edits:
            tried = await stage.post("/v1/simulate", {"placement": {"ref": "second"}, "edits": fix})
            assert tried.json()["answer"]["verdict"]["state"] == "Scheduled", fix
        assert stage.history is not None
        await all_recorded(stage.controller, stage.history)
        report = (await stage.post("/v1/replay", {"select": {"limit": 100}})).json()
        assert (report["same"], report["skipped"]) == (report["attempts"], [])

    with_a_stage(tmp_path, test)


def test_X_12_why_says_that_the_workloads_request_it_and_what_of_them_cannot_be_read(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        await stage.world.create(NAMESPACE, {"metadata": {"name": "store"}})
        resources = {"requests": {"cpu": "3", "memory": "lots"}}
        container = {"name": "app", "image": "registry.example.com/app:1", "resources": resources}
        template = {"metadata": {"labels": {"app": "app"}}, "spec": {"containers": [container]}}
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": "app"}}, "template": template}
        await stage.world.create(DEPLOYMENT, {"metadata": {"name": "app", "namespace": "store"}, "spec": spec})
        usage = {kind: {"cpu": "4"} for kind in ("capacity", "allocatable", "available")}
        for name in ("ams-1", "ams-2", "dub-1", "dub-2", "osl-1"):
            await stage.world.patch(MEMBER_CLUSTERS, name, {"status": {"resourceUsage": usage}}, subresource="status")
        await place(stage, "store", selector={"group": "", "version": "v1", "kind": "Namespace", "name": "store"})
        await stage.world.soon_scheduled("store", status="False")
        why = await stage.json("/v1/placements/-/store/why?cluster=ams-1")
        (row,) = [each for each in why["attempt"]["clusters"] if each["name"] == "ams-1"]
        (rejected,) = [each for each in row["rejections"] if each["verdict"] == "reject"]
        assert rejected["message"] == "needs cpu 6, and the cluster has 4 in all"
        assert rejected["details"]["requestedBy"] == "workloads"
        assert "container app: 'lots' is no quantity for memory" in str(why["remarks"])

    with_a_stage(tmp_path, test)
