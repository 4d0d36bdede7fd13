"""Why, after the events of daily life: about the present, with what happened, and never blank."""

from __future__ import annotations

import asyncio

import pytest

from api.live import warnings
from api.live.warnings import WarningEvents
from fleet.errors import Forbidden
from fleet.kube.api import Method, Request
from fleet.kube.events import EVENTS
from fleet.kube.scopes import MEMBER_CLUSTERS
from tests.api.stage import READER, Json, Stage, alone
from tests.e2e.hub import soon

WEB = "/v1/placements/-/web/why?fixes=none"
DOWN = {"key": "down", "effect": "NoSchedule"}


async def text_of(stage: Stage, path: str) -> str:
    answer = await stage.get(path, Accept="text/plain")
    assert answer.status_code == 200, answer.text
    assert "(none)" not in answer.text
    return answer.text


def row_of(answer: Json, name: str) -> Json:
    return next(row for row in answer["attempt"]["clusters"] if row["name"] == name)


@alone
async def test_after_a_downscale_the_others_are_newcomers_and_the_lost_one_has_its_cause(stage: Stage) -> None:
    before = await stage.world.in_use("web")
    await stage.world.edit_policy("web", numberOfClusters=1)
    await stage.world.soon_scheduled("web")
    (kept,) = await stage.world.in_use("web")
    (lost,) = before - {kept}
    await stage.wait_until_recorded()

    answer, text = await stage.json(WEB), await text_of(stage, WEB)

    counts = answer["verdict"]["counts"]
    assert (counts["selected"], counts["alreadySelected"], counts["fit"], counts["rejected"]) == (0, 1, 3, 1)
    assert answer["verdict"]["summary"].startswith(
        "1 of 1 wanted cluster in use; 3 others fit, 1 cannot: 1 untolerated"
    )
    assert answer["attempt"]["newcomers"]
    assert [(past["cluster"], past["because"]) for past in answer["givenUp"]] == [
        (lost, "numberOfClusters 2 → 1: the lowest stored score goes first")
    ]
    for fact in (
        answer["verdict"]["summary"],
        "would be the next",
        "IN USE",
        "GIVEN UP",
        answer["givenUp"][0]["because"],
    ):
        assert fact in text.replace("\n", " ")
    assert "given up at 20" in await text_of(stage, f"/v1/clusters/{lost}/why-not?placement=web&fixes=none")


@alone
async def test_a_cluster_that_is_kept_though_tainted_says_so(stage: Stage) -> None:
    name = min(await stage.world.in_use("web"))
    await stage.world.taint(name, DOWN)

    async def is_known() -> bool:
        return bool(row_of(await stage.json(WEB), name)["concerns"])

    await soon(is_known)
    row, text = row_of(await stage.json(WEB), name), await text_of(stage, WEB)

    assert (row["standing"], [concern["reason"] for concern in row["concerns"]]) == ("kept", ["UntoleratedTaint"])
    assert f"{name}" in text
    assert "kept, though untolerated taint {down}" in text
    assert "would not be chosen now" in await text_of(stage, f"/v1/clusters/{name}/why-not?placement=web&fixes=none")


@alone
async def test_a_fixed_cluster_that_fell_silent_is_still_there(stage: Stage) -> None:
    await stage.world.place("fixed", {"placementType": "PickFixed", "clusterNames": ["ams-1", "ams-2"]})
    await stage.world.soon_scheduled("fixed")
    await stage.world.report("ams-1", silent_for=48 * 3600)
    path = "/v1/placements/-/fixed/why?fixes=none"

    async def is_retained() -> bool:
        return bool(row_of(await stage.json(path), "ams-1")["standing"] == "retained")

    await soon(is_retained)
    answer, text = await stage.json(path), await text_of(stage, path)

    assert answer["verdict"]["state"] == "Scheduled"  # as the hub shows it until the next decision
    assert "StatusIsOlder" in [note["reason"] for note in answer["statusNotes"]]
    assert "STILL THERE" in text
    assert "retained, though agent silent since" in text


@alone
async def test_a_cluster_that_left_is_not_shown_as_one_that_fits(stage: Stage) -> None:
    gone = min({"ams-1", "ams-2", "dub-1", "dub-2"} - await stage.world.in_use("web"))
    await stage.world.delete(MEMBER_CLUSTERS, gone)

    async def is_gone() -> bool:
        return all(row["name"] != gone for row in (await stage.json(WEB))["attempt"]["clusters"])

    await soon(is_gone)
    answer = await stage.get(f"/v1/clusters/{gone}/why-not?placement=web")

    assert answer.status_code == 410
    assert f"cluster {gone} left the fleet at 20" in answer.json()["detail"]


@alone
async def test_a_placement_that_cannot_be_used_says_so_and_selects_nothing(stage: Stage) -> None:
    deployment = {"group": "apps", "version": "v1", "kind": "Deployment", "name": "web"}
    await stage.world.place("wrong", {"placementType": "PickN", "numberOfClusters": 1}, selects=[deployment])
    path = "/v1/placements/-/wrong/why?fixes=none"

    async def is_refused() -> bool:
        return bool((await stage.json(path))["verdict"]["problems"])

    await soon(is_refused)
    answer, text = await stage.json(path), await text_of(stage, path)

    assert answer["verdict"]["state"] == "InputError"
    assert "PL-06: Deployment is namespaced" in answer["verdict"]["problems"][0]["message"]
    assert "PL-06: Deployment is namespaced" in text
    assert "SELECTED" not in text


@alone
async def test_a_placement_that_selects_nothing_says_so(stage: Stage) -> None:
    notes = (await stage.json(WEB))["statusNotes"]

    assert [note["reason"] for note in notes if not note["at"]] == ["SelectsNothing"]
    assert "selects nothing: there is no v1 Namespace named nothing-by-this-name" in await text_of(stage, WEB)


@alone
async def test_warning_events_are_told_with_their_time(stage: Stage) -> None:
    await stage.world.place("lost", {"placementType": "PickAll"}, selects=[namespace_named("shopp")])
    path = "/v1/placements/-/lost/why?fixes=none"

    async def list_notes() -> list[Json]:
        notes: list[Json] = (await stage.json(path))["statusNotes"]
        return [note for note in notes if note["at"]]

    (warning,) = await soon(list_notes)
    text = await text_of(stage, path)

    assert warning["reason"] == "SelectorMatchedNothing"
    assert warning["message"].endswith("matches nothing: v1 Namespace named shopp; did you mean shop?")
    assert "Warning at 20" in text
    assert warning["message"] in text
    assert "Warning at 20" in await text_of(stage, "/v1/clusters/ams-1/why-not?placement=lost&fixes=none")


@alone
async def test_who_may_not_read_all_clusters_gets_no_warnings(stage: Stage) -> None:
    await stage.world.create(EVENTS, a_warning(await stage.world.placement("web"), "dub-1 burns"))
    path = "/v1/placements/-/web/why"

    async def is_told() -> bool:
        return "dub-1 burns" in (await stage.get(path)).text

    await soon(is_told)

    assert "burns" not in (await stage.get(path, READER)).text


@alone
async def test_a_hub_that_does_not_let_events_be_read_costs_no_answer(stage: Stage) -> None:
    call, refused = stage.hub.call, []

    async def refuse_events(request: Request) -> bytes:
        if request.path.endswith("/namespaces/default/events") and request.method is Method.GET:
            refused.append(request)
            raise Forbidden("no events for you", status=403)
        return await call(request)

    stage.hub.call = refuse_events  # type: ignore[method-assign]

    for placement in ("web", "big", "web"):
        assert (await stage.get(f"/v1/placements/-/{placement}/why")).status_code == 200
    assert len(refused) == 1  # and no other request for a while


@alone
async def test_who_asks_again_soon_does_not_wait_for_the_events_of_a_busy_hub(stage: Stage) -> None:
    call, may_answer = stage.hub.call, asyncio.Event()
    may_answer.set()

    async def answer_when_told(request: Request) -> bytes:
        if request.path.endswith("/namespaces/default/events") and request.method is Method.GET:
            await may_answer.wait()
        return await call(request)

    stage.hub.call = answer_when_told  # type: ignore[method-assign]
    await stage.world.create(EVENTS, a_warning(await stage.world.placement("web"), "dub-1 burns"))
    backend = stage.app.state.shared.backend
    placement = backend.live.get_placement("web")

    for fresh, waits in ((600.0, False), (0.0, True)):
        with pytest.MonkeyPatch.context() as patching:
            patching.setattr(warnings, "_FRESH", fresh)
            events = WarningEvents(stage.hub, clock=backend.live.clock)
            told = await events.list_latest(placement)
            assert told
            may_answer.clear()
            asking = [asyncio.create_task(events.list_latest(placement)) for _ in range(2)]
            for _ in range(5):
                await asyncio.sleep(0)
            assert [task.done() for task in asking] == [not waits] * 2
            may_answer.set()
            assert await asyncio.gather(*asking) == [told] * 2


def namespace_named(name: str) -> Json:
    return {"group": "", "version": "v1", "kind": "Namespace", "name": name}


def a_warning(about: Json, message: str) -> Json:
    metadata = about["metadata"]
    return {
        "metadata": {"name": "warning-1", "namespace": "default"},
        "involvedObject": {"kind": about["kind"], "name": metadata["name"], "uid": metadata["uid"]},
        "type": "Warning",
        "reason": "Burning",
        "message": message,
        "lastTimestamp": "2026-03-10T09:00:00Z",
    }
