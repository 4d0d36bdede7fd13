"""Snapshots that cannot be evaluated stop a placement where it is: nothing moves until they are repaired."""

from __future__ import annotations

from typing import Any, Final

from fleet.model.keys import NUMBER_OF_CLUSTERS, PLACEMENT_GENERATION, SCHEDULER_CLEANUP
from tests.e2e.scheduling import (
    ONLY_SCHEDULER,
    Hub,
    Json,
    Stage,
    on_stage,
    refusals,
    selected,
    soon,
    stage,
    story,
    verdict,
    versions,
)
from tests.oracle.example_fleet import RATING, affinity, pick_n

NS: Final = "e2e-inputs"
TERMS: Final = "requiredDuringSchedulingIgnoredDuringExecution.clusterSelectorTerms[0]"


def measured(name: str = RATING, operator: str = "Ge", values: tuple[str, ...] = ("1",)) -> Json:
    return {"propertySelector": {"matchExpressions": [{"name": name, "operator": operator, "values": list(values)}]}}


def requiring(term: Json) -> Json:
    return {"placementType": "PickAll", "affinity": affinity(required=[term])}


def preferring(preference: Json) -> Json:
    return pick_n(1, affinity=affinity(preferred=[{"weight": 1, "preference": preference}]))


COUNT: Final = {"policy": pick_n(1), "field": f"metadata.annotations[{NUMBER_OF_CLUSTERS}]"}
NEARBY: Final[Json] = {"labelSelector": {"matchExpressions": [{"key": "env", "operator": "Near", "values": ["x"]}]}}
SORTED_BY_NOTHING: Final[Json] = {
    "propertySorter": {"name": "resources.kubernetes-fleet.io/spare-cpu", "sortOrder": "Ascending"}
}

UNUSABLE: Final[dict[str, dict[str, Any]]] = {
    "count-missing": {**COUNT, "annotations": {NUMBER_OF_CLUSTERS: None}},
    "count-a-word": {**COUNT, "annotations": {NUMBER_OF_CLUSTERS: "many"}},
    "count-negative": {**COUNT, "annotations": {NUMBER_OF_CLUSTERS: "-1"}},
    "count-a-fraction": {**COUNT, "annotations": {NUMBER_OF_CLUSTERS: "1.5"}},
    "label-operator": {"policy": requiring(NEARBY), "field": f"{TERMS}.labelSelector.matchExpressions[0].operator"},
    "preferred-label-operator": {"policy": preferring(NEARBY), "field": "labelSelector.matchExpressions[0].operator"},
    "property-operator": {"policy": requiring(measured(operator="Like")), "field": "matchExpressions[0].operator"},
    "property-value": {"policy": requiring(measured(values=("much",))), "field": "matchExpressions[0].values[0]"},
    "property-no-value": {"policy": requiring(measured(values=())), "field": "matchExpressions[0].values"},
    "property-capacity": {
        "policy": requiring(measured("resources.kubernetes-fleet.io/spare-cpu")),
        "field": "matchExpressions[0].name",
    },
    "property-resource": {
        "policy": requiring(measured("resources.kubernetes-fleet.io/total-")),
        "field": "matchExpressions[0].name",
    },
    "sorter-property": {"policy": preferring(SORTED_BY_NOTHING), "field": "propertySorter.name"},
    f"{NS}/count-in-a-namespace": {**COUNT, "annotations": {NUMBER_OF_CLUSTERS: "many"}},
}


@on_stage(controllers=ONLY_SCHEDULER)
async def test_what_cannot_be_evaluated_is_published_and_told_and_nothing_else_is_written(fleet: Stage) -> None:
    await fleet.namespace(NS)
    await fleet.join("a")
    for key, given in UNUSABLE.items():
        await fleet.place(key)
        await fleet.snapshot(key, given["policy"], annotations=given.get("annotations"))
    for key, given in UNUSABLE.items():
        status = await fleet.decided(key)
        state, reason, message = verdict(status)
        assert (state, reason) == ("False", "SchedulingPolicyUnfulfilled"), key
        assert message.startswith("scheduling stopped: "), key
        assert given["field"] in message, key
        assert "targetClusters" not in status, key
        assert status["observedCRPGeneration"] == 1
        assert await fleet.bindings(key) == []
        assert SCHEDULER_CLEANUP not in (await fleet.placement(key))["metadata"].get("finalizers", ())

    await fleet.all_told()
    for key in UNUSABLE:
        message = verdict(await fleet.decided(key))[2]
        assert await fleet.told(key) == [("Warning", "SchedulingInputInvalid", message)]
    assert fleet.count("fleet_scheduler_requeues_total", **{"class": "input"}) == len(UNUSABLE)


@story
async def test_without_a_generation_nothing_can_be_published(hub: Hub) -> None:
    """There is nothing to say which placement a status would speak of; the event is what is left."""
    generations = {"missing": None, "a-word": "first", "negative": "-1", "empty": ""}
    async with stage(hub, controllers=ONLY_SCHEDULER) as fleet:
        await fleet.join("a")
        for key, text in generations.items():
            await fleet.place(key)
            await fleet.snapshot(key, None, annotations={PLACEMENT_GENERATION: text})
        await soon(lambda: attempted(fleet, *generations))
        await fleet.all_told()
        for key in generations:
            assert await fleet.read_by(key) == {}
            assert await fleet.bindings(key) == []
            ((kind, reason, message),) = await fleet.told(key)
            assert (kind, reason) == ("Warning", "SchedulingInputInvalid")
            assert PLACEMENT_GENERATION in message

        # An edit is looked at at once, however long the wait after an error is.
        for key in generations:
            await fleet.annotate(key, generation="1")
            await fleet.soon_on(key, "a")


async def attempted(fleet: Stage, *keys: str) -> bool:
    return set(keys) <= {str(one.key) for one in fleet.notebook.attempts}


@story
async def test_what_a_type_does_not_use_is_not_checked(hub: Hub) -> None:
    preferred = preferring(NEARBY)["affinity"]
    async with stage(hub, controllers=ONLY_SCHEDULER) as fleet:
        await fleet.join("a")
        policies: dict[str, Json | None] = {
            "all": {"placementType": "PickAll", "affinity": preferred},
            "fixed": {"placementType": "PickFixed", "clusterNames": ["a"]},
            "no-policy": None,
        }
        for key, policy in policies.items():
            await fleet.place(key)
            await fleet.snapshot(key, policy, annotations={NUMBER_OF_CLUSTERS: "many"})
        for key in policies:
            await fleet.soon_on(key, "a")


@on_stage(controllers=ONLY_SCHEDULER)
async def test_an_error_leaves_everything_as_it_is_until_it_is_repaired(fleet: Stage) -> None:
    await fleet.join_all({name: {} for name in "abc"})
    await fleet.place("web")
    await fleet.snapshot("web", pick_n(2))
    await fleet.soon_scheduled("web")
    before, published = versions(await fleet.bindings("web")), (await fleet.read_by("web"))["targetClusters"]
    assert selected({"targetClusters": published}) == ["c", "b"]

    await fleet.annotate("web", count="lots")
    stopped = await fleet.soon_scheduled("web", status="False")
    assert stopped["message"].startswith("scheduling stopped: ")
    assert (await fleet.read_by("web"))["targetClusters"] == published

    # The clusters of an unusable placement may come and go: it is looked at, and left alone.
    await fleet.taint("c", {"key": "gpu", "effect": "NoSchedule"})
    await fleet.leave("b")
    await soon(lambda: attempted_after_leaving(fleet))
    assert versions(await fleet.bindings("web")) == before

    await fleet.annotate("web", count="2")
    await fleet.soon_on("web", "a", "c")
    assert (await fleet.soon_scheduled("web"))["message"].endswith("found 2 cluster(s)")


async def attempted_after_leaving(fleet: Stage) -> bool:
    return any("MemberCluster/Delete b" in one.triggers for one in fleet.notebook.attempts)


@on_stage(controllers=ONLY_SCHEDULER)
async def test_several_latest_snapshots_are_an_error_and_none_is_not(fleet: Stage) -> None:
    await fleet.join("a")
    await fleet.place("web")
    await fleet.snapshot("web", None, latest="false")
    await fleet.snapshot("web", None, index=1, latest="false")
    assert await fleet.woken_by(fleet.leave("a")) == {"web"}
    assert [one.result.value for one in fleet.notebook.attempts] == ["NoSnapshot"]

    await fleet.join("a")
    await fleet.mark("web", 0, latest="true")
    await fleet.soon_on("web", "a")
    await fleet.settled()
    before = versions(await fleet.bindings("web"))
    await fleet.mark("web", 1, latest="true")
    # It comes back by itself, each time later.
    await soon(lambda: at_least(fleet, "workqueue_retries_total", 3))
    await fleet.all_told()
    assert versions(await fleet.bindings("web")) == before
    warnings = [one for one in await fleet.told("web") if one[0] == "Warning"]
    assert [reason for _, reason, _ in warnings] == ["SchedulingInputInvalid"]
    assert "web-0, web-1" in warnings[0][2]
    assert fleet.count("fleet_scheduler_requeues_total", **{"class": "transient"}) >= 3

    await fleet.mark("web", 0, latest="false")
    await fleet.settled()
    (binding,) = await fleet.bindings("web")
    assert binding["spec"]["schedulingPolicySnapshotName"] == "web-1"


async def at_least(fleet: Stage, metric: str, count: int) -> bool:
    return fleet.count(metric, name="scheduler-queue") >= count


@on_stage(controllers=ONLY_SCHEDULER)
async def test_a_placement_that_never_existed(fleet: Stage) -> None:
    """Snapshots without a placement are somebody else's leftovers."""
    await fleet.join("a")
    assert await fleet.woken_by(fleet.snapshot("ghost", None)) == {"ghost"}
    assert [one.result.value for one in fleet.notebook.attempts] == ["Gone"]
    assert await fleet.bindings("ghost") == []


@on_stage()
async def test_with_the_placement_controller_a_mistake_is_made_and_corrected_in_the_policy(fleet: Stage) -> None:
    await fleet.join("a", properties={RATING: "7"})
    await fleet.place("web", requiring(measured(values=("much",))))
    assert verdict(await fleet.decided("web"))[2].startswith("scheduling stopped: ")

    await fleet.set_policy("web", requiring(measured(values=("9",))))
    status = await fleet.decided("web")
    assert verdict(status)[0] == "True"
    assert refusals(status).keys() == {"a"}
    await fleet.report("a", properties={RATING: "9"})
    await fleet.soon_on("web", "a")
