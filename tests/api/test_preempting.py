"""Room that is made for a placement, as the API answers about it, and replays of the decisions that make it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

from api.live.live import LiveState
from fleet.clock import SystemClock
from fleet.kube.scopes import CLUSTER_SCOPED, DISRUPTION_BUDGETS, PRIORITY_CLASSES
from fleet.model.keys import PRIORITY_CLASS
from fleet.settings import load_settings
from tests.api.stage import Stage, a_stage
from tests.api.test_room import report_all
from tests.e2e.hub import soon
from tests.e2e.world import ANYTHING

EVICTING: Final = """
apiVersion: scheduling.fleet.dev/v1
kind: FleetSchedulerConfiguration
profiles:
- base: ExtendedProfile
  plugins: {multiPoint: {enabled: [{name: DefaultPreemption}]}}
"""
ONE: Final = {"placementType": "PickN", "numberOfClusters": 1}


async def place(stage: Stage, name: str, *, cpu: str, priority: int) -> None:
    options: Any = {"metadata": {"name": name}, "spec": {"priority": priority, "requests": {"cpu": cpu}}}
    await stage.world.create(CLUSTER_SCOPED.options, options)
    spec = {"resourceSelectors": [ANYTHING], "policy": ONE}
    await stage.world.create(CLUSTER_SCOPED.placement, {"metadata": {"name": name}, "spec": spec})


def test_W_04_why_tells_where_room_is_made_and_every_attempt_replays(tmp_path: Path) -> None:
    async def main() -> None:
        file = tmp_path / "fleet.yaml"
        file.write_text(EVICTING, encoding="utf-8")
        async with a_stage(tmp_path, file=file) as stage:
            await report_all(stage)
            await place(stage, "low", cpu="3", priority=0)
            await stage.world.soon_on("low", "ams-1")
            budget = {"metadata": {"name": "low"}, "spec": {"maxUnavailable": 2}}
            await stage.world.create(DISRUPTION_BUDGETS, budget)
            await place(stage, "vip", cpu="2500m", priority=10)

            async def look() -> Any:
                why = await stage.json("/v1/placements/-/vip/why")
                return why if why["verdict"]["state"] == "Preempting" and why["preempting"] else None

            why = await soon(look)
            (room,) = why["preempting"]["clusters"]
            assert (room["cluster"], room["victims"], room["hidden"]) == ("ams-1", ["low"], 0)
            assert room["phase"] in ("Selected", "Evicting")
            (known,) = room["budgets"]
            assert (known["placement"], known["rule"]) == ("low", "maxUnavailable 2")
            assert known["disruptions"] in (0, 1)  # no agent has said that the placement is available
            assert why["attempt"]["notes"]["DefaultPreemption"]
            assert why["verdict"]["summary"].startswith(
                "nothing is bound yet, room is made on ams-1; as the fleet is: 0/"
            )
            text = (await stage.get("/v1/placements/-/vip/why", Accept="text/plain")).text
            assert "ROOM IS MADE ON" in text
            assert "low: maxUnavailable 2" in text
            await stage.world.soon_on("low")
            (binding,) = await stage.world.bindings("low")
            await stage.world.delete(CLUSTER_SCOPED.binding, binding["metadata"]["name"])
            await stage.world.soon_on("vip", "ams-1")
            await stage.wait_until_recorded()
            report = (await stage.post("/v1/replay", {"select": {"limit": 100}})).json()
            assert (report["same"], report["skipped"]) == (report["attempts"], [])
            assert report["attempts"] >= 4
            assert (await stage.json("/v1/placements/-/vip/why"))["preempting"] is None

    asyncio.run(main())


def test_an_api_without_a_controller_decides_with_the_priority_of_the_class(tmp_path: Path) -> None:
    async def main() -> None:
        file = tmp_path / "fleet.yaml"
        file.write_text(EVICTING, encoding="utf-8")
        async with a_stage(tmp_path, file=file) as stage:
            value = {"metadata": {"name": "gold"}, "value": 700, "preemptionPolicy": "Never"}
            await stage.world.create(PRIORITY_CLASSES, value)
            metadata = {"name": "vip", "annotations": {PRIORITY_CLASS: "gold"}}
            spec = {"resourceSelectors": [ANYTHING], "policy": ONE}
            await stage.world.create(CLUSTER_SCOPED.placement, {"metadata": metadata, "spec": spec})
            await stage.world.soon_on("vip", "ams-1")
            settings = load_settings(file, {}, []).settings
            live = LiveState.standalone(stage.hub, settings, clock=SystemClock(), jitter=lambda: 0.0)
            running = asyncio.create_task(live.run())
            await live.caches.wait_until_synced()

            async def look() -> tuple[int, bool]:
                request = live.build_scenario(live.get_placement("vip"), live.frame()).question.request
                return (request.priority, request.never_preempts)

            async def has_priority() -> bool:
                return await look() == (700, True)

            await soon(has_priority)
            running.cancel()
            await asyncio.wait((running,))

    asyncio.run(main())
