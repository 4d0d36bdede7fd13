"""Wrong questions: every refusal names what is in the way and what to do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import httpx
import pytest
from fastapi import FastAPI
from starlette.responses import StreamingResponse
from structlog.testing import capture_logs

from api.http.bodies import LARGEST_BODY
from api.http.problems import MEDIA_TYPE, handle_problems
from fleet.explain.whatif.edits import NOT_YET
from tests.api.stage import Running, Stage, staged
from tests.faults.virtual import virtual

BIG: Final = {"placement": {"ref": "big"}}

GETS: Final = {
    "/v1/clusters?limit=0": "limit",
    "/v1/clusters?limit=ten": "limit",
    "/v1/clusters?limit=501": "limit",
    "/v1/clusters?limt=5": "limt",
    "/v1/clusters?cursor=made-up": "cursor",
    "/v1/clusters?cursor=%F0%9F%98%80": "cursor",
    "/v1/clusters/Ams-1": "cluster",
    "/v1/placements?namespace=Shop": "namespace",
    "/v1/placements/-/Web": "name",
    "/v1/placements/UP/web": "ns",
    "/v1/placements/-/web/why?attempt=%20": "attempt",
    "/v1/placements/-/web/why?cluster=nowhere": "cluster",
    "/v1/placements/-/web/why?explain=everything": "explain",
    "/v1/placements/-/web/why?fixes=all": "fixes",
    "/v1/placements/-/web/why?cursor=x": "cursor",
    "/v1/placements/-/web/why?cursor=1.abc": "cursor",
    "/v1/placements/-/web/history?diff=1": "diff",
    "/v1/placements/-/web/history?cursor=abc": "cursor",
    "/v1/clusters/ams-1/why-not": "placement",
    "/v1/clusters/ams-1/why-not?placement=a/b/c": "placement",
    "/v1/decisions?since=-1": "since",
    "/v1/decisions?outcome=Fine": "outcome",
    "/v1/bindings?placement=a//b": "placement",
}
SIMULATIONS: Final[list[tuple[dict[str, Any], str]]] = [
    ({}, "placement"),
    ({"placement": "big"}, "placement"),
    ({"placement": {}}, "placement.kind"),
    ({"placement": {"ref": "a/b/c"}}, "placement.ref"),
    ({"placement": {"ref": 7}}, "placement.ref"),
    ({"placement": {"kind": "ClusterResourcePlacement"}}, "placement.metadata.name"),
    ({"placement": {"kind": "ResourcePlacement", "metadata": {"name": "x"}}}, "placement.metadata.namespace"),
    (BIG | {"from": "snapshot"}, "from"),
    (BIG | {"from": "a-1-1"}, "from"),
    (BIG | {"steps": []}, "placement"),
    (BIG | {"edit": []}, "edit"),
    (BIG | {"edits": {}}, "edits"),
    (BIG | {"edits": [{"op": "setCuont", "value": 3}]}, "edits[0].op"),
    (BIG | {"edits": [{"op": "setWeight", "plugin": "X", "value": 3}]}, "edits[0].op"),
    (BIG | {"edits": [{"op": "setCount"}]}, "edits[0]"),
    (BIG | {"edits": [{"op": "setCount", "value": "x"}]}, "edits[0].value"),
    (BIG | {"edits": [{"op": "removeCluster", "cluster": "nowhere"}]}, "edits[0].cluster"),
    (BIG | {"edits": [{"op": "setCount", "value": 3}], "impact": True}, "edits[0].op"),
    (BIG | {"edits": [{"op": "setCount", "value": 3}] * 1001}, "edits"),
    (BIG | {"limit": 0}, "limit"),
    (BIG | {"explain": "most"}, "explain"),
]
REPLAYS: Final[list[tuple[dict[str, Any], str]]] = [
    ({"select": {"since": "yesterday"}}, "select.since"),
    ({"select": {"limit": 0}}, "select.limit"),
    ({"select": {"ids": ["a-1-1"]}}, "select.ids[0]"),
    ({"change": []}, "change"),
    ({"change": {"edits": [{"op": "x"}]}}, "edits[0].op"),
]


@pytest.mark.parametrize("path,field", GETS.items(), ids=GETS)
def test_a_wrong_parameter_is_named(running: Running, path: str, field: str) -> None:
    answer = running.call(running.stage.get(path))

    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text
    assert answer.json()["next"]
    assert answer.json()["detail"]


@pytest.mark.parametrize("body,field", SIMULATIONS, ids=str)
def test_a_wrong_simulation_is_told_where(running: Running, body: dict[str, Any], field: str) -> None:
    answer = running.call(running.stage.post("/v1/simulate", body))

    assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text
    assert answer.json()["next"]


@pytest.mark.parametrize("body,field", REPLAYS, ids=str)
def test_a_wrong_replay_is_told_where(running: Running, body: dict[str, Any], field: str) -> None:
    answer = running.call(running.stage.post("/v1/replay", body))

    assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text


@pytest.mark.parametrize("op", NOT_YET)
def test_W_17_an_edit_of_what_is_not_built_is_refused_as_such(running: Running, op: str) -> None:
    answer = running.call(running.stage.post("/v1/simulate", BIG | {"edits": [{"op": op}]}))

    assert (answer.status_code, answer.json()["field"]) == (422, "edits[0].op")
    assert op in answer.json()["detail"]


def test_a_placement_that_breaks_rules_of_its_kind_is_told_which(running: Running) -> None:
    document = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": "idea"},
        "spec": {"resourceSelectors": [], "policy": {"placementType": "PickSome"}},
    }
    answer = running.call(running.stage.post("/v1/simulate", {"placement": document}))

    assert answer.status_code == 422
    assert "spec.policy.placementType" in answer.json()["detail"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000], ids=range(6))
def test_a_body_that_is_no_object_is_refused(running: Running, body: bytes) -> None:
    async def post() -> Any:
        async with running.stage.client() as client:
            return await client.post("/v1/simulate", content=body, headers={"Content-Type": "application/json"})

    answer = running.call(post())

    assert (answer.status_code, answer.json()["field"]) == (422, "body")


@staged
async def test_a_body_that_is_too_large_is_refused_announced_or_not(stage: Stage) -> None:
    async def pieces() -> Any:
        for _ in range(LARGEST_BODY // 65536 + 2):
            yield b" " * 65536

    async with stage.client(**{"Content-Type": "application/json"}) as client:
        announced = await client.post("/v1/simulate", content=b" " * (LARGEST_BODY + 1))
        streamed = await client.post("/v1/simulate", content=pieces())

    assert (announced.status_code, streamed.status_code) == (413, 413)


@staged
async def test_only_json_is_taken(stage: Stage) -> None:
    async with stage.client() as client:
        answer = await client.post("/v1/simulate", data={"a": "b"})

    assert (answer.status_code, answer.json()["field"]) == (415, "Content-Type")


@staged
async def test_unknown_paths_and_methods_are_problems_too(stage: Stage) -> None:
    async with stage.client() as client:
        nowhere, wrong = await client.get("/v1/nothing"), await client.delete("/v1/clusters")

    assert (nowhere.status_code, nowhere.headers["content-type"]) == (404, "application/problem+json")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET")


def failing() -> FastAPI:
    app = FastAPI()
    handle_problems(app)

    @app.get("/at-once")
    async def at_once() -> None:
        raise ZeroDivisionError

    @app.get("/under-way")
    async def under_way() -> StreamingResponse:
        async def half() -> AsyncIterator[bytes]:
            yield b"half"
            raise ZeroDivisionError

        return StreamingResponse(half())

    return app


@virtual
async def test_what_nobody_expected_is_answered_and_logged_once() -> None:
    """An error that went on to the server would stand in the log a second time."""
    transport = httpx.ASGITransport(app=failing(), raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://fleet") as client:
        with capture_logs() as logs:
            answer = await client.get("/at-once")

    assert (answer.status_code, answer.headers["content-type"]) == (500, MEDIA_TYPE)
    assert "ZeroDivision" not in answer.text
    assert [(one["event"], one["path"]) for one in logs] == [("a request failed", "/at-once")]
    assert isinstance(logs[0]["exc_info"], ZeroDivisionError)


@virtual
async def test_an_answer_that_fails_under_way_is_cut_off_and_left_to_the_server_to_log() -> None:
    transport = httpx.ASGITransport(app=failing(), raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://fleet") as client:
        with capture_logs() as logs, pytest.raises(ZeroDivisionError):
            await client.get("/under-way")

    assert logs == []
