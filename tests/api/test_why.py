"""Why, and why not."""

from __future__ import annotations

import re

import msgspec
import pytest

from api.text.why import render_why, render_why_not
from api.why_models import WhyAnswer
from fleet.framework.status import Code
from fleet.history import History
from tests.api.stage import ADMIN, AUTHOR, CLUSTERS, HIDDEN, READER, SEEN, Json, Stage, alone, staged
from tests.databases import SOON
from tests.e2e.world import handed_over


def rows(found: Json) -> dict[str, Json]:
    return {row["name"]: row for row in found["attempt"]["clusters"]}


@staged
async def test_why_tells_from_the_record_where_a_placement_is(stage: Stage) -> None:
    found = await stage.json("/v1/placements/-/web/why")

    assert (found["verdict"]["state"], found["attempt"]["evaluatedOn"]) == ("Scheduled", "recorded")
    assert found["recorded"]["id"] == found["attempt"]["id"]
    chosen = {name for name, row in rows(found).items() if row["outcome"] == "selected"}
    assert chosen == await stage.world.in_use("web")
    assert found["links"]["history"] == "/v1/placements/-/web/history"


@staged
async def test_the_state_stands_in_a_header_whichever_form_the_answer_has(stage: Stage) -> None:
    """A script that shows people the text need not ask twice."""
    why, why_not = "/v1/placements/-/{}/why", "/v1/clusters/osl-1/why-not?placement={}"
    for path in (why, why_not):
        for name, state in (("web", "Scheduled"), ("big", "Partial")):
            for accept in ("application/json", "text/plain"):
                answer = await stage.get(path.format(name), Accept=accept)

                assert answer.headers["fleet-state"] == state
    would = await stage.post("/v1/simulate", {"placement": {"ref": "big"}}, Accept="text/plain")

    assert would.headers["fleet-state"] == "Partial"


@staged
async def test_json_and_text_say_the_same_in_the_same_words(stage: Stage) -> None:
    """The command line renders the JSON on a terminal."""
    compared = 0
    for token in (ADMIN, READER, AUTHOR):
        for path in ("web/why", "web/why?explain=all&cluster=ams-1", "big/why?fixes=deep", "web/why?attempt=1"):
            as_json = await stage.get(f"/v1/placements/-/{path}", token)
            as_text = await stage.get(f"/v1/placements/-/{path}", token, Accept="text/plain")
            if as_json.status_code == 200:
                compared += 1
                answer = msgspec.json.decode(as_json.content, type=WhyAnswer)
                rendered = render_why(answer, is_about_cluster="cluster=" in path)
                assert without_times(rendered) == without_times(as_text.text)
    assert compared >= 10
    as_json = await stage.get("/v1/clusters/osl-1/why-not?placement=big")
    as_text = await stage.get("/v1/clusters/osl-1/why-not?placement=big", Accept="text/plain")
    assert render_why_not(msgspec.json.decode(as_json.content, type=WhyAnswer)) == as_text.text


def without_times(text: str) -> str:
    return re.sub(r"\d\d:\d\d:\d\d", "", text)


@alone
async def test_a_decision_is_told_from_its_record_as_soon_as_it_is_made(stage: Stage) -> None:
    """Its record may still wait for others to be written with it."""
    await stage.world.place("new", {"placementType": "PickN", "numberOfClusters": 1})
    await stage.world.soon_scheduled("new")
    await handed_over(stage.controller)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("api.services.decisions.attempts._FLUSH_SECONDS", SOON)
        found = await stage.json("/v1/placements/-/new/why?fixes=none")

    assert found["attempt"]["evaluatedOn"] == "recorded"
    assert found["recorded"]["key"] == "new"


@alone
async def test_after_fewer_are_wanted_why_tells_of_those_that_are_left(stage: Stage) -> None:
    await stage.world.edit_policy("web", numberOfClusters=1)
    await stage.world.soon_scheduled("web")

    found = await stage.json("/v1/placements/-/web/why?fixes=none")

    assert found["verdict"]["wanted"] == 1
    in_use = {name for name, row in rows(found).items() if row["standing"] in ("selected", "kept")}
    assert in_use == await stage.world.in_use("web")


@staged
async def test_why_tells_what_an_unfulfilled_placement_waits_for_and_what_would_help(stage: Stage) -> None:
    found = await stage.json("/v1/placements/-/big/why?fixes=deep")

    assert found["verdict"]["state"] == "Partial"
    assert found["queue"]["space"] == "unschedulable"
    assert found["queue"]["rejectors"] == ["TaintToleration"]
    edits = [fix["edits"][0]["op"] for fix in found["fixes"]]
    assert "tolerate" in edits


def in_region(region: str) -> Json:
    term = {"labelSelector": {"matchLabels": {"region": region}}}
    required = {"clusterSelectorTerms": [term]}
    return {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


@alone
async def test_W_06_a_fix_carried_out_does_what_it_promised_with_the_bindings_there_are(stage: Stage) -> None:
    """The attempt was made when nothing was bound yet; now two clusters are, and keep what they have."""
    await stage.world.place("few", {"placementType": "PickN", "numberOfClusters": 3, "affinity": in_region("ams")})
    await stage.world.soon_on("few", "ams-1", "ams-2")
    await stage.wait_until_recorded()

    found = await stage.json("/v1/placements/-/few/why")
    (fix,) = [one for one in found["fixes"] if one["edits"][0]["op"] == "relaxAffinity"]
    await stage.world.edit_policy("few", affinity=None)

    assert (found["attempt"]["evaluatedOn"], found["fixesEvaluatedOn"]) == ("recorded", "current")
    assert {"ams-1", "ams-2"} < set(fix["effect"]["targets"])
    await stage.world.soon_on("few", *fix["effect"]["targets"])


@alone
async def test_W_06_a_fix_for_one_cluster_carried_out_brings_it_in(stage: Stage) -> None:
    await stage.world.place("few", {"placementType": "PickN", "numberOfClusters": 3, "affinity": in_region("ams")})
    await stage.world.soon_on("few", "ams-1", "ams-2")

    found = await stage.json("/v1/clusters/dub-2/why-not?placement=few")
    (fix,) = [one for one in found["fixes"] if one["edits"][0]["op"] == "relaxAffinity"]
    await stage.world.edit_policy("few", affinity=None)

    assert {"ams-1", "ams-2", "dub-2"} == set(fix["effect"]["targets"])
    await stage.world.soon_on("few", *fix["effect"]["targets"])


@staged
async def test_fixes_of_an_earlier_attempt_are_tried_on_its_own_fleet(stage: Stage) -> None:
    (*_, first) = (await stage.json("/v1/placements/-/big/history"))["items"]

    found = await stage.json(f"/v1/placements/-/big/why?attempt={first['n']}")

    assert (found["attempt"]["evaluatedOn"], found["fixesEvaluatedOn"]) == ("recorded", "recorded")


@staged
async def test_an_attempt_by_a_number_beyond_all_numbers_is_not_on_record(stage: Stage) -> None:
    answer = await stage.get(f"/v1/placements/-/big/why?attempt={'9' * 40}")

    assert (answer.status_code, answer.json()["field"]) == (404, "attempt")


@staged
async def test_W_01_an_attempt_is_told_hook_by_hook(stage: Stage) -> None:
    """What the default profile has nothing for is there, and empty."""
    attempt = (await stage.json("/v1/placements/-/big/why?fixes=none"))["attempt"]
    found = {row["name"]: row for row in attempt["clusters"]}

    assert [one["plugin"] for one in attempt["preFilter"]] == [
        "ClusterAffinity",
        "NamespaceAffinity",
        "TopologySpreadConstraints",
    ]
    assert [(one["plugin"], one["clusters"]) for one in attempt["groups"]] == [("TaintToleration", ["osl-1"])]
    assert attempt["postFilter"] is None
    assert [one["plugin"] for one in attempt["preScore"]] == ["ClusterAffinity", "TopologySpreadConstraints"]
    for name in ("ams-1", "ams-2", "dub-1", "dub-2"):
        assert (found[name]["outcome"], len(found[name]["key"])) == ("selected", 3)
        for score in found[name]["scores"]:
            assert {"raw", "normalized", "final"} <= score.keys()
    assert (attempt["reserve"], attempt["permit"], attempt["preBind"]) == ([], [], [])
    assert attempt["bind"] == []  # no plugin is asked to bind: the dispatcher writes
    written = {(one["cluster"], one["action"], one["result"], one["error"]) for one in attempt["writes"]}
    assert written == {(name, "create", "written", "") for name in CLUSTERS if name != "osl-1"}


@staged
async def test_F3_012_every_code_is_told_by_its_name(stage: Stage) -> None:
    attempt = (await stage.json("/v1/placements/-/big/why?explain=all"))["attempt"]

    told = {hook: {one["code"] for one in attempt[hook]} for hook in ("preFilter", "preScore", "groups")}
    assert told == {
        "preFilter": {str(Code.SKIP)},
        "preScore": {str(Code.SKIP)},
        "groups": {str(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)},
    }
    (refused,) = [one for row in attempt["clusters"] for one in row["rejections"] if one["verdict"] == "reject"]
    assert (refused["plugin"], refused["code"]) == ("TaintToleration", str(Code.UNSCHEDULABLE_AND_UNRESOLVABLE))


class Forgetful(History):
    """Does not keep what attempts were decided on."""

    def inputs(self, attempt_id: str) -> None:
        return None


@alone
async def test_W_16_without_its_fleet_an_attempt_is_judged_on_the_present_one_and_its_record_stays(
    stage: Stage,
) -> None:
    path = "/v1/placements/-/big/why?fixes=none"
    assert stage.history is not None
    stage.history.__class__ = Forgetful
    lost = await stage.json(path)
    stage.history.__class__ = History
    kept = await stage.json(f"{path}&limit=19")  # the other answer may be served again for a second

    assert (kept["attempt"]["evaluatedOn"], lost["attempt"]["evaluatedOn"]) == ("recorded", "current")
    assert lost["recorded"] == kept["recorded"]
    assert {one["name"]: one["outcome"] for one in lost["attempt"]["clusters"]}["ams-1"] == "already-selected"
    text = await stage.get(path, Accept="text/plain")
    assert "evaluated on the fleet as it is now" not in text.text


@staged
async def test_W_05_counts_add_up_to_the_number_of_clusters(stage: Stage) -> None:
    for token in (None, READER, AUTHOR):
        path = "/v1/placements/-/web/why"
        counts = (await (stage.json(path, token) if token else stage.json(path)))["verdict"]["counts"]

        assert sum(counts.values()) == 2 * counts["total"] == 2 * len(CLUSTERS)


@staged
async def test_an_attempt_can_be_asked_for_by_number_and_by_id(stage: Stage) -> None:
    (newest, *_) = (await stage.json("/v1/placements/-/big/history"))["items"]

    by_number = await stage.get(f"/v1/placements/-/big/why?fixes=none&attempt={newest['n']}")
    by_id = await stage.get(f"/v1/placements/-/big/why?fixes=none&attempt={newest['id']}")

    assert by_number.json() == by_id.json()
    assert by_number.headers["etag"].startswith(f'"{newest["id"]}-')
    assert by_number.json()["attempt"]["digest"] == newest["digest"]


@staged
async def test_the_verdicts_of_all_filters_are_given_to_who_asks_for_them(stage: Stage) -> None:
    first = rows(await stage.json("/v1/placements/-/big/why?cluster=osl-1"))
    whole = rows(await stage.json("/v1/placements/-/big/why?cluster=osl-1&explain=all"))

    assert [one["plugin"] for one in first["osl-1"]["rejections"]] == ["TaintToleration"]
    assert len(whole["osl-1"]["rejections"]) > 3
    refused = [one["plugin"] for one in whole["osl-1"]["rejections"] if one["verdict"] == "reject"]
    assert refused[0] == first["osl-1"]["first"]


@staged
async def test_rows_go_on_where_the_last_page_ended(stage: Stage) -> None:
    names, cursor = [], ""
    while True:
        found = await stage.json(f"/v1/placements/-/big/why?limit=2&fixes=none{cursor}")
        names += list(rows(found))
        if not found["attempt"]["nextCursor"]:
            break
        cursor = f"&cursor={found['attempt']['nextCursor']}"

    assert sorted(names) == sorted(CLUSTERS)


@staged
async def test_why_not_tells_of_one_cluster_what_every_filter_says(stage: Stage) -> None:
    found = await stage.json("/v1/clusters/osl-1/why-not?placement=web&fixes=deep")

    assert list(rows(found)) == ["osl-1"]
    assert rows(found)["osl-1"]["first"] == "TaintToleration"
    assert any(fix["scope"] == "placement" for fix in found["fixes"])


@staged
async def test_why_not_of_a_cluster_that_fits_tells_by_how_much_it_lost(stage: Stage) -> None:
    used = await stage.world.in_use("web")
    other = min(set(CLUSTERS) - used - {"osl-1"})

    row = rows(await stage.json(f"/v1/clusters/{other}/why-not?placement=web"))[other]

    assert (row["outcome"], row["because"]) == ("fit-not-selected", "rank")
    assert row["margin"]["to"] in used


@staged
async def test_the_text_is_for_people(stage: Stage) -> None:
    found = await stage.get("/v1/placements/-/big/why", Accept="text/plain")

    assert found.text.startswith("big   Partial since ")
    assert "FIXES (verified" in found.text
    assert "NEXT       tried again when a cluster joins that may take work;" in found.text


@staged
async def test_of_one_cluster_the_text_is_about_that_cluster(stage: Stage) -> None:
    found = await stage.get("/v1/placements/-/big/why?cluster=osl-1&explain=all", Accept="text/plain")

    assert "osl-1 is rejected by TaintToleration\n" in found.text
    assert "NEXT       tried again when" in found.text
    assert "REJECTED BY" not in found.text
    assert "count 5 → 4" in found.text


@staged
async def test_an_answer_from_the_record_is_not_sent_twice(stage: Stage) -> None:
    path = "/v1/placements/shop/cache/why?fixes=none"
    first = await stage.get(path)
    second = await stage.get(path, **{"If-None-Match": first.headers["etag"]})

    assert second.status_code == 304


@staged
async def test_W_10_no_answer_names_a_cluster_that_the_caller_may_not_read(stage: Stage) -> None:
    paths = (
        "/v1/placements/-/web/why?explain=all&fixes=deep",
        "/v1/placements/-/big/why?explain=all&fixes=deep",
        "/v1/placements/-/big/history",
        "/v1/placements/-/big/history?diff=1..1",
        "/v1/clusters/ams-1/why-not?placement=big&fixes=deep",
    )
    for path in paths:
        for accept in ("application/json", "text/plain"):
            found = await stage.get(path, AUTHOR, Accept=accept)

            assert found.status_code == 200, found.text
            assert not [name for name in HIDDEN if name in found.text], (path, found.text)


@staged
async def test_W_10_redacted_rows_are_counted(stage: Stage) -> None:
    found = await stage.json("/v1/placements/-/web/why", READER)

    assert found["redacted"] == len(HIDDEN)
    assert set(rows(found)) <= set(SEEN)
    assert found["attempt"]["groups"][0]["hidden"] == 1


@staged
async def test_W_10_why_not_of_a_hidden_cluster_is_refused(stage: Stage) -> None:
    assert (await stage.get("/v1/clusters/dub-1/why-not?placement=web", READER)).status_code == 403
    assert (await stage.get("/v1/placements/-/web/why?cluster=dub-1", READER)).status_code == 403


@staged
async def test_W_07_asking_leaves_the_queue_and_the_figures_of_decisions_alone(stage: Stage) -> None:
    scheduler = stage.controller.scheduler
    assert scheduler is not None
    before, frame = scheduler.queue.count_items(), scheduler.table.frame()
    attempts = "fleet_schedule_attempts_total", {"result": "scheduled", "profile": "DefaultProfile"}
    decided = stage.controller.registry.get_sample_value(*attempts)
    assert decided

    for path in ("/v1/placements/-/web/why?explain=all&fixes=deep", "/v1/clusters/osl-1/why-not?placement=big"):
        assert (await stage.get(path)).status_code == 200

    assert scheduler.queue.count_items() == before
    assert scheduler.table.frame() is frame
    assert stage.controller.registry.get_sample_value(*attempts) == decided
