"""Groups of placements on every hub: all members are bound together, or none is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.manager.manager import Manager
from fleet.model.keys import PARENT_PLACEMENT
from tests.e2e.hub import Hub, soon
from tests.e2e.scheduling import story
from tests.e2e.world import ANYTHING, World, controlled, handed_over
from tests.faults.configured import HEAD, Attempts

PROFILES: Final = "profiles: [{base: ExtendedProfile}]\n"
ONE: Final = {"placementType": "PickN", "numberOfClusters": 1}
FIVE: Final = ("p1", "p2", "p3", "p4", "p5")


@dataclass
class Stage:
    world: World
    controller: Manager
    attempts: Attempts

    async def begin_group(self, name: str = "web", **spec: Any) -> None:
        await self.world.create(CLUSTER_SCOPED.group, {"metadata": {"name": name}, "spec": spec})

    async def place(self, *names: str, group: str = "web") -> None:
        annotations = {"scheduling.fleet.dev/group": group, "scheduling.fleet.dev/requests": "cpu=1"}
        for name in names:
            document = {"metadata": {"name": name, "annotations": annotations}}
            spec = {"resourceSelectors": [ANYTHING], "policy": ONE}
            await self.world.create(CLUSTER_SCOPED.placement, {**document, "spec": spec})

    async def were_tried(self, *names: str) -> None:
        """Each of them, and none is at the moment."""

        async def look() -> bool:
            return all(map(self.attempts.of, names))

        await soon(look)
        await handed_over(self.controller)

    async def list_bound(self) -> list[str]:
        bindings = await self.world.all(CLUSTER_SCOPED.binding)
        return sorted(each["metadata"]["labels"][PARENT_PLACEMENT] for each in bindings)

    async def are_bound(self, *names: str) -> None:
        async def look() -> bool:
            return await self.list_bound() == sorted(names)

        await soon(look)

    async def says(self, message: str, name: str = "web") -> None:
        """In a condition of the group."""

        async def look() -> bool:
            status = (await self.world.get(CLUSTER_SCOPED.group, name)).get("status", {})
            return any(message in each["message"] for each in status.get("conditions", ()))

        await soon(look)


@asynccontextmanager
async def a_stage(hub: Hub, folder: Path) -> AsyncIterator[Stage]:
    file, attempts = folder / "fleet.yaml", Attempts()
    file.write_text(HEAD + PROFILES, encoding="utf-8")
    async with (
        hub.connected() as own,
        hub.connected() as transport,
        controlled(transport, "eligibility.heartbeatTimeout=24h", file=file, recorder=attempts) as controller,
    ):
        yield Stage(World(own), controller, attempts)


@story
async def test_Q_38_of_five_with_room_for_four_none_is_bound_and_for_five_all_are(hub: Hub, tmp_path: Path) -> None:
    async with a_stage(hub, tmp_path) as stage:
        await stage.world.join("ams", available={"cpu": "4"})
        await stage.begin_group(minCount=5)
        await stage.place(*FIVE)
        await stage.says("4 members of group web fit, 5 are needed: no place for p5")
        assert await stage.list_bound() == []
        await stage.world.join("dub", available={"cpu": "1"})
        await stage.are_bound(*FIVE)


@story
async def test_Q_39_with_its_minimum_four_are_bound_in_one_attempt(hub: Hub, tmp_path: Path) -> None:
    async with a_stage(hub, tmp_path) as stage:
        await stage.begin_group(minCount=4)
        await stage.place(*FIVE)
        await stage.were_tried(*FIVE)
        await stage.says("0 members of group web fit, 4 are needed")
        await stage.world.join("ams", available={"cpu": "4"})
        await stage.are_bound(*FIVE[:4])
        await stage.says("enough members were bound together")
        await stage.world.join("dub", available={"cpu": "1"})
        await stage.are_bound(*FIVE)


@story
async def test_Q_40_of_two_groups_with_room_for_one_one_is_bound_and_one_waits(hub: Hub, tmp_path: Path) -> None:
    async with a_stage(hub, tmp_path) as stage:
        await stage.world.join("ams", available={"cpu": "3"})
        groups = {name: [f"{name}-{number}" for number in range(3)] for name in ("api", "web")}
        for name in groups:
            await stage.begin_group(name, minCount=3)
        for pair in zip(*groups.values(), strict=True):
            for member in pair:
                await stage.place(member, group=member.partition("-")[0])

        async def find_first() -> str | None:
            bound = await stage.list_bound()
            return next((name for name, members in groups.items() if bound == members), None)

        first: str = await soon(find_first)
        other = next(name for name in groups if name != first)
        await stage.says("0 members of group", other)
        await stage.world.join("dub", available={"cpu": "3"})
        await stage.are_bound(*groups["api"], *groups["web"])


@story
async def test_Q_41_members_are_held_until_their_group_is_created(hub: Hub, tmp_path: Path) -> None:
    async with a_stage(hub, tmp_path) as stage:
        await stage.world.join("ams", available={"cpu": "2"})
        for name in ("p1", "p2"):
            await stage.world.create(CLUSTER_SCOPED.options, {"metadata": {"name": name}, "spec": {"group": "web"}})
        await stage.place("p1", "p2")

        async def are_held() -> bool:
            options = await stage.world.all(CLUSTER_SCOPED.options)
            texts = [each["message"] for held in options for each in held.get("status", {}).get("conditions", ())]
            return sum("there is no ClusterPlacementGroup web" in text for text in texts) == 2

        await soon(are_held)
        assert await stage.list_bound() == []
        assert stage.attempts.records == []
        await stage.begin_group()
        await stage.are_bound("p1", "p2")


@story
async def test_Q_42_once_the_rest_cannot_suffice_no_further_member_is_decided(hub: Hub, tmp_path: Path) -> None:
    async with a_stage(hub, tmp_path) as stage:
        await stage.begin_group(minCount=4)
        await stage.place(*FIVE)
        await stage.were_tried(*FIVE)
        await stage.says("0 members of group web fit, 4 are needed")
        await stage.world.join("ams", available={"cpu": "1"})
        await stage.says("1 members of group web fit, 4 are needed")
        refusal = "GroupInfeasible: 1 members of group web fit, 4 are needed"

        async def are_recorded() -> bool:
            return all(stage.attempts.of(name)[-1].failure.startswith(refusal) for name in FIVE)

        await soon(are_recorded)
        decided = [name for name in FIVE if stage.attempts.of(name)[-1].decision is not None]
        assert decided == ["p1", "p2", "p3"]
