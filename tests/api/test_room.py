"""Room on clusters, as the API answers about it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS
from tests.api.stage import Json, Stage, a_stage
from tests.e2e.hub import soon
from tests.e2e.world import ANYTHING, all_recorded

ROOMY: Final = """
apiVersion: scheduling.fleet.dev/v1
kind: FleetSchedulerConfiguration
profiles: [{base: ExtendedProfile}]
"""
FREE: Final = {"ams-1": "3", "ams-2": "2", "dub-1": "1", "dub-2": "500m", "osl-1": "0"}


async def place(stage: Stage, name: str, requests: str, number: int) -> None:
    metadata = {"name": name, "annotations": {"scheduling.fleet.dev/requests": requests}}
    policy = {"placementType": "PickN", "numberOfClusters": number}
    spec = {"resourceSelectors": [ANYTHING], "policy": policy}
    await stage.world.create(CLUSTER_SCOPED.placement, {"metadata": metadata, "spec": spec})


async def report_all(stage: Stage, free_of: dict[str, str] = FREE) -> None:
    for name, free in free_of.items():
        usage = {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}, "available": {"cpu": free}}
        patch: Json = {"status": {"resourceUsage": usage}}
        await stage.world.patch(MEMBER_CLUSTERS, name, patch, subresource="status")


def with_a_stage(folder: Path, test: Any) -> None:
    async def main() -> None:
        file = folder / "fleet.yaml"
        file.write_text(ROOMY, encoding="utf-8")
        async with a_stage(folder, file=file) as stage:
            await report_all(stage)
            await test(stage)

    asyncio.run(main())


def test_X_13_what_is_booked_is_shown_and_every_attempt_replays(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        await place(stage, "fits", "cpu=2", 2)
        await stage.world.soon_on("fits", "ams-1", "ams-2")
        await place(stage, "late", "cpu=1", 3)
        await stage.world.soon_scheduled("late", status="False")
        booked = {name: (await stage.json(f"/v1/clusters/{name}"))["booked"] for name in ("ams-1", "ams-2", "dub-1")}
        assert booked == {"ams-1": {"cpu": "3"}, "ams-2": {"cpu": "2"}, "dub-1": {"cpu": "1"}}
        why = await stage.json("/v1/placements/-/late/why?cluster=ams-2")
        (row,) = [each for each in why["attempt"]["clusters"] if each["name"] == "ams-2"]
        (rejected,) = [each for each in row["rejections"] if each["verdict"] == "reject"]
        assert rejected["message"] == "needs cpu 1, and 0 of 4 is free: 1 is missing"
        assert (rejected["details"]["used"], rejected["details"]["booked"]) == ("2", "2")
        assert stage.history is not None
        await all_recorded(stage.controller, stage.history)
        report = (await stage.post("/v1/replay", {"select": {"limit": 100}})).json()
        assert (report["same"], report["skipped"]) == (report["attempts"], [])

    with_a_stage(tmp_path, test)


def test_what_a_placement_takes_of_room_and_quotas_is_nothing_against_its_clusters(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        quota = {"metadata": {"name": "all"}, "spec": {"max": {"cpu": "4"}}}
        await stage.world.create(CLUSTER_SCOPED.quota, quota)
        await place(stage, "fits", "cpu=2", 2)
        await stage.world.soon_on("fits", "ams-1", "ams-2")
        await stage.world.taint("ams-2", {"key": "down", "effect": "NoSchedule"})

        async def list_concerns() -> dict[str, list[str]]:
            why = await stage.json("/v1/placements/-/fits/why?fixes=none")
            rows = [row for row in why["attempt"]["clusters"] if row["standing"] == "kept"]
            return {row["name"]: [concern["reason"] for concern in row["concerns"]] for row in rows}

        async def is_known() -> bool:
            return any((await list_concerns()).values())

        await soon(is_known)
        assert await list_concerns() == {"ams-1": [], "ams-2": ["UntoleratedTaint"]}

    with_a_stage(tmp_path, test)


def test_X_14_the_cluster_that_lacks_least_is_the_closest(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        await report_all(stage, {"ams-1": "0", "ams-2": "100m", "dub-1": "2", "dub-2": "1500m"})
        await place(stage, "large", "cpu=3", 1)
        await stage.world.soon_scheduled("large", status="False")
        attempt = (await stage.json("/v1/placements/-/large/why?fixes=none"))["attempt"]
        assert attempt["groups"][0]["closest"] == {"cluster": "dub-1", "lacks": "cpu 3 (2 free)"}
        assert [row["name"] for row in attempt["clusters"]] == ["dub-1", "dub-2", "ams-2", "ams-1", "osl-1"]

    with_a_stage(tmp_path, test)


def test_X_14_fixes_name_what_is_missing_and_are_tried(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        await place(stage, "sized", "cpu=2", 3)
        await stage.world.soon_scheduled("sized", status="False")
        why = await stage.json("/v1/placements/-/sized/why?fixes=deep")
        edits = [fix["edits"] for fix in why["fixes"]]
        assert [{"op": "setRequest", "resource": "cpu", "value": "1"}] in edits
        assert [{"op": "addCapacity", "cluster": "dub-1", "resource": "cpu", "value": "1"}] in edits
        for fix in edits:
            tried = await stage.post("/v1/simulate", {"placement": {"ref": "sized"}, "edits": fix})
            assert tried.json()["answer"]["verdict"]["state"] == "Scheduled", fix

    with_a_stage(tmp_path, test)


def test_X_14_another_cluster_needs_room_as_well(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        await place(stage, "sized", "cpu=100m", 5)
        await stage.world.soon_scheduled("sized", status="False")
        why = await stage.json("/v1/placements/-/sized/why?fixes=fast")
        (fix,) = [fix for fix in why["fixes"] if fix["edits"][0]["op"] == "addCluster"]
        assert fix["edits"][0]["capacity"] == {"cpu": "100m"}
        assert fix["text"] == "one more eligible cluster with 100m cpu free"

    with_a_stage(tmp_path, test)


def test_an_edit_of_room_is_refused_with_what_is_wrong(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        for edit, field, message in (
            ({"op": "setRequest", "resource": "cpu", "value": "lots"}, "edits[0].value", "'lots' is no quantity"),
            (
                {"op": "addCapacity", "cluster": "ams-1", "resource": "cpu", "value": "-1"},
                "edits[0].value",
                "-1 of cpu is negative",
            ),
            ({"op": "addCapacity", "cluster": "x", "resource": "cpu", "value": "1"}, "edits[0].cluster", "no cluster"),
        ):
            answer = await stage.post("/v1/simulate", {"placement": {"ref": "web"}, "edits": [edit]})
            assert answer.status_code == 422, answer.text
            assert field in answer.text
            assert message in answer.text

    with_a_stage(tmp_path, test)
