"""All who decide agree with a running controller, on the inputs that its history keeps."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

from fleet.cli.input.simulation import decide_asking
from fleet.explain.replay.replay import load_recorded_scenario
from fleet.external.extender_client import ExtenderClient
from tests.bench import decisions as bench
from tests.e2e.world import World
from tests.faults.acting import running
from tests.faults.hub_api import a_hub
from tests.faults.recorded import read_recorded
from tests.faults.virtual import virtual

RECORDED: Final = 200
SPREAD: Final = [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]


def a_policy(number: int) -> dict[str, Any]:
    """Of every type, some with affinity, some spread."""
    required = {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"env": f"e{number % 2}"}}}]}
    affinity = {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    policies: list[dict[str, Any]] = [
        {"placementType": "PickN", "numberOfClusters": 1 + number % 4},
        {"placementType": "PickN", "numberOfClusters": 1 + number % 4, "topologySpreadConstraints": SPREAD},
        {"placementType": "PickAll", "affinity": affinity},
        {"placementType": "PickFixed", "clusterNames": [f"c{number % 6}", f"c{number % 5}x"]},
        {"placementType": "PickN", "numberOfClusters": 3, "affinity": affinity},
    ]
    return policies[number % 5]


@virtual
async def test_F3_123_simulation_what_if_replay_and_benchmark_decide_as_the_controller_did(tmp_path: Path) -> None:
    hub = a_hub()
    world = World(hub)
    for number in range(8):
        await world.join(f"c{number}", labels={"zone": f"z{number % 3}", "env": f"e{number % 2}"})
    async with running(hub, tmp_path / "fleet.yaml", "api: {}\n", "queue.hints=false") as site:
        for number in range(30):
            await world.place(f"web-{number}", a_policy(number))
        await asyncio.sleep(10)
        turn = 0
        while len(decided := [record for record in site.records if record.inputs and record.decision]) < RECORDED:
            turn += 1
            name = f"c{turn % 8}"
            await world.relabel(name, zone=f"z{turn % 4}", env=f"e{turn % 3}")
            await world.taint(name, *([{"key": "full", "effect": "NoSchedule"}] * (turn % 2)))
            await world.edit_policy(f"web-{turn % 6 * 5}", numberOfClusters=1 + turn % 5)
            await asyncio.sleep(5)
        recorded = list(read_recorded(site, decided, tmp_path))
    assert len({record.decision.digest for record in decided if record.decision}) > 50
    extenders = ExtenderClient()
    for record, inputs in zip(decided, recorded, strict=True):
        assert record.inputs is not None
        assert record.decision is not None
        replayed = load_recorded_scenario(inputs, record.inputs.profile)
        _, simulated = decide_asking(replayed.question, extenders)
        digests = {
            replayed.decide().digest,
            replayed.apply(()).decide().digest,
            simulated.digest,
            vars(bench)["decide"](replayed.question).digest,
        }
        assert digests == {record.decision.digest}
