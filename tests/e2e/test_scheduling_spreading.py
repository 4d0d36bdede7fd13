"""Spreading in one cycle gives what one cycle for each cluster would give, and keeps what it can."""

from __future__ import annotations

from typing import Final

from tests.e2e.example_fleet import example_members
from tests.e2e.scheduling import (
    ONLY_SCHEDULER,
    Hub,
    Json,
    Stage,
    by_cluster,
    on_stage,
    refusals,
    scores,
    selected,
    stage,
    stored_score,
    story,
    verdict,
)
from tests.oracle.example_fleet import NODE_COUNT, RATING, affinity, hard, labelled, pick_n, soft, sorted_by

NO_LONGER_SPREAD = 'ClusterUnschedulable, violated doNotSchedule topology spread constraint "{}" (max skew {})'

POLICIES: Final[dict[str, Json]] = {
    "hard": {"topologySpreadConstraints": [hard("region")]},
    "soft": {"topologySpreadConstraints": [soft("region")]},
    "both": {
        "topologySpreadConstraints": [soft("env", 2), hard("region")],
        "affinity": affinity(preferred=[{"weight": 40, "preference": labelled(region="east")}]),
    },
    "sorted": {
        "topologySpreadConstraints": [hard("region", 2), hard("env", 2)],
        "affinity": affinity(
            preferred=[
                {"weight": 100, "preference": sorted_by(NODE_COUNT, "Ascending")},
                {"weight": -30, "preference": sorted_by(RATING, "Descending")},
            ]
        ),
    },
}


@on_stage(controllers=ONLY_SCHEDULER)
async def test_all_at_once_is_the_same_as_one_by_one(fleet: Stage) -> None:
    await fleet.bring(*example_members())
    for name, policy in POLICIES.items():
        await fleet.place(f"{name}-at-once")
        await fleet.place(f"{name}-one-by-one")
        await fleet.snapshot(f"{name}-at-once", pick_n(5, **policy))
        await fleet.snapshot(f"{name}-one-by-one", pick_n(1, **policy))
    for count in range(2, 6):
        await fleet.settled()
        for name in POLICIES:
            await fleet.annotate(f"{name}-one-by-one", count=str(count))
    await fleet.settled()

    at_once = {name: await outcome(fleet, f"{name}-at-once") for name in POLICIES}
    one_by_one = {name: await outcome(fleet, f"{name}-one-by-one") for name in POLICIES}
    assert at_once == one_by_one
    assert {name: len(found["stored"]) for name, found in at_once.items()} == dict.fromkeys(POLICIES, 5)


async def outcome(fleet: Stage, key: str) -> Json:
    """Who was picked with which scores, and what was said about the others."""
    status = await fleet.read_by(key)
    bindings = by_cluster(await fleet.bindings(key))
    others = {name: score for name, score in scores(status).items() if name not in bindings}
    return {
        "stored": {name: stored_score(one) for name, one in sorted(bindings.items())},
        "published": {name: scores(status)[name] for name in sorted(bindings)},
        "others": list(others.items()),
        "refused": refusals(status),
        "verdict": verdict(status),
    }


@on_stage(controllers=ONLY_SCHEDULER)
async def test_one_group_of_writes_for_all_steps(fleet: Stage) -> None:
    await fleet.bring(*example_members())
    await fleet.place("web")
    await fleet.snapshot("web", pick_n(5, topologySpreadConstraints=[soft("region")]))
    await fleet.settled()

    assert fleet.overheard.writes() == [
        ("PUT", "clusterresourceplacements"),
        *[("POST", "clusterresourcebindings")] * 5,
        ("PUT", "clusterschedulingpolicysnapshots/status"),
    ]
    assert [one.result.value for one in fleet.notebook.attempts] == ["Decided"]


@on_stage()
async def test_a_full_region_stops_the_placement_and_the_last_counts_are_told(fleet: Stage) -> None:
    await fleet.join_all(
        {"e1": {"region": "east"}, "e2": {"region": "east"}, "e3": {"region": "east"}, "w1": {"region": "west"}}
    )
    await fleet.place("web", pick_n(4, topologySpreadConstraints=[hard("region")]))

    status = await fleet.decided("web")

    assert selected(status) == ["w1", "e3", "e2"]
    assert {name: scores(status)[name] for name in ("w1", "e3", "e2")} == {
        "w1": (-1, 0),
        "e3": (1, 0),
        "e2": (-1, 0),
    }
    assert refusals(status) == {"e1": NO_LONGER_SPREAD.format("region", 1)}
    assert verdict(status) == (
        "False",
        "SchedulingPolicyUnfulfilled",
        "could not find all clusters needed as specified by the scheduling policy, found 3 cluster(s) instead",
    )

    await fleet.join("w2", labels={"region": "west"})
    await fleet.soon_on("web", "w1", "w2", "e3", "e2")
    assert (await fleet.soon_scheduled("web"))["message"].endswith("found 4 cluster(s)")


@on_stage()
async def test_unusable_clusters_make_a_region_all_the_same(fleet: Stage) -> None:
    await fleet.join_all({"e1": {"region": "east"}, "e2": {"region": "east"}})
    await fleet.join("n1", labels={"region": "north"}, silent_for=3600)
    await fleet.place("web", pick_n(2, topologySpreadConstraints=[hard("region")]))

    status = await fleet.decided("web")

    assert selected(status) == ["e2"]
    assert refusals(status)["e1"] == NO_LONGER_SPREAD.format("region", 1)


@on_stage()
async def test_a_single_region_and_clusters_without_one_are_no_hindrance(fleet: Stage) -> None:
    await fleet.join_all({"a": {"region": "east"}, "b": {"region": "east"}, "c": {}})
    await fleet.place("web", pick_n(3, topologySpreadConstraints=[hard("region")]))

    status = await fleet.decided("web")

    assert list(scores(status).items()) == [("c", (0, 0)), ("b", (-1, 0)), ("a", (-1, 0))]
    assert verdict(status)[0] == "True"


@story
async def test_old_bindings_are_preferred_in_every_step_and_removed_once_at_the_end(hub: Hub) -> None:
    """Both a and b are in the east: the one that has to move is replaced in the west, after it has been."""
    regions = {"a": "east", "b": "east", "c": "east", "x": "west", "y": "west"}
    async with stage(hub) as fleet:
        await fleet.join_all({name: {"region": region, "old": str(name in "abc")} for name, region in regions.items()})
        await fleet.place("web", pick_n(3, affinity=affinity(required=[labelled(old="True")])))
        await fleet.soon_on("web", "a", "b", "c")
        await fleet.decided("web")
        before = by_cluster(await fleet.bindings("web"))
        fleet.overheard.requests.clear()

        await fleet.set_policy("web", pick_n(3, topologySpreadConstraints=[hard("region")]))
        status = await fleet.decided("web")

        assert selected(status) == ["y", "c", "b"]
        assert {name: scores(status)[name] for name in selected(status)} == {"c": (-1, 0), "y": (1, 0), "b": (-1, 0)}
        after = by_cluster(await fleet.bindings("web"))
        assert await fleet.states("web") == {
            "a": "Unscheduled",
            "b": "Scheduled",
            "c": "Scheduled",
            "y": "Scheduled",
        }
        assert all(after[name]["metadata"]["uid"] == before[name]["metadata"]["uid"] for name in before)
        written = [one for one in fleet.overheard.writes() if one[1] == "clusterresourcebindings"]
        assert written == [("POST", "clusterresourcebindings"), *[("PATCH", "clusterresourcebindings")] * 3]


@story
async def test_more_clusters_are_added_where_fewest_are(hub: Hub) -> None:
    regions = {"a": "east", "b": "east", "c": "west", "d": "west", "e": "north"}
    async with stage(hub) as fleet:
        await fleet.join_all({name: {"region": region} for name, region in regions.items()})
        await fleet.place("web", pick_n(2, topologySpreadConstraints=[hard("region")]))
        await fleet.soon_on("web", "e", "d")
        await fleet.decided("web")

        await fleet.edit_policy("web", numberOfClusters=3)
        await fleet.soon_on("web", "e", "d", "b")

        await fleet.leave("d")
        await fleet.soon_on("web", "e", "c", "b")
