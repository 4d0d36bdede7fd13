"""Scenarios over REST: the present fleet is played by a controller in virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from starlette.middleware import Middleware

from api.app import create_app
from api.auth.access import HubAuthorizer
from api.http.middleware import Deadlines
from api.live.embedded import build_live_state
from api.live.scenario_process import ScenarioRunner
from api.routers.request_context import AppState
from fleet.clock import SystemClock
from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.settings import load_settings
from tests.api.stage import ADMIN, AUTHOR, OPERATOR, OVERSEER, PATIENT, TOKENS, Stage, a_hub_with, grant_all
from tests.e2e.world import World, controlled
from tests.fast_yaml import safe_dump, safe_dump_all
from tests.unit.cli.conftest import Fleet, fleet, home
from tests.unit.cli.manifests import Manifest, member, sized, wanting
from tests.unit.cli.profiled import HEAD
from tests.unit.cli.scenario_events import (
    BEGIN,
    EVENTS,
    MOVES,
    PROFILE,
    QUEUE,
    UNTIL,
    create_all,
    list_delayed,
    read_report,
    run_controller,
)
from tests.unit.cli.test_scenarios import SCENARIO, approval

__all__ = ["fleet", "home"]

pytestmark = pytest.mark.timeout(900)

Json = dict[str, Any]

PATIENCE: Final = 400.0
"""Seconds, for a machine that does much else."""


def beating(manifests: Sequence[Manifest]) -> list[Manifest]:
    """With a heartbeat of this moment."""
    fresh = deepcopy(list(manifests))
    for each in fresh:
        for agent in each.get("status", {}).get("agentStatus", ()):
            agent["lastReceivedHeartbeat"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return fresh


@asynccontextmanager
async def staged(
    folder: Path, manifests: Sequence[Manifest], *assignments: str, profile: Json = PROFILE, **bounds: Any
) -> AsyncIterator[Stage]:
    """A fleet under a controller with the profile, and its API."""
    file = folder / "config.yaml"
    file.write_text(safe_dump({**HEAD, **QUEUE, "profiles": [profile]}), encoding="utf-8")
    hub = a_hub_with(TOKENS)
    world = World(hub)
    await grant_all(world)
    await create_all(world, manifests)
    async with controlled(hub, file=file) as controller:
        authorizer = HubAuthorizer(hub, clock=SystemClock())
        app = create_app(build_live_state(controller), None, authorizer, load_settings(file, {}, assignments))
        shared: AppState = app.state.shared
        runner = ScenarioRunner(**{"seconds": PATIENCE, **bounds})
        app.state.shared = replace(shared, backend=replace(shared.backend, scenarios=runner))
        app.user_middleware[:] = [
            Middleware(Deadlines, seconds=2 * PATIENCE) if _is(each, Deadlines) else each
            for each in app.user_middleware
        ]
        yield Stage(hub, world, app, None, controller)


def _is(middleware: Middleware, kind: type) -> bool:
    given: object = middleware.cls
    return given is kind


def ask(folder: Path, manifests: Sequence[Manifest], body: Json, token: str = OPERATOR, **bounds: Any) -> Any:
    async def main() -> Any:
        async with staged(folder, manifests, **bounds) as stage:
            return await stage.post("/v1/simulate", body, token)

    return asyncio.run(main())


def test_W_17_a_scenario_gives_the_digests_and_moves_of_the_command_and_of_the_controller(
    tmp_path: Path, fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    manifests = beating(BEGIN)
    answer = ask(tmp_path, manifests, {"steps": EVENTS, "until": UNTIL}, ADMIN)
    assert answer.status_code == 200, answer.text
    report = answer.json()
    capsys.readouterr()  # the log of the controller
    files, scenario = tmp_path / "fleet.yaml", tmp_path / "scenario.yaml"
    files.write_text(safe_dump_all(manifests), encoding="utf-8")
    scenario.write_text(safe_dump({**SCENARIO, "steps": EVENTS, "until": UNTIL}), encoding="utf-8")
    config = tmp_path / "config.yaml"
    given = ("-f", str(files), "--scenario", str(scenario), "--config", str(config), "--now", report["start"])
    played = read_report(json.loads(fleet("simulate", *given, "-o", "json").out))
    controlled = run_controller(load_settings(config, {}, []).settings, datetime.fromisoformat(report["start"]))
    assert read_report(report) == played == controlled
    assert played.moves == MOVES
    assert list_delayed(played) == ["late"]  # backoff
    assert (report["holds"], report["cut"]) == (True, "")


def test_W_17_approvals_on_the_hub_count_in_a_scenario(tmp_path: Path) -> None:
    profile = {"plugins": {"permit": {"enabled": [{"name": "PlacementApproval"}]}}}
    manifests = beating([member("a")])

    async def main() -> Any:
        async with staged(tmp_path, manifests, profile=profile) as stage:
            for name in ("given", "asked"):
                spec = {"approvals": [{"name": "owners"}]}
                await stage.world.create(CLUSTER_SCOPED.options, {"metadata": {"name": name}, "spec": spec})
                placed = await stage.world.place(name, {"placementType": "PickAll"})
                if name == "given":
                    answered = approval(name, "a", at=None, placementUID=placed["metadata"]["uid"])
                    await stage.world.create(CLUSTER_SCOPED.approval, answered)
                    await stage.world.soon_on(name, "a")
            return await stage.post("/v1/simulate", {"steps": [{"at": "0s"}]}, ADMIN)

    answer = asyncio.run(main())
    assert answer.status_code == 200, answer.text
    (step,) = answer.json()["steps"]
    assert step["placed"] == [{"placement": "given", "cluster": "a"}]
    assert step["short"] == ["asked"]
    assert answer.json()["notRun"] == {}


LAPS: Final[list[Json]] = [{"at": "0s"}, {"at": "1m", "fill": {"placement": "low", "atMost": 3}}, {"at": "2m"}]


def test_W_17_a_scenario_is_cut_short_in_the_step_that_takes_too_many_attempts(tmp_path: Path) -> None:
    manifests = beating([sized("a", has={"cpu": "64"}), wanting("low", "cpu=1")])
    steps = [*LAPS[:1], {"at": "1m", "fill": {"placement": "low", "atMost": 6}}, *LAPS[2:]]
    answer = ask(tmp_path, manifests, {"steps": steps}, ADMIN, attempts=4)
    assert answer.status_code == 200, answer.text
    report = answer.json()
    assert (report["cut"], report["holds"]) == ("4 attempts were made", False)
    assert [step["at"] for step in report["steps"]] == ["0s"]


async def _ask_everybody(folder: Path) -> Json:
    """Status codes, with the place of what is wrong."""
    steps = [{"at": "0s", "apply": [wanting("web", "cpu=1")]}]
    bodies: dict[str, tuple[Json, str]] = {
        "an author": ({"steps": steps}, AUTHOR),
        "who reads two clusters": ({"steps": steps}, OVERSEER),
        "who may not create": ({"steps": steps}, OPERATOR),
        "who asks for nothing": ({"steps": []}, ADMIN),
        "beside a placement": ({"steps": LAPS, "placement": {"ref": "low"}}, ADMIN),
        "a wrong field": ({"steps": [{"at": "0s", "aply": []}]}, ADMIN),
        "a wrong order": ({"steps": [{"at": "2s"}, {"at": "1s"}]}, ADMIN),
    }
    async with staged(folder, beating(BEGIN), PATIENT) as stage:
        answers = {name: await stage.post("/v1/simulate", *asked) for name, asked in bodies.items()}
        form = {"Accept": "text/plain"}
        both = await asyncio.gather(*(stage.post("/v1/simulate", {"steps": LAPS[:1]}, **form) for _ in range(2)))
    (played,) = (each for each in both if each.status_code == 200)
    assert played.text.splitlines()[-1].split() == ["0s", "low", "a", "-"]
    assert sorted(each.status_code for each in both) == [200, 429]
    return {name: (answer.status_code, answer.json().get("field", "")) for name, answer in answers.items()}


def test_W_17_a_scenario_is_for_operators_who_see_all_and_one_at_a_time(tmp_path: Path) -> None:
    assert asyncio.run(_ask_everybody(tmp_path)) == {
        "an author": (403, ""),
        "who reads two clusters": (403, ""),
        "who may not create": (403, ""),
        "who asks for nothing": (422, "steps"),
        "beside a placement": (422, "placement"),
        "a wrong field": (422, "steps[0].aply"),
        "a wrong order": (422, "steps[1].at"),
    }
