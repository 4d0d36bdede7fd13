"""Placements near to others and away from them, as the API answers about them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Final

from fleet.kube.scopes import CLUSTER_SCOPED
from tests.api.stage import ADMIN, AUTHOR, Json, Stage, a_stage
from tests.e2e.world import ANYTHING, all_recorded

EXTENDED: Final = """
apiVersion: scheduling.fleet.dev/v1
kind: FleetSchedulerConfiguration
profiles: [{base: ExtendedProfile}]
"""
ANNOTATION: Final = "scheduling.fleet.dev/affinity"
ELSEWHERE: Final[list[Json]] = [
    {"placements": {"matchLabels": {"app": "absent"}}},
    {"placements": {"matchLabels": {"app": "db"}}, "topologyKey": "region", "anti": True},
]


def write(name: str, app: str, number: int, *required: Json) -> Json:
    annotations = {ANNOTATION: json.dumps({"required": required})} if required else {}
    spec = {"resourceSelectors": [ANYTHING], "policy": {"placementType": "PickN", "numberOfClusters": number}}
    return {"metadata": {"name": name, "labels": {"app": app}, "annotations": annotations}, "spec": spec}


def with_a_stage(folder: Path, test: Any) -> None:
    async def main() -> None:
        file = folder / "fleet.yaml"
        file.write_text(EXTENDED, encoding="utf-8")
        async with a_stage(folder, file=file) as stage:
            await test(stage)

    asyncio.run(main())


async def place(stage: Stage, document: Json) -> None:
    await stage.world.create(CLUSTER_SCOPED.placement, document)


def test_X_16_why_names_the_placement_that_is_in_the_way_and_every_attempt_replays(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        await place(stage, write("db", "db", 1))
        await stage.world.soon_on("db", "ams-1")
        await place(stage, write("front", "front", 5, ELSEWHERE[1]))
        await stage.world.soon_scheduled("front", status="False")
        why = await stage.json("/v1/placements/-/front/why?cluster=ams-2")
        (row,) = [each for each in why["attempt"]["clusters"] if each["name"] == "ams-2"]
        (rejected,) = [each for each in row["rejections"] if each["verdict"] == "reject"]
        assert rejected["message"] == "keeps away from a placement that is in region=ams"
        assert rejected["details"]["otherPlacement"] == "db"
        listed = {(one["event"], one["plugin"]) for one in why["queue"]["wakesOn"]}
        assert {("Resident/Add", "PlacementAffinity"), ("Resident/Delete", "PlacementAffinity")} <= listed
        await place(stage, write("plain", "plain", 6))
        await stage.world.soon_scheduled("plain", status="False")
        plain = await stage.json("/v1/placements/-/plain/why")
        assert not any(one["event"].startswith("Resident") for one in plain["queue"]["wakesOn"])
        assert stage.history is not None
        await all_recorded(stage.controller, stage.history)
        report = (await stage.post("/v1/replay", {"select": {"limit": 100}})).json()
        assert (report["same"], report["skipped"]) == (report["attempts"], [])

    with_a_stage(tmp_path, test)


def test_X_16_fixes_name_the_terms_and_are_tried(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        await place(stage, write("db", "db", 4))
        await stage.world.soon_on("db", "ams-1", "ams-2", "dub-1", "dub-2")
        await place(stage, write("front", "front", 1, *ELSEWHERE))
        await stage.world.soon_scheduled("front", status="False")
        why = await stage.json("/v1/placements/-/front/why?fixes=deep")
        edits = [fix["edits"] for fix in why["fixes"]]
        both = [{"op": "relaxPlacementAffinity", "term": 1}, {"op": "relaxPlacementAffinity", "term": 0}]
        assert both in edits, why["fixes"]
        assert both[:1] not in edits
        tried = await stage.post("/v1/simulate", {"placement": {"ref": "front"}, "edits": both})
        assert tried.json()["answer"]["verdict"]["state"] == "Scheduled"
        refused = await stage.post("/v1/simulate", {"placement": {"ref": "front"}, "edits": [{**both[0], "term": 2}]})
        assert refused.status_code == 422
        assert "the placement has 2 required terms about other placements" in refused.text

    with_a_stage(tmp_path, test)


def test_X_16_a_placement_that_is_proposed_counts_by_its_labels(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        away = {"placements": {"matchLabels": {"app": "front"}}, "topologyKey": "region", "anti": True}
        await place(stage, write("db", "db", 1, away))
        await stage.world.soon_on("db", "ams-1")
        for app, expected in (("front", {"dub-1"}), ("other", {"ams-1"})):
            document = {"apiVersion": CLUSTER_SCOPED.placement.api_version, "kind": "ClusterResourcePlacement"}
            proposed = {"placement": {**document, **write("new", app, 1)}}
            answer = (await stage.post("/v1/simulate", proposed)).json()["answer"]
            rows = answer["attempt"]["clusters"]
            assert {row["name"] for row in rows if row["outcome"] == "selected"} == expected, answer["verdict"]

    with_a_stage(tmp_path, test)


def test_X_16_who_may_not_read_the_whole_fleet_does_not_see_the_other_placement(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        away: Json = {"placements": {"matchLabels": {"app": "front"}}, "topologyKey": "region", "anti": True}
        await place(stage, write("vault", "vault", 1, away))
        await stage.world.soon_on("vault", "ams-1")
        await place(stage, write("front", "front", 5))
        await stage.world.soon_scheduled("front", status="False")
        for token, is_named in ((ADMIN, True), (AUTHOR, False)):
            for view in ("/why", "/why?fixes=deep", "/why?cluster=ams-2"):
                answer = await stage.get(f"/v1/placements/-/front{view}", token)
                assert answer.status_code == 200, answer.text
                assert "vault" not in answer.text or is_named, view
        assert "vault" in (await stage.get("/v1/placements/-/front/why", ADMIN)).text

    with_a_stage(tmp_path, test)
