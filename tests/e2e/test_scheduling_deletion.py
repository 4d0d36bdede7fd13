"""Placements and bindings that are being deleted, and names that are taken."""

from __future__ import annotations

import hashlib
from typing import Final

from fleet.kube.resource import Resource
from fleet.kube.scopes import CLUSTER_SCOPED, NAMESPACED, find_scope
from fleet.model.keys import (
    PREVIOUS_BINDING_STATE,
    SCHEDULER_BINDING_CLEANUP,
    SCHEDULER_CLEANUP,
    WORK_CLEANUP,
)
from tests.e2e.scheduling import (
    FOREIGN,
    ONLY_SCHEDULER,
    Hub,
    Json,
    Stage,
    by_cluster,
    condition,
    key_in,
    on_stage,
    soon,
    stage,
    story,
)
from tests.oracle.example_fleet import pick_n

NS: Final = "e2e-deletion"
BINDINGS: Final = "clusterresourcebindings"

# --- placements -------------------------------------------------------------------------------------------------------


@on_stage()
async def test_nothing_is_left_of_a_deleted_placement(fleet: Stage) -> None:
    await fleet.namespace(NS)
    await fleet.join_all({name: {} for name in "abc"})
    for key in ("web", f"{NS}/web"):
        flavour = find_scope(key)
        await fleet.place(key, pick_n(3))
        await fleet.soon_on(key, "a", "b", "c")
        await fleet.decided(key)
        await fleet.bind(key, "a")
        await fleet.edit_policy(key, numberOfClusters=2)
        await fleet.decided(key)
        assert sorted((await fleet.states(key)).values()) == ["Bound", "Scheduled", "Unscheduled"]

        await fleet.delete(flavour.placement, key)

        for resource in (flavour.placement, flavour.binding, flavour.policy_snapshot):
            await soon(lambda resource=resource: none_left(fleet, resource))


async def none_left(fleet: Stage, resource: Resource) -> bool:
    return not await fleet.all(resource)


@on_stage(controllers=ONLY_SCHEDULER)
async def test_foreign_finalizers_stay_and_ours_go(fleet: Stage) -> None:
    await fleet.namespace(NS)
    await fleet.join("a")
    for key in ("web", f"{NS}/web"):
        flavour = find_scope(key)
        await fleet.place(key)
        await fleet.snapshot(key, None)
        await fleet.soon_on(key, "a")
        await fleet.settled()
        (binding,) = await fleet.bindings(key)
        await fleet.patch(flavour.placement, key, {"metadata": {"finalizers": [FOREIGN, SCHEDULER_CLEANUP]}})
        kept = {"metadata": {"finalizers": [WORK_CLEANUP, SCHEDULER_BINDING_CLEANUP]}}
        await fleet.patch(flavour.binding, key_in(binding), kept)
        await fleet.woken_by(fleet.delete(flavour.placement, key))

        (left,) = await fleet.bindings(key)
        assert left["metadata"]["finalizers"] == [WORK_CLEANUP]
        assert left["metadata"]["deletionTimestamp"]
        assert left["spec"] == binding["spec"]
        assert (await fleet.placement(key))["metadata"]["finalizers"] == [FOREIGN]

    # They never get a binding again, whatever happens.
    await fleet.join("b")
    for key in ("web", f"{NS}/web"):
        await fleet.annotate(key, generation="2")
        await fleet.settled()
        assert await fleet.states(key) == {"a": "Terminating"}


@on_stage(controllers=ONLY_SCHEDULER)
async def test_a_binding_loses_its_finalizer_before_it_is_deleted(fleet: Stage) -> None:
    await fleet.join("a")
    await fleet.place("web")
    await fleet.snapshot("web", None)
    await fleet.settled()
    fleet.overheard.requests.clear()

    await fleet.woken_by(fleet.delete(CLUSTER_SCOPED.placement, "web"))

    assert fleet.overheard.writes() == [
        ("PATCH", BINDINGS),
        ("DELETE", BINDINGS),
        ("PUT", "clusterresourceplacements"),
    ]


@story
async def test_what_began_to_be_deleted_while_nobody_worked_is_finished_at_the_start(hub: Hub) -> None:
    async with stage(hub, controllers=()) as fleet:
        await fleet.namespace(NS)
        for key in ("web", f"{NS}/web"):
            flavour = find_scope(key)
            await fleet.place(key)
            await fleet.patch(flavour.placement, key, {"metadata": {"finalizers": [SCHEDULER_CLEANUP]}})
            await fleet.snapshot(key, None)
            await fleet.written_binding(key, "a", name="web-a-0b1c2d3e")
            await fleet.delete(flavour.placement, key)
            # Of a placement that nobody knows.
            await fleet.written_binding(key.replace("web", "ghost"), "a", name="ghost-a-0b1c2d3e")
            await fleet.delete(flavour.binding, key.replace("web", "ghost-a-0b1c2d3e"))
    async with stage(hub, controllers=ONLY_SCHEDULER) as fleet:
        for flavour in (CLUSTER_SCOPED, NAMESPACED):
            for resource in (flavour.placement, flavour.binding):
                await soon(lambda resource=resource: none_left(fleet, resource))


# --- bindings ---------------------------------------------------------------------------------------------------------


@on_stage(controllers=ONLY_SCHEDULER)
async def test_a_binding_that_goes_takes_our_finalizer_along_without_a_decision(fleet: Stage) -> None:
    """Nobody waits for a cycle, not even where none is possible."""
    await fleet.join("a")
    await fleet.place("web")
    await fleet.snapshot("web", pick_n(1))
    await fleet.soon_on("web", "a")
    await fleet.settled()
    await fleet.mark("web", 0, latest="false")
    (binding,) = await fleet.bindings("web")

    await fleet.delete(CLUSTER_SCOPED.binding, key_in(binding))

    await soon(lambda: none_left(fleet, CLUSTER_SCOPED.binding))
    await fleet.settled()
    assert fleet.count("fleet_scheduler_binding_writes_total", operation="finalizer", result="written") == 1


# --- names ------------------------------------------------------------------------------------------------------------


@on_stage(controllers=ONLY_SCHEDULER)
async def test_names_that_others_hold(fleet: Stage) -> None:
    """By a binding of another placement, and the name after that by one for another cluster."""
    await fleet.namespace(NS)
    await fleet.join("a")
    for key in ("web", f"{NS}/web"):
        uid = (await fleet.place(key))["metadata"]["uid"]
        name = f"web-a-{suffix(uid, 'a')}"
        foreign = await fleet.written_binding(key.replace("web", "other"), "a", name=name, state="Bound")
        second = f"web-a-{suffix(uid, 'a', foreign['metadata']['uid'])}"
        misnamed = await fleet.written_binding(key, "z", name=second, state="Unscheduled")
        third = f"web-a-{suffix(uid, 'a', misnamed['metadata']['uid'])}"

        await fleet.snapshot(key, pick_n(1))
        await fleet.soon_on(key, "a")
        await fleet.settled()

        assert by_cluster(await fleet.bindings(key))["a"]["metadata"]["name"] == third
        for held in (foreign, misnamed):
            assert await fleet.get(find_scope(key).binding, key_in(held)) == held


def suffix(*parts: str) -> str:
    return hashlib.sha256("/".join(parts).encode()).hexdigest()[:8]


# --- what another scheduler left --------------------------------------------------------------------------------------


@on_stage(controllers=ONLY_SCHEDULER)
async def test_bindings_of_another_scheduler_are_taken_over_as_they_are(fleet: Stage) -> None:
    """Its names, its annotations, foreign labels and finalizers; one cluster twice; one without a remembered state."""
    await fleet.join_all({name: {} for name in "abcde"})
    await fleet.place("web")
    annotated = {"annotations": {"example.com/by": "hand"}, "labels": {"kubernetes-fleet.io/parent-CRP": "web"}}
    stale = {"annotations": {PREVIOUS_BINDING_STATE: "Bound"}}
    await fleet.written_binding("web", "e", name="web-e-zzzzzzzz", state="Bound", metadata=annotated)
    await fleet.written_binding("web", "d", name="web-d-11111111", metadata=stale)
    await fleet.written_binding("web", "d", name="web-d-22222222", state="Bound")
    await fleet.written_binding("web", "c", name="web-c-11111111", state="Unscheduled")
    await fleet.written_binding("web", "gone", name="web-gone-11111111", state="Bound")
    before = {one["metadata"]["name"]: one for one in await fleet.bindings("web")}

    await fleet.snapshot("web", pick_n(3))
    await fleet.soon_on("web", "c", "d", "e")
    await fleet.settled()

    after = {one["metadata"]["name"]: one for one in await fleet.bindings("web")}
    assert after.keys() == before.keys()
    assert {name: one["spec"]["state"] for name, one in after.items()} == {
        "web-e-zzzzzzzz": "Bound",
        "web-d-11111111": "Unscheduled",
        "web-d-22222222": "Bound",
        "web-c-11111111": "Scheduled",
        "web-gone-11111111": "Unscheduled",
    }
    assert [name for name in after if after[name] == before[name]] == ["web-d-22222222", "web-e-zzzzzzzz"]
    assert remembered(after["web-d-11111111"]) == "Scheduled"
    assert remembered(after["web-gone-11111111"]) == "Bound"
    status = await fleet.read_by("web")
    assert [one["clusterName"] for one in status["targetClusters"] if one["selected"]] == ["c", "d", "e"]
    assert condition(status)["message"].endswith("found 3 cluster(s)")


@story
async def test_what_the_rollout_and_others_write_on_a_binding_survives(hub: Hub) -> None:
    """Through unscheduling, reviving and refreshing."""
    foreign = {
        "metadata": {
            "labels": {"example.com/colour": "blue"},
            "annotations": {"example.com/by": "hand"},
            "finalizers": [SCHEDULER_BINDING_CLEANUP, WORK_CLEANUP],
        },
        "spec": {
            "state": "Bound",
            "resourceSnapshotName": "web-0-snapshot",
            "applyStrategy": {"type": "ClientSideApply"},
        },
    }
    async with stage(hub, controllers=ONLY_SCHEDULER) as fleet:
        await fleet.join("a")
        await fleet.place("web")
        await fleet.snapshot("web", pick_n(1))
        await fleet.soon_on("web", "a")
        await fleet.settled()
        (made,) = await fleet.bindings("web")
        written = await fleet.patch(CLUSTER_SCOPED.binding, key_in(made), foreign)

        await fleet.annotate("web", count="0")
        await fleet.settled()
        (unscheduled,) = await fleet.bindings("web")
        assert unscheduled["spec"] == written["spec"] | {"state": "Unscheduled"}
        assert without_versions(unscheduled) == with_annotation(written, PREVIOUS_BINDING_STATE, "Bound")

        await fleet.mark("web", 0, latest="false")
        await fleet.snapshot("web", pick_n(1), index=1)
        await fleet.soon_on("web", "a")
        await fleet.settled()
        (revived,) = await fleet.bindings("web")
        assert revived["spec"] == written["spec"] | {"schedulingPolicySnapshotName": "web-1"}
        assert without_versions(revived) == without_versions(written)

        await fleet.mark("web", 1, latest="false")
        await fleet.snapshot("web", {"placementType": "PickFixed", "clusterNames": ["a"]}, index=2)
        await fleet.settled()
        (refreshed,) = await fleet.bindings("web")
        decision = {
            "clusterName": "a",
            "selected": True,
            "reason": 'Successfully scheduled resources for placement in "a": picked by scheduling policy',
        }
        named = {"schedulingPolicySnapshotName": "web-2", "clusterDecision": decision}
        assert refreshed["spec"] == written["spec"] | named
        assert without_versions(refreshed) == without_versions(written)


def without_versions(binding: Json) -> Json:
    changing = {"resourceVersion", "generation", "managedFields"}
    return {name: value for name, value in binding["metadata"].items() if name not in changing}


def with_annotation(binding: Json, name: str, value: str) -> Json:
    metadata = without_versions(binding)
    return {**metadata, "annotations": {**metadata["annotations"], name: value}}


def remembered(binding: Json) -> str:
    return str(binding["metadata"]["annotations"][PREVIOUS_BINDING_STATE])
