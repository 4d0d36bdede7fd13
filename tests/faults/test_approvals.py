"""Approvals of chosen clusters, on the embedded hub and under virtual time: the answers are objects on the hub."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from fleet.framework import approvals
from fleet.framework.approvals import digest_selection
from fleet.framework.status import is_success
from fleet.kube.api import Request
from fleet.kube.scopes import find_scope
from fleet.scheduler.attempt_record import AttemptResult
from fleet.scheduler.cleanup import Cleanup
from tests.e2e.hub import soon
from tests.e2e.world import NAMESPACES
from tests.faults.configured import Scene
from tests.faults.configured import a_scene as a_configured_scene
from tests.faults.scripted import Refuse
from tests.faults.virtual import virtual

PROFILES: Final = """\
profiles:
- {schedulerName: DefaultScheduler}
- schedulerName: approved
  plugins: {permit: {enabled: [{name: PlacementApproval}]}}
"""
PLATFORM: Final = """\
profiles:
- schedulerName: approved
  plugins: {permit: {enabled: [{name: PlacementApproval}]}}
  pluginConfig:
  - name: PlacementApproval
    args:
      rules:
      - name: production
        placements: {matchLabels: {tier: gold}}
        clusters: {matchLabels: {env: prod}}
        approvers: {users: [ann], groups: [leads]}
"""
ONE: Final = {"placementType": "PickN", "numberOfClusters": 1}
TWO: Final = {"placementType": "PickN", "numberOfClusters": 2}
FIXED: Final = {"placementType": "PickFixed", "clusterNames": ["c0", "c1"]}
OWNERS: Final = {"name": "owners", "approvers": {"users": ["ann", "bob"]}}


class Desk:
    """What approvers and owners do."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.world = scene, scene.world
        self._number = 0

    async def options(self, key: str, **spec: Any) -> None:
        namespace, _, name = key.rpartition("/")
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        await self.world.create(find_scope(key).options, {"metadata": metadata, "spec": spec})

    async def status(self, key: str) -> dict[str, Any]:
        found = await self.world.find(find_scope(key).options, key)
        return {} if found is None else found.get("status") or {}

    async def condition(self, key: str, type: str) -> dict[str, Any]:
        conditions = (await self.status(key)).get("conditions", ())
        return next((dict(each) for each in conditions if each["type"] == type), {})

    async def asked(self, key: str) -> set[str]:
        return {f"{entry['cluster']}/{entry['rule']}" for entry in (await self.status(key)).get("waiting", ())}

    async def soon_asked(self, key: str, *questions: str) -> None:
        async def look() -> bool:
            return await self.asked(key) == set(questions)

        await soon(look)

    async def answer(self, key: str, cluster: str, user: str = "ann", decision: str = "Approved", **more: Any) -> str:
        namespace, _, name = key.rpartition("/")
        uid = more.pop("placementUID", "") or (await self.world.placement(key))["metadata"]["uid"]
        self._number += 1
        metadata = {"name": f"answer-{self._number}", **({"namespace": namespace} if namespace else {})}
        spec = {
            "placement": name,
            "placementUID": uid,
            "rule": "owners",
            "cluster": cluster,
            "decision": decision,
            "by": {"user": user},
            **more,
        }
        await self.world.create(find_scope(key).approval, {"metadata": metadata, "spec": spec})
        return str(metadata["name"])


@asynccontextmanager
async def a_desk(
    folder: Path, profiles: str = PROFILES, *, clusters: int = 2, after: Desk | None = None
) -> AsyncIterator[Desk]:
    async with a_configured_scene(folder, profiles, after=None if after is None else after.scene) as scene:
        for number in range(clusters):
            labels = {"env": "prod" if number % 2 else "test"}
            name = f"c{number}"
            await scene.world.join(name, labels=labels, silent_for=scene.hours_ago(0), namespaces=["shop"])
        yield Desk(scene)


@virtual
async def test_X_08_a_chosen_cluster_waits_for_approval_and_nothing_is_reserved_meanwhile(tmp_path: Path) -> None:
    async with a_desk(tmp_path) as desk:
        await desk.options("web", schedulerName="approved", approvals=[OWNERS])
        await desk.world.place("web", TWO)
        await desk.soon_asked("web", "c0/owners", "c1/owners")
        await asyncio.sleep(3600)
        assert await desk.world.bindings("web") == []
        assert desk.scene.controller.scheduler is not None
        assert len(desk.scene.controller.scheduler.parked) == 0
        nominated = (await desk.status("web"))["nominatedTargets"]
        assert {(each["cluster"], each["cause"]) for each in nominated} == {("c0", "Permit"), ("c1", "Permit")}
        assert (await desk.condition("web", "Waiting"))["status"] == "True"
        await desk.answer("web", "c0")
        await desk.soon_asked("web", "c1/owners")
        assert await desk.world.bindings("web") == []
        await desk.answer("web", "c1")
        await asyncio.sleep(1)
        assert await desk.world.in_use("web") == {"c0", "c1"}
        await desk.soon_asked("web")
        assert (await desk.condition("web", "Waiting"))["status"] == "False"


@virtual
async def test_what_waits_for_people_is_not_tried_again_at_every_report_of_a_cluster(tmp_path: Path) -> None:
    async with a_desk(tmp_path, clusters=3) as desk:
        await desk.options("web", schedulerName="approved", approvals=[OWNERS])
        await desk.world.place("web", ONE)

        async def is_asked() -> bool:
            return bool(await desk.asked("web"))

        await soon(is_asked)
        await asyncio.sleep(60)
        before = len(desk.scene.attempts.of("web"))
        for number in range(10):
            for name in ("c0", "c1", "c2"):
                silent_for = desk.scene.hours_ago(0)
                await desk.world.report(name, silent_for=silent_for, available={"cpu": str(number + 1)})
            await asyncio.sleep(30)
        assert len(desk.scene.attempts.of("web")) == before


@virtual
async def test_X_08_a_cluster_that_leaves_is_asked_about_anew_in_another_one(tmp_path: Path) -> None:
    async with a_desk(tmp_path, clusters=3) as desk:
        await desk.options("web", schedulerName="approved", approvals=[OWNERS])
        await desk.world.place("web", TWO)

        async def is_asked() -> bool:
            return len(await desk.asked("web")) == 2

        await soon(is_asked)
        kept, left = sorted(question.partition("/")[0] for question in await desk.asked("web"))
        await desk.answer("web", kept)
        await desk.world.taint(left, {"key": "gone", "effect": "NoSchedule"})
        (other,) = {"c0", "c1", "c2"} - {kept, left}
        await desk.answer("web", left)
        await desk.soon_asked("web", f"{other}/owners")
        await desk.answer("web", other)
        await desk.world.soon_on("web", kept, other)


@virtual
async def test_X_09_two_approvers_are_two_different_ones(tmp_path: Path) -> None:
    async with a_desk(tmp_path, clusters=1) as desk:
        await desk.options("web", schedulerName="approved", approvals=[{**OWNERS, "count": 2}])
        await desk.world.place("web", ONE)
        await desk.soon_asked("web", "c0/owners")
        await desk.answer("web", "c0", "ann")
        await desk.answer("web", "c0", "ann")
        await desk.answer("web", "c0", "eve")
        await asyncio.sleep(60)
        assert await desk.world.bindings("web") == []
        await desk.answer("web", "c0", "bob")
        await desk.world.soon_on("web", "c0")


@virtual
async def test_X_10_an_approval_expires(tmp_path: Path) -> None:
    async with a_desk(tmp_path, clusters=1) as desk:
        await desk.options("web", schedulerName="approved", approvals=[{**OWNERS, "count": 2, "validFor": "1h"}])
        await desk.world.place("web", ONE)
        await desk.soon_asked("web", "c0/owners")
        await desk.answer("web", "c0", "ann")
        await asyncio.sleep(3700)
        await desk.answer("web", "c0", "bob")
        await asyncio.sleep(60)
        assert await desk.world.bindings("web") == []
        await desk.answer("web", "c0", "ann")
        await desk.world.soon_on("web", "c0")


@virtual
@pytest.mark.parametrize("sticky", [False, True])
async def test_X_10_a_changed_selection_needs_another_approval_unless_the_rule_is_sticky(
    tmp_path: Path, *, sticky: bool
) -> None:
    async with a_desk(tmp_path, clusters=1) as desk:
        await desk.options("web", schedulerName="approved", approvals=[{**OWNERS, "count": 2, "sticky": sticky}])
        await desk.world.place("web", ONE)
        await desk.soon_asked("web", "c0/owners")
        await desk.answer("web", "c0", "ann", selection=await selection_of(desk, "web"))
        await desk.world.edit_policy("web", tolerations=[{"key": "a", "operator": "Exists"}])
        await desk.answer("web", "c0", "bob", selection=await selection_of(desk, "web"))
        if not sticky:
            await asyncio.sleep(60)
            assert await desk.world.bindings("web") == []
            await desk.answer("web", "c0", "ann", selection=await selection_of(desk, "web"))
        await desk.world.soon_on("web", "c0")


@virtual
async def test_what_is_selected_is_read_only_for_answers_that_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each chosen cluster is asked about, and a large policy takes 12 ms."""
    read = list[bytes | msgspec.Raw]()
    monkeypatch.setattr(approvals, "digest_selection", read.append)
    async with a_desk(tmp_path) as desk:
        await desk.options("web", schedulerName="approved", approvals=[OWNERS])
        await desk.world.place("web", TWO)
        await desk.soon_asked("web", "c0/owners", "c1/owners")
        await desk.answer("web", "c0")
        await desk.answer("web", "c1")
        await desk.world.soon_on("web", "c0", "c1")
    assert read == []


async def selection_of(desk: Desk, key: str) -> str:
    return digest_selection(msgspec.Raw(msgspec.json.encode((await desk.world.placement(key))["spec"])))


@virtual
async def test_X_10_a_denial_is_shown_with_its_message_until_it_expires(tmp_path: Path) -> None:
    async with a_desk(tmp_path, clusters=1) as desk:
        await desk.options("web", schedulerName="approved", approvals=[{**OWNERS, "validFor": "1h"}])
        await desk.world.place("web", ONE)
        await desk.soon_asked("web", "c0/owners")
        expires = "2026-01-01T01:00:00Z"
        await desk.answer("web", "c0", decision="Denied", message="not before the release", expiresAt=expires)

        async def is_denied() -> bool:
            records = desk.scene.attempts.of("web")
            return any("owners: denied by ann: not before the release" in str(record.error) for record in records)

        await soon(is_denied)
        assert await desk.asked("web") == set()
        await asyncio.sleep(3700)
        await desk.soon_asked("web", "c0/owners")


@pytest.mark.parametrize("hold", [0, 600])
@virtual
async def test_X_10_a_denied_cluster_is_replaced_by_another_one_if_one_fits(tmp_path: Path, hold: int) -> None:
    async with a_desk(tmp_path, clusters=3) as desk:
        await desk.options("web", schedulerName="approved", approvals=[{**OWNERS, "holdSeconds": hold}])
        await desk.world.place("web", TWO)
        await desk.soon_asked("web", "c1/owners", "c2/owners")
        await desk.answer("web", "c2", decision="Denied", message="full of batch jobs")
        await desk.soon_asked("web", "c0/owners", "c1/owners")
        for name in ("c0", "c1"):
            await desk.answer("web", name)
        await desk.world.soon_on("web", "c0", "c1")
        effects = [effect for attempt in desk.scene.attempts.of("web") for effect in attempt.effects]
    denials = {effect.status.reasons for effect in effects if effect.target == "c2" and not is_success(effect.status)}
    assert ("owners: denied by ann: full of batch jobs",) in denials


@pytest.mark.parametrize("policy", [{"placementType": "PickAll"}, FIXED])
@virtual
async def test_X_10_what_is_approved_is_bound_beside_what_is_denied(tmp_path: Path, policy: dict[str, Any]) -> None:
    async with a_desk(tmp_path) as desk:
        await desk.options("web", schedulerName="approved", approvals=[OWNERS])
        await desk.world.place("web", policy)
        await desk.soon_asked("web", "c0/owners", "c1/owners")
        await desk.answer("web", "c1", decision="Denied", message="no")
        await desk.soon_asked("web", "c0/owners")
        await desk.answer("web", "c0")
        await desk.world.soon_on("web", "c0")


@virtual
async def test_a_placement_that_is_parked_is_allowed_or_refused_at_once(tmp_path: Path) -> None:
    async with a_desk(tmp_path, clusters=1) as desk:
        await desk.options("web", schedulerName="approved", approvals=[{**OWNERS, "holdSeconds": 600}])
        await desk.world.place("web", ONE)
        await desk.soon_asked("web", "c0/owners")
        assert desk.scene.controller.scheduler is not None
        assert len(desk.scene.controller.scheduler.parked) == 1
        (entry,) = (await desk.status("web"))["waiting"]
        assert entry["deadline"] > entry["since"]
        await desk.answer("web", "c0")
        await asyncio.sleep(1)
        assert await desk.world.in_use("web") == {"c0"}


@virtual
async def test_after_the_hold_the_question_stays_open(tmp_path: Path) -> None:
    async with a_desk(tmp_path, clusters=1) as desk:
        await desk.options("web", schedulerName="approved", approvals=[{**OWNERS, "holdSeconds": 60}])
        await desk.world.place("web", ONE)
        await desk.soon_asked("web", "c0/owners")
        await asyncio.sleep(120)
        (entry,) = (await desk.status("web"))["waiting"]
        assert "deadline" not in entry
        await desk.answer("web", "c0")
        await asyncio.sleep(1)
        assert await desk.world.in_use("web") == {"c0"}


@virtual
async def test_rules_of_the_platform_hold_for_the_placements_and_clusters_they_select(tmp_path: Path) -> None:
    async with a_desk(tmp_path, PLATFORM) as desk:
        await desk.scene.place("web", TWO, scheduler_name="approved")
        await desk.world.soon_on("web", "c0", "c1")
        assert await desk.status("web") == {}
        document = {"metadata": {"name": "gold", "labels": {"tier": "gold"}}}
        annotated = {**document["metadata"], "annotations": {"scheduling.fleet.dev/scheduler-name": "approved"}}
        selectors = [{"group": "", "version": "v1", "kind": "Namespace", "name": "nothing"}]
        spec = {"resourceSelectors": selectors, "policy": TWO}
        await desk.world.create(find_scope("gold").placement, {"metadata": annotated, "spec": spec})
        await desk.soon_asked("gold", "c1/production")
        made = await desk.world.get(find_scope("gold").options, "gold")
        assert made["metadata"]["labels"] == {"scheduling.fleet.dev/made-by": "scheduler"}
        await desk.answer("gold", "c1", "zoe", rule="production", by={"user": "zoe", "groups": ["leads"]})
        await desk.world.soon_on("gold", "c0", "c1")


@virtual
async def test_options_with_approvals_are_not_ignored_by_a_profile_that_does_not_ask(tmp_path: Path) -> None:
    async with a_desk(tmp_path, clusters=1) as desk:
        await desk.options("web", approvals=[OWNERS])
        await desk.world.place("web", ONE)
        await asyncio.sleep(30)
        assert await desk.world.bindings("web") == []
        gated = await desk.condition("web", "Gated")
        assert gated["status"] == "True"
        assert "has no plugin PlacementApproval" in gated["message"]
        await desk.world.patch(find_scope("web").options, "web", {"spec": {"approvals": None}})
        await desk.world.soon_on("web", "c0")


@virtual
@pytest.mark.parametrize("key", ["web", "shop/web"])
async def test_X_23_nothing_is_left_of_a_placement_that_waited(tmp_path: Path, key: str) -> None:
    async with a_desk(tmp_path, clusters=1) as desk:
        await desk.world.create(NAMESPACES, {"metadata": {"name": "shop"}})
        await desk.options(key, schedulerName="approved", approvals=[{**OWNERS, "count": 2}])
        await desk.world.place(key, ONE)
        await desk.soon_asked(key, "c0/owners")
        await desk.answer(key, "c0", "ann")
        await desk.world.delete(find_scope(key).placement, key)

        async def is_clean() -> bool:
            gone = await desk.world.find(find_scope(key).placement, key) is None
            left = await desk.world.all(find_scope(key).approval)
            status = await desk.status(key)
            return gone and not left and "waiting" not in status and "placementUID" not in status

        await soon(is_clean, within=120)


@virtual
async def test_X_11_a_restart_between_question_and_answer_loses_neither(tmp_path: Path) -> None:
    async with a_desk(tmp_path) as first:
        await first.options("web", schedulerName="approved", approvals=[OWNERS])
        await first.world.place("web", TWO)
        await first.soon_asked("web", "c0/owners", "c1/owners")
        await first.answer("web", "c0")
        await first.soon_asked("web", "c1/owners")
    await first.answer("web", "c1")  # nobody schedules
    assert await first.world.bindings("web") == []
    async with a_desk(tmp_path, clusters=0, after=first) as second:
        await second.world.soon_on("web", "c0", "c1")
        await second.soon_asked("web")


@virtual
async def test_X_22_a_placement_that_waits_or_is_gated_has_no_status_on_its_snapshot(tmp_path: Path) -> None:
    def touches_snapshot(request: Request) -> bool:
        return "schedulingpolicysnapshots" in request.path and request.method in ("PUT", "PATCH")

    async with a_desk(tmp_path) as desk:
        await desk.options("web", schedulerName="approved", approvals=[OWNERS])
        await desk.options("held", gates=[{"name": "review"}])
        await desk.world.place("web", ONE)
        await desk.world.place("held", ONE)
        await desk.soon_asked("web", "c1/owners")
        await asyncio.sleep(3600)
        assert not any(touches_snapshot(request) for request in desk.scene.hub.requests)
        await desk.answer("web", "c1")
        await desk.world.soon_on("web", "c1")
        await asyncio.sleep(60)
        assert sum(touches_snapshot(request) for request in desk.scene.hub.requests) == 1


@virtual
async def test_what_was_waited_for_is_forgotten_when_the_placement_gets_a_profile_that_waits_for_nobody(
    tmp_path: Path,
) -> None:
    async with a_desk(tmp_path) as desk:
        await desk.options("web", schedulerName="approved", approvals=[OWNERS])
        await desk.world.place("web", ONE)
        await desk.soon_asked("web", "c1/owners")
        spec = {"schedulerName": "DefaultScheduler", "approvals": None}
        await desk.world.patch(find_scope("web").options, "web", {"spec": spec})
        await desk.world.soon_on("web", "c1")
        await desk.soon_asked("web")
        assert "nominatedTargets" not in await desk.status("web")


# --- at odd moments ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decision", ["Approved", "Denied"])
@virtual
async def test_X_08_an_answer_between_the_question_and_the_wait_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decision: str
) -> None:
    write = Cleanup.add_finalizer

    async def write_slowly(*args: Any) -> Any:
        await asyncio.sleep(5)
        return await write(*args)

    monkeypatch.setattr(Cleanup, "add_finalizer", write_slowly)
    async with a_desk(tmp_path, clusters=1) as desk:
        await desk.options("web", schedulerName="approved", approvals=[{**OWNERS, "holdSeconds": 600}])
        await desk.world.place("web", ONE)
        await asyncio.sleep(3)
        await desk.answer("web", "c0", decision=decision)
        await asyncio.sleep(30)
        bound = await desk.world.in_use("web")
        failures = [record.failure for record in desk.scene.attempts.of("web")]
    assert bound == ({"c0"} if decision == "Approved" else set())
    assert any("denied by ann" in failure for failure in failures) is (decision == "Denied")


@virtual
async def test_X_08_a_status_that_may_not_be_written_holds_up_no_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_desk(tmp_path, clusters=1) as desk:
        call = desk.scene.hub.call

        async def refuse(request: Request) -> bytes:
            if request.is_write and "placementoptions/" in request.path:
                raise Refuse(403, "Forbidden").error()
            return await call(request)

        await desk.options("web", schedulerName="approved", approvals=[{**OWNERS, "holdSeconds": 600}])
        monkeypatch.setattr(desk.scene.hub, "call", refuse)
        await desk.world.place("web", ONE)
        await asyncio.sleep(5)
        await desk.answer("web", "c0")
        await desk.world.soon_on("web", "c0")
        await asyncio.sleep(5)
        assert desk.scene.attempts.of("web")[-1].result is AttemptResult.DECIDED
