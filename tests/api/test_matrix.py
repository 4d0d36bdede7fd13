"""Whole matrices: the same as single answers, without hidden clusters, bounded in size and in number at a time."""

from __future__ import annotations

import base64
from typing import Any, Final

import msgspec
import pytest

from api.auth.permissions import Visibility
from api.http.limits import EvaluationLimiter
from api.live.evaluation import EvaluatedDecision, Lane
from api.services.matrix import build_grid
from fleet.clock import SystemClock
from fleet.explain.whatif.scenario import Scenario
from fleet.worker_thread import WorkerThread
from tests.api.stage import (
    ADMIN,
    AUTHOR,
    HIDDEN,
    OPERATOR,
    OVERSEER,
    READER,
    SEEN,
    STRANGER,
    Json,
    Running,
    Stage,
    alone,
    staged,
)
from tests.builders import a_cluster, a_policy, label
from tests.unit.explain.questions import ask

MATRIX: Final = "/v1/matrix"
BIG: Final = f"{MATRIX}?placement=big"
WORDS: Final = {
    "s": "selected",
    "a": "already-selected",
    "f": "fit-not-selected",
    "r": "rejected",
    "n": "not-evaluated",
}


def verdict_of(grid: Json, plugin: str, cluster: str) -> tuple[str, str]:
    cells, width = base64.b64decode(grid["verdicts"]), len(grid["clusters"])
    value = cells[grid["plugins"].index(plugin) * width + grid["clusters"].index(cluster)]
    if value in (0, 255):
        return ("skipped" if value else "pass"), ""
    assert grid["reasons"][value - 1]["plugin"] == plugin
    return "reject", grid["reasons"][value - 1]["text"]


@pytest.mark.parametrize("placement,path", [("big", "-/big"), ("web", "-/web"), ("shop/cache", "shop/cache")])
@pytest.mark.parametrize("token", [ADMIN, AUTHOR])
def test_every_cell_is_that_of_why(running: Running, placement: str, path: str, token: str) -> None:
    if (placement, token) == ("shop/cache", AUTHOR):
        assert running.call(running.stage.get(f"{MATRIX}?placement={placement}", token)).status_code == 403
        return
    grid = running.call(running.stage.json(f"{MATRIX}?placement={placement}", token))
    why = running.call(running.stage.json(f"/v1/placements/{path}/why?explain=all&limit=500", token))

    assert grid["placement"] == placement
    assert (grid["attempt"], grid["evaluatedOn"]) == (why["attempt"]["id"], why["attempt"]["evaluatedOn"])
    assert sorted(row["name"] for row in why["attempt"]["clusters"]) == grid["clusters"]
    assert grid["redacted"] == why["redacted"]
    for row in why["attempt"]["clusters"]:
        place = grid["clusters"].index(row["name"])
        assert WORDS[grid["outcomes"][place]] == row["outcome"]
        assert (place in grid["bound"]) is (row["outcome"] in ("selected", "already-selected"))
        for verdict in row["rejections"]:
            assert verdict_of(grid, verdict["plugin"], row["name"]) == (verdict["verdict"], verdict["short"])


@staged
async def test_a_rejection_has_its_reason(stage: Stage) -> None:
    grid = await stage.json(BIG)

    assert verdict_of(grid, "TaintToleration", "osl-1") == ("reject", "untolerated taint {dedicated: batch}")
    assert verdict_of(grid, "TaintToleration", "ams-1") == ("pass", "")


@alone
async def test_labels_that_the_policy_names_are_there(stage: Stage) -> None:
    spread = {"topologyKey": "region", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    policy = {"placementType": "PickN", "numberOfClusters": 2, "topologySpreadConstraints": [spread]}
    await stage.world.place("even", policy)
    await stage.world.soon_scheduled("even")

    assert (await stage.json(f"{MATRIX}?placement=even"))["labels"] == {"region": ["ams", "ams", "dub", "dub", "osl"]}
    assert (await stage.json(f"{MATRIX}?placement=even", AUTHOR))["labels"] == {"region": ["ams", "ams"]}


@alone
async def test_of_very_many_labels_those_of_constraints_and_of_clusters_that_one_may_read_are_there(
    stage: Stage,
) -> None:
    await stage.world.relabel(HIDDEN[0], customer="acme")
    await stage.world.relabel(SEEN[0], team="blue")
    unknown = [{"key": f"unheard-of-{number}", "operator": "DoesNotExist"} for number in range(100)]
    named = [{"key": key, "operator": "NotIn", "values": ["x"]} for key in ("customer", "team")]
    terms = [{"labelSelector": {"matchExpressions": [*unknown, *named]}}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms}}
    spread = {"topologyKey": "nowhere", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    policy = {"placementType": "PickN", "numberOfClusters": 2, "affinity": {"clusterAffinity": required}}
    await stage.world.place("many", policy | {"topologySpreadConstraints": [spread]})
    await stage.world.soon_scheduled("many")

    assert list((await stage.json(f"{MATRIX}?placement=many"))["labels"]) == ["customer", "team", "nowhere"]
    assert list((await stage.json(f"{MATRIX}?placement=many", AUTHOR))["labels"]) == ["team", "nowhere"]


@pytest.mark.parametrize("path", [BIG, f"{MATRIX}?placement=web", MATRIX])
@pytest.mark.parametrize("token", [AUTHOR, OVERSEER])
def test_hidden_clusters_are_counted_and_never_named(running: Running, path: str, token: str) -> None:
    answer = running.call(running.stage.get(path, token))
    grid = answer.json()
    names = [one if isinstance(one, str) else one["name"] for one in grid["clusters"]]

    assert answer.status_code == 200
    assert names == list(SEEN)
    assert grid["redacted"] == len(HIDDEN)
    assert not [name for name in HIDDEN if name in answer.text]
    assert not [region for region in ("dub", "osl") if region in answer.text]


CASES: Final = [
    (BIG, READER, 403),
    (f"{MATRIX}?placement=web", READER, 200),
    (MATRIX, READER, 403),
    (MATRIX, STRANGER, 403),
    (BIG, STRANGER, 403),
    (MATRIX, OPERATOR, 200),
    (f"{MATRIX}?placement=nowhere", ADMIN, 404),
    (f"{MATRIX}?placement=nowhere", READER, 403),
    (f"{MATRIX}?placement=No", ADMIN, 422),
    (f"{MATRIX}?attempt=1", ADMIN, 422),
    (f"{BIG}&attempt=4711", ADMIN, 404),
    (f"{MATRIX}?limit=501", ADMIN, 422),
    (f"{MATRIX}?color=red", ADMIN, 422),
    (MATRIX, "made-up", 401),
]


@pytest.mark.parametrize("path,token,code", CASES)
def test_rights_and_parameters_are_checked(running: Running, path: str, token: str, code: int) -> None:
    assert running.call(running.stage.get(path, token)).status_code == code


@staged
async def test_an_attempt_of_the_past_is_shown_as_it_was(stage: Stage) -> None:
    why = await stage.json("/v1/placements/-/web/why?attempt=1")
    grid = await stage.json(f"{MATRIX}?placement=web&attempt=1")

    assert (grid["attempt"], grid["evaluatedOn"]) == (why["attempt"]["id"], "recorded")


@staged
async def test_an_unchanged_matrix_is_not_sent_again(stage: Stage) -> None:
    for path in (BIG, MATRIX):
        etag = (await stage.get(path)).headers["etag"]
        assert (await stage.get(path, **{"If-None-Match": etag})).status_code == 304


@pytest.mark.parametrize("path", [BIG, MATRIX])
def test_a_matrix_takes_a_slot_as_any_question_does(running: Running, path: str) -> None:
    async def ask_while_full(stage: Stage) -> int:
        evaluator = stage.app.state.shared.backend.evaluator
        held: list[Any] = [evaluator.admit("root") for _ in range(8)]
        for one in held:
            await one.__aenter__()
        try:
            return (await stage.get(path)).status_code
        finally:
            for one in held:
                await one.__aexit__(None, None, None)

    assert running.call(ask_while_full(running.stage)) == 429
    assert running.call(running.stage.get(path)).status_code == 200


# --- the fleet --------------------------------------------------------------------------------------------------------


@staged
async def test_placements_in_trouble_come_first_with_their_clusters(stage: Stage) -> None:
    grid = await stage.json(MATRIX)
    placements = {row["key"]: row for row in grid["placements"]}
    bound = {key: [grid["clusters"][place]["name"] for place in row["bound"]] for key, row in placements.items()}

    assert next(iter(placements)) == "big"
    assert (placements["big"]["wanted"], placements["big"]["selected"]) == (5, 4)
    assert placements["big"]["condition"] == "Scheduled"
    for key, path in (("web", "-/web"), ("shop/cache", "shop/cache"), ("big", "-/big")):
        assert bound[key] == (await stage.json(f"/v1/placements/{path}"))["targets"]
    assert {cluster["name"]: cluster["state"] for cluster in grid["clusters"]}["osl-1"] == "tainted"
    assert grid["clusters"][0]["labels"]["region"] == "ams"
    assert grid["more"] == 0


@staged
async def test_what_is_left_out_is_counted(stage: Stage) -> None:
    whole, grid = await stage.json(MATRIX), await stage.json(f"{MATRIX}?limit=1")

    assert [row["key"] for row in grid["placements"]] == ["big"]
    assert grid["more"] == len(whole["placements"]) - 1


@staged
async def test_a_caller_with_few_clusters_sees_the_counts_of_the_rest(stage: Stage) -> None:
    grid = await stage.json(MATRIX, AUTHOR)
    big = next(row for row in grid["placements"] if row["key"] == "big")

    assert (big["selected"], big["bound"], big["redacted"]) == (4, [0, 1], 2)


# --- size -------------------------------------------------------------------------------------------------------------


def test_ten_thousand_clusters_fit_into_one_answer() -> None:
    fleet = [
        a_cluster(f"cluster-{number:05}").labelled(region=f"region-{number % 30}", tier="prod" if number % 3 else "lab")
        for number in range(10_000)
    ]
    fleet = [one.tainted(f"key-{place}") if place % 7 == 0 else one for place, one in enumerate(fleet)]
    asked = ask(fleet, a_policy().pick_n(50).require(label("tier", "In", "prod")).spread("region"))
    snapshot = a_policy().pick_n(50).snapshot()
    evaluated = EvaluatedDecision(
        Scenario(asked.inp, snapshot),
        asked.decision,
        Lane(EvaluationLimiter(SystemClock()), WorkerThread("test"), is_large=False),
    )

    grid = build_grid("web", "", evaluated, Visibility(None))

    body = msgspec.json.encode(grid)
    assert len(grid.verdicts) == len(grid.plugins) * 10_000
    assert len(grid.reasons) < 255
    assert set(grid.labels) == {"region", "tier"}
    assert len(body) < 800_000
