"""Generated policies on a generated fleet: the page shows what REST answers, and what-if is POST /v1/simulate."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any, Final
from urllib.parse import quote

import pytest

from fleet.errors import FleetError
from tests.api.stage import ADMIN, Running
from tests.e2e.hub import soon
from tests.e2e.world import World
from tests.ui.browsing import Explorer, Visit
from tests.ui.expected import check_placement, check_simulated, placement_path
from tests.vectors.generation import vocabulary
from tests.vectors.generation.dice import Dice
from tests.vectors.generation.policies import random_policy

pytestmark = pytest.mark.timeout(1800)  # a browser on a busy machine takes its time

POLICIES: Final = 100
CLUSTERS: Final = [f"g{number}" for number in range(12)]


@pytest.fixture(scope="module")
def generated(running: Running) -> dict[str, Any]:
    """The policies by placement, all decided. Those that the hub refuses are drawn again."""
    dice = Dice(17)
    policies: dict[str, Any] = {}

    async def place() -> None:
        world = running.stage.world
        for name in CLUSTERS:
            await join(world, dice, name)
        while len(policies) < POLICIES:
            policy = random_policy(dice, CLUSTERS)
            if policy is not None and policy.get("placementType") == "PickN":
                policy["numberOfClusters"] = dice.randint(0, len(CLUSTERS))
            name = f"policy-{len(policies)}"
            try:
                await world.place(name, policy)
            except FleetError:
                continue
            policies[name] = policy
        for name in policies:
            await soon(partial(world.scheduled, name))
        await running.stage.wait_until_recorded()

    running.call(place())
    return policies


async def join(world: World, dice: Dice, name: str) -> None:
    taint = {"key": dice.choice(vocabulary.TAINT_KEYS), "value": dice.choice(("yes", "no")), "effect": "NoSchedule"}
    await world.join(
        name,
        labels={key: dice.choice(values) for key, values in vocabulary.LABELS.items() if dice.chance(0.85)},
        taints=[taint] if dice.chance(0.3) else [],
        silent_for=86_400 * 2 if dice.chance(0.1) else 0,
        properties={name: str(dice.randint(0, 20)) for name in vocabulary.PROPERTIES if dice.chance(0.8)},
        available={"cpu": str(dice.randint(1, 64)), "memory": f"{dice.randint(1, 64)}Gi"},
    )


def draw_edits(dice: Dice, policy: Any) -> list[dict[str, Any]]:
    """One to three that suit the policy."""
    edits: list[dict[str, Any]] = [{"op": "removeCluster", "cluster": dice.choice(CLUSTERS)}]
    if dice.chance(0.5):
        edits.append({"op": "setReady", "cluster": dice.choice(CLUSTERS), "value": False})
    if policy is not None and policy.get("placementType") == "PickN":
        edits.append({"op": "setCount", "value": dice.randint(0, len(CLUSTERS))})
    if policy is None or policy.get("placementType") != "PickFixed":
        edits.append(
            {"op": "tolerate", "key": dice.choice(vocabulary.TAINT_KEYS), "value": "yes", "effect": "NoSchedule"}
        )
    dice.shuffle(edits)
    return edits[: dice.randint(1, 3)]


def part_of(policies: dict[str, Any], part: int) -> Iterator[tuple[str, Any]]:
    yield from list(policies.items())[part::4]


@pytest.mark.parametrize("part", range(4))
def test_every_cell_sentence_and_count_is_that_of_rest(
    explorer: Explorer, generated: dict[str, Any], part: int
) -> None:
    def look(visit: Visit) -> None:
        for key, _ in part_of(generated, part):
            check_placement(visit, key)

    explorer.visit(ADMIN, look)


@pytest.mark.parametrize("part", range(4))
def test_what_if_is_simulate(explorer: Explorer, generated: dict[str, Any], part: int) -> None:
    dice = Dice(part)

    def look(visit: Visit) -> None:
        for key, policy in part_of(generated, part):
            edits = draw_edits(dice, policy)
            visit.open(f"/ui/placements/{placement_path(key)}?edits={quote(json.dumps(edits))}")
            check_simulated(visit, key, edits)
            visit.check_calm()

    explorer.visit(ADMIN, look)
