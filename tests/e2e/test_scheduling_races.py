"""Somebody else writes the same object just before the scheduler does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from fleet.kube.api import Method, Request
from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.model.keys import BOUND, NUMBER_OF_CLUSTERS, PREVIOUS_BINDING_STATE, SCHEDULED, SCHEDULER_CLEANUP
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.dispatch.dispatcher import CONCURRENCY
from tests.e2e.scheduling import (
    FOREIGN,
    ONLY_SCHEDULER,
    Hub,
    Stage,
    by_cluster,
    key_in,
    on_stage,
    once,
    refusals,
    selected,
    soon,
    stage,
    story,
)
from tests.oracle.example_fleet import pick_n

COLOUR = {"metadata": {"labels": {"example.com/colour": "blue"}}}


def writes(method: Method, ending: str) -> Callable[[Request], bool]:
    return lambda request: request.method is method and request.path.endswith(ending)


def patches_binding(request: Request) -> bool:
    return request.method is Method.PATCH and "/clusterresourcebindings/" in request.path


async def placed(fleet: Stage, *clusters: str, count: int) -> None:
    await fleet.join_all({name: {} for name in clusters})
    await fleet.place("web")
    await fleet.snapshot("web", pick_n(count))
    await fleet.settled()


def endings(fleet: Stage, since: int) -> list[str]:
    return [one.result.value for one in fleet.notebook.attempts[since:]]


@on_stage(controllers=ONLY_SCHEDULER)
async def test_a_status_is_written_on_top_of_what_others_changed(fleet: Stage) -> None:
    """The decision is not repeated, and what it says about the clusters is not lost."""
    colour = partial(fleet.patch, CLUSTER_SCOPED.policy_snapshot, "web-0", COLOUR)
    fleet.overheard.before = once(writes(Method.PUT, "/web-0/status"), colour)
    await fleet.join("silent", silent_for=3600)
    await placed(fleet, "a", "b", count=1)

    assert endings(fleet, 0) == ["Decided"]
    status = await fleet.read_by("web")
    assert selected(status) == ["b"]
    assert refusals(status).keys() == {"silent"}
    assert [one["clusterName"] for one in status["targetClusters"]] == ["b", "a", "silent"]


@on_stage(controllers=ONLY_SCHEDULER)
async def test_a_status_for_a_count_that_changed_meanwhile_is_decided_again(fleet: Stage) -> None:
    fleet.overheard.before = once(writes(Method.PUT, "/web-0/status"), lambda: fleet.annotate("web", count="2"))
    await placed(fleet, "a", "b", count=1)

    assert selected(await fleet.read_by("web")) == ["a", "b"]
    assert await fleet.states("web") == {"a": "Scheduled", "b": "Scheduled"}


@on_stage(controllers=ONLY_SCHEDULER)
async def test_a_binding_that_was_bound_meanwhile_is_remembered_as_bound(fleet: Stage) -> None:
    await placed(fleet, "a", count=1)
    fleet.overheard.before = once(patches_binding, lambda: fleet.bind("web", "a"))
    tried = len(fleet.notebook.attempts)
    await fleet.annotate("web", count="0")
    await fleet.settled()

    (binding,) = await fleet.bindings("web")
    assert binding["spec"]["state"] == "Unscheduled"
    assert binding["metadata"]["annotations"][PREVIOUS_BINDING_STATE] == "Bound"
    assert endings(fleet, tried) == ["Decided"]


@on_stage(controllers=ONLY_SCHEDULER)
async def test_a_binding_that_was_bound_while_its_policy_changed_stays_bound(fleet: Stage) -> None:
    """A refresh keeps the state as it is by then."""
    await placed(fleet, "a", count=1)
    (before,) = await fleet.bindings("web")
    fleet.overheard.before = once(patches_binding, lambda: fleet.bind("web", "a"))
    await fleet.mark("web", 0, latest="false")
    await fleet.snapshot("web", pick_n(1), index=1)
    await soon(lambda: names(fleet, "web-1"))
    await fleet.settled()

    (binding,) = await fleet.bindings("web")
    assert binding["metadata"]["uid"] == before["metadata"]["uid"]
    assert binding["spec"]["state"] == "Bound"


async def names(fleet: Stage, snapshot: str) -> bool:
    return {one["spec"]["schedulingPolicySnapshotName"] for one in await fleet.bindings("web")} == {snapshot}


@on_stage(controllers=ONLY_SCHEDULER)
async def test_a_binding_that_was_deleted_while_it_was_unscheduled(fleet: Stage) -> None:
    await placed(fleet, "a", "b", count=2)
    name = key_in(by_cluster(await fleet.bindings("web"))["a"])
    delete = partial(fleet.delete, CLUSTER_SCOPED.binding, name)
    fleet.overheard.before = once(patches_binding, delete)
    await fleet.annotate("web", count="1")
    await fleet.settled()

    assert await fleet.states("web") == {"b": "Scheduled"}
    assert selected(await fleet.read_by("web")) == ["b"]


@on_stage(controllers=ONLY_SCHEDULER)
async def test_a_finalizer_is_added_to_a_placement_that_others_change(fleet: Stage) -> None:
    keep: dict[str, Any] = {"metadata": {"finalizers": [FOREIGN]}, "spec": {"revisionHistoryLimit": 3}}
    fleet.overheard.before = once(
        writes(Method.PUT, "/clusterresourceplacements/web"),
        partial(fleet.patch, CLUSTER_SCOPED.placement, "web", keep),
    )
    await placed(fleet, "a", count=1)

    placement = await fleet.placement("web")
    assert sorted(placement["metadata"]["finalizers"]) == sorted([FOREIGN, SCHEDULER_CLEANUP])
    assert placement["spec"]["revisionHistoryLimit"] == 3
    assert endings(fleet, 0) == ["Decided"]


@story
async def test_a_placement_that_is_deleted_while_it_is_decided(hub: Hub) -> None:
    """Before it is claimed, nothing is made; after that, what was made is cleaned up."""
    requests = (writes(Method.PUT, "/clusterresourceplacements/web"), writes(Method.POST, "/clusterresourcebindings"))
    async with stage(hub, controllers=ONLY_SCHEDULER) as fleet:
        await fleet.join("a")
        for which in requests:
            await fleet.place("web")
            fleet.overheard.before = once(which, partial(fleet.delete, CLUSTER_SCOPED.placement, "web"))
            await fleet.snapshot("web", pick_n(1))
            await soon(lambda: is_gone(fleet))
            await fleet.settled()
            assert await fleet.bindings("web") == []
            await fleet.delete(CLUSTER_SCOPED.policy_snapshot, "web-0")


async def withdrawn(fleet: Stage, act: Callable[[], Awaitable[object]], heard: Callable[[], Awaitable[bool]]) -> int:
    """How many bindings are made where something is withdrawn while the first are on their way."""
    everybody, posts = asyncio.Event(), writes(Method.POST, "/clusterresourcebindings")
    asked = 0

    async def intervene(request: Request) -> None:
        nonlocal asked
        if not posts(request):
            return
        asked += 1
        if asked == 1:
            await act()
            await soon(heard)
            everybody.set()
        await everybody.wait()

    fleet.overheard.before = intervene
    await fleet.join_all({f"c{number:02}": {} for number in range(CONCURRENCY + 8)})
    await fleet.place("web")
    await fleet.snapshot("web", pick_n(CONCURRENCY + 8))
    await everybody.wait()
    await fleet.settled()
    return asked


@on_stage(controllers=ONLY_SCHEDULER)
async def test_who_is_deleted_gets_no_more_bindings_than_are_on_their_way(fleet: Stage) -> None:

    async def heard() -> bool:
        there = fleet.controller.caches.placement(PlacementKey.parse("web"))
        return there is not None and bool(there.view.metadata.deletion_timestamp)

    made = await withdrawn(fleet, partial(fleet.delete, CLUSTER_SCOPED.placement, "web"), heard)

    assert 0 < made <= CONCURRENCY
    await soon(lambda: is_gone(fleet))
    assert await fleet.bindings("web") == []


@on_stage(controllers=ONLY_SCHEDULER)
async def test_who_asks_for_fewer_gets_no_more_than_are_on_their_way(fleet: Stage) -> None:

    async def heard() -> bool:
        (latest,) = fleet.controller.caches.latest_snapshots(PlacementKey.parse("web"))
        return latest.view.metadata.annotation(NUMBER_OF_CLUSTERS) == "2"

    fewer = {"metadata": {"annotations": {NUMBER_OF_CLUSTERS: "2"}}}
    made = await withdrawn(fleet, partial(fleet.patch, CLUSTER_SCOPED.policy_snapshot, "web-0", fewer), heard)

    assert 0 < made <= CONCURRENCY
    await soon(lambda: has_in_use(fleet, 2))


async def has_in_use(fleet: Stage, count: int) -> bool:
    states = [one["spec"]["state"] for one in await fleet.bindings("web")]
    return len([one for one in states if one in (SCHEDULED, BOUND)]) == count


async def is_gone(fleet: Stage) -> bool:
    return await fleet.find(CLUSTER_SCOPED.placement, "web") is None
