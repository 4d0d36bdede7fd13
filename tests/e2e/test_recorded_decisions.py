"""W-11: what a controller recorded while its fleet changed is decided again, exactly, without a network."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import pytest

from fleet.history import History
from fleet.history.storage.schema import migrate
from fleet.recorder.attempt_summary import summarize_attempt
from fleet.recorder.recorder import HistoryRecorder, open_history
from fleet.scheduler.attempt_record import AttemptRecord
from tests.e2e.world import World, configured, controlled, handed_over, soon
from tests.faults.hub_api import a_hub

pytestmark = pytest.mark.early

ROOT: Final = Path(__file__).resolve().parents[2]
ENOUGH: Final = 1_000
REGIONS: Final = ("ams", "dub", "osl")
CLUSTERS: Final = tuple(f"{region}-{number}" for region in REGIONS for number in range(4))
COST: Final = "example.com/cost"
PLACEMENTS: Final = 15
SPARE: Final = 50
"""Attempts that may have failed before they came to a decision."""
AT_ONCE: Final = 30
"""Changes before the history is looked at again."""

REPLAYS_WITHOUT_A_NETWORK: Final = """
import json, sys

def refuse(event, arguments):
    if event.startswith("socket."):
        raise AssertionError(f"{event} {arguments}")

sys.addaudithook(refuse)

from fleet.explain.replay.replay import build_evidence, replay
from fleet.history import History
from fleet.scheduler.profiles.frameworks import build_compiled_profiles
from tests.e2e.world import configured

history, profile = History.open(sys.argv[1]), build_compiled_profiles(configured()).default
same, wrong, outcomes, after = 0, [], set(), 0
while page := history.since(after, limit=500):
    after = page[-1].seq
    for attempt in page:
        recorded = history.inputs(attempt.id)
        if recorded is None:
            assert not attempt.digest, f"{attempt.id} was decided, and its inputs are missing"
            continue
        found = replay(recorded, build_evidence(attempt, history.columns(attempt.id)), profile)
        same += found.same
        outcomes.add(attempt.outcome)
        if not found.same:
            wrong.append([attempt.id, repr(found.difference)])
history.close()
print(json.dumps({"same": same, "wrong": wrong, "outcomes": sorted(outcomes)}))
"""


@dataclass
class Changing:
    """A fleet and placements that never come to rest."""

    world: World
    random: Random

    async def begin(self) -> None:
        for name in CLUSTERS:
            labels = {"region": name.partition("-")[0], "env": "prod"}
            await self.world.join(name, labels=labels, properties={COST: "1"}, available={"cpu": "8"})
        for number in range(PLACEMENTS):
            await self.world.place(f"web-{number}", POLICIES[number % len(POLICIES)])

    async def change(self) -> None:
        """Something that concerns one cluster, or one placement."""
        name = self.random.choice(CLUSTERS)
        match self.random.randrange(6):
            case 0:
                await self.world.relabel(name, env=self.random.choice(("prod", "canary", None)))
            case 1:
                gpu = {"key": "gpu", "effect": "NoSchedule"}
                await self.world.taint(name, *([gpu] if self.random.random() < 0.5 else []))
            case 2:
                await self.world.report(name, properties={COST: str(self.random.randrange(100))})
            case 3:
                await self.world.report(name, healthy=self.random.choice(("True", "False")), silent_for=3)
            case _:
                key = f"web-{self.random.randrange(PLACEMENTS)}"
                if key in COUNTED:
                    await self.world.edit_policy(key, numberOfClusters=self.random.randrange(1, len(CLUSTERS) + 3))


def _affinity(**terms: object) -> dict[str, object]:
    return {"clusterAffinity": terms}


PROD: Final = {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"env": "prod"}}}]}
CHEAP: Final = {"weight": 50, "preference": {"propertySorter": {"name": COST, "sortOrder": "Ascending"}}}
SPREAD: Final = {"topologyKey": "region", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
POLICIES: Final = (
    {"placementType": "PickN", "numberOfClusters": 3},
    {
        "placementType": "PickN",
        "numberOfClusters": 4,
        "affinity": _affinity(
            requiredDuringSchedulingIgnoredDuringExecution=PROD, preferredDuringSchedulingIgnoredDuringExecution=[CHEAP]
        ),
    },
    {
        "placementType": "PickN",
        "numberOfClusters": 5,
        "affinity": _affinity(preferredDuringSchedulingIgnoredDuringExecution=[CHEAP]),
        "topologySpreadConstraints": [SPREAD],
    },
    {
        "placementType": "PickAll",
        "affinity": _affinity(requiredDuringSchedulingIgnoredDuringExecution=PROD),
    },
    {"placementType": "PickFixed", "clusterNames": ["ams-1", "osl-3", "nowhere-1"]},
)
COUNTED: Final = {f"web-{number}" for number in range(PLACEMENTS) if number % len(POLICIES) < 3}


@asynccontextmanager
async def recorded_run(url: str) -> AsyncIterator[tuple[Changing, History]]:
    hub, history = a_hub(), open_history(configured(), url=url)
    assert history is not None
    history.start()
    try:
        async with controlled(hub, recorder=HistoryRecorder(history, configured())):
            changing = Changing(World(hub), Random(11))
            await changing.begin()
            yield changing, history
    finally:
        await asyncio.to_thread(history.close)


async def record_enough(url: str) -> None:
    async with recorded_run(url) as (changing, history):
        while history.counts().written < ENOUGH + SPARE:
            offered = history.counts().offered
            for _ in range(AT_ONCE):
                await changing.change()
            await soon(lambda before=offered: _went_on(history, before))


async def _went_on(history: History, before: int) -> bool:
    await asyncio.to_thread(history.flush, seconds=90.0)
    return history.counts().offered > before


class _Epochs:
    """A recorder of no more than that."""

    def __init__(self) -> None:
        self.found: set[int] = set()

    def record(self, attempt: AttemptRecord) -> None:
        self.found.add(summarize_attempt(attempt, "a-1").epoch)


def test_the_attempts_of_the_next_leader_have_a_greater_epoch() -> None:
    """With leader election, and without it."""

    async def record_in_turn() -> list[int]:
        hub, epochs = a_hub(), []
        world = World(hub)
        await world.join("ams-1")
        for number, elects in enumerate((True, True, False)):
            recorder = _Epochs()
            async with controlled(hub, elects=elects, recorder=recorder) as controller:
                await world.place(f"web-{number}", {"placementType": "PickAll"})
                await world.soon_scheduled(f"web-{number}")
                await handed_over(controller)
            (epoch,) = recorder.found
            epochs.append(epoch)
        return epochs

    first, second, third = asyncio.run(record_in_turn())
    assert 0 < first < second < third


@pytest.mark.servers  # a thousand decisions
@pytest.mark.timeout(600)
def test_a_thousand_recorded_decisions_are_reproduced_without_a_network(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    migrate(url)
    asyncio.run(record_enough(url))

    command = [sys.executable, "-c", REPLAYS_WITHOUT_A_NETWORK, url]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["wrong"] == []
    assert found["same"] >= ENOUGH
    assert {"Selected", "Partial", "Shrink", "Unchanged"} <= set(found["outcomes"])
