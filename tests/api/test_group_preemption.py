"""Room that is made for a group: the same in the answers about the group, its list and its members, in every phase."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from fleet.kube.scopes import CLUSTER_SCOPED
from tests.api.stage import ADMIN, READER, Stage, a_stage
from tests.api.test_groups import ONE, WHY, allow_reading, make_group, read_states, soon_why
from tests.api.test_preempting import EVICTING, place
from tests.api.test_room import report_all
from tests.e2e.hub import soon
from tests.e2e.world import ANYTHING

IN_VAIN: Final = "nothing is evicted: of 5 clusters, 1 have bindings that could leave, and 0 would have room then"
MADE: Final = "2 are needed: room is being made for p1"
Json = dict[str, Any]
TWO: Final[Json] = {"placementType": "PickN", "numberOfClusters": 2}


def with_groups(test: Callable[[Stage], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    """Makes a test of a coroutine that has a stage whose profile evicts; `low` fills ams-1."""

    def run(tmp_path: Path) -> None:
        async def main() -> None:
            file = tmp_path / "fleet.yaml"
            file.write_text(EVICTING, encoding="utf-8")
            async with a_stage(tmp_path, file=file) as stage:
                await report_all(stage)
                await place(stage, "low", cpu="3", priority=0)
                await stage.world.soon_on("low", "ams-1")
                await test(stage)

        asyncio.run(main())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


async def place_members(stage: Stage, *cpu: str, policy: Json = ONE) -> None:
    """p1, p2 and so on."""
    for number, amount in enumerate(cpu, 1):
        options: Json = {"priority": 10, "group": "shards", "requests": {"cpu": amount}}
        await stage.world.create(CLUSTER_SCOPED.options, {"metadata": {"name": f"p{number}"}, "spec": options})
        spec = {"resourceSelectors": [ANYTHING], "policy": policy}
        await stage.world.create(CLUSTER_SCOPED.placement, {"metadata": {"name": f"p{number}"}, "spec": spec})


async def read_text(stage: Stage, path: str, token: str = ADMIN) -> str:
    return (await stage.get(path, token, Accept="text/plain")).text


async def drop_binding(stage: Stage, name: str) -> None:
    """No member agent takes the victim's work away here."""
    (binding,) = await stage.world.bindings(name)
    await stage.world.delete(CLUSTER_SCOPED.binding, binding["metadata"]["name"])


def is_making_room(why: Json) -> bool:
    """For both, and the message of the group says so."""
    states = read_states(why)
    return MADE in why["group"]["message"] and list(states.values()) == ["Preempting", "Preempting"]


@with_groups
async def test_X_22_a_group_that_room_was_sought_for_in_vain_says_why_nothing_leaves(stage: Stage) -> None:
    await make_group(stage)
    await place_members(stage, "2", "3500m")
    why = await soon_why(stage, lambda why: IN_VAIN in why["group"]["message"] and len(why["members"]) == 2)
    refusal = f"1 members of group shards fit, 2 are needed: no place for p2; {IN_VAIN}"
    assert why["group"]["message"] == refusal
    assert [member["preempting"] for member in why["members"]] == [None, None]
    for path in (WHY, "/v1/groups", "/v1/placements/-/p1/why", "/v1/placements/-/p2/why"):
        assert refusal in await read_text(stage, path)


@with_groups
async def test_a_group_whose_member_gets_some_of_its_clusters_says_nothing_of_evictions(stage: Stage) -> None:
    await make_group(stage)
    await place_members(stage, "1500m", policy=TWO)

    why = await soon_why(stage, lambda why: "no place for p1" in why["group"]["message"])

    assert why["group"]["message"].endswith("no place for p1")


@with_groups
async def test_W_04_a_placement_that_room_was_sought_for_in_vain_says_why_nothing_leaves(stage: Stage) -> None:
    await place(stage, "vip", cpu="3500m", priority=10)
    await stage.world.soon_scheduled("vip", status="False")
    why = await stage.json("/v1/placements/-/vip/why")
    assert why["attempt"]["notes"]["DefaultPreemption"]["preemption"] == IN_VAIN
    assert f"\n{IN_VAIN}\n" in await read_text(stage, "/v1/placements/-/vip/why")


@with_groups
async def test_X_22_members_say_where_room_is_made_or_kept_until_they_are_bound(stage: Stage) -> None:
    await make_group(stage, scheduleTimeoutSeconds=3600)
    await place_members(stage, "2500m", "1500m")
    why = await soon_why(stage, is_making_room)
    assert (why["group"]["state"], why["group"]["deadline"], why["blocking"]) == ("Waiting", None, [])
    (made,), (kept,) = (member["preempting"]["clusters"] for member in why["members"])
    assert (made["cluster"], made["victims"]) == ("ams-1", ["low"])
    assert made["phase"] in ("Selected", "Evicting")
    assert (kept["cluster"], kept["victims"], kept["hidden"]) == ("ams-2", [], 0)
    text = await read_text(stage, WHY)
    assert "room is made on ams-1: low to leave" in text
    assert "room is kept on ams-2" in text
    assert MADE in await read_text(stage, "/v1/groups")
    first, second = [await read_text(stage, f"/v1/placements/-/{name}/why") for name in ("p1", "p2")]
    assert "nothing is bound yet, room is made on ams-1" in first
    assert "nothing is bound yet, room is kept on ams-2" in second
    assert "\nWOULD BE SELECTED" in second
    assert all(MADE in text for text in (first, second))

    await drop_binding(stage, "low")
    why = await soon_why(stage, lambda why: why["group"]["state"] == "Scheduled")
    assert read_states(why) == {"p1": "Bound", "p2": "Bound"}
    assert [member["preempting"] for member in why["members"]] == [None, None]


@with_groups
async def test_X_22_room_that_is_kept_when_a_victim_has_left_says_so_and_when_it_is_given_up(stage: Stage) -> None:
    await place(stage, "other", cpu="2", priority=0)
    await stage.world.soon_on("other", "ams-2")
    await make_group(stage, minCount=2)
    await place_members(stage, "2500m", "1500m")
    await soon_why(stage, is_making_room)
    await drop_binding(stage, "low")
    why = await soon_why(stage, lambda why: has_phase(why, "Drained"))
    assert "room is kept on ams-1" in await read_text(stage, WHY)
    assert [each["phase"] for each in why["members"][1]["preempting"]["clusters"]] == ["Evicting"]
    options = await stage.world.get(CLUSTER_SCOPED.options, "p1")
    (said,) = [each["message"] for each in options["status"]["conditions"] if each["type"] == "Preempting"]
    assert said == "room is made for the placement: low left ams-1, where the room is kept"

    await stage.world.delete(CLUSTER_SCOPED.placement, "p2")
    why = await soon_why(stage, lambda why: why["group"]["reason"] == "GroupTooSmall" and not has_room(why))
    assert "room is" not in why["group"]["message"]
    assert read_states(why) != {"p1": "Preempting"}


def has_room(why: Json) -> bool:
    return any(member["preempting"] is not None for member in why["members"])


def has_phase(why: Json, phase: str) -> bool:
    room = why["members"][0]["preempting"]
    return room is not None and room["clusters"][0]["phase"] == phase


@with_groups
async def test_who_may_not_read_a_victim_is_told_that_there_is_one(stage: Stage) -> None:
    await make_group(stage)
    await place_members(stage, "2500m", "1500m")
    await soon_why(stage, is_making_room)
    await allow_reading(stage, "p1")

    async def look() -> bool:
        return (await stage.get(WHY, READER)).status_code == 200

    await soon(look)
    text = await read_text(stage, WHY, READER)
    assert "room is made on ams-1: 1 you may not read to leave" in text
    assert "low" not in text
