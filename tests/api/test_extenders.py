"""Extenders: services over HTTP that a running controller asks, and what the API says of their answers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.model.keys import REQUESTS
from tests.api.stage import Stage, a_stage
from tests.api.test_profiles import write
from tests.e2e.hub import soon
from tests.e2e.world import ANYTHING, EVENTS
from tests.extender import Json, RunningExtender, accept_all, an_extender, forbid, list_names


def extended(folder: Path, extender: RunningExtender, **fields: Any) -> Path:
    folder.mkdir(exist_ok=True)
    options = {"name": "budget", "urlPrefix": extender.url, "filterVerb": "filter", **fields}
    return write(folder, f"extenders: {json.dumps([options])}\n")


async def place(stage: Stage, name: str, count: int, **annotations: str) -> None:
    policy = {"placementType": "PickN", "numberOfClusters": count}
    spec = {"resourceSelectors": [ANYTHING], "policy": policy}
    await stage.world.create(
        CLUSTER_SCOPED.placement, {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
    )


def test_F3_135_an_extender_is_obeyed_named_and_replayed_with_its_server_gone(tmp_path: Path) -> None:
    async def main() -> None:
        with an_extender() as extender:
            extender.answer = forbid("dub-2", because="over budget in July")
            async with a_stage(tmp_path, file=extended(tmp_path / "document", extender)) as stage:
                await place(stage, "irish", 4)
                await stage.world.soon_scheduled("irish", status="False")
                assert await stage.world.in_use("irish") == {"ams-1", "ams-2", "dub-1"}
                await stage.wait_until_recorded()
                extender.stop()
                why = await stage.json("/v1/placements/-/irish/why?cluster=dub-2")
                (row,) = why["attempt"]["clusters"]
                assert (row["first"], row["rejections"][0]["reason"]) == ("budget", "Rejected")
                assert row["rejections"][0]["message"] == "over budget in July"
                assert row["rejections"][0]["details"] == {"name": "budget", "message": "over budget in July"}
                report = (await stage.post("/v1/replay", {"select": {"limit": 100}})).json()
                assert (report["same"], report["different"]) == (report["attempts"], [])

    asyncio.run(main())


def test_an_extender_that_does_not_answer_fails_the_attempt_until_it_does(tmp_path: Path) -> None:
    async def main() -> None:
        with an_extender() as extender:
            async with a_stage(tmp_path, file=extended(tmp_path / "document", extender, timeoutSeconds=1)) as stage:
                extender.released.clear()
                await place(stage, "late", 1)
                await wait_for_attempt(stage, "late", "Transient")
                why = await stage.json("/v1/placements/-/late/why")
                assert why["recorded"]["error"] == "ExtenderUnavailable: budget at filter: no answer within 1 s"
                assert why["verdict"]["error"] == "budget at filter: no answer within 1 s"
                assert "late" not in {binding["metadata"]["name"] for binding in await stage.world.bindings("late")}
                extender.released.set()
                await stage.world.soon_scheduled("late")
                await stage.wait_until_recorded()
                report = (await stage.post("/v1/replay", {"select": {"limit": 100}})).json()
                assert (report["same"], report["different"]) == (report["attempts"], [])

    asyncio.run(main())


def test_an_extender_that_may_be_ignored_is_left_out_and_remarked(tmp_path: Path) -> None:
    async def main() -> None:
        with an_extender() as extender:
            extender.answer = lambda path, asked: b"no JSON"
            async with a_stage(tmp_path, file=extended(tmp_path / "document", extender, ignorable=True)) as stage:
                await stage.wait_until_recorded()
                why = await stage.json("/v1/placements/-/web/why")
                (warning,) = [one for one in why["attempt"]["warnings"] if one["kind"] == "ExtenderIgnored"]
                assert warning["subject"].startswith("budget at filter: answered no JSON")
                assert why["verdict"]["outcome"] == "SELECTED"

    asyncio.run(main())


def test_scores_of_an_extender_decide_and_are_explained(tmp_path: Path) -> None:
    def prefer_dub_2(path: str, asked: Json) -> object:
        assert path == "/prefer"
        return [{"Host": name, "Score": 7 if name == "dub-2" else 1} for name in list_names(asked)]

    async def main() -> None:
        with an_extender() as extender:
            extender.answer = prefer_dub_2
            file = extended(tmp_path / "document", extender, filterVerb=None, prioritizeVerb="prefer", weight=3)
            async with a_stage(tmp_path, file=file) as stage:
                await place(stage, "one", 1)
                await stage.world.soon_on("one", "dub-2")
                await stage.wait_until_recorded()
                why = await stage.json("/v1/placements/-/one/why?cluster=dub-2")
                (row,) = why["attempt"]["clusters"]
                (score,) = [one for one in row["scores"] if one["plugin"] == "budget"]
                assert (score["raw"], score["final"]) == (210, 210)

    asyncio.run(main())


def test_an_extender_is_asked_before_a_binding_is_written_and_a_refusal_keeps_it_from_being_written(
    tmp_path: Path,
) -> None:
    def answer(path: str, asked: Json) -> object:
        assert path == "/bind"
        is_refused = (asked["PodName"], asked["Node"]) == ("irish", "dub-1") and not licences
        return {"Error": "no licence left" if is_refused else ""}

    licences: list[str] = []

    async def main() -> None:
        with an_extender() as extender:
            extender.answer = answer
            file = extended(tmp_path / "document", extender, filterVerb=None, bindVerb="bind")
            async with a_stage(tmp_path, file=file) as stage:
                await place(stage, "irish", 4)
                await wait_for_attempt(stage, "irish", "BindFailed")
                await stage.wait_until_recorded()
                why = await stage.json("/v1/placements/-/irish/why")
                assert why["recorded"]["error"] == "CycleFailed: budget at bind of cluster dub-1: no licence left"
                events = [event for event in await stage.world.all(EVENTS) if event["reason"] == "BindFailed"]
                assert events[0]["message"].endswith("budget at bind of cluster dub-1: no licence left")
                assert await stage.world.in_use("irish") == {"dub-2"}
                (refusal,) = why["attempt"]["bind"]
                assert (refusal["plugin"], refusal["target"], refusal["code"]) == ("budget", "dub-1", "Error")
                assert refusal["message"] == "no licence left"
                licences.append("dub-1")
                await stage.world.soon_scheduled("irish")
                await stage.wait_until_recorded()
                why = await stage.json("/v1/placements/-/irish/why")
                bound = [(each["plugin"], each["target"], each["code"]) for each in why["attempt"]["bind"]]
                assert bound == [("budget", name, "Success") for name in ("dub-1", "ams-2", "ams-1")]
                (uid,) = {body["PodUID"] for path, body in extender.asked if body["PodName"] == "irish"}
                body = {"PodName": "irish", "PodNamespace": "", "PodUID": uid, "Node": "dub-1"}
                assert uid
                assert ("/bind", body) in extender.asked

    asyncio.run(main())


@pytest.mark.parametrize("ending, code", [("BindFailed", "Error"), ("Decided", "Skip")])
def test_an_extender_that_does_not_answer_to_bind_fails_the_attempt_unless_it_may_be_ignored(
    tmp_path: Path, ending: str, code: str
) -> None:
    async def main() -> None:
        with an_extender() as extender:
            fields = {"filterVerb": None, "bindVerb": "bind", "timeoutSeconds": 1, "ignorable": code == "Skip"}
            async with a_stage(tmp_path, file=extended(tmp_path / "document", extender, **fields)) as stage:
                extender.released.clear()
                await place(stage, "late", 1)
                await wait_for_attempt(stage, "late", ending)
                why = await stage.json("/v1/placements/-/late/why")
                answers = {each["plugin"]: each for each in why["attempt"]["bind"]}
                assert answers["budget"]["code"] == code
                assert answers["budget"]["message"] == "no answer within 1 s"
                assert await stage.world.in_use("late") == ({"dub-2"} if code == "Skip" else set())
                extender.released.set()
                await stage.world.soon_on("late", "dub-2")

    asyncio.run(main())


def test_an_extender_that_manages_resources_is_asked_about_placements_that_request_them(tmp_path: Path) -> None:
    def answer(path: str, asked: Json) -> object:
        return accept_all(asked) if path == "/bind" else forbid("dub-2", because="no card left")(path, asked)

    async def main() -> None:
        with an_extender() as extender:
            extender.answer = answer
            resources = [{"name": "example.com/gpu", "ignoredByScheduler": False}]
            fields = {
                "prioritizeVerb": None,
                "bindVerb": "bind",
                "managedResources": resources,
                "nodeCacheCapable": True,
            }
            async with a_stage(tmp_path, file=extended(tmp_path / "document", extender, **fields)) as stage:
                await place(stage, "plain", 1)
                await stage.world.soon_on("plain", "dub-2")
                assert extender.asked == []
                await place(stage, "trainer", 1, **{REQUESTS: "cpu=1,example.com/gpu=2"})
                await stage.world.soon_on("trainer", "dub-1")
                (_, filtered), (_, bound) = extender.asked
                assert filtered["Pod"]["spec"]["requests"] == {"cpu": "1", "example.com/gpu": "2"}
                assert (bound["PodName"], bound["Node"]) == ("trainer", "dub-1")

    asyncio.run(main())


async def wait_for_attempt(stage: Stage, name: str, ending: str) -> None:
    async def look() -> bool:
        history = stage.history
        assert history is not None
        attempt = await asyncio.to_thread(history.latest, name)
        return attempt is not None and attempt.ending == ending

    await soon(look)
