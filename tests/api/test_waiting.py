"""Waiting placements and their answers over REST, from an API with informers of its own beside the controller."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from api.app import create_app
from api.auth.access import HubAuthorizer
from api.live.live import LiveState
from fleet.clock import SystemClock
from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.model.timestamps import HOUR, parse_timestamp
from fleet.settings.loading import load_settings
from tests.api.stage import (
    ADMIN,
    AUTHOR,
    BINDINGS,
    OPERATOR,
    OVERSEER,
    PATIENT,
    PLACEMENT_GROUP,
    ROLES,
    STRANGER,
    Stage,
    a_stage,
)
from tests.e2e.hub import soon

SCHEDULING: Final = "scheduling.fleet.dev"
PROFILES: Final = """\
apiVersion: scheduling.fleet.dev/v1
kind: FleetSchedulerConfiguration
profiles:
- {schedulerName: DefaultScheduler}
- schedulerName: approved
  plugins: {permit: {enabled: [{name: PlacementApproval}]}}
- schedulerName: partial
  partialPermit: true
  plugins: {permit: {enabled: [{name: PlacementApproval}]}}
"""
PLUGIN: Final = "PlacementApproval"
OWNERS: Final = {"name": "owners", "approvers": {"users": ["olga", "anna"]}}
FIXED: Final = {"placementType": "PickFixed", "clusterNames": ["ams-1"]}
BOTH: Final = {"placementType": "PickFixed", "clusterNames": ["ams-1", "ams-2"]}


@dataclass
class Desk:
    stage: Stage
    client: httpx.AsyncClient
    uid: str

    async def get(self, path: str, token: str = OPERATOR, *, accept: str = "application/json") -> httpx.Response:
        return await self.client.get(path, headers={"Authorization": f"Bearer {token}", "Accept": accept})

    async def post(self, path: str, body: Any, token: str = OPERATOR, **headers: str) -> httpx.Response:
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.post(path, json=body, headers={**headers, "Authorization": f"Bearer {token}"})

    async def allow(self, token: str = OPERATOR, *, key: str = "", **body: Any) -> httpx.Response:
        headers = {"Idempotency_Key": key} if key else {}
        return await self.post(f"/v1/waiting/{self.uid}/allow", {"plugin": PLUGIN, **body}, token, **headers)

    async def soon_listed(self, count: int = 1) -> dict[str, Any]:
        async def look() -> Any:
            items = (await self.get("/v1/waiting")).json()["items"]
            return (items or [{"waiting": []}]) if sum(len(item["waiting"]) for item in items) == count else None

        (item,) = await soon(look)
        found: dict[str, Any] = item
        return found


@asynccontextmanager
async def a_desk(folder: Path, *, policy: Any = FIXED, profile: str = "approved", **rule: Any) -> AsyncIterator[Desk]:
    """The placement `gold` waits for its owners."""
    file = folder / "profiles.yaml"
    file.write_text(PROFILES, encoding="utf-8")
    async with a_stage(folder, file=file) as stage:
        await grant_approvals(stage, "olga", "otto")
        metadata = {"name": "gold"}
        spec = {"schedulerName": profile, "approvals": [{**OWNERS, **rule}]}
        await stage.world.create(CLUSTER_SCOPED.options, {"metadata": metadata, "spec": spec})
        placement = await stage.world.place("gold", policy)
        settings = load_settings(file, {}, [PATIENT])
        clock = SystemClock()
        live = LiveState.standalone(stage.hub, settings.settings, clock=clock, jitter=lambda: 0.0)
        app = create_app(live, None, HubAuthorizer(stage.hub, clock=clock), settings)
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        watching = asyncio.create_task(live.run())
        try:
            await live.caches.wait_until_synced()
            async with httpx.AsyncClient(transport=transport, base_url="http://fleet") as client:
                desk = Desk(stage, client, placement["metadata"]["uid"])
                await desk.soon_listed(policy.get("numberOfClusters") or len(policy["clusterNames"]))
                yield desk
        finally:
            watching.cancel()
            await asyncio.wait((watching,))


async def grant_approvals(stage: Stage, *users: str) -> None:
    rules = [
        {"apiGroups": [SCHEDULING], "resources": ["clusterplacementapprovals"], "verbs": ["approve"]},
        {"apiGroups": [PLACEMENT_GROUP], "resources": ["clusterresourceplacements"], "verbs": ["get", "list"]},
    ]
    for user in users:
        name = f"approves-{user}"
        await stage.world.create(ROLES, {"metadata": {"name": name}, "rules": rules})
        subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
        role = {"kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
        await stage.world.create(BINDINGS, {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})


def test_X_07_the_right_user_approves_through_another_process_and_the_placement_is_bound(tmp_path: Path) -> None:
    async def run() -> None:
        async with a_desk(tmp_path) as desk:
            item = await desk.soon_listed()
            assert (item["key"], item["profile"], item["targets"]) == ("gold", "approved", ["ams-1"])
            (target,) = item["waiting"]
            ((other,),) = [each["waiting"] for each in (await desk.get("/v1/waiting", OVERSEER)).json()["items"]]
            assert (target["mayAnswer"], other["mayAnswer"]) == (True, False)
            assert (target["cluster"], target["rule"], target["users"]) == ("ams-1", "owners", ["olga", "anna"])
            answer = await desk.allow(reason="tested")
            assert (answer.status_code, answer.json()) == (200, {"dealtWith": True, "remaining": []})
            await desk.stage.world.soon_on("gold", "ams-1")
            (approval,) = await desk.stage.world.all(CLUSTER_SCOPED.approval)
            assert approval["spec"]["by"]["user"] == "olga"
            assert approval["spec"]["message"] == "tested"
            assert approval["spec"]["selection"]
            await desk.stage.wait_until_recorded()
            number = (await desk.stage.json("/v1/placements/-/gold/why"))["attempt"]["n"]
            await desk.stage.world.delete(CLUSTER_SCOPED.placement, "gold")

            async def is_gone() -> bool:
                return not await desk.stage.world.all(CLUSTER_SCOPED.approval)

            await soon(is_gone)
            past = await desk.stage.json(f"/v1/placements/-/gold/why?attempt={number}")
            (permit,) = past["attempt"]["permit"]
            assert permit["target"] == "ams-1"
            assert re.fullmatch(r"owners: approved by olga at \S+Z: tested", permit["message"])

    asyncio.run(run())


def test_X_07_whoever_may_not_approve_gets_403_and_nothing_is_written(tmp_path: Path) -> None:
    async def run() -> None:
        async with a_desk(tmp_path) as desk:
            assert (await desk.allow(STRANGER)).status_code == 403
            without_right = await desk.allow(AUTHOR)
            assert without_right.status_code == 403
            assert "approve clusterplacementapprovals.scheduling.fleet.dev owners" in without_right.json()["detail"]
            not_named = await desk.allow(OVERSEER)
            assert not_named.json()["detail"] == "otto is not among the approvers of rule owners"
            assert await desk.stage.world.all(CLUSTER_SCOPED.approval) == []

    asyncio.run(run())


def test_F3_107_what_waits_is_listed_with_the_plugin_and_its_deadline(tmp_path: Path) -> None:
    async def run() -> None:
        async with a_desk(tmp_path, policy=BOTH, holdSeconds=600) as desk:
            item = await desk.soon_listed(2)
            assert (item["uid"], item["key"], item["targets"]) == (desk.uid, "gold", ["ams-1", "ams-2"])
            assert {(each["cluster"], each["plugin"]) for each in item["waiting"]} == {
                ("ams-1", PLUGIN),
                ("ams-2", PLUGIN),
            }
            assert all(0 < each["remainingSeconds"] <= 600 for each in item["waiting"])
            text = (await desk.get("/v1/waiting", accept="text/plain")).text
            lines = [line.split() for line in text.splitlines()[1:]]
            assert [(line[0], line[1], line[-2], line[-1]) for line in lines if line] == [
                ("gold", each["cluster"], each["deadline"], desk.uid) for each in item["waiting"]
            ]

    asyncio.run(run())


def test_a_second_answer_gets_the_outcome_and_the_same_key_the_same_answer(tmp_path: Path) -> None:
    async def run() -> None:
        async with a_desk(tmp_path, policy=BOTH) as desk:
            first = await desk.allow(key="once", target="ams-1", reason="tested")
            assert first.json()["remaining"] == [{"cluster": "ams-2", "plugin": PLUGIN, "rule": "owners"}]
            for _ in range(2):
                again = await desk.allow(key="once", target="ams-1", reason="tested")
                assert (again.status_code, again.json()) == (200, first.json())
            assert len(await desk.stage.world.all(CLUSTER_SCOPED.approval)) == 1
            second = await desk.allow(target="ams-1")
            assert second.status_code in (404, 410)  # the leader may have counted the first one already
            assert (await desk.allow(target="ams-2")).json() == {"dealtWith": True, "remaining": []}
            await desk.stage.world.soon_on("gold", "ams-1", "ams-2")
            late = await desk.allow(target="ams-2")
            assert late.status_code == 410
            assert late.json()["detail"].startswith("approved already by olga at ")

    asyncio.run(run())


def test_two_approvers_are_needed(tmp_path: Path) -> None:
    async def run() -> None:
        async with a_desk(tmp_path, count=2) as desk:
            await grant_approvals(desk.stage, "anna")
            first = await desk.allow()
            assert first.json() == {
                "dealtWith": False,
                "remaining": [{"cluster": "ams-1", "plugin": PLUGIN, "rule": "owners"}],
            }
            assert (await desk.allow()).status_code == 410
            assert (await desk.allow(AUTHOR)).json()["dealtWith"] is True
            await desk.stage.world.soon_on("gold", "ams-1")

    asyncio.run(run())


def test_a_denial_reaches_the_owner_in_its_words(tmp_path: Path) -> None:
    async def run() -> None:
        async with a_desk(tmp_path) as desk:
            body = {"plugin": PLUGIN, "message": "not before the release"}
            answer = await desk.post(f"/v1/waiting/{desk.uid}/reject", body)
            assert (answer.status_code, answer.json()) == (200, {"delivered": True})
            await desk.soon_listed(0)
            decided = await desk.get(f"/v1/waiting/{desk.uid}")
            assert decided.status_code == 410
            assert "denied already by olga" in decided.json()["detail"]
            assert "not before the release" in decided.json()["detail"]
            assert await desk.stage.world.bindings("gold") == []

    asyncio.run(run())


@pytest.mark.parametrize(
    "body, status, field",
    [
        ({"plugin": "Other"}, 409, "plugin"),
        ({"plugin": PLUGIN, "target": "dub-1"}, 404, "target"),
        ({"plugin": PLUGIN, "rule": "other"}, 404, "rule"),
        ({"target": "ams-1"}, 422, "plugin"),
    ],
)
def test_what_is_not_waited_for_cannot_be_answered(tmp_path: Path, body: Any, status: int, field: str) -> None:
    async def run() -> None:
        async with a_desk(tmp_path) as desk:
            answer = await desk.post(f"/v1/waiting/{desk.uid}/allow", body)
            assert (answer.status_code, answer.json()["field"]) == (status, field)
            unknown = await desk.post("/v1/waiting/no-such-uid/allow", {"plugin": PLUGIN})
            assert (unknown.status_code, unknown.json()["detail"]) == (404, "no-such-uid does not wait for approval")

    asyncio.run(run())


def test_clusters_that_the_caller_may_not_read_are_counted(tmp_path: Path) -> None:
    async def run() -> None:
        policy = {"placementType": "PickFixed", "clusterNames": ["ams-1", "dub-1"]}
        async with a_desk(tmp_path, policy=policy) as desk:
            (item,) = (await desk.get("/v1/waiting", OVERSEER)).json()["items"]
            assert [target["cluster"] for target in item["waiting"]] == ["ams-1"]
            assert (item["redacted"], item["targets"], item["message"]) == (1, ["ams-1"], "")
            assert (await desk.get("/v1/waiting", STRANGER)).json()["items"] == []
            assert len((await desk.get("/v1/waiting?cluster=dub-1", ADMIN)).json()["items"]) == 1
            assert (await desk.get("/v1/waiting?plugin=Other", ADMIN)).json()["items"] == []

    asyncio.run(run())


def test_no_answer_names_a_cluster_that_the_caller_may_not_read(tmp_path: Path) -> None:
    async def run() -> None:
        policy = {"placementType": "PickFixed", "clusterNames": ["ams-1", "dub-1"]}
        approvers = {"users": ["otto", "anna"]}
        async with a_desk(tmp_path, policy=policy, approvers=approvers) as desk:
            missed = await desk.allow(OVERSEER, target="osl-1")
            assert (missed.status_code, missed.json()["next"]) == (404, "it waits for ams-1 (owners)")
            left = await desk.allow(OVERSEER, target="ams-1")
            assert left.json() == {"dealtWith": False, "remaining": []}
            await desk.soon_listed(1)
            guessed = await desk.allow(OVERSEER, target="dub-1")
            assert (guessed.status_code, guessed.json()["detail"]) == (404, missed.json()["detail"])
            assert (await desk.allow(OVERSEER)).status_code == 200
            await desk.soon_listed(0)
            decided = await desk.get(f"/v1/waiting/{desk.uid}", OVERSEER)
            assert decided.status_code == 410
            assert "dub-1" not in decided.text

    asyncio.run(run())


def test_W_04_why_tells_whom_a_placement_waits_for_also_in_another_process(tmp_path: Path) -> None:
    async def run() -> None:
        async with a_desk(tmp_path, policy=BOTH, count=2) as desk:
            assert (await desk.allow(ADMIN, target="ams-1")).status_code == 403
            assert (await desk.allow(target="ams-1")).status_code == 200

            async def is_told() -> Any:
                answer = (await desk.get("/v1/placements/-/gold/why", ADMIN)).json()
                return answer if answer["waiting"] and answer["waiting"]["waiting"][0]["approvedBy"] else None

            answer = await soon(is_told)
            assert answer["verdict"]["state"] == "Waiting"
            told = {
                each["cluster"]: (each["rule"], each["users"], each["approvedBy"])
                for each in answer["waiting"]["waiting"]
            }
            assert told == {"ams-1": ("owners", ["olga", "anna"], ["olga"]), "ams-2": ("owners", ["olga", "anna"], [])}
            assert answer["waiting"]["targets"] == ["ams-1", "ams-2"]
            text = (await desk.get("/v1/placements/-/gold/why", ADMIN, accept="text/plain")).text
            assert text.startswith("gold   Waiting")
            assert answer["verdict"]["summary"].startswith(
                "nothing is bound yet, waits for owners on ams-1 ams-2; the choice: 2/"
            )
            assert "\nnothing is bound yet, waits for owners on ams-1 ams-2; the choice: 2/5 clusters selected" in text
            assert "1 of olga or anna" in text
            assert "2 of olga or anna" in text
            assert "`fleet approve gold`" in text
            assert "WOULD BE SELECTED" in text
            assert "no fix was found" not in text
            (trouble,) = [
                each for each in (await desk.get("/v1/status", ADMIN)).json()["trouble"] if each["key"] == "gold"
            ]
            assert (trouble["condition"], trouble["why"]) == ("Waiting", "waits for PlacementApproval on ams-1, ams-2")

    asyncio.run(run())


def test_W_04_why_tells_a_gate_and_who_may_clear_it_also_in_another_process(tmp_path: Path) -> None:
    async def run() -> None:
        async with a_desk(tmp_path) as desk:
            await desk.stage.world.create(
                CLUSTER_SCOPED.options, {"metadata": {"name": "held"}, "spec": {"gates": [{"name": "review"}]}}
            )
            await desk.stage.world.place("held", FIXED)

            async def is_told() -> Any:
                answer = await desk.get("/v1/placements/-/held/why", ADMIN)
                return answer.json() if answer.status_code == 200 and answer.json()["gate"]["since"] else None

            answer = await soon(is_told)
            assert answer["verdict"]["state"] == "Gated"
            assert (answer["gate"]["by"], answer["gate"]["message"]) == ("PlacementGates", "review")
            assert (answer["gate"]["gates"], answer["gate"]["clearable"]) == (["review"], ["review"])
            other = (await desk.get("/v1/placements/-/held/why")).json()
            assert (other["gate"]["gates"], other["gate"]["clearable"]) == (["review"], [])
            assert "clusterplacementoptions" in answer["gate"]["clearedBy"]
            text = (await desk.get("/v1/placements/-/held/why", ADMIN, accept="text/plain")).text
            summary = answer["verdict"]["summary"]
            assert re.match(
                r"held by PlacementGates since \S+ \S+ UTC: review; if it were let in: 1/5 clusters", summary
            )
            assert summary in " ".join(text.split())
            assert "`fleet gates clear held review`" in text
            await desk.post("/v1/placements/-/held/gates/review/clear", {}, ADMIN)
            await desk.stage.world.soon_on("held", "ams-1")

            async def is_open() -> bool:
                return (await desk.get("/v1/placements/-/held/why", ADMIN)).json()["gate"] is None

            await soon(is_open)

    asyncio.run(run())


def test_F3_111_why_tells_which_cluster_was_refused_while_the_other_one_is_bound(tmp_path: Path) -> None:
    async def run() -> None:
        async with a_desk(tmp_path, policy=BOTH, profile="partial") as desk:
            body = {"plugin": PLUGIN, "target": "ams-2", "message": "freeze"}
            answer = await desk.post(f"/v1/waiting/{desk.uid}/reject", body)
            assert (answer.status_code, answer.json()) == (200, {"delivered": True})
            item = await desk.soon_listed()
            assert [each["cluster"] for each in item["waiting"]] == ["ams-1"]
            assert (await desk.allow(target="ams-1")).status_code == 200
            await desk.stage.world.soon_on("gold", "ams-1")
            await desk.stage.wait_until_recorded()
            answer = (await desk.stage.get("/v1/placements/-/gold/why", ADMIN)).json()
            permit = {each["target"]: each["message"] for each in answer["attempt"]["permit"]}
            assert answer["verdict"]["state"] == "Partial"
            assert permit["ams-2"] == "owners: denied by olga: freeze"
            assert permit["ams-1"].startswith("owners: approved by olga at ")
            assert [(write["cluster"], write["result"]) for write in answer["attempt"]["writes"]] == [
                ("ams-1", "written")
            ]
            (older,) = [note["message"] for note in answer["statusNotes"] if note["reason"] == "StatusIsOlder"]
            assert older.endswith("would be: Scheduled, unless PlacementApproval refuses again")
            past = (await desk.stage.get(f"/v1/placements/-/gold/why?attempt={answer['attempt']['n']}", ADMIN)).json()
            (left,) = [row for row in past["attempt"]["clusters"] if row["name"] == "ams-2"]
            assert [each["reason"] for each in left["rejections"]] == ["SetAside"]
            assert (past["attempt"]["evaluatedOn"], past["verdict"]["outcome"]) == ("recorded", "PARTIAL")
            assert past["attempt"]["digest"] == past["recorded"]["digest"]

    asyncio.run(run())


def test_W_04_a_denial_stays_in_why_after_another_cluster_was_approved_in_its_place(tmp_path: Path) -> None:
    async def run() -> None:
        one = {"placementType": "PickN", "numberOfClusters": 1}
        async with a_desk(tmp_path, policy=one, validFor="2h") as desk:
            (first,) = (await desk.soon_listed())["waiting"]
            body = {"plugin": PLUGIN, "message": "not before the release"}
            assert (await desk.post(f"/v1/waiting/{desk.uid}/reject", body)).status_code == 200

            async def waits_for_another() -> Any:
                items = (await desk.get("/v1/waiting")).json()["items"]
                waiting = [target["cluster"] for item in items for target in item["waiting"]]
                return waiting[0] if waiting and waiting != [first["cluster"]] else None

            other = await soon(waits_for_another)
            assert (await desk.allow(target=other)).status_code == 200
            await desk.stage.world.soon_on("gold", other)
            await desk.stage.wait_until_recorded()
            for ask in (desk.get, desk.stage.get):
                answer = (await ask("/v1/placements/-/gold/why", ADMIN)).json()
                assert answer["verdict"]["state"] == "Scheduled"
                (denial,) = answer["denials"]
                told = (denial["cluster"], denial["rule"], denial["by"], denial["message"])
                assert told == (first["cluster"], "owners", "olga", "not before the release")
                at, until = (parse_timestamp(denial[name]) for name in ("at", "until"))
                assert until - at == 2 * HOUR
            text = (await desk.get("/v1/placements/-/gold/why", ADMIN, accept="text/plain")).text
            (line,) = [line for line in text.splitlines() if re.match(rf"{first['cluster']} +owners +olga ", line)]
            assert line.endswith("not before the release")

    asyncio.run(run())


def test_what_a_denial_says_reaches_only_callers_who_see_all_clusters(tmp_path: Path) -> None:
    async def run() -> None:
        async with a_desk(tmp_path) as desk:
            body = {"plugin": PLUGIN, "message": "use dub-2 instead"}
            assert (await desk.post(f"/v1/waiting/{desk.uid}/reject", body)).status_code == 200

            async def is_told() -> Any:
                answer = await desk.get("/v1/placements/-/gold/why", AUTHOR)
                return answer if answer.json()["denials"] else None

            partial = await soon(is_told)
            (denial,) = partial.json()["denials"]
            assert (denial["cluster"], denial["rule"], denial["by"]) == ("ams-1", "owners", "olga")
            (told,) = (await desk.get("/v1/placements/-/gold/why", ADMIN)).json()["denials"]
            assert (denial["message"], told["message"]) == ("", "use dub-2 instead")
            text = await desk.get("/v1/placements/-/gold/why", AUTHOR, accept="text/plain")
            await desk.soon_listed(0)
            outcome = await desk.get(f"/v1/waiting/{desk.uid}", AUTHOR)
            assert outcome.json()["detail"].startswith("denied already by olga")
            for answer in (partial, text, outcome):
                assert "dub-2" not in answer.text

    asyncio.run(run())


def test_X_06_gates_are_cleared_by_those_who_may_change_the_options(tmp_path: Path) -> None:
    async def run() -> None:
        async with a_desk(tmp_path) as desk:
            gates = [{"name": "review", "message": "ask the owners"}, {"name": "freeze"}]
            metadata = {"name": "held"}
            await desk.stage.world.create(CLUSTER_SCOPED.options, {"metadata": metadata, "spec": {"gates": gates}})
            await desk.stage.world.place("held", FIXED)
            path = "/v1/placements/-/held/gates"

            async def is_known() -> bool:
                return (await desk.get("/v1/placements/-/held", ADMIN)).status_code == 200

            await soon(is_known)
            assert (await desk.post(f"{path}/review/clear", {})).status_code == 403
            cleared = await desk.post(f"{path}/review/clear", {}, ADMIN)
            assert (cleared.status_code, cleared.json()) == (200, {"remaining": ["freeze"]})
            again = await desk.post(f"{path}/review/clear", {}, ADMIN)
            assert (again.status_code, again.json()["detail"]) == (
                404,
                "placement held has no gate review; it has freeze",
            )
            assert (await desk.post(f"{path}/freeze/clear", {}, ADMIN)).json() == {"remaining": []}
            await desk.stage.world.soon_on("held", "ams-1")

    asyncio.run(run())
