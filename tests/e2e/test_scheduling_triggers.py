"""What makes the scheduler look at a placement again, and what does not: every kind of change, every kind of placement.

Of each kind of placement there is one that has all it wants and one that lacks clusters. A change is made, and which of
them were attempted is compared as a whole, so whoever is not in the set was left alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from fleet.kube.resource import STATUS
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS, find_scope
from fleet.model.keys import SCHEDULER_CLEANUP
from tests.e2e.scheduling import (
    FOREIGN,
    ONLY_SCHEDULER,
    Hub,
    Json,
    Stage,
    key_in,
    on_stage,
    stage,
    story,
    versions,
)
from tests.oracle.example_fleet import affinity, pick_n

TOKENS: Final = "example.com/tokens"
NS: Final = "e2e-triggers"
EVERY_READER: Final = "queue.hints=false"
"""Who reads what changed decides again, whatever the change is."""


def reading(**policy: object) -> Json:
    """A policy that reads a label, a property and free CPUs."""
    conditions = [
        {"name": TOKENS, "operator": "Ge", "values": ["1"]},
        {"name": "resources.kubernetes-fleet.io/available-cpu", "operator": "Ge", "values": ["1"]},
    ]
    term = {"labelSelector": {"matchLabels": {"env": "prod"}}, "propertySelector": {"matchExpressions": conditions}}
    return {**policy, "affinity": affinity(required=[term])}


POLICIES: Final[dict[str, Json | None]] = {
    "all": reading(placementType="PickAll"),
    "anything": None,
    "n-has-all": reading(**pick_n(1)),
    "n-lacks": reading(**pick_n(9)),
    "fixed-has-all": {"placementType": "PickFixed", "clusterNames": ["ready"]},
    "fixed-lacks": {"placementType": "PickFixed", "clusterNames": ["ready", "silent"]},
    "fixed-lacks-another": {"placementType": "PickFixed", "clusterNames": ["ready", "nowhere"]},
    f"{NS}/all": {"placementType": "PickAll"},
    f"{NS}/n-has-all": pick_n(1),
    f"{NS}/n-lacks": pick_n(9),
}
READERS: Final = {"all", "n-lacks"}
UNFUSSY: Final = {"anything", f"{NS}/all", f"{NS}/n-lacks"}
"""They read nothing, except taints, the own namespace, and whether a cluster is eligible."""
EVERYBODY: Final = set(POLICIES)


async def every_kind_of_placement(fleet: Stage, policies: Iterable[str] = POLICIES) -> None:
    await fleet.namespace(NS)
    await fleet.join("ready", labels={"env": "prod"}, **good())
    await fleet.join("poor", labels={"env": "test"}, properties={TOKENS: "0"}, available={"cpu": "0"}, namespaces=())
    await fleet.join("silent", labels={"env": "prod"}, silent_for=3600, **good())
    await fleet.taint("poor", TAINT, OTHER_TAINT)
    for key in policies:
        await fleet.place(key)
        await fleet.snapshot(key, POLICIES[key])
    await fleet.settled()
    assert {key: await is_fulfilled(fleet, key) for key in policies} == {key: "lacks" not in key for key in policies}


def good(**changes: object) -> dict[str, object]:
    return {"properties": {TOKENS: "5"}, "available": {"cpu": "4"}, "namespaces": (NS,), **changes}


async def is_fulfilled(fleet: Stage, key: str) -> bool:
    (condition,) = (await fleet.read_by(key))["conditions"]
    return bool(condition["status"] == "True")


TAINT: Final = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
OTHER_TAINT: Final = {"key": "edge", "effect": "NoSchedule"}

Change = Callable[[Stage], Awaitable[object]]


def report(cluster: str, **status: object) -> Change:
    return lambda fleet: fleet.report(cluster, **status)


def patch_status(cluster: str, **status: object) -> Change:
    return lambda fleet: fleet.patch(MEMBER_CLUSTERS, cluster, {"status": status}, subresource=STATUS)


def usage(cpu: str) -> Json:
    return {kind: {"cpu": cpu} for kind in ("capacity", "allocatable", "available")}


# --- member clusters --------------------------------------------------------------------------------------------------


@on_stage(EVERY_READER, controllers=ONLY_SCHEDULER)
async def test_a_cluster_that_becomes_eligible(fleet: Stage) -> None:
    """By a heartbeat after a long silence, by being seen for the first time, and by joining."""
    await every_kind_of_placement(fleet)

    assert await fleet.woken_by(fleet.report("silent", **good())) == READERS | UNFUSSY | {"fixed-lacks"}
    assert await is_fulfilled(fleet, "fixed-lacks")
    assert await fleet.woken_by(fleet.join("new", joined="False")) == set()
    assert await fleet.woken_by(fleet.report("new")) == READERS | UNFUSSY


@on_stage(EVERY_READER, controllers=ONLY_SCHEDULER)
async def test_what_a_policy_reads(fleet: Stage) -> None:
    await every_kind_of_placement(fleet)
    steps: dict[str, tuple[Change, set[str]]] = {
        "a label": (lambda one: one.relabel("poor", env="prod"), READERS),
        "a property": (report("poor", properties={TOKENS: "3"}), READERS),
        "a property that is gone": (patch_status("poor", properties={TOKENS: None}), READERS),
        "free capacity": (patch_status("poor", resourceUsage=usage("4")), READERS),
        "a namespace": (patch_status("poor", namespaces={NS: "work"}), {f"{NS}/all", f"{NS}/n-lacks"}),
        "a taint that is gone": (lambda one: one.taint("poor", TAINT), READERS | UNFUSSY),
        "the last taint": (lambda one: one.taint("poor"), READERS | UNFUSSY),
    }
    woken = {name: await fleet.woken_by(change(fleet)) for name, (change, _) in steps.items()}

    assert woken == {name: expected for name, (_, expected) in steps.items()}


@on_stage(controllers=ONLY_SCHEDULER)
async def test_a_tolerated_taint_that_goes_is_nothing_new(fleet: Stage) -> None:
    await fleet.join("ready", taints=[TAINT, OTHER_TAINT])
    await fleet.place("tolerant")
    await fleet.snapshot("tolerant", {"tolerations": [{"key": "gpu", "operator": "Exists"}]})

    assert await fleet.woken_by(fleet.taint("ready", OTHER_TAINT)) == set()
    assert await fleet.woken_by(fleet.taint("ready")) == {"tolerant"}
    await fleet.soon_on("tolerant", "ready")


@on_stage(controllers=ONLY_SCHEDULER)
async def test_what_helps_nobody(fleet: Stage) -> None:
    """Nothing that only takes away, nothing that nobody reads, nothing that is only said again."""
    await every_kind_of_placement(fleet)
    new_words = {"value": "5", "observationTime": "2026-01-01T00:00:00Z"}
    steps: dict[str, Change] = {
        "a heartbeat": report("ready", **good()),
        "observed again": patch_status("ready", properties={TOKENS: new_words}),
        "the same capacity in other words": patch_status("ready", resourceUsage=usage("4000m")),
        "another owner of a namespace": patch_status("ready", namespaces={NS: "other-work"}),
        "a label nobody reads": lambda one: one.relabel("ready", colour="blue"),
        "a property nobody reads": report("ready", **good(properties={TOKENS: "5", "example.com/unread": "1"})),
        "capacity nobody reads": patch_status("ready", resourceUsage={"available": {"memory": "1Gi"}}),
        "a namespace nobody is in": patch_status("ready", namespaces={"elsewhere": "work"}),
        "a taint": lambda one: one.taint("ready", TAINT),
        "ill health": report("ready", healthy="False", unhealthy_for=3600),
        "silence": report("ready", silent_for=3600),
        "a heartbeat of one that stays ineligible": report("silent", silent_for=1800, **good()),
        "a cluster that is not there yet": lambda one: one.join("new", silent_for=3600),
        "a cluster that starts to leave": lambda one: one.start_leaving("poor"),
        "a label of a leaving cluster": lambda one: one.relabel("poor", env="prod"),
    }
    woken = {name: await fleet.woken_by(change(fleet)) for name, change in steps.items()}

    assert woken == {name: set() for name in steps}
    assert fleet.count("fleet_scheduler_triggers_total", source="MemberCluster", woken="true") == 0


@on_stage(EVERY_READER, controllers=ONLY_SCHEDULER)
async def test_a_cluster_that_is_gone(fleet: Stage) -> None:
    """When it is gone, not when it starts to leave; its bindings are given up by everybody who has one there."""
    await every_kind_of_placement(fleet)

    assert await fleet.woken_by(fleet.start_leaving("ready")) == set()
    assert {key: await fleet.states(key) for key in POLICIES} == {key: {"ready": "Scheduled"} for key in POLICIES}
    assert await fleet.woken_by(fleet.finish_leaving("ready")) == EVERYBODY
    assert {key: await fleet.states(key) for key in POLICIES} == {key: {"ready": "Unscheduled"} for key in POLICIES}


@on_stage(EVERY_READER, controllers=ONLY_SCHEDULER)
async def test_a_namespace_list_that_can_no_longer_be_trusted(fleet: Stage) -> None:
    await fleet.namespace(NS)
    await fleet.join("ready", namespaces=("elsewhere",))
    keys = (f"{NS}/all", f"{NS}/n-lacks", "anything")
    for key in keys:
        await fleet.place(key)
        await fleet.snapshot(key, POLICIES[key])
    await fleet.soon_on("anything", "ready")
    cut = {"type": "NamespaceCollectionSucceeded", "status": "False", "reason": "Degraded", "message": ""}
    cut["lastTransitionTime"] = "2026-01-01T00:00:00Z"

    assert await fleet.woken_by(patch_status("ready", conditions=[cut])(fleet)) == {f"{NS}/all", f"{NS}/n-lacks"}
    await fleet.soon_on(f"{NS}/all", "ready")


# --- snapshots --------------------------------------------------------------------------------------------------------


@story
async def test_snapshots(hub: Hub) -> None:
    """Whether or not the placement has all its clusters."""
    keys = ("all", "anything", "n-has-all", "n-lacks", "fixed-has-all", "fixed-lacks", f"{NS}/all")
    async with stage(hub, controllers=ONLY_SCHEDULER) as fleet:
        await every_kind_of_placement(fleet, keys)
        for key in keys:
            changes = {
                "generation": fleet.annotate(key, generation="2"),
                "count": fleet.annotate(key, count="2"),
                "created, not the latest": fleet.snapshot(key, POLICIES[key], index=1, latest="false"),
                "not the latest any more": fleet.mark(key, 0, latest="false"),
                "the latest": fleet.mark(key, 1, latest="true"),
                "deleted": fleet.delete(find_scope(key).policy_snapshot, f"{key}-0"),
                "another label": fleet.edit_snapshot(key, 1, labels={"colour": "blue"}),
                "a condition": someone_elses_condition(fleet, f"{key}-1"),
                "created as the latest": replace_snapshot(fleet, key),
            }
            woken = {name: await fleet.woken_by(change) for name, change in changes.items()}

            wakes = ("generation", "count", "the latest", "created as the latest")
            assert woken == {name: {key} if name in wakes else set() for name in changes}


async def someone_elses_condition(fleet: Stage, snapshot: str) -> None:
    resource = find_scope(snapshot).policy_snapshot
    found = await fleet.get(resource, snapshot)
    other = {**found["status"]["conditions"][0], "type": "SomebodyElses"}
    found["status"]["conditions"].append(other)
    await fleet.replace(resource, snapshot, found, subresource=STATUS)


async def replace_snapshot(fleet: Stage, key: str) -> None:
    await fleet.mark(key, 1, latest="false")
    await fleet.snapshot(key, POLICIES[key], index=2)


@on_stage(controllers=ONLY_SCHEDULER)
async def test_all_spellings_of_true_wake_but_only_one_is_the_latest(fleet: Stage) -> None:
    await fleet.join("ready")
    await fleet.place("web")

    assert await fleet.woken_by(fleet.snapshot("web", None, latest="True")) == {"web"}
    assert await fleet.states("web") == {}
    assert await fleet.woken_by(fleet.mark("web", 0, latest="true")) == set()
    assert await fleet.woken_by(fleet.annotate("web", generation="2")) == {"web"}
    assert await fleet.states("web") == {"ready": "Scheduled"}


# --- bindings and placements ------------------------------------------------------------------------------------------


@on_stage(controllers=ONLY_SCHEDULER)
async def test_a_binding_that_is_being_deleted(fleet: Stage) -> None:
    await every_kind_of_placement(fleet)
    for key in POLICIES:
        (binding,) = await fleet.bindings(key)
        delete = fleet.delete(find_scope(key).binding, key_in(binding))
        assert await fleet.woken_by(delete) == {key}

        (another,) = await fleet.bindings(key)
        assert another["spec"]["targetCluster"] == "ready"
        assert another["metadata"]["uid"] != binding["metadata"]["uid"]


@on_stage(controllers=ONLY_SCHEDULER)
async def test_other_changes_of_a_binding(fleet: Stage) -> None:
    """What the rollout and others write is their business."""
    await every_kind_of_placement(fleet, ("all", "n-lacks"))

    assert await fleet.woken_by(fleet.bind("all", "ready")) == set()
    assert await fleet.woken_by(fleet.bind("n-lacks", "ready")) == set()
    (binding,) = await fleet.bindings("n-lacks")
    label = {"metadata": {"labels": {"colour": "blue"}}}
    assert await fleet.woken_by(fleet.patch(CLUSTER_SCOPED.binding, binding["metadata"]["name"], label)) == set()


@on_stage(controllers=ONLY_SCHEDULER)
async def test_placements(fleet: Stage) -> None:
    """Neither their creation nor edits count, only that they are being deleted."""
    await fleet.namespace(NS)
    await fleet.join("ready")
    assert await fleet.woken_by(fleet.place("web", pick_n(1))) == set()
    assert await fleet.woken_by(fleet.edit_policy("web", numberOfClusters=2)) == set()
    await fleet.snapshot("web", pick_n(2))
    await fleet.soon_on("web", "ready")
    kept = (await fleet.placement("web"))["metadata"]["finalizers"]
    assert SCHEDULER_CLEANUP in kept

    keep = {"metadata": {"finalizers": [*kept, FOREIGN]}}
    assert await fleet.woken_by(fleet.patch(CLUSTER_SCOPED.placement, "web", keep)) == set()
    assert await fleet.woken_by(fleet.delete(CLUSTER_SCOPED.placement, "web")) == {"web"}
    assert (await fleet.placement("web"))["metadata"]["finalizers"] == [FOREIGN]
    assert await fleet.bindings("web") == []


@on_stage(controllers=ONLY_SCHEDULER)
async def test_a_placement_that_is_being_deleted_is_cleaned_up(fleet: Stage) -> None:
    await every_kind_of_placement(fleet)
    for key in POLICIES:
        assert await fleet.woken_by(fleet.delete(find_scope(key).placement, key)) == {key}
        assert await fleet.find(find_scope(key).placement, key) is None
        assert await fleet.bindings(key) == []


# --- quiet ------------------------------------------------------------------------------------------------------------


@on_stage(EVERY_READER, controllers=ONLY_SCHEDULER)
async def test_Q_29_an_attempt_that_changes_nothing_writes_nothing(fleet: Stage) -> None:
    await every_kind_of_placement(fleet)
    before = {key: versions(await fleet.bindings(key)) for key in POLICIES}
    fleet.overheard.requests.clear()

    # A label that comes and goes: everybody who reads it decides again, with the same outcome.
    assert await fleet.woken_by(fleet.relabel("poor", env="prod")) == READERS
    assert await fleet.woken_by(fleet.relabel("poor", env="test")) == READERS

    assert [one for one in fleet.overheard.requests if one.is_write] == []
    assert {key: versions(await fleet.bindings(key)) for key in POLICIES} == before


@story
async def test_a_hub_full_of_decisions_is_taken_over_without_a_write(hub: Hub) -> None:
    async with stage(hub, controllers=ONLY_SCHEDULER) as before:
        await every_kind_of_placement(before)
        await before.settled()
    async with stage(hub, controllers=ONLY_SCHEDULER) as after:
        await after.settled()

        assert {str(one.key) for one in after.notebook.attempts} == EVERYBODY
        assert [one for one in after.overheard.requests if one.is_write] == []
