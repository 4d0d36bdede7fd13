"""Questions to the API, and everything that can come back instead of an answer."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.cli.client.connection import ApiConnection
from fleet.cli.client.requests import (
    DEFAULT_TIMEOUT,
    JSON,
    ApiRefusal,
    ApiRequest,
    StreamInterrupted,
    fetch,
    fetch_json,
)
from tests.unit.cli.scripted_api import Said, ScriptedApi, in_json, refused

WHERE = "/v1/placements/-/web/why"


def refusal(connection: ApiConnection, question: ApiRequest | None = None) -> ApiRefusal:
    with pytest.raises(ApiRefusal) as found:
        fetch_json(connection, question or ApiRequest(path=WHERE))
    return found.value


# --- asked --------------------------------------------------------------------------------------------------------


def test_a_question_carries_the_token_and_says_what_it_takes(api: ScriptedApi) -> None:
    api.says(WHERE, in_json({"a": 1}))

    assert fetch_json(ApiConnection(api.url, "t0ken"), ApiRequest(path=WHERE, query={"limit": 3, "cursor": None})) == {
        "a": 1
    }
    (asked,) = api.asked
    assert asked.headers["Authorization"] == "Bearer t0ken"
    assert asked.headers["Accept"].startswith("application/json,")
    assert (asked.method, asked.query) == ("GET", {"limit": "3"})


def test_without_a_token_none_is_sent(api: ScriptedApi) -> None:
    api.says(WHERE, in_json({}))

    fetch_json(ApiConnection(api.url), ApiRequest(path=WHERE))

    assert "Authorization" not in api.asked[0].headers


def test_a_question_with_a_body_is_posted(api: ScriptedApi) -> None:
    api.says("/v1/simulate", in_json({}))

    fetch_json(ApiConnection(api.url), ApiRequest(path="/v1/simulate", body={"edits": []}))

    assert (api.asked[0].method, api.asked[0].body) == ("POST", {"edits": []})


def test_an_api_below_a_path_is_found(api: ScriptedApi) -> None:
    api.says(f"/fleet{WHERE}", in_json({"a": 1}))

    assert fetch_json(ApiConnection(f"{api.url}/fleet"), ApiRequest(path=WHERE)) == {"a": 1}


def test_no_proxy_is_asked_for_what_listens_on_this_machine(api: ScriptedApi, monkeypatch: pytest.MonkeyPatch) -> None:
    api.says(WHERE, in_json({"a": 1}))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")

    assert fetch_json(ApiConnection(api.url), ApiRequest(path=WHERE)) == {"a": 1}


# --- refused ------------------------------------------------------------------------------------------------------


def test_a_refusal_tells_object_field_value_and_what_to_do(api: ScriptedApi) -> None:
    problem = refused(
        422, "should be a whole number", object="web", field="edits[0].value", value="many", next="correct it"
    )
    api.says(WHERE, problem)

    found = refusal(ApiConnection(api.url))

    assert found.status == 422
    assert str(found) == 'web: edits[0].value "many": should be a whole number\nnext: correct it'


def test_a_field_that_the_text_names_already_is_not_named_twice(api: ScriptedApi) -> None:
    api.says(WHERE, refused(422, "limit should be less than 500", field="limit", value=900))

    assert str(refusal(ApiConnection(api.url))) == "limit should be less than 500"


def test_who_is_not_known_is_told_how_to_name_a_token(api: ScriptedApi) -> None:
    api.says(WHERE, refused(401, "no token"))

    assert str(refusal(ApiConnection(api.url))) == (
        "no token\nnext: set --token-file (or FLEET_TOKEN_FILE) to the file with your token"
    )


def test_what_to_do_is_said_in_commands(api: ScriptedApi) -> None:
    api.says(WHERE, refused(404, "never seen", next="GET /v1/placements lists those that are there"))

    assert str(refusal(ApiConnection(api.url))).endswith("\nnext: `fleet get placements` lists those that are there")


@pytest.mark.parametrize("status", [403, 404, 429, 503])
def test_every_refusal_keeps_its_status(status: int, api: ScriptedApi) -> None:
    api.says(WHERE, refused(status, "no"))

    assert refusal(ApiConnection(api.url)).status == status


def test_a_redirect_is_not_followed_because_it_would_take_the_token_along(api: ScriptedApi) -> None:
    api.says(WHERE, Said(b"", 302, headers={"Location": f"{api.url}/elsewhere"}))

    found = refusal(ApiConnection(api.url, "t0ken"))

    assert "returned 302 Found, which is not an error of the Fleet API" in str(found)
    assert [one.path for one in api.asked] == [WHERE]


def test_a_proxy_that_answers_for_the_api_is_no_api(api: ScriptedApi) -> None:
    api.says(WHERE, Said(b"<html>", 502, "text/html"))

    assert "check the address" in str(refusal(ApiConnection(api.url)))


def test_something_else_that_answers_is_no_api(api: ScriptedApi) -> None:
    api.says(WHERE, Said(b"<html>hello", media_type="text/html"))

    error, step = str(refusal(ApiConnection(api.url))).splitlines()
    assert error == f"{api.url} is not a Fleet API: {WHERE} did not return JSON"
    assert step.startswith("next: check the address")


# --- not answered -------------------------------------------------------------------------------------------------


@pytest.fixture
def deserted(home: Path) -> Iterator[str]:
    """An address where nobody listens, and nobody else can begin to."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_nobody_there_is_told_with_the_address(deserted: str) -> None:
    assert str(refusal(ApiConnection(deserted))) == (
        f"{deserted} cannot be reached: Connection refused\nnext: check --api or FLEET_API, and that the API is running"
    )


def test_a_fleet_up_that_does_not_answer_is_to_be_looked_after(deserted: str) -> None:
    said = str(refusal(ApiConnection(deserted, is_last_up=True)))

    assert said.endswith("\nnext: check that `fleet up` is still running")


def test_a_name_that_nobody_knows_is_told_so(home: Path) -> None:
    assert "its name is not known" in str(refusal(ApiConnection("http://no-such-host.invalid")))


def test_an_answer_that_breaks_off_is_no_answer(api: ScriptedApi) -> None:
    api.says(WHERE, Said(b"{", promised=10))

    with pytest.raises(StreamInterrupted, match="broke off its response"):
        fetch(ApiConnection(api.url), ApiRequest(path=WHERE), accept=JSON)


def test_an_api_that_says_nothing_is_not_waited_for_forever(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        connection = ApiConnection(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(ApiRefusal, match="no answer in time"):
            fetch(connection, ApiRequest(path=WHERE), accept=JSON, timeout=0.5)

    assert DEFAULT_TIMEOUT > 30  # the API itself gives up first, and says why
