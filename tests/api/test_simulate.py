"""Simulation, replay and export."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from typing import Any, Final

import pytest

from api.services.decisions import replay as replaying
from tests.api.stage import (
    ADMIN,
    AUTHOR,
    CLUSTERS,
    HIDDEN,
    NEW,
    OPERATOR,
    OVERSEER,
    READER,
    RIGHTS,
    ROLES,
    SEEN,
    Json,
    Running,
    Stage,
    alone,
    staged,
)
from tests.databases import SOON

TOLERATED = {"op": "tolerate", "key": "dedicated", "operator": "Exists"}


def ask(*edits: Json, ref: str = "big", **more: Any) -> Json:
    return {"placement": {"ref": ref}, "edits": list(edits), **more}


def an_idea(cluster: str) -> Json:
    """A placement that does not exist, for that cluster."""
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": "idea"},
        "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "idea"}],
            "policy": {"placementType": "PickFixed", "clusterNames": [cluster]},
        },
    }


def wanting(labels: Json) -> Json:
    terms = {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": labels}}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return {"affinity": {"clusterAffinity": required}}


def an_idea_for_labels(labels: Json) -> Json:
    idea = an_idea("")
    return idea | {"spec": idea["spec"] | {"policy": {"placementType": "PickAll"} | wanting(labels)}}


def patched(labels: Json) -> Json:
    return {"op": "patch", "patch": wanting(labels)}


@staged
async def test_an_edit_shows_what_it_would_lead_to(stage: Stage) -> None:
    answer = await stage.post("/v1/simulate", ask(TOLERATED))
    found = answer.json()

    assert answer.status_code == 200, answer.text
    assert found["answer"]["verdict"]["state"] == "Scheduled"
    assert found["compare"]["gained"] == ["osl-1"]


@staged
async def test_nothing_is_written_by_asking(stage: Stage) -> None:
    revision = stage.hub.hub.store.revision

    await stage.post("/v1/simulate", ask(TOLERATED, {"op": "removeCluster", "cluster": "ams-1"}))

    assert stage.hub.hub.store.revision == revision
    assert "ams-1" in (await stage.json("/v1/clusters/ams-1"))["name"]


@staged
async def test_F3_134_what_a_question_changes_is_changed_for_this_question_only(stage: Stage) -> None:
    before, _, after = [
        (await stage.post("/v1/simulate", ask(*edits))).json()
        for edits in ((), (TOLERATED, {"op": "removeCluster", "cluster": "ams-1"}), ())
    ]

    assert before["compare"]["gained"] == before["compare"]["lost"] == []
    assert (after["compare"], after["answer"]["verdict"]) == (before["compare"], before["answer"]["verdict"])


@staged
async def test_W_07_keys_that_are_only_asked_about_are_not_kept_up_to_date_by_the_scheduler(stage: Stage) -> None:
    assert stage.controller.scheduler is not None
    frame = stage.controller.scheduler.table.frame()
    kept = set(frame._columns)

    proposed = await stage.post("/v1/simulate", {"placement": an_idea_for_labels({"asked-1": "x"})})
    edited = await stage.post("/v1/simulate", ask(patched({"asked-2": "x"})))

    assert (proposed.status_code, edited.status_code) == (200, 200), proposed.text + edited.text
    assert stage.controller.scheduler.table.frame() is frame
    assert set(frame._columns) == kept


@staged
async def test_what_would_keep_everybody_waiting_is_not_simulated(stage: Stage) -> None:
    many = {f"key-{number}": "x" for number in range(201)}

    for field, body in (("placement", {"placement": an_idea_for_labels(many)}), ("edits", ask(patched(many)))):
        refused = await stage.post("/v1/simulate", body)

        assert (refused.status_code, refused.json()["field"]) == (422, field)
        assert refused.json()["value"] in (201, "201")


@staged
async def test_W_06_every_fix_has_the_effect_it_promises(stage: Stage) -> None:
    found = (await stage.json("/v1/placements/-/big/why?fixes=deep"))["fixes"]

    assert found
    for fix in found:
        after = (await stage.post("/v1/simulate", ask(*fix["edits"]))).json()["answer"]
        assert after["verdict"]["outcome"] == fix["effect"]["after"], fix
        assert after["verdict"]["inUse"] == fix["effect"]["selected"], fix


@staged
async def test_a_placement_that_does_not_exist_can_be_asked_about(stage: Stage) -> None:
    found = (await stage.post("/v1/simulate", {"placement": an_idea("dub-1")})).json()

    assert found["answer"]["verdict"]["state"] == "Scheduled"
    assert found["answer"]["placement"]["name"] == "idea"
    assert (await stage.get("/v1/placements/-/idea")).status_code == 404


@staged
async def test_a_recorded_attempt_can_be_the_beginning(stage: Stage) -> None:
    (newest, *_) = (await stage.json("/v1/placements/-/big/history"))["items"]
    found = (await stage.post("/v1/simulate", ask(**{"from": newest["id"]}))).json()

    assert found["answer"]["attempt"]["evaluatedOn"] == "recorded"
    assert found["answer"]["attempt"]["digest"] == newest["digest"]
    assert found["compare"]["same"] is True


@staged
async def test_the_impact_of_a_drain_moves_what_is_evicted_and_nothing_else(stage: Stage) -> None:
    used = min(await stage.world.in_use("web"))
    taint = {"op": "addTaint", "cluster": used, "key": "cordon-key", "value": "cordon-value", "effect": "NoSchedule"}
    evict = {"op": "evict", "cluster": used, "placement": "web"}
    cordoned = (await stage.post("/v1/simulate", ask(taint, impact=True))).json()["impact"]
    drained = (await stage.post("/v1/simulate", ask(taint, evict, impact=True))).json()["impact"]

    assert cordoned["moved"] == []
    (moved,) = drained["moved"]
    assert moved["key"] == "web"
    assert used in moved["before"]
    assert used not in moved["after"]
    assert len(moved["after"]) == 2


@staged
async def test_a_change_of_the_fleet_shows_which_placements_would_move(stage: Stage) -> None:
    used = min(await stage.world.in_use("web"))
    found = (await stage.post("/v1/simulate", ask({"op": "removeCluster", "cluster": used}, impact=True))).json()

    assert {one["key"] for one in found["impact"]["moved"]} == {"web", "big", "shop/cache"}


@staged
async def test_the_text_of_a_simulation_lists_which_placements_would_move(stage: Stage) -> None:
    body = ask({"op": "removeCluster", "cluster": "ams-1"}, impact=True)
    whole, part = [
        (await stage.post("/v1/simulate", body, token, Accept="text/plain")).text for token in (ADMIN, OVERSEER)
    ]

    assert "\nIMPACT     3 placements decided: " in whole
    assert "\nshop/cache " in whole
    assert "shop/cache" not in part
    assert ", 1 of them you may not read\n" in part


@staged
async def test_simulating_needs_the_right_to_create_placements_there(stage: Stage) -> None:
    codes = {token: (await stage.post("/v1/simulate", ask(ref="web"), token)).status_code for token in (AUTHOR, READER)}

    assert codes == {AUTHOR: 200, READER: 403}
    assert (await stage.post("/v1/simulate", ask(impact=True), AUTHOR)).status_code == 403
    assert (await stage.post("/v1/simulate", ask(ref="shop/cache"), AUTHOR)).status_code == 403


@staged
async def test_W_10_a_simulation_names_no_hidden_cluster(stage: Stage) -> None:
    more = {"op": "addCluster", "name": NEW, "like": "ams-1"}
    for accept in ("application/json", "text/plain"):
        answer = await stage.post("/v1/simulate", ask(TOLERATED, more, fixes="deep"), AUTHOR, Accept=accept)

        assert answer.status_code == 200, answer.text
        assert not [name for name in HIDDEN if name in answer.text]
        assert NEW in answer.text


@staged
async def test_W_10_the_matrix_of_a_simulation_has_what_the_rows_have_and_no_hidden_cluster(stage: Stage) -> None:
    for token in (ADMIN, AUTHOR):
        body = ask(TOLERATED, explain="all", limit=500, matrix=True)
        answer = (await stage.post("/v1/simulate", body, token)).json()
        matrix, rows = answer["matrix"], {row["name"]: row for row in answer["answer"]["attempt"]["clusters"]}
        verdicts = base64.b64decode(matrix["verdicts"])

        assert matrix["clusters"] == sorted(rows)
        assert matrix["redacted"] == answer["answer"]["redacted"]
        for column, name in enumerate(matrix["clusters"]):
            for part in rows[name]["rejections"]:
                value = verdicts[matrix["plugins"].index(part["plugin"]) * len(rows) + column]
                assert (value == 255, value == 0) == (part["verdict"] == "skipped", part["verdict"] == "pass")
        bound = {matrix["clusters"][column] for column in matrix["bound"]}
        assert bound == {name for name, row in rows.items() if row["outcome"] in ("selected", "already-selected")}
    assert (await stage.post("/v1/simulate", ask(TOLERATED))).json()["matrix"] is None


ONE: Final = "THE-CLUSTER"
ADDED: Final = {"op": "addCluster", "name": ONE, "like": "ams-1"}
REMOVED: Final = {"op": "removeCluster", "cluster": ONE}
LABELLED: Final = {"op": "labelCluster", "cluster": ONE, "key": "tier", "value": "gold"}
EDITS: Final[dict[str, list[Json]]] = {
    "addCluster": [ADDED],
    "addCluster like it": [{"op": "addCluster", "name": NEW, "like": ONE}],
    "addCluster like itself": [{"op": "addCluster", "name": ONE, "like": ONE}],
    "added, then labelled": [ADDED, LABELLED],
    "added, then removed": [ADDED, REMOVED],
    "removed, then added": [REMOVED, ADDED],
    "removeCluster": [REMOVED],
    "labelCluster": [LABELLED],
    "addTaint": [{"op": "addTaint", "cluster": ONE, "key": "gpu"}],
    "removeTaint": [{"op": "removeTaint", "cluster": ONE, "key": "dedicated"}],
    "setReady": [{"op": "setReady", "cluster": ONE, "value": False}],
    "setProperty": [{"op": "setProperty", "cluster": ONE, "property": "nodes", "value": "4"}],
    "evict": [{"op": "evict", "cluster": ONE}],
    "patch": [{"op": "patch", "patch": {"placementType": "PickFixed", "clusterNames": [ONE]}}],
}
ABOUT_ONE: Final[dict[str, tuple[str, str, Json | None]]] = {
    **{f"simulate {name}": (AUTHOR, "/v1/simulate", ask(*edits)) for name, edits in EDITS.items()},
    **{f"impact {name}": (OVERSEER, "/v1/simulate", ask(*edits, impact=True)) for name, edits in EDITS.items()},
    **{f"replay {name}": (OVERSEER, "/v1/replay", {"change": {"edits": edits}}) for name, edits in EDITS.items()},
    "simulate cluster": (AUTHOR, "/v1/simulate", ask(cluster=ONE)),
    "simulate an idea": (AUTHOR, "/v1/simulate", {"placement": an_idea(ONE)}),
    "cluster": (AUTHOR, f"/v1/clusters/{ONE}", None),
    "bindings": (AUTHOR, f"/v1/bindings?placement=big&cluster={ONE}", None),
    "why": (AUTHOR, f"/v1/placements/-/big/why?cluster={ONE}", None),
    "why-not": (AUTHOR, f"/v1/clusters/{ONE}/why-not?placement=big", None),
}


@pytest.mark.parametrize("accept", ["application/json", "text/plain"])
@pytest.mark.parametrize("question", ABOUT_ONE)
def test_W_10_whoever_asks_about_a_hidden_cluster_does_not_learn_whether_it_exists(
    running: Running, question: str, accept: str
) -> None:
    token, path, body = ABOUT_ONE[question]

    def told_about(cluster: str) -> tuple[int, dict[str, str], str]:
        url, stage = path.replace(ONE, cluster), running.stage
        named = json.loads(json.dumps(body).replace(ONE, cluster))
        asking = stage.get(url, token, Accept=accept) if body is None else stage.post(url, named, token, Accept=accept)
        answer = running.call(asking)
        return answer.status_code, dict(answer.headers), answer.text.replace(cluster, ONE)

    existing, absent = told_about("osl-1"), told_about("osl-7")

    assert existing == absent
    assert existing[0] == 403


@staged
async def test_W_10_a_taint_named_like_a_hidden_cluster_does_not_tell_that_there_is_one(stage: Stage) -> None:
    told, everywhere = [], an_idea("ams-1")
    del everywhere["spec"]["policy"]
    for key in ("osl-1", "osl-7"):
        body = {"placement": everywhere, "edits": [{"op": "addTaint", "cluster": "ams-1", "key": key}]}
        answer = await stage.post("/v1/simulate", body, AUTHOR, Accept="text/plain")
        told.append(answer.text.replace(key, "KEY"))

    assert "KEY:NoSchedule" in told[0]
    assert told[0] == told[1]


@staged
async def test_W_10_a_hint_about_a_misspelt_name_names_no_hidden_cluster(stage: Stage) -> None:
    early = {"op": "removeCluster", "cluster": NEW}, {"op": "addCluster", "name": NEW, "like": "ams-1"}
    whole, part = [await stage.post("/v1/simulate", ask(*early), token) for token in (ADMIN, AUTHOR)]

    assert (whole.status_code, part.status_code) == (422, 422)
    assert "did you mean dub-" in whole.json()["detail"]
    assert part.json()["detail"] == f"no cluster is named {NEW!r}; use the name of a member cluster"


@staged
async def test_W_10_an_impact_names_neither_hidden_clusters_nor_hidden_placements(stage: Stage) -> None:
    """The clusters ams-1 and ams-2 may be read, and cluster-scoped placements."""
    body = ask({"op": "removeCluster", "cluster": "ams-1"}, impact=True)
    whole, part = [(await stage.post("/v1/simulate", body, token)).json()["impact"] for token in (ADMIN, OVERSEER)]

    assert "shop/cache" in {one["key"] for one in whole["moved"]}
    assert "shop/cache" not in {one["key"] for one in part["moved"]}
    assert (part["redacted"], whole["redacted"]) == (1, 0)
    assert (part["placements"], part["same"]) == (whole["placements"], whole["same"])
    assert not [name for name in HIDDEN if name in str(part)]
    assert part["summary"]["redacted"] == len(whole["summary"]["clusters"]) - len(part["summary"]["clusters"])


@staged
async def test_W_10_a_rehearsal_names_no_hidden_cluster_and_counts_them(stage: Stage) -> None:
    lost = {"op": "setReady", "cluster": "ams-1", "value": False}
    body = {"select": {"limit": 1000}, "change": {"edits": [lost]}}
    whole, part = [(await stage.post("/v1/replay", body, token)).json() for token in (ADMIN, OVERSEER)]

    assert [one["key"] for one in part["changed"]] == [one["key"] for one in whole["changed"]] != []
    for shown, full in zip(part["changed"], whole["changed"], strict=True):
        assert shown["redacted"] == len({*full["before"], *full["after"]} & {*HIDDEN})
    assert any(one["redacted"] for one in part["changed"])
    assert not [name for name in HIDDEN if name in str(part)]
    assert {one["placement"] for one in whole["changed"]} >= {"big", "shop/cache"}
    assert {one["placement"] for one in part["changed"]} == {"big", ""}


@pytest.mark.parametrize("name", ["dub-1", "dub-3"])
def test_W_10_a_rehearsal_about_a_hidden_cluster_is_refused_whether_it_exists_or_not(
    running: Running, name: str
) -> None:
    for edit in ({"op": "removeCluster", "cluster": name}, {"op": "addCluster", "name": NEW, "like": name}):
        answer = running.call(running.stage.post("/v1/replay", {"change": {"edits": [edit]}}, OVERSEER))

        assert answer.status_code == 403
        assert name in answer.json()["detail"]


@staged
async def test_W_10_why_an_edit_does_not_apply_tells_nothing_of_a_hidden_cluster(stage: Stage) -> None:
    body = {"select": {"limit": 1000}, "change": {"edits": [{"op": "removeCluster", "cluster": NEW}]}}
    whole, part = [(await stage.post("/v1/replay", body, token)).json() for token in (ADMIN, OVERSEER)]

    assert any("did you mean dub-" in one["because"] for one in whole["skipped"])
    assert len(part["skipped"]) == len(whole["skipped"])
    assert "did you mean" not in str(part["skipped"])


@staged
async def test_W_11_every_recorded_attempt_comes_out_the_same(stage: Stage) -> None:
    found = (await stage.post("/v1/replay", {"select": {"limit": 1000}}, OPERATOR)).json()

    assert found["attempts"] >= 3
    assert found["same"] + len(found["skipped"]) == found["attempts"]
    assert found["same"] >= 3
    assert found["different"] == []


@staged
async def test_a_change_is_judged_on_recorded_attempts(stage: Stage) -> None:
    (newest, *_) = (await stage.json("/v1/placements/-/big/history"))["items"]
    body = {"select": {"ids": [newest["id"]]}, "change": {"edits": [TOLERATED]}}

    found = (await stage.post("/v1/replay", body, OPERATOR)).json()

    assert [(one["placement"], one["key"]) for one in found["changed"]] == [("big", newest["id"])]
    assert [one["cluster"] for one in found["summary"]["clusters"]] == ["osl-1"]


@staged
async def test_a_replay_goes_on_where_the_last_one_stopped(stage: Stage) -> None:
    first = (await stage.post("/v1/replay", {"select": {"limit": 1}})).json()
    rest = (await stage.post("/v1/replay", {"select": {"after": first["next"], "limit": 1000}})).json()
    whole = (await stage.post("/v1/replay", {"select": {"limit": 1000}})).json()

    assert first["attempts"] == 1
    assert first["attempts"] + rest["attempts"] == whole["attempts"]
    assert rest["next"] is whole["next"] is None


def test_a_replay_that_gets_no_further_turn_in_time_tells_what_it_has(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request ahead of it may take longer than its caller waits."""
    begun, go_on, replay_one = threading.Event(), threading.Event(), replaying._replay_attempt

    def slowly(*asked: Any) -> None:
        begun.set()
        assert go_on.wait(SOON)
        replay_one(*asked)

    async def ask(stage: Stage) -> Json:
        evaluations, ended = stage.app.state.shared.backend.evaluator, asyncio.Event()

        async def occupy() -> None:
            async with evaluations.admit("another"), evaluations.lane(is_large=True).turn():
                await ended.wait()

        asking = asyncio.create_task(stage.post("/v1/replay", {}))
        assert await asyncio.to_thread(begun.wait, SOON)
        occupying = asyncio.create_task(occupy())
        await asyncio.sleep(0)  # now it waits for its turn
        go_on.set()
        answer = await asking
        ended.set()
        await occupying
        found: Json = answer.json()
        return found

    monkeypatch.setattr(replaying, "_replay_attempt", slowly)
    monkeypatch.setattr(replaying, "_SECONDS", 0.05)
    found = running.call(ask(running.stage))

    assert (found["attempts"], found["same"]) == (1, 1)
    assert found["next"] is not None


@staged
async def test_a_replay_takes_any_time_that_can_be_written(stage: Stage) -> None:
    late = await stage.post("/v1/replay", {"select": {"since": "9999-12-31T23:59:59Z"}}, OPERATOR)
    early = await stage.post("/v1/replay", {"select": {"since": "0001-01-01T00:00:00Z"}}, OPERATOR)

    assert (late.status_code, late.json()["attempts"]) == (200, 0)
    assert early.json()["attempts"] > 0


@staged
async def test_replay_and_export_are_for_operators(stage: Stage) -> None:
    for token, code in ((OPERATOR, 200), (AUTHOR, 403), (READER, 403)):
        assert (await stage.post("/v1/replay", {"select": {"limit": 1}}, token)).status_code == code
        assert (await stage.get("/v1/snapshot", token)).status_code == code


@staged
async def test_the_export_holds_what_decisions_are_made_of(stage: Stage) -> None:
    found = await stage.json("/v1/snapshot", OPERATOR)

    assert [one["metadata"]["name"] for one in found["clusters"]] == sorted(CLUSTERS)
    assert {one["kind"] for one in found["policySnapshots"]} == {
        "ClusterSchedulingPolicySnapshot",
        "SchedulingPolicySnapshot",
    }
    assert len(found["bindings"]) == 2 + 4 + 4
    assert found["pending"] == ["big"]
    assert ADMIN not in str(found)


@alone
async def test_a_change_of_policy_shows_in_the_difference_of_two_attempts(stage: Stage) -> None:
    await stage.world.edit_policy("web", numberOfClusters=3)
    await stage.world.soon_scheduled("web")
    await stage.wait_until_recorded()
    newest = (await stage.json("/v1/placements/-/web/history"))["items"][0]["n"]
    first = 1 + (await stage.json("/v1/placements/-/web/history"))["items"][-1]["repeats"]

    found = (await stage.json(f"/v1/placements/-/web/history?diff={first}..{newest}"))["comparison"]

    assert len(found["gained"]) == 1
    assert {"what": "wanted", "before": 2, "after": 3} in found["changes"]
    assert set(SEEN) | set(HIDDEN) > set(found["gained"])


# --- proposed changes of a placement that is there --------------------------------------------------------------------


def web_with(**policy: Any) -> Json:
    return an_idea("") | {
        "metadata": {"name": "web"},
        "spec": an_idea("")["spec"] | {"policy": policy},
    }


@staged
async def test_a_proposed_change_of_a_placement_counts_its_bindings(stage: Stage) -> None:
    before = await stage.world.in_use("web")

    answer = await stage.post("/v1/simulate", {"placement": web_with(placementType="PickN", numberOfClusters=3)})
    found = answer.json()

    assert answer.status_code == 200, answer.text
    assert found["answer"]["verdict"]["counts"]["alreadySelected"] == 2
    assert found["compare"]["before"]["selected"] == 2
    assert (len(found["compare"]["gained"]), found["compare"]["lost"]) == (1, [])
    assert not before & set(found["compare"]["gained"])
    assert {"what": "wanted", "before": 2, "after": 3} in found["compare"]["changes"]
    assert found["compare"]["after"]["snapshot"] == found["compare"]["before"]["snapshot"]


@staged
async def test_a_proposed_policy_has_the_next_snapshot_and_keeps_what_still_fits(stage: Stage) -> None:
    kept = sorted(await stage.world.in_use("web"))[0]
    wanted = {"placementType": "PickN", "numberOfClusters": 1} | {
        "affinity": {
            "clusterAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"region": CLUSTERS[kept]}}}]
                }
            }
        }
    }

    found = (await stage.post("/v1/simulate", {"placement": web_with(**wanted)})).json()

    assert found["compare"]["after"]["snapshot"] == "web-1"
    assert set(found["compare"]["lost"]) == await stage.world.in_use("web") - set(found["compare"]["after"]["targets"])
    assert found["compare"]["gained"] == [] or CLUSTERS[found["compare"]["gained"][0]] == CLUSTERS[kept]


@staged
async def test_a_proposed_change_that_the_hub_refuses_is_refused(stage: Stage) -> None:
    answer = await stage.post("/v1/simulate", {"placement": web_with(placementType="PickAll")})

    assert answer.status_code == 422
    assert "placementType cannot be changed; create a new placement" in answer.text


@alone
async def test_a_proposed_change_needs_the_right_to_read_the_placement(stage: Stage) -> None:
    """The answer says where it runs."""
    everything = {"apiGroups": ["placement.kubernetes-fleet.io"], "resources": ["*"], "verbs": ["create"]}
    await stage.world.patch(ROLES, "rosa", {"rules": [*RIGHTS["rosa"], everything]})

    async def ask_about(name: str) -> int:
        document = web_with(placementType="PickAll") | {"metadata": {"name": name}}
        return (await stage.post("/v1/simulate", {"placement": document}, READER)).status_code

    assert await ask_about("new") == 200
    assert await ask_about("big") == 403
