"""What the scheduler tells people and Prometheus about its work, and when it works at all."""

from __future__ import annotations

from typing import Final

from fleet.kube.api import Request
from tests.e2e.scheduling import ONLY_SCHEDULER, Hub, Json, Stage, on_stage, refusing, soon, stage, story, versions
from tests.e2e.world import EVENTS
from tests.oracle.example_fleet import RATING, affinity, labelled, pick_n

NS: Final = "e2e-reports"
INCOMPLETE: Final = "1/4 clusters selected, need 4: 2 already selected; 1 no affinity term matched"

# --- events -----------------------------------------------------------------------------------------------------------


@on_stage()
async def test_events_say_what_changed_and_what_is_missing(fleet: Stage) -> None:
    await fleet.namespace(NS)
    await fleet.join_all({name: {"env": "prod"} for name in "abc"})
    await fleet.join("d", labels={"env": "test"})
    for key in ("web", f"{NS}/web"):
        told = Listener(fleet, key)
        await fleet.place(key, pick_n(2, affinity=affinity(required=[labelled(env="prod")])))
        await fleet.decided(key)
        assert await told.now() == {("Normal", "SchedulingChanged", "added b, c")}

        await fleet.edit_policy(key, numberOfClusters=4)
        await fleet.decided(key)
        assert await told.now() == {
            ("Normal", "SchedulingChanged", "added a"),
            ("Warning", "SchedulingIncomplete", INCOMPLETE),
        }

        await fleet.nudge(key)
        await fleet.decided(key)
        assert await told.now() == set()

        await fleet.edit_policy(key, numberOfClusters=1)
        await fleet.decided(key)
        assert await told.now() == {("Normal", "SchedulingChanged", "removed a, b")}

        await fleet.set_policy(key, pick_n(1, affinity=affinity(required=[labelled(env="test")])))
        await fleet.decided(key)
        assert await told.now() == {("Normal", "SchedulingChanged", "added d; removed c")}


class Listener:
    """What was told about a placement since the last question."""

    def __init__(self, fleet: Stage, key: str) -> None:
        self._fleet = fleet
        self._key = key
        self._known: set[tuple[str, str, str]] = set()

    async def now(self) -> set[tuple[str, str, str]]:
        await self._fleet.all_told()
        told = set(await self._fleet.told(self._key))
        new = told - self._known
        self._known = told
        return new


@story
async def test_an_unreadable_property_is_told_again_only_when_it_changes(hub: Hub) -> None:
    wanted = {"propertySelector": {"matchExpressions": [{"name": RATING, "operator": "Ge", "values": ["5"]}]}}
    # A value that cannot be read helps nobody, so by default nobody is woken by another one.
    async with stage(hub, "queue.hints=false", controllers=ONLY_SCHEDULER) as fleet:
        await fleet.join("a", properties={RATING: "high"})
        await fleet.place("web")
        await fleet.snapshot("web", {"placementType": "PickAll", "affinity": affinity(required=[wanted])})
        assert await warnings(fleet, "web") == 1
        assert await fleet.woken_by(fleet.report("a", properties={RATING: "higher"})) == {"web"}
        assert await warnings(fleet, "web") == 1

        assert await fleet.woken_by(fleet.report("a", properties={RATING: "5"})) == {"web"}
        await fleet.soon_on("web", "a")
        await fleet.leave("a")
        await fleet.join("a", properties={RATING: "high"})
        assert await warnings(fleet, "web") == 2
        assert fleet.count("fleet_scheduler_unreadable_properties_total", property=RATING) >= 3


async def warnings(fleet: Stage, placement: str) -> int:
    await fleet.settled()
    await fleet.all_told()
    found = await fleet.all(EVENTS, namespace="default")
    uid = (await fleet.placement(placement))["metadata"]["uid"]
    about = [one for one in found if one["involvedObject"].get("uid") == uid]
    return sum(one["count"] for one in about if one["reason"] == "ClusterPropertyUnreadable")


# --- metrics ----------------------------------------------------------------------------------------------------------


@on_stage(controllers=ONLY_SCHEDULER)
async def test_what_was_written_is_counted(fleet: Stage) -> None:
    await fleet.join_all({name: {} for name in "abc"})
    await fleet.join("silent", silent_for=3600)
    await fleet.place("web")
    await fleet.snapshot("web", pick_n(2))
    await fleet.settled()
    await fleet.annotate("web", count="1")
    await fleet.settled()
    await fleet.annotate("web", count="3")
    await fleet.settled()

    written = "fleet_scheduler_binding_writes_total"
    assert {name: fleet.count(written, operation=name, result="written") for name in WRITES} == WRITES
    assert fleet.count("fleet_scheduler_status_writes_total", result="written") == 3
    assert fleet.count("fleet_schedule_attempts_total", result="scheduled", profile="DefaultProfile") == 3
    assert fleet.count("fleet_scheduler_filtered_clusters_total", plugin="ClusterEligibility") == 2
    cycles = "scheduling_cycle_duration_milliseconds_count"
    assert fleet.count(cycles, is_failed="false", needs_requeue="false") == 3
    assert fleet.count("scheduling_active_workers") == 0
    triggers = "fleet_scheduler_triggers_total"
    assert fleet.count(triggers, source="ClusterSchedulingPolicySnapshot", woken="true") == 3


WRITES: Final = {"create": 3, "unschedule": 1, "revive": 1, "refresh": 0, "finalizer": 0}


# --- failures ---------------------------------------------------------------------------------------------------------


def is_status(request: Request) -> bool:
    return request.is_write and request.path.endswith("/status")


def is_second_binding(request: Request) -> bool:
    return request.is_write and b'"targetCluster":"b"' in (request.body or b"")


@on_stage(controllers=ONLY_SCHEDULER)
async def test_what_failed_is_tried_again_until_it_works(fleet: Stage) -> None:
    """First one of two bindings cannot be written, then the status: what is there by then is not written again."""
    await fleet.join_all({"a": {}, "b": {}})
    await fleet.place("web")
    fleet.overheard.before = refusing(is_second_binding)
    await fleet.snapshot("web", pick_n(2))
    await soon(lambda: failed(fleet, "transient", 2))
    assert await fleet.states("web") == {"a": "Scheduled"}
    assert await fleet.read_by("web") == {}
    first = versions(await fleet.bindings("web"))

    fleet.overheard.before = refusing(is_status)
    await fleet.soon_on("web", "a", "b")
    tried = fleet.count("fleet_scheduler_requeues_total", **{"class": "transient"})
    await soon(lambda: failed(fleet, "transient", tried + 2))
    assert await fleet.read_by("web") == {}

    fleet.overheard.before = refusing(lambda _: False)
    await fleet.settled()
    assert (await fleet.soon_scheduled("web"))["message"].endswith("found 2 cluster(s)")
    assert first.items() <= versions(await fleet.bindings("web")).items()
    assert fleet.count("fleet_scheduler_binding_writes_total", operation="create", result="written") == 2


async def failed(fleet: Stage, kind: str, count: float) -> bool:
    return fleet.count("fleet_scheduler_requeues_total", **{"class": kind}) >= count


# --- batches ----------------------------------------------------------------------------------------------------------


@on_stage("queue.mode=batched", "queue.batchPeriod=1h", controllers=ONLY_SCHEDULER)
async def test_in_batched_mode_changes_of_clusters_wait_and_edits_do_not(fleet: Stage) -> None:
    for key in ("web", "other"):
        await fleet.place(key)
        await fleet.snapshot(key, None)
    await fleet.settled()
    before = len(fleet.notebook.attempts)
    await fleet.join_all({"a": {}, "b": {}})
    await soon(fleet.has_seen_everything)
    assert await waiting(fleet, 2)
    assert len(fleet.notebook.attempts) == before

    await fleet.annotate("web", generation="2")
    await soon(lambda: attempted(fleet, before + 1))
    assert await waiting(fleet, 1)
    (attempt,) = fleet.notebook.attempts[before:]
    assert set(attempt.triggers) == {
        "ClusterSchedulingPolicySnapshot/UpdateGeneration web-0",
        "MemberCluster/UpdateHealth a",
        "MemberCluster/UpdateHealth b",
    }
    assert await fleet.in_use("web") == {"a", "b"}
    assert await fleet.states("other") == {}

    assert fleet.controller.scheduler is not None
    fleet.controller.scheduler.queue.flush_batch()
    await fleet.soon_on("other", "a", "b")


async def attempted(fleet: Stage, count: int) -> bool:
    return len(fleet.notebook.attempts) >= count


async def waiting(fleet: Stage, count: int) -> bool:
    assert fleet.controller.scheduler is not None
    return fleet.controller.scheduler.queue.count_items().batched == count


# --- settings ---------------------------------------------------------------------------------------------------------


@on_stage("resourcePlacements.enabled=false", controllers=ONLY_SCHEDULER)
async def test_a_hub_without_namespaced_placements(fleet: Stage) -> None:
    await fleet.namespace(NS)
    await fleet.join("a")
    await fleet.place(f"{NS}/web")
    await fleet.snapshot(f"{NS}/web", None)
    await fleet.place("web")
    await fleet.snapshot("web", None)
    await fleet.soon_on("web", "a")
    await fleet.settled()

    assert {str(one.key) for one in fleet.notebook.attempts} == {"web"}
    assert not any("/resourceplacements" in one.path for one in fleet.overheard.requests)


@story
async def test_settings_that_change_decisions(hub: Hub) -> None:
    """Each as far as it can be seen from outside."""
    settings = ("eligibility.heartbeatTimeout=2h", "spread.missingKey=Exclude", "downscale.order=SpreadAware")
    regions: dict[str, Json] = {"a": {"region": "east"}, "b": {"region": "east"}, "c": {"region": "west"}, "d": {}}
    async with stage(hub, *settings, controllers=ONLY_SCHEDULER) as fleet:
        for name, labels in regions.items():
            await fleet.join(name, labels=labels, silent_for=3600)
        await fleet.place("web")
        spread = {"topologyKey": "region", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
        await fleet.snapshot("web", pick_n(3, topologySpreadConstraints=[spread]))
        await fleet.soon_on("web", "a", "b", "c")
        await fleet.settled()
        refused = [one["reason"] for one in (await fleet.read_by("web"))["targetClusters"] if not one["selected"]]
        assert refused == ['ClusterUnschedulable, cluster has no value for topology key "region"']

        await fleet.annotate("web", count="2")
        await fleet.settled()
        assert await fleet.in_use("web") == {"b", "c"}
