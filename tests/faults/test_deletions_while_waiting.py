"""A placement, its options and the answers to it come and go at any moment, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from fleet.errors import NotFound
from fleet.kube.resource import Resource
from fleet.kube.scopes import find_scope
from fleet.model.placement_key import PlacementKey
from tests.e2e.hub import soon
from tests.e2e.world import NAMESPACES
from tests.faults.test_approvals import FIXED, OWNERS, Desk, a_desk
from tests.faults.virtual import virtual

CLUSTERS: Final = ("c0", "c1")
PAUSES: Final = (0.0, 0.001, 0.01, 0.3, 2.0, 20.0)
STEPS: Final = 30
SEEDS: Final = range(8)

Step = Callable[[], Coroutine[Any, Any, None]]


class Changes:
    """Creates what is not there and deletes what is, as the dice have it."""

    def __init__(self, desk: Desk, key: str, dice: random.Random) -> None:
        self._desk, self._key, self._dice = desk, key, dice
        self._scope = find_scope(key)
        self._uid = "of-an-earlier-one"

    async def change(self) -> None:
        change = self._dice.choice((self._change_placement, self._change_options, self._answer, self._take_back))
        await change()

    async def delete_all(self) -> None:
        steps: list[Step] = [self._delete_placement, self._delete_options, self._take_back, self._take_back]
        self._dice.shuffle(steps)
        for step in steps:
            await step()
            await self.pause()

    async def pause(self) -> None:
        await asyncio.sleep(self._dice.choice(PAUSES))

    async def list_left(self) -> list[str]:
        """What is still there of it, on the hub and in the scheduler."""
        world, scheduler = self._desk.world, self._desk.scene.controller.scheduler
        assert scheduler is not None
        kinds = (self._scope.placement, self._scope.binding, self._scope.approval, self._scope.options)
        left = [f"{kind.kind} {each['metadata']['name']}" for kind in kinds for each in await world.all(kind)]
        if len(scheduler.parked):
            left.append("a parked placement")
        if PlacementKey.parse(self._key) in scheduler.queue:
            left.append("a place in the queue")
        return left

    async def _change_placement(self) -> None:
        if await self._is_there(self._scope.placement):
            await self._delete_placement()
            return
        created = await self._desk.world.place(self._key, FIXED)
        self._uid = created["metadata"]["uid"]

    async def _change_options(self) -> None:
        if await self._is_there(self._scope.options):
            await self._delete_options()
            return
        rule = {**OWNERS, "holdSeconds": self._dice.choice((0, 5, 600))}
        await self._desk.options(self._key, schedulerName="approved", approvals=[rule])

    async def _answer(self) -> None:
        cluster, decision = self._dice.choice(CLUSTERS), self._dice.choice(("Approved", "Approved", "Denied"))
        await self._desk.answer(self._key, cluster, decision=decision, placementUID=self._uid)

    async def _take_back(self) -> None:
        approvals = await self._desk.world.all(self._scope.approval)
        if approvals:
            metadata = self._dice.choice(approvals)["metadata"]
            await self._delete(self._scope.approval, str(PlacementKey(metadata.get("namespace", ""), metadata["name"])))

    async def _delete_placement(self) -> None:
        await self._delete(self._scope.placement, self._key)

    async def _delete_options(self) -> None:
        await self._delete(self._scope.options, self._key)

    async def _delete(self, kind: Resource, key: str) -> None:
        with suppress(NotFound):
            await self._desk.world.delete(kind, key)

    async def _is_there(self, kind: Resource) -> bool:
        return await self._desk.world.find(kind, self._key) is not None


@pytest.mark.parametrize("key", ["web", "shop/web"])
@pytest.mark.parametrize("seed", SEEDS)
@virtual
async def test_X_23_deletions_in_any_order_leave_nothing_behind_and_hold_up_no_placement(
    tmp_path: Path, seed: int, key: str
) -> None:
    dice = random.Random(seed)
    async with a_desk(tmp_path) as desk:
        await desk.world.create(NAMESPACES, {"metadata": {"name": "shop"}})
        changes = Changes(desk, key, dice)
        for _ in range(STEPS):
            await changes.change()
            await changes.pause()
        await changes.delete_all()

        async def is_clean() -> bool:
            return not await changes.list_left()

        try:
            await soon(is_clean, within=300)
        except AssertionError:
            raise AssertionError(await changes.list_left()) from None
        await desk.options(key, schedulerName="approved", approvals=[{**OWNERS, "holdSeconds": 600}])
        await desk.world.place(key, FIXED)
        await desk.soon_asked(key, *(f"{cluster}/owners" for cluster in CLUSTERS))
        if seed % 2:
            await desk.world.delete(find_scope(key).options, key)  # and the profile with them
        else:
            for cluster in CLUSTERS:
                await desk.answer(key, cluster)
        await desk.world.soon_on(key, *CLUSTERS)
