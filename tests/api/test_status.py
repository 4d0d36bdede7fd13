"""The fleet at a glance, one cluster with all placements, and filters of lists, as callers see them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from api.models import ClusterModel
from api.services import objects
from api.services.objects import build_cluster_model
from tests.api.stage import AUTHOR, HIDDEN, OPERATOR, READER, SEEN, STRANGER, Json, Stage, alone, staged


def keys(answer: Json) -> list[str]:
    return [item["key"] for item in answer["items"]]


async def until_seen(stage: Stage, cluster: str) -> None:
    """Until the API reports that the cluster is not eligible."""
    while (await stage.json(f"/v1/clusters/{cluster}"))["eligible"]:
        await asyncio.sleep(0.01)


# --- status -----------------------------------------------------------------------------------------------------------


@staged
async def test_the_status_counts_everything_and_names_what_is_short_and_why(stage: Stage) -> None:
    status = await stage.json("/v1/status", OPERATOR)

    assert status["placements"] == {"total": 3, "fulfilled": 2, "short": 1, "undecided": 0}
    assert [trouble["key"] for trouble in status["trouble"] if trouble["condition"] == "Scheduled"] == ["big"]
    (short,) = [trouble for trouble in status["trouble"] if trouble["key"] == "big"]
    assert (short["wanted"], short["selected"]) == (5, 4)
    assert "untolerated taint {dedicated: batch}" in short["why"]


@staged
async def test_the_status_gives_the_reason_that_why_gives(stage: Stage) -> None:
    status, why = await stage.json("/v1/status"), await stage.json("/v1/placements/-/big/why")
    (short,) = [trouble for trouble in status["trouble"] if trouble["key"] == "big"]

    rejected = "1 untolerated taint {dedicated: batch}"
    assert rejected in short["why"]
    assert rejected in why["verdict"]["summary"]


@staged
async def test_the_status_takes_its_turn_beside_other_questions(stage: Stage) -> None:
    paths = ("/v1/placements/-/big/why?fixes=deep", "/v1/status", "/v1/clusters/osl-1/placements", "/v1/status")
    answers = await asyncio.gather(*(stage.json(path, OPERATOR) for path in paths))

    assert answers[1]["trouble"] == answers[3]["trouble"]


@staged
async def test_others_have_their_turn_between_the_clusters_of_a_fleet(stage: Stage) -> None:
    turns, built = 0, list[int]()

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def note(*args: Any, **more: Any) -> ClusterModel:
        built.append(turns)
        return build_cluster_model(*args, **more)

    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(objects, "_BETWEEN_TURNS", 1)
        patching.setattr(objects, "build_cluster_model", note)
        other = asyncio.create_task(count_turns())
        await stage.get("/v1/status")
        other.cancel()

    assert len(set(built)) == len(built) > 3


@staged
async def test_clusters_that_take_only_tolerated_work_are_listed(stage: Stage) -> None:
    status = await stage.json("/v1/status")

    assert status["clusters"] == {"total": 5, "eligible": 5, "tainted": 1, "redacted": 0}
    (cluster,) = status["troubledClusters"]
    assert (cluster["name"], cluster["state"], cluster["eligible"]) == ("osl-1", "tainted", True)


@staged
async def test_moves_of_the_last_hour_are_the_writes_of_decisions(stage: Stage) -> None:
    status = await stage.json("/v1/status")
    gained = {move["key"]: set(move["gained"]) for move in status["moves"]}

    assert gained["web"] == await stage.world.in_use("web")
    assert gained["big"] == await stage.world.in_use("big")
    assert status["moreMoves"] == 0


@staged
async def test_a_caller_sees_their_own_part_of_the_fleet(stage: Stage) -> None:
    answer = await stage.get("/v1/status", AUTHOR)
    status = answer.json()

    assert status["placements"]["total"] == 2
    assert status["clusters"]["total"] == len(SEEN)
    assert status["clusters"]["redacted"] == len(HIDDEN)
    assert {move["key"] for move in status["moves"]} == {"big", "web"}
    assert not any(name in answer.text for name in (*HIDDEN, "cache"))


@staged
async def test_who_may_list_nothing_is_refused(stage: Stage) -> None:
    for token in (STRANGER, READER):
        assert (await stage.get("/v1/status", token)).status_code == 403


@staged
async def test_the_text_of_the_status_has_the_same_facts(stage: Stage) -> None:
    text = (await stage.get("/v1/status", Accept="text/plain")).text

    assert "3 placements: 2 have the clusters they want, 1 short" in text
    assert "untolerated taint {dedicated: batch}" in text
    assert "osl-1" in text


@alone
async def test_trouble_comes_and_goes_with_the_fleet(stage: Stage) -> None:
    await stage.world.taint("osl-1")
    await stage.world.soon_scheduled("big")
    status = await stage.json("/v1/status")
    assert status["placements"]["short"] == 0
    assert status["troubledClusters"] == []

    await stage.world.report("ams-2", joined="False")
    await until_seen(stage, "ams-2")
    status = await stage.json("/v1/status")
    states = [(cluster["name"], cluster["state"], cluster["eligible"]) for cluster in status["troubledClusters"]]
    assert states == [("ams-2", "not joined", False)]
    assert status["clusters"]["eligible"] == 4


# --- one cluster ------------------------------------------------------------------------------------------------------


@staged
async def test_a_cluster_has_each_placement_with_what_rejects_it(stage: Stage) -> None:
    answer = await stage.json("/v1/clusters/osl-1/placements")

    assert keys(answer) == ["big", "shop/cache", "web"]
    assert {item["state"] for item in answer["items"]} == {"rejected"}
    assert {item["plugin"] for item in answer["items"]} == {"TaintToleration"}
    assert all("dedicated" in item["why"] for item in answer["items"])


@staged
async def test_what_is_there_agrees_with_the_bindings(stage: Stage) -> None:
    used = await stage.world.in_use("web")
    for cluster in ("ams-1", "ams-2", "dub-1", "dub-2"):
        answer = await stage.json(f"/v1/clusters/{cluster}/placements")
        states = {item["key"]: item["state"] for item in answer["items"]}

        assert states["web"] == ("there" if cluster in used else "fits")
        assert states["big"] == "there"


@staged
async def test_the_reason_is_that_of_why_not(stage: Stage) -> None:
    (item, *_) = (await stage.json("/v1/clusters/osl-1/placements"))["items"]
    answer = await stage.json("/v1/clusters/osl-1/why-not?placement=big")
    (row,) = answer["attempt"]["clusters"]

    assert item["plugin"] == row["first"]


@staged
async def test_pages_of_a_cluster_go_on_where_the_last_one_ended(stage: Stage) -> None:
    first = await stage.json("/v1/clusters/ams-1/placements?limit=2")
    second = await stage.json(f"/v1/clusters/ams-1/placements?limit=2&cursor={first['next']}")

    assert keys(first) + keys(second) == ["big", "shop/cache", "web"]
    assert second["next"] is None


@staged
async def test_a_cluster_is_shown_to_those_who_may_read_it(stage: Stage) -> None:
    assert keys(await stage.json("/v1/clusters/ams-1/placements", AUTHOR)) == ["big", "web"]
    assert (await stage.get("/v1/clusters/osl-1/placements", AUTHOR)).status_code == 403
    assert (await stage.get("/v1/clusters/nowhere/placements")).status_code == 404


# --- filters of lists -------------------------------------------------------------------------------------------------


@staged
async def test_lists_of_placements_are_filtered(stage: Stage) -> None:
    assert keys(await stage.json("/v1/placements?fulfilled=false")) == ["big"]
    assert keys(await stage.json("/v1/placements?fulfilled=true")) == ["shop/cache", "web"]
    assert keys(await stage.json("/v1/placements?selector=team")) == []
    assert keys(await stage.json("/v1/placements?selector=!team&fulfilled=true&limit=1")) == ["shop/cache"]


@staged
async def test_a_selector_that_cannot_be_read_is_refused_with_its_name(stage: Stage) -> None:
    for selector in ("a=b=c", "a in b", ",", "a in (b"):
        answer = await stage.get(f"/v1/placements?selector={selector}")

        assert answer.status_code == 422
        assert answer.json()["field"] == "selector"
