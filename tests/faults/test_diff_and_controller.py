"""`fleet diff` equals what the controller then does to the hub, move for move."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from fleet.clock import SECOND, epoch_nanoseconds
from fleet.kube.api import Method
from fleet.kube.scopes import MEMBER_CLUSTERS
from fleet.model.timestamps import format_timestamp
from tests.conftest import LONG
from tests.e2e.world import configured
from tests.faults.controller.stage import Stage, staged
from tests.faults.edited import CLUSTERS, ENVIRONMENTS, NAMES, REGIONS, Author, Edit, RecordingApi, apply_edit, compare
from tests.faults.virtual import run_virtually

pytestmark = pytest.mark.timeout(1200)

SEEDS: Final = range(10 if LONG else 2)
EDITS: Final = 30 if LONG else 8
"""Of each seed: 300 in the long form."""

LONG_SILENCE: Final = 2e8
"""Seconds: longer than the heartbeat timeout here, which is a year."""

Moves = dict[str, tuple[set[str], set[str]]]
"""By placement: clusters gained and lost."""


async def in_use(stage: Stage) -> dict[str, set[str]]:
    return {key: await stage.user.in_use(key) for key in NAMES}


def differences(before: dict[str, set[str]], after: dict[str, set[str]]) -> Moves:
    return {key: (after[key] - before[key], before[key] - after[key]) for key in NAMES if before[key] != after[key]}


async def play(seed: int) -> int:
    """Returns how many edits moved something."""
    moved = 0
    async with staged(seed=seed) as stage:
        hints_end = format_timestamp(epoch_nanoseconds(stage.clock) + 12 * 3600 * SECOND)
        author, rng = Author(Random(seed), hints_end), Random(f"fleet {seed}")
        for name in CLUSTERS:
            if not await stage.user.find(MEMBER_CLUSTERS, name):
                await stage.user.join(name, labels={"region": rng.choice(REGIONS), "env": rng.choice(ENVIRONMENTS)})
        await stage.rest()
        for number in range(EDITS):
            edit = author.draw() if number else author.draw_all()
            moved += any([await check(stage, part) for part in edit.split()])
            for name in sorted(set(CLUSTERS) - author.clusters):
                if rng.random() < 0.5:
                    await stage.user.join(name, labels={"region": rng.choice(REGIONS)})
                    author.clusters.add(name)
            # Files have no part in this: an agent falls silent, or is heard again.
            if rng.random() < 0.3:
                silence = rng.choice((0.0, 0.0, LONG_SILENCE))
                await stage.user.report(rng.choice(sorted(author.clusters)), silent_for=silence)
            await stage.rest()
        stage.check()
    return moved


async def check(stage: Stage, edit: Edit) -> bool:
    before, revision, reader = await in_use(stage), stage.hub.hub.store.revision, RecordingApi(stage.hub)
    report = await compare(reader, edit, configured(*stage.assignments), epoch_nanoseconds(stage.clock))
    assert {request.method for request in reader.requests} == {Method.GET}
    assert stage.hub.hub.store.revision == revision
    expected = {
        each.key: ({move.cluster for move in each.gained}, {move.cluster for move in each.lost})
        for each in report.placements
        if each.is_moved_by_change
    }
    await apply_edit(stage.hub, edit)
    await stage.rest()
    actual = differences(before, await in_use(stage))
    assert expected == actual, f"{expected} is not {actual}; before: {before}\n{edit}"
    assert report.moves is bool(actual)
    return report.moves


@pytest.mark.parametrize("seed", SEEDS)
def test_the_controller_makes_the_moves_of_the_diff(seed: int) -> None:
    assert run_virtually(play(seed)) > EDITS // 3
