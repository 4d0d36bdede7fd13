"""Options and quotas of the hub, in answers about placements that are proposed, and about the present."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.model.placement_key import PlacementKey
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


# --- what keeps the decision from being carried out -------------------------------------------------------------------

BROKEN: Final = {"required": [{"placements": {"matchExpressions": [{"key": "x", "operator": "In"}]}, "anti": True}]}
PROFILES: Final = """\
apiVersion: scheduling.fleet.dev/v1
kind: FleetSchedulerConfiguration
profiles:
- {schedulerName: DefaultScheduler}
- schedulerName: approved
  plugins: {permit: {enabled: [{name: PlacementApproval}]}}
- schedulerName: together
  plugins: {multiPoint: {enabled: [{name: GangPlacement}]}}
"""
OWNERS: Final = {"name": "owners", "approvers": {"users": ["olga"]}}


@pytest.mark.parametrize(
    "spec, said",
    [
        ({"gates": [{"name": "audit"}]}, "the scheduler holds it until its gates are cleared: audit"),
        (
            {"approvals": [OWNERS]},
            "the scheduler holds it: its options ask for approvals, and profile DefaultScheduler has no plugin "
            "PlacementApproval: name another profile in spec.schedulerName, or add the plugin at permit",
        ),
        (
            {"schedulerName": "together", "group": "shards"},
            "decided by itself here; the scheduler, and a scenario, decide all members of group shards together",
        ),
        ({"schedulerName": "approved", "approvals": [OWNERS]}, "nothing is bound before approvals by owners"),
        (
            {"group": "shards"},
            "the scheduler holds it: its group shards needs plugin GangPlacement, which profile DefaultScheduler does "
            "not have",
        ),
        ({"priorityClassName": "high"}, "the scheduler holds it: there is no PriorityClass high"),
    ],
    ids=["gates", "approvals without the plugin", "group without the plugin", "group", "approvals", "priority"],
)
def test_a_decision_on_request_tells_what_the_scheduler_would_wait_for(
    tmp_path: Path, spec: dict[str, Any], said: str
) -> None:
    async def main(stage: Stage) -> None:
        await stage.world.create(CLUSTER_SCOPED.options, {"metadata": {"name": "held"}, "spec": spec})
        options = stage.controller.caches.kinds_of(PlacementKey("", "held")).options.store
        await soon(lambda: is_there(options))
        document = proposed("held", 1)

        for placement in (document, {"ref": "held"}):
            if "ref" in placement:
                await stage.world.create(CLUSTER_SCOPED.placement, {key: document[key] for key in ("metadata", "spec")})
                await soon(lambda: find_scheduled(stage))
            given = (await stage.post("/v1/simulate", {"placement": placement})).json()["answer"]
            assert [(note["reason"], note["message"]) for note in given["statusNotes"]] == [("WouldBeHeld", said)]
            assert given["verdict"]["summary"].startswith(f"{said}; the choice: 1/5 clusters selected")
            text = (await stage.post("/v1/simulate", {"placement": placement}, Accept="text/plain")).text
            assert said in " ".join(text.split())

    async def is_there(options: Any) -> bool:
        return options.get("held") is not None

    async def find_scheduled(stage: Stage) -> bool:
        return (await stage.post("/v1/simulate", {"placement": {"ref": "held"}})).status_code == 200

    with_profiles(tmp_path, main)


def test_a_proposal_that_asks_for_options_that_are_missing_would_be_held(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        answer = await simulate(stage, proposed("web-2", 1, annotations={"scheduling.fleet.dev/options": "required"}))
        (note,) = answer["statusNotes"]
        assert note["message"].endswith("asks for options, and the hub has none")
        plain = await simulate(stage, proposed("web-3", 1))
        assert (plain["statusNotes"], plain["verdict"]["summary"].partition(" ")[0]) == ([], "1/5")

    with_profiles(tmp_path, main)


@pytest.mark.parametrize("by_annotation", [True, False])
def test_a_proposal_of_another_scheduler_is_told_as_why_does(tmp_path: Path, *, by_annotation: bool) -> None:
    async def main(stage: Stage) -> None:
        document = proposed("theirs", 1)
        if by_annotation:
            document["metadata"]["annotations"] = {"scheduling.fleet.dev/scheduler-name": "nobody"}
        else:
            options = {"metadata": {"name": "theirs"}, "spec": {"schedulerName": "nobody"}}
            await stage.world.create(CLUSTER_SCOPED.options, options)

        async def is_foreign() -> Any:
            answer = await simulate(stage, document)
            return answer if answer["verdict"]["state"] == "ForeignScheduler" else None

        answer = await soon(is_foreign)
        await stage.world.create(CLUSTER_SCOPED.placement, {key: document[key] for key in ("metadata", "spec")})

        async def is_explained() -> Any:
            told = await stage.get("/v1/placements/-/theirs/why")
            return told.json() if told.status_code == 200 else None

        why = await soon(is_explained)
        for part in ("state", "summary"):
            assert answer["verdict"][part] == why["verdict"][part]
        assert answer["statusNotes"][0] == why["statusNotes"][0]

    with_profiles(tmp_path, main)


def test_what_is_wrong_with_options_is_told_of_the_options(tmp_path: Path) -> None:
    async def main(stage: Stage) -> None:
        await stage.world.create(CLUSTER_SCOPED.options, {"metadata": {"name": "odd"}, "spec": {"affinity": BROKEN}})

        async def is_refused() -> Any:
            answer = await simulate(stage, proposed("odd", 1))
            return answer if answer["verdict"]["problems"] else None

        answer = await soon(is_refused)
        (problem,) = answer["verdict"]["problems"]
        assert problem["field"] == "options"
        assert problem["message"].startswith("cannot be used: spec.affinity.required[0]")
        text = (await stage.post("/v1/simulate", {"placement": proposed("odd", 1)}, Accept="text/plain")).text
        assert "edit its options; nothing is scheduled until then" in " ".join(text.split())
        assert "metadata.annotations" not in text

    with_profiles(tmp_path, main)


def with_profiles(folder: Path, test: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        file = folder / "profiles.yaml"
        file.write_text(PROFILES, encoding="utf-8")
        async with a_stage(folder, file=file) as stage:
            await test(stage)

    asyncio.run(main())
