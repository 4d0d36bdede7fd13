"""Options and quotas of the hub, in answers about placements that are proposed, and about the present."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fleet.kube.scopes import CLUSTER_SCOPED
from tests.api.stage import Json, Stage, a_stage
from tests.api.test_quotas import allow, place, with_a_stage
from tests.e2e.world import ANYTHING, soon


def proposed(name: str, number: int, **metadata: Any) -> Json:
    return {
        "apiVersion": CLUSTER_SCOPED.placement.api_version,
        "kind": CLUSTER_SCOPED.placement.kind,
        "metadata": {"name": name, **metadata},
        "spec": {
            "resourceSelectors": [ANYTHING],
            "policy": {"placementType": "PickN", "numberOfClusters": number},
        },
    }


async def simulate(stage: Stage, document: Json) -> Json:
    response = await stage.post("/v1/simulate", {"placement": document})
    response.raise_for_status()
    answer: Json = response.json()["answer"]
    return answer


def test_Q_43_a_proposal_is_decided_with_the_options_on_the_hub(tmp_path: Path) -> None:
    async def main() -> None:
        async with a_stage(tmp_path) as stage:
            await stage.world.create(CLUSTER_SCOPED.options, {"metadata": {"name": "wide"}, "spec": {"minTargets": 6}})
            spec = proposed("wide", 7)["spec"]
            await stage.world.create(CLUSTER_SCOPED.placement, {"metadata": {"name": "wide"}, "spec": spec})
            await stage.world.soon_scheduled("wide", status="False")

            answer = await simulate(stage, proposed("wide", 6))

            assert (answer["verdict"]["minTargets"], answer["verdict"]["selected"]) == (6, 0)

    asyncio.run(main())


def test_a_proposal_counts_in_quotas_by_its_labels(tmp_path: Path) -> None:
    async def test(stage: Stage) -> None:
        await allow(stage, "team-a", cpu="40")
        await place(stage, "first", "cpu=30")
        await stage.world.soon_scheduled("first")
        annotations = {"scheduling.fleet.dev/requests": "cpu=12"}

        within = await simulate(stage, proposed("second", 1, labels={"team": "a"}, annotations=annotations))
        beside = await simulate(stage, proposed("second", 1, labels={"team": "b"}, annotations=annotations))

        assert (within["verdict"]["state"], beside["verdict"]["state"]) == ("Unschedulable", "Scheduled")
        assert "quota team-a: cpu 30 of 40 used, asked 12, 2 short" in str(within)

    with_a_stage(tmp_path, test)


def test_the_present_takes_the_hinted_clusters_first(tmp_path: Path) -> None:
    async def main() -> None:
        async with a_stage(tmp_path) as stage:
            document = proposed("hinted", 1)
            (first,) = chosen(await simulate(stage, document))
            other = "dub-1" if first != "dub-1" else "ams-1"
            expires = (datetime.now(UTC) + timedelta(minutes=10)).strftime("%Y-%m-%dT%H:%M:%SZ")
            hints = [{"cluster": other, "owner": "planner", "expiresAt": expires}]
            spec = {"placementHints": hints}
            await stage.world.create(CLUSTER_SCOPED.options, {"metadata": {"name": "hinted"}, "spec": spec})

            async def follows() -> bool:
                return chosen(await simulate(stage, document)) == [other]

            await soon(follows)

    asyncio.run(main())


def chosen(answer: Json) -> list[str]:
    return [row["name"] for row in answer["attempt"]["clusters"] if row["outcome"] == "selected"]
