"""The committed description of the API, and generated requests that it has to answer as it says."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import booleans, one_of
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from api.app import create_bare_app
from api.http.examples import get_example, get_example_text
from api.http.server import ListenOptions, serve_app
from api.openapi import openapi
from fleet.settings import Address
from tests.api.example_answers import ASKED, TEXTS, answer_to, shape, text_for
from tests.api.stage import ADMIN, READER, STRANGER, Running
from tests.conftest import LONG

COMMITTED: Final = Path(__file__).parents[2] / "api" / "openapi.json"
DOCUMENT: Final = json.loads(COMMITTED.read_text(encoding="utf-8"))
CHECKS: Final = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
FRAMING: Final = ("content-length", "transfer-encoding")
"""Headers that say where a request ends: what they break is no request of any operation."""
REQUESTS: Final = int(os.environ.get("FLEET_API_REQUESTS", "12000" if LONG else "3000"))
"""So many at least, shared by endpoints and callers."""
CALLERS: Final = {"administrator": ADMIN, "reader": READER, "stranger": STRANGER, "nobody": "made-up"}

contract = schemathesis.openapi.from_dict(DOCUMENT)
OPERATIONS: Final = [one.ok() for one in contract.get_all_operations() if isinstance(one, Ok)]
EACH: Final = math.ceil(REQUESTS / (len(OPERATIONS) * len(CALLERS)))


def test_the_committed_description_is_the_present_one() -> None:
    assert COMMITTED.read_text(encoding="utf-8") == openapi(), "run python -m api.openapi api/openapi.json"
    assert create_bare_app().openapi() is create_bare_app().openapi(), "it is built once"


def examples() -> Iterator[Any]:
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            parts = {**operation["responses"], "body": operation.get("requestBody", {})}
            for name, part in parts.items():
                for media_type, media in part.get("content", {}).items():
                    label = f"{method} {path} {name} {media_type}"
                    if "example" in media:
                        yield pytest.param(media["schema"], media["example"], id=label)
                    for kind, one in media.get("examples", {}).items():
                        yield pytest.param(media["schema"], one["value"], id=f"{label} {kind}")


@pytest.mark.parametrize("schema,example", list(examples()))
def test_examples_are_what_they_are_examples_of(schema: Any, example: Any) -> None:
    jsonschema_rs.validate({**schema, "components": DOCUMENT["components"]}, example)


@pytest.mark.parametrize("name", ASKED)
def test_an_example_has_every_field_of_a_real_answer_and_no_other(name: str, running: Running) -> None:
    real = running.call(answer_to(running.stage, name))

    assert shape(get_example(name)) == shape(real), "run python -m tests.api.example_answers, then api.openapi"


@pytest.mark.parametrize("name", TEXTS)
def test_an_example_of_a_text_is_what_is_really_said(name: str, running: Running) -> None:
    real = running.call(text_for(running.stage, name))

    assert get_example_text(name) == real, "run python -m tests.api.example_answers, then api.openapi"


def test_every_endpoint_that_answers_in_json_shows_how() -> None:
    for path, operations in DOCUMENT["paths"].items():
        for operation in operations.values():
            assert operation["summary"], path
            if path.startswith("/v1"):
                answer = operation["responses"].get("200", {}).get("content", {}).get("application/json")
                assert answer is None or {"example", "examples"} & answer.keys(), path
                assert operation["security"] == [{"bearer": []}], path
                assert {"401", "403", "422", "429", "503"} <= set(operation["responses"]), path


@pytest.fixture(scope="module")
def url(running: Running) -> Iterator[str]:
    """The application on a real socket."""
    server = serve_app(running.stage.app, ListenOptions(address=Address("127.0.0.1:0")))
    with ExitStack() as closing:
        closing.callback(lambda: running.call(server.__aexit__(None, None, None)))
        yield running.call(server.__aenter__())


# The stage lives in a thread, and what it draws from `random` has nothing to do with the strategies.
@pytest.mark.servers  # thousands of requests
@pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
@pytest.mark.timeout(3600 if LONG else 300)
@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("operation", OPERATIONS, ids=[one.label for one in OPERATIONS])
def test_generated_requests_are_answered_as_described(operation: Any, caller: str, url: str) -> None:
    headers = {"Authorization": f"Bearer {CALLERS[caller]}"}
    cases = one_of([operation.as_strategy(generation_mode=mode) for mode in GenerationMode])
    answered = 0

    @given(case=cases, about_what_is_there=booleans())
    @settings(max_examples=EACH, suppress_health_check=list(HealthCheck), database=None)
    def is_answered(*, case: schemathesis.Case[Any], about_what_is_there: bool) -> None:
        nonlocal answered
        if about_what_is_there:
            name_what_is_there(case)
        for name in FRAMING if case.headers else ():
            case.headers.pop(name, None)
        case.call_and_validate(base_url=url, headers=headers, checks=CHECKS, timeout=60)
        answered += 1

    while answered < EACH:  # where there is little to vary, one round soon knows it all
        before = answered
        is_answered()
        assert answered > before


def test_every_endpoint_and_caller_is_generated_for() -> None:
    """With the count that each of the tests above has to reach, that makes the number of requests."""
    described = [operation for operations in DOCUMENT["paths"].values() for operation in operations]

    assert len(OPERATIONS) == len(described)
    assert EACH * len(described) * len(CALLERS) >= REQUESTS


def name_what_is_there(case: schemathesis.Case[Any]) -> None:
    """Random names hardly ever lead to an answer."""
    known = {"ns": "-", "name": "big", "cluster": "ams-1", "placement": "big"}
    for given_names in (case.path_parameters, case.query):
        given_names.update({name: known[name] for name in given_names if name in known})
    if isinstance(case.body, dict) and "placement" in case.body:
        case.body["placement"] = {"ref": "big"}
