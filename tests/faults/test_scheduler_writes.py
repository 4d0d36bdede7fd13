"""Every request of a placement's attempt, and of its clean-up, meets every fault in turn; attempts follow until one
succeeds. What is there in the end is the same as without the fault, and no rule is broken on the way.
"""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
import pytest

from fleet.errors import FleetError
from fleet.framework.cycle.cycle import decide
from fleet.framework.cycle.decision import Decision
from fleet.framework.operations import Action, build_binding_name
from fleet.kube.api import Request
from fleet.model.keys import (
    BOUND,
    IS_LATEST_SNAPSHOT,
    PARENT_PLACEMENT,
    PLACEMENT_CLEANUP,
    PREVIOUS_BINDING_STATE,
    SCHEDULED,
    SCHEDULER_BINDING_CLEANUP,
    SCHEDULER_CLEANUP,
    UNSCHEDULED,
    WORK_CLEANUP,
)
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.dispatch.binding_calls import raise_failure
from fleet.scheduler.dispatch.status_calls import StatusWriter
from plugins.default_profile import compile_default
from tests.builders import NOW, OLD_SNAPSHOT, SNAPSHOT, UID, PolicyBuilder, a_cluster, a_frame, a_policy, label
from tests.doubles import inputs
from tests.fake_hub import (
    CONFLICT,
    DELETED_AT,
    GROUP,
    INTERNAL,
    LATE,
    LOST,
    TIMEOUT,
    TOO_MANY,
    UNAVAILABLE,
    UNREACHABLE,
    FakeHub,
    Fault,
    Json,
    Lost,
    Refused,
)
from tests.faults.virtual import VirtualClock, run_virtually
from tests.unit.scheduler.desk import a_document, path_of
from tests.unit.scheduler.site import PATIENCE, Site, a_site

PLACEMENT = f"{GROUP}/clusterresourceplacements/web"
POLICY_SNAPSHOT = f"{GROUP}/clusterschedulingpolicysnapshots/{SNAPSHOT}"
WANTED = 4
PROFILE = compile_default()
FRAME = a_frame(*(a_cluster(f"c{n}").labelled(fit="yes" if n <= WANTED else "no") for n in range(1, 7)))
MOST_ATTEMPTS = 4
BACK_OFF = 0.5

FAULTS: list[Refused | Lost] = [
    Refused(CONFLICT),
    Refused(TOO_MANY),
    Refused(UNREACHABLE),
    *(kind(error) for kind in (Refused, Lost) for error in (INTERNAL, UNAVAILABLE, TIMEOUT, LATE, LOST)),
]


def named(fault: Refused | Lost) -> str:
    return f"{type(fault.error).__name__} {type(fault).__name__.lower()}"


# --- a hub that watches over the rules --------------------------------------------------------------------------------


class Killed(Exception):
    """The process is gone; nothing it asks for happens any more."""


@dataclass
class Hub(FakeHub):
    """Each request has a number, and those in `script` meet a fault."""

    script: dict[int, Refused | Lost] = field(default_factory=dict)
    dead: bool = False

    def __post_init__(self) -> None:
        self.fault = self._fault_of

    def _store(self, path: str, document: Json) -> Json:
        stored = super()._store(path, document)
        self._check_rules()
        return stored

    def restart(self) -> None:
        self.dead = False
        self.script.clear()

    def final(self) -> Json:
        """Everything, but for what depends on how many writes and attempts it took.

        Why clusters were not picked is published by the attempt that picks: one that finds the bindings in place has
        nothing to say about others, and lists the selected in another order.
        """
        state = copy.deepcopy(self.objects)
        for document in state.values():
            del document["metadata"]["resourceVersion"], document["metadata"]["uid"]
            status = document.get("status", {})
            for condition in status.get("conditions", []):
                del condition["lastTransitionTime"]
            if clusters := status.get("targetClusters"):
                selected = [one for one in clusters if one["selected"]]
                status["targetClusters"] = sorted(selected, key=lambda one: one["clusterName"])
        return state

    def _fault_of(self, request: Request) -> Fault:
        if self.dead:
            return Refused(Killed())
        fault = self.script.get(len(self.requests) - 1)
        if fault is not None and isinstance(fault.error, Killed):
            self.dead = True
        if isinstance(fault, Refused) and fault.error is CONFLICT and not request.is_write:
            return None
        return fault

    def _check_rules(self) -> None:
        bindings = [one for path, one in self.objects.items() if path.startswith(path_of(""))]
        live = [one for one in bindings if "deletionTimestamp" not in one["metadata"]]
        in_use = [one["spec"] for one in live if one["spec"]["state"] in (SCHEDULED, BOUND)]
        current = [one for one in in_use if one["schedulingPolicySnapshotName"] == SNAPSHOT]
        assert max(Counter(one["targetCluster"] for one in in_use).values(), default=0) <= 1
        assert len(current) <= WANTED


def policy() -> PolicyBuilder:
    return a_policy().pick_n(WANTED).require(label("fit", "In", "yes"))


def a_hub() -> Hub:
    """Every operation there is waits to be done, among them a create whose name is taken."""
    hub = Hub()
    hub.put(PLACEMENT, {"metadata": {"uid": UID, "finalizers": [PLACEMENT_CLEANUP]}, "spec": {"unknown": 1}})
    snapshot = msgspec.to_builtins(policy().snapshot())
    snapshot["metadata"]["labels"][IS_LATEST_SNAPSHOT] = "true"
    hub.put(POLICY_SNAPSHOT, snapshot)
    noted = {PREVIOUS_BINDING_STATE: BOUND}
    held = [SCHEDULER_BINDING_CLEANUP, WORK_CLEANUP]
    taken = build_binding_name(placement="web", placement_uid=UID, cluster="c3")
    for name, document in {
        "refreshed": a_document("c1", state=BOUND, snapshot=OLD_SNAPSHOT),
        "revived": a_document("c2", state=UNSCHEDULED, snapshot=OLD_SNAPSHOT, annotations=noted),
        taken: a_document("c3", snapshot=OLD_SNAPSHOT, deleted=True, finalizers=held, uid="holder"),
        "left": a_document("c5", state=BOUND, snapshot=OLD_SNAPSHOT),
        "dangling": a_document("gone", snapshot=OLD_SNAPSHOT),
        "leaving": a_document("c6", snapshot=OLD_SNAPSHOT, deleted=True),
    }.items():
        hub.put(path_of(name), document)
    return hub


# --- attempts ---------------------------------------------------------------------------------------------------------


def decided(bindings: list[Any], previous: Any) -> Decision:
    views = [one.view for one in bindings]
    return decide(inputs(FRAME, policy(), *views, profile=PROFILE, now=NOW, previous=previous))


async def attempt(site: Site) -> None:
    kinds = site.kinds
    placement = await kinds.placements.objects.get("web")
    assert await site.cleanup.add_finalizer(kinds, placement)
    bindings = await site.writer.list_live(kinds, PlacementKey("", "web"))
    snapshot = await kinds.policy_snapshots.objects.get(SNAPSHOT)
    decision = decided(bindings, snapshot.view.status)
    raise_failure(await site.writer.write_operations(kinds, decision.request, decision.operations))
    assert decision.published is not None
    statuses = StatusWriter(dispatcher=site.dispatcher, retry_policy=PATIENCE, clock=VirtualClock())
    await statuses.write_status(kinds, snapshot, decision.published)


async def clean_up(site: Site) -> None:
    placement = await site.kinds.placements.objects.get("web")
    await site.cleanup.clean_up(site.kinds, placement)


Work = Callable[[Site], Coroutine[Any, Any, None]]


def until_done(hub: Hub, work: Work) -> int:
    """How many attempts it takes. A process that was killed is followed by another, which knows nothing."""

    async def process(attempts: Iterator[int]) -> int:
        async with a_site(hub) as site:
            for number in attempts:
                try:
                    await work(site)
                except FleetError:
                    await asyncio.sleep(BACK_OFF)
                except Killed:
                    break
                else:
                    return number
        hub.restart()
        return 0

    attempts = iter(range(1, MOST_ATTEMPTS + 1))
    for _ in range(2):
        if done := run_virtually(process(attempts)):
            return done
    raise AssertionError("the work is never done")


def undisturbed(hub: Hub, work: Work) -> tuple[int, Json]:
    assert until_done(hub, work) == 1
    return len(hub.requests), hub.final()


# --- the runs ---------------------------------------------------------------------------------------------------------


def test_undisturbed_everything_is_done_in_one_attempt() -> None:
    hub = a_hub()
    until_done(hub, attempt)
    states = {path.rpartition("/")[2]: one["spec"] for path, one in hub.objects.items() if path.startswith(path_of(""))}
    fallback = build_binding_name(placement="web", placement_uid=UID, cluster="c3", holder_uid="holder")
    c4 = build_binding_name(placement="web", placement_uid=UID, cluster="c4")
    taken = build_binding_name(placement="web", placement_uid=UID, cluster="c3")
    assert {name: one["state"] for name, one in states.items()} == {
        "refreshed": BOUND,
        "revived": BOUND,
        "left": UNSCHEDULED,
        "dangling": UNSCHEDULED,
        taken: SCHEDULED,
        fallback: SCHEDULED,
        c4: SCHEDULED,
    }
    assert hub.objects[path_of(taken)]["metadata"]["finalizers"] == [WORK_CLEANUP]
    assert [one["clusterName"] for one in hub.objects[POLICY_SNAPSHOT]["status"]["targetClusters"] if one["selected"]]


def test_a_second_attempt_changes_nothing_and_writes_nothing() -> None:
    hub = a_hub()
    until_done(hub, attempt)
    before = len(hub.writes())
    until_done(hub, attempt)
    assert hub.writes()[before:] == []


@pytest.mark.parametrize("fault", FAULTS, ids=named)
def test_a_fault_at_any_request_of_an_attempt_leaves_no_trace(fault: Refused | Lost) -> None:
    requests, want = undisturbed(a_hub(), attempt)
    for position in range(requests):
        hub = a_hub()
        hub.script = {position: fault}
        until_done(hub, attempt)
        assert hub.final() == want, f"after a fault at {hub.requests[position]}"


@pytest.mark.parametrize("fault", [Refused(Killed()), Lost(Killed())], ids=["before", "after"])
def test_a_process_killed_at_any_request_is_followed_by_one_that_finishes(fault: Refused | Lost) -> None:
    requests, want = undisturbed(a_hub(), attempt)
    for position in range(requests):
        hub = a_hub()
        hub.script = {position: fault}
        until_done(hub, attempt)
        assert hub.final() == want, f"after the end at {hub.requests[position]}"


@pytest.mark.parametrize("fault", FAULTS, ids=named)
def test_two_faults_in_a_row_leave_no_trace_either(fault: Refused | Lost) -> None:
    requests, want = undisturbed(a_hub(), attempt)
    for position in range(requests):
        hub = a_hub()
        hub.script = {position: fault, position + 1: fault}
        until_done(hub, attempt)
        assert hub.final() == want, f"after two faults from {hub.requests[position]} on"


def deleted(hub: Hub) -> Hub:
    hub.edit(PLACEMENT, metadata={"deletionTimestamp": DELETED_AT})
    hub.edit(PLACEMENT, metadata={"finalizers": [PLACEMENT_CLEANUP, SCHEDULER_CLEANUP]})
    return hub


@pytest.mark.parametrize("fault", [*FAULTS, Refused(Killed()), Lost(Killed())], ids=named)
def test_a_fault_at_any_request_of_a_clean_up_leaves_nothing_behind(fault: Refused | Lost) -> None:
    requests, want = undisturbed(deleted(a_hub()), clean_up)
    assert want[PLACEMENT]["metadata"]["finalizers"] == [PLACEMENT_CLEANUP]
    for position in range(requests):
        hub = deleted(a_hub())
        hub.script = {position: fault}
        until_done(hub, clean_up)
        assert hub.final() == want, f"after a fault at {hub.requests[position]}"


# --- others at work ---------------------------------------------------------------------------------------------------


def roll_out(hub: Hub) -> None:
    """What the rollout controller does, at once, for all bindings."""
    for path, document in list(hub.objects.items()):
        if path.startswith(path_of("")) and document["spec"]["state"] == SCHEDULED:
            hub.edit(path, spec={"state": BOUND, "resourceSnapshotName": "web-0-snapshot"})


def test_a_rollout_before_any_write_costs_attempts_and_nothing_else() -> None:
    requests, _ = undisturbed(a_hub(), attempt)
    for position in range(requests):
        hub = a_hub()
        hub.before_write = [*[int] * position, partial(roll_out, hub)]
        until_done(hub, attempt)
        roll_out(hub)
        specs = [one["spec"] for path, one in hub.objects.items() if path.startswith(path_of(""))]
        in_use = [one["targetCluster"] for one in specs if one["schedulingPolicySnapshotName"] == SNAPSHOT]
        assert sorted(in_use) == ["c1", "c2", "c3", "c4"]
        assert hub.objects[path_of("left")]["metadata"]["annotations"] == {PREVIOUS_BINDING_STATE: BOUND}


# --- what is asked for ------------------------------------------------------------------------------------------------

ALLOWED = {
    "PUT clusterresourceplacements/*",
    "PUT clusterschedulingpolicysnapshots/*/status",
    "POST clusterresourcebindings",
    "PATCH clusterresourcebindings/*",
    "DELETE clusterresourcebindings/*",
}


def shapes(hub: Hub) -> set[str]:
    found = set()
    for write in hub.writes():
        plural, *rest = write.split("/")
        found.add("/".join([plural, *("*" for _ in rest[:1]), *rest[1:]]))
    return found


def test_only_verbs_that_the_role_grants_are_used() -> None:
    hub = a_hub()
    until_done(hub, attempt)
    until_done(deleted(hub), clean_up)
    assert shapes(hub) == ALLOWED
    patches = [one for one in hub.requests if one.method == "PATCH"]
    assert {one.content_type for one in patches} == {"application/merge-patch+json"}


def test_every_change_of_an_existing_object_names_the_version_it_was_decided_on() -> None:
    hub = a_hub()
    until_done(hub, attempt)
    changes = [one for one in hub.requests if one.method in ("PATCH", "PUT")]
    assert changes
    assert all(msgspec.json.decode(one.body or b"")["metadata"]["resourceVersion"] for one in changes)


def test_a_new_binding_has_one_label_one_finalizer_and_no_more() -> None:
    hub = a_hub()
    until_done(hub, attempt)
    created = [msgspec.json.decode(one.body or b"") for one in hub.requests if one.method == "POST"]
    assert {one["spec"]["targetCluster"] for one in created} == {"c3", "c4"}
    for one in created:
        assert one["metadata"] == {
            "name": one["metadata"]["name"],
            "labels": {PARENT_PLACEMENT: "web"},
            "finalizers": [SCHEDULER_BINDING_CLEANUP],
        }


def test_all_operations_there_are_take_part() -> None:
    async def actions(site: Site) -> set[Action]:
        bindings = await site.writer.list_live(site.kinds, PlacementKey("", "web"))
        snapshot = await site.kinds.policy_snapshots.objects.get(SNAPSHOT)
        return {one.action for one in decided(bindings, snapshot.view.status).operations}

    async def run() -> set[Action]:
        async with a_site(a_hub()) as site:
            return await actions(site)

    assert run_virtually(run()) == set(Action)
