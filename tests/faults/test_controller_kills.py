"""Controllers that are killed at random moments, again and again: the end is the same as if none had ever died.

`seed` is in the name of a test that fails, and is all it takes to see the same again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from random import Random
from typing import Final

import pytest

from fleet.kube.scopes import MEMBER_CLUSTERS, find_scope
from fleet.model.keys import SCHEDULED_CONDITION
from tests.faults.controller.outcome import Outcome
from tests.faults.controller.scenario import CLUSTERS, SCOPES, STEPS
from tests.faults.controller.stage import Checkpoint, Stage, checkpoints, replay, staged
from tests.faults.controller.storms import Storm
from tests.faults.virtual import run_virtually

pytestmark = pytest.mark.timeout(600)

DEATHS: Final = 20
"""Of each run."""
LONG: Final = os.environ.get("FLEET_LONG", "") not in ("", "0")
RUNS: Final = 50 if LONG else 10
STORMS: Final = 100 if LONG else 2
HURRIES: Final = 100 if LONG else 2


async def survived(known: Sequence[Checkpoint], storm: Storm, *, seed: int) -> None:
    async with staged(known[0], seed=seed, script=storm, downtime=2.0) as stage:
        await replay(stage, [one.outcome for one in known[1:]])
        while storm.died < storm.deaths:  # even watching costs a request now and then
            await asyncio.sleep(60)
        await stage.stay(known[-1].outcome)
        assert len(stage.lines) == storm.deaths + 1


@pytest.mark.servers  # twenty lives of a controller
@pytest.mark.parametrize("seed", range(RUNS))
def test_twenty_deaths_change_nothing_in_the_end(seed: int) -> None:
    run_virtually(survived(checkpoints(), Storm(Random(seed), DEATHS, latest_arrival=1.0), seed=seed))


@pytest.mark.parametrize("seed", range(1000, 1000 + STORMS))
def test_deaths_in_bad_weather_change_nothing_in_the_end(seed: int) -> None:
    storm = Storm(Random(seed), DEATHS, spoilt=0.03, latest_arrival=1.0)
    run_virtually(survived(checkpoints(), storm, seed=seed))


# --- nobody waits -----------------------------------------------------------------------------------------------------


async def hurried(stage: Stage, rng: Random) -> None:
    """Everything is done while the controller still works on, or is dead after, what was done before."""
    for step in STEPS:
        await step(stage.user)
        await asyncio.sleep(rng.choice((0.0, 0.05, 0.5, 3.0)))


def unsettled(outcome: Outcome) -> list[object]:
    """Snapshots whose newest state nobody has decided about, and bindings that wait for something."""
    left: list[object] = []
    for kind in ("clusterschedulingpolicysnapshots", "schedulingpolicysnapshots"):
        latest = [one for one in outcome[kind] if one["latest"] == "true"]
        left += [one for one in latest if str(one["observed"]) != one["generation"]]
        left += [one for one in latest if SCHEDULED_CONDITION not in {type for type, *_ in one["conditions"]}]
    for kind in ("clusterresourcebindings", "resourcebindings"):
        left += [one for one in outcome[kind] if one["terminating"] or one["state"] != "Bound"]
    return left


async def hurry_survived(start: Checkpoint, *, seed: int) -> None:
    rng = Random(seed)
    storm = Storm(rng, deaths=10, spoilt=0.02)
    async with staged(start, seed=seed, script=storm, downtime=1.0) as stage:
        await hurried(stage, rng)
        await stage.rest()
        assert unsettled(stage.outcome()) == []
        await all_deleted(stage)
        stage.check()


async def all_deleted(stage: Stage) -> None:
    for scope in SCOPES:
        key = f"{scope}some"
        await stage.user.delete(find_scope(key).placement, key)
    for name in CLUSTERS:
        if await stage.user.find(MEMBER_CLUSTERS, name):
            await stage.user.delete(MEMBER_CLUSTERS, name)
    await stage.rest()
    left = {kind: found for kind, found in stage.outcome().items() if found}
    assert left == {}, "something is stuck"


@pytest.mark.parametrize("seed", range(2000, 2000 + HURRIES))
def test_edits_that_wait_for_nobody_end_in_order(seed: int) -> None:
    run_virtually(hurry_survived(checkpoints()[0], seed=seed))
