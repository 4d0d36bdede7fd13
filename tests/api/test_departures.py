"""Clusters that left the fleet: with time and cause, also for an API that was started afterwards."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from api.app import create_app
from api.auth.access import HubAuthorizer
from api.live.embedded import build_live_state
from fleet.clock import SystemClock
from fleet.history import History
from fleet.kube.scopes import MEMBER_CLUSTERS
from fleet.manager.manager import Manager
from fleet.recorder.recorder import HistoryRecorder
from fleet.settings import load_settings
from tests.api.stage import PATIENT, QUICK, TOKENS, Stage, a_hub_with, alone, live_beside
from tests.databases import fill
from tests.e2e.hub import soon
from tests.e2e.world import World, configured, controlled

WEB = "/v1/placements/-/web/why?fixes=none"


def restarted(stage: Stage) -> Stage:
    """Another API beside the same controller, which has seen no cluster leave."""
    effective = load_settings(None, {}, [PATIENT])
    authorizer = HubAuthorizer(stage.hub, clock=SystemClock())
    return replace(stage, app=create_app(live_beside(stage), stage.history, authorizer, effective))


async def detail_of(stage: Stage, path: str) -> str:
    answer = await stage.get(path)
    assert answer.status_code == 410, answer.text
    return str(answer.json()["detail"])


@alone
async def test_an_api_that_was_restarted_knows_it_from_the_history(stage: Stage) -> None:
    gone = min(await stage.world.in_use("web"))
    await stage.world.delete(MEMBER_CLUSTERS, gone)

    async def is_replaced() -> bool:
        in_use = await stage.world.in_use("web")
        return gone not in in_use and len(in_use) == 2

    await soon(is_replaced)
    await stage.world.place("new", {"placementType": "PickN", "numberOfClusters": 1})
    await stage.world.soon_scheduled("new")
    await stage.wait_until_recorded()
    later = restarted(stage)

    for path in (
        f"/v1/clusters/{gone}/why-not?placement=new",
        f"/v1/clusters/{gone}/placements",
        f"/v1/clusters/{gone}",
    ):
        detail = await detail_of(later, path)
        assert detail.startswith(f"cluster {gone} left the fleet at 20")
        assert detail.endswith(": its MemberCluster was deleted")
    answer = await later.json(WEB)
    asked = await later.get(f"/v1/clusters/{gone}/why-not?placement=web", Accept="text/plain")
    assert f"{gone} is not in the fleet any more, and its binding is given up" in asked.text
    assert "given up at 20" in asked.text
    assert [(past["cluster"], past["because"]) for past in answer["givenUp"]] == [(gone, "the cluster left the fleet")]


@alone
async def test_a_name_that_nothing_knows_was_never_seen(stage: Stage) -> None:
    answer = await restarted(stage).get("/v1/clusters/lon-1/why-not?placement=web")

    assert answer.status_code == 404
    assert answer.json()["detail"] == "cluster lon-1 was never seen here"


def test_a_cluster_that_left_while_nothing_ran_was_last_selected_before(tmp_path: Path) -> None:
    hub = a_hub_with(TOKENS)
    world = World(hub)

    async def started(history: History, controller: Manager) -> Stage:
        authorizer = HubAuthorizer(hub, clock=SystemClock())
        effective = load_settings(None, {}, [PATIENT])
        app = create_app(build_live_state(controller), history, authorizer, effective, stream_timing=QUICK)
        return Stage(hub, world, app, history, controller)

    async def main() -> None:
        for name in ("ams-1", "ams-2"):
            await world.join(name)
        history = History.open(fill(f"sqlite:///{tmp_path / 'history.sqlite'}"))
        history.start()
        try:
            recorder = HistoryRecorder(history, configured())
            async with controlled(hub, PATIENT, recorder=recorder) as controller:
                await world.place("web", {"placementType": "PickN", "numberOfClusters": 2})
                await world.soon_scheduled("web")
                await (await started(history, controller)).wait_until_recorded()
            await world.delete(MEMBER_CLUSTERS, "ams-1")
            recorder = HistoryRecorder(history, configured())
            async with controlled(hub, PATIENT, recorder=recorder) as controller:
                stage = await started(history, controller)
                await world.soon_scheduled("web", status="False")
                await stage.wait_until_recorded()
                detail = await detail_of(stage, "/v1/clusters/ams-1")
                answer = await stage.json(WEB)
        finally:
            await asyncio.to_thread(history.close)

        assert detail.startswith("cluster ams-1 left the fleet after 20")
        assert detail.endswith(", when it was last selected: its MemberCluster is gone")
        assert [(past["cluster"], past["because"]) for past in answer["givenUp"]] == [
            ("ams-1", "the cluster left the fleet")
        ]

    asyncio.run(main())
