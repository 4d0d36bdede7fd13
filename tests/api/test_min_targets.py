"""`minTargets`, as the API answers about it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fleet.kube.scopes import CLUSTER_SCOPED
from tests.api.stage import a_stage
from tests.e2e.world import ANYTHING, all_recorded


def test_Q_43_why_names_min_targets_a_lower_one_is_proposed_and_every_attempt_replays(tmp_path: Path) -> None:
    async def main() -> None:
        async with a_stage(tmp_path) as stage:
            options = {"metadata": {"name": "wide"}, "spec": {"minTargets": 6}}
            await stage.world.create(CLUSTER_SCOPED.options, options)
            spec = {"resourceSelectors": [ANYTHING], "policy": {"placementType": "PickN", "numberOfClusters": 7}}
            await stage.world.create(CLUSTER_SCOPED.placement, {"metadata": {"name": "wide"}, "spec": spec})
            await stage.world.soon_scheduled("wide", status="False")

            why = await stage.json("/v1/placements/-/wide/why?fixes=deep")

            assert (why["verdict"]["minTargets"], why["verdict"]["selected"]) == (6, 0)
            fitting = [row for row in why["attempt"]["clusters"] if row["outcome"] == "fit-not-selected"]
            assert {row["because"] for row in fitting} == {"minTargets"}
            (lower,) = [fix["edits"] for fix in why["fixes"] if fix["edits"][0]["op"] == "setMinTargets"]
            assert lower == [{"op": "setMinTargets", "value": len(fitting)}]
            tried = await stage.post("/v1/simulate", {"placement": {"ref": "wide"}, "edits": lower})
            assert tried.json()["answer"]["verdict"]["state"] == "Partial"
            assert stage.history is not None
            await all_recorded(stage.controller, stage.history)
            report = (await stage.post("/v1/replay", {"select": {"limit": 100}})).json()
            assert (report["same"], report["skipped"]) == (report["attempts"], [])

    asyncio.run(main())
