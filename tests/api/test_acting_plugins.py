"""What plugins that act have answered, over REST."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from fleet.framework.status import Code, Status
from fleet.kube.scopes import CLUSTER_SCOPED
from tests.api.stage import ADMIN, AUTHOR, Stage, a_stage
from tests.e2e.hub import soon
from tests.faults.acting import Script, acting_plugins

HOOKS: Final = ("reserve", "permit", "preBind")
PROFILES: Final = """\
apiVersion: scheduling.fleet.dev/v1
kind: FleetSchedulerConfiguration
profiles:
- {schedulerName: DefaultScheduler}
- schedulerName: acting
  plugins:
    reserve: {enabled: [{name: First}]}
    permit: {enabled: [{name: First}]}
    preBind: {enabled: [{name: First}]}
"""
BOTH: Final = {"placementType": "PickFixed", "clusterNames": ["ams-1", "ams-2"]}


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    with acting_plugins(tmp_path) as script:
        yield script


@asynccontextmanager
async def a_placement(folder: Path, *clusters: str) -> AsyncIterator[Stage]:
    """`gold` is decided by a profile whose plugin acts."""
    file = folder / "profiles.yaml"
    file.write_text(PROFILES, encoding="utf-8")
    async with a_stage(folder, file=file) as stage:
        options = {"metadata": {"name": "gold"}, "spec": {"schedulerName": "acting"}}
        await stage.world.create(CLUSTER_SCOPED.options, options)
        await stage.world.place("gold", {**BOTH, "clusterNames": clusters} if clusters else BOTH)
        yield stage


async def soon_in(stage: Stage, state: str) -> dict[str, Any]:
    async def look() -> Any:
        answer = await stage.get("/v1/placements/-/gold/why")
        return answer.json() if answer.status_code == 200 and answer.json()["verdict"]["state"] == state else None

    found: dict[str, Any] = await soon(look)
    return found


def answers(found: dict[str, Any], hook: str) -> list[tuple[str, str, str, str]]:
    return [(each["plugin"], each["target"], each["code"], each["message"]) for each in found["attempt"][hook]]


def test_W_01_why_has_the_words_of_reserve_permit_pre_bind_and_bind(script: Script, tmp_path: Path) -> None:
    script.answers["First", "reserve"] = lambda on: Status(Code.SUCCESS, (f"two units of {on}",))
    script.answers["First", "permit"] = lambda on: (Status(Code.SUCCESS, (f"{on} is open",)), timedelta(0))
    script.answers["First", "pre_bind"] = lambda on: Status(Code.SUCCESS, (f"a namespace on {on}",))

    async def run() -> None:
        async with a_placement(tmp_path) as stage:
            await stage.world.soon_on("gold", "ams-1", "ams-2")
            await stage.wait_until_recorded()
            found = await soon_in(stage, "Scheduled")
            for hook, words in zip(HOOKS, ("two units of {}", "{} is open", "a namespace on {}"), strict=True):
                assert answers(found, hook) == [("First", on, "Success", words.format(on)) for on in ("ams-1", "ams-2")]
            assert answers(found, "bind") == [("HubBindingBinder", on, "Success", "") for on in ("ams-1", "ams-2")]

            number = (await stage.json("/v1/placements/-/gold/history"))["items"][0]["n"]
            script.journal.clear()
            recorded = await stage.json(f"/v1/placements/-/gold/why?attempt={number}")
            for hook in (*HOOKS, "bind"):
                assert recorded["attempt"][hook] == found["attempt"][hook]
            report = (await stage.post("/v1/replay", {"select": {"limit": 100}})).json()
            assert (report["same"], report["different"]) == (report["attempts"], [])
            assert script.journal == []

    asyncio.run(run())


@pytest.mark.parametrize("hook", ["reserve", "permit", "pre_bind"])
def test_W_01_why_has_the_words_of_a_refusal(script: Script, tmp_path: Path, hook: str) -> None:
    no = Status.new(Code.UNSCHEDULABLE, "not in the freeze")
    script.answers["First", hook] = lambda on: (
        ((no, timedelta(0)) if hook == "permit" else no) if on == "ams-2" else None
    )

    async def run() -> None:
        async with a_placement(tmp_path) as stage:
            name = {"pre_bind": "preBind"}.get(hook, hook)

            async def is_refused() -> Any:
                answer = await stage.get("/v1/placements/-/gold/why")
                return answer.json() if answer.status_code == 200 and answer.json()["attempt"][name] else None

            found = await soon(is_refused)
            assert answers(found, name)[-1] == ("First", "ams-2", "Unschedulable", "not in the freeze")
            assert answers(found, "bind") == []
            text = (await stage.get("/v1/placements/-/gold/why", ADMIN, Accept="text/plain")).text
            assert "not in the freeze" in text
            assert await stage.world.bindings("gold") == []

    asyncio.run(run())


def test_W_01_why_has_the_words_of_a_wait_that_ran_out(script: Script, tmp_path: Path) -> None:
    script.answers["First", "permit"] = lambda on: (Status.new(Code.WAIT, "ask the owner"), timedelta(seconds=1))

    async def run() -> None:
        async with a_placement(tmp_path) as stage:

            async def is_over() -> Any:
                answer = await stage.get("/v1/placements/-/gold/why")
                permit = answer.json()["attempt"]["permit"] if answer.status_code == 200 else []
                return permit if any(each["code"] == "Unschedulable" for each in permit) else None

            words = "rejected due to timeout after waiting 1s at plugin First"
            assert [each["message"] for each in await soon(is_over) if each["code"] == "Unschedulable"] == [words]
            text = (await stage.get("/v1/placements/-/gold/why", ADMIN, Accept="text/plain")).text
            assert words in " ".join(text.split())
            assert await stage.world.bindings("gold") == []

    asyncio.run(run())


def test_W_04_why_tells_that_clusters_are_being_prepared(script: Script, tmp_path: Path) -> None:
    async def run() -> None:
        prepared = asyncio.Event()

        async def prepare() -> None:
            await prepared.wait()

        script.answers["First", "pre_bind"] = lambda _: prepare()
        async with a_placement(tmp_path) as stage:
            found = await soon_in(stage, "Binding")
            assert found["waiting"]["targets"] == ["ams-1", "ams-2"]
            assert found["waiting"]["waiting"] == []
            answer = await stage.get("/v1/placements/-/gold/why", ADMIN, Accept="text/plain")
            assert answer.headers["fleet-state"] == "Binding"
            assert answer.text.startswith("gold   Binding")
            headline = "nothing is bound yet, ams-1 ams-2 chosen and being prepared; the choice: 2/"
            assert found["verdict"]["summary"].startswith(headline)
            assert f"\n{headline}" in answer.text
            assert (await stage.json("/v1/waiting"))["items"] == []
            script.answers.clear()
            prepared.set()
            await stage.world.soon_on("gold", "ams-1", "ams-2")
            await soon_in(stage, "Scheduled")

    asyncio.run(run())


@pytest.mark.parametrize(
    "clusters, where, short",
    [(("ams-1", "dub-1"), "ams-1 +1", "ams-1 +1"), (("dub-1", "dub-2"), "clusters you may not read", "+2")],
)
def test_clusters_being_prepared_that_the_caller_may_not_read_are_counted(
    script: Script, tmp_path: Path, clusters: tuple[str, ...], where: str, short: str
) -> None:
    async def run() -> None:
        prepared = asyncio.Event()

        async def prepare() -> None:
            await prepared.wait()

        script.answers["First", "pre_bind"] = lambda _: prepare()
        async with a_placement(tmp_path, *clusters) as stage:
            await soon_in(stage, "Binding")
            answer = (await stage.get("/v1/placements/-/gold/why", AUTHOR)).json()
            seen = [name for name in clusters if name == "ams-1"]
            assert (answer["waiting"]["targets"], answer["waiting"]["redactedTargets"]) == (seen, 2 - len(seen))
            headline = f"nothing is bound yet, {where} chosen and being prepared; the choice: 2/"
            assert answer["verdict"]["summary"].startswith(headline)
            text = (await stage.get("/v1/placements/-/gold/why", AUTHOR, Accept="text/plain")).text
            assert f"\nchosen, and being prepared: {short}\n" in text
            prepared.set()
            await stage.world.soon_on("gold", *clusters)

    asyncio.run(run())
