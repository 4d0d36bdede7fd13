"""What a schema has completed and a write does not change is not walked through again."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.unit.hub.asking import DEFINITIONS, THINGS, Asker, a_definition, a_thing

DEFINITION = f"{DEFINITIONS}/things.example.com"
MERGE = "application/merge-patch+json"
THING = f"{THINGS}/a"


def a_schema(status: dict[str, Any], properties: dict[str, Any]) -> dict[str, Any]:
    items = {"type": "object", "properties": {"n": {"type": "integer"}}}
    spec = {"list": {"type": "array", "items": items}, **properties}
    fields = {"spec": spec, "status": {"ready": {"type": "boolean"}, **status}}
    return {"type": "object", "properties": {name: {"type": "object", "properties": fields[name]} for name in fields}}


def define(ask: Asker, *, status: dict[str, Any] | None = None, **properties: Any) -> None:
    known = ask("GET", DEFINITION)
    definition = known.json if known.code == 200 else a_definition()
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = a_schema(status or {}, properties)
    written = ask("PUT", DEFINITION, definition) if known.code == 200 else ask("POST", DEFINITIONS, definition)
    assert written.code in (200, 201), written.content


def a_long_thing(length: int) -> dict[str, Any]:
    return a_thing("a") | {"spec": {"list": [{"n": number} for number in range(length)]}}


def count_calls(ask: Asker, *request: Any, media_type: str = "application/json") -> int:
    """Of functions in Python: the tests' own are as many in each case."""
    calls = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        answer = ask(*request, media_type=media_type)
    finally:
        sys.setprofile(before)
    assert answer.code == 200, answer.content
    return calls


def measure(ask: Asker, length: int, what: str) -> int:
    """Calls of the second of two writes that leave the spec as it is."""
    assert ask("POST", THINGS, a_long_thing(length)).code == 201
    calls = 0
    for turn in range(2):
        document = ask("GET", THING).json
        if what == "status":
            calls = count_calls(ask, "PUT", f"{THING}/status", document | {"status": {"ready": bool(turn)}})
        elif what == "status by patch":
            patch = {"status": {"ready": bool(turn)}}
            calls = count_calls(ask, "PATCH", f"{THING}/status", patch, media_type=MERGE)
        else:
            document["metadata"]["labels"] = {"turn": str(turn)}
            calls = count_calls(ask, "PUT", THING, document)
    assert ask("DELETE", THING).code == 200
    return calls


@pytest.mark.parametrize("what", ["status", "status by patch", "labels"])
def test_a_write_that_leaves_the_spec_alone_does_not_walk_through_it(ask: Asker, what: str) -> None:
    define(ask)
    short, long = (measure(ask, length, what) for length in (10, 400))
    assert long - short < 100  # a walk takes a call for each item


def test_what_is_new_is_walked_through(ask: Asker) -> None:
    define(ask)
    ask("POST", THINGS, a_long_thing(400))
    document = ask("GET", THING).json
    document["spec"]["list"][-1] = {"n": 7, "unknown": 1}
    assert count_calls(ask, "PUT", THING, document) > 400
    assert ask("GET", THING).json["spec"]["list"][-1] == {"n": 7}


def test_fields_that_a_new_definition_does_not_have_are_told_with_every_status_and_dropped_by_an_update(
    ask: Asker,
) -> None:
    define(ask, extra={"type": "string"})
    ask("POST", THINGS, a_thing("a") | {"spec": {"extra": "x"}})
    define(ask)
    for ready in (True, False):
        document = ask("GET", THING).json
        assert document["spec"] == {"extra": "x"}
        told = ask("PUT", f"{THING}/status", document | {"status": {"ready": ready}})
        assert 'unknown field \\"spec.extra\\"' in told.headers["warning"]
    assert ask("PUT", THING, ask("GET", THING).json).json["spec"] == {}


def test_an_update_gets_the_defaults_of_a_new_definition(ask: Asker) -> None:
    define(ask)
    ask("POST", THINGS, a_long_thing(1))
    define(ask, more={"type": "string", "default": "yes"})
    assert ask("PUT", THING, ask("GET", THING).json).json["spec"]["more"] == "yes"


def test_what_the_hub_changes_itself_is_completed_by_the_next_update(ask: Asker) -> None:
    """The reference to an owner that is gone is removed from an object of an earlier definition."""
    define(ask, extra={"type": "string"})
    owners = [ask("POST", THINGS, a_thing(name) | {"spec": {}}).json for name in ("one", "other")]
    references = [
        {"apiVersion": "example.com/v1", "kind": "Thing", **{key: each["metadata"][key] for key in ("name", "uid")}}
        for each in owners
    ]
    ask("POST", THINGS, a_thing("a", ownerReferences=references) | {"spec": {"extra": "x"}})
    define(ask)
    ask("DELETE", f"{THINGS}/one")
    ask.settle()
    document = ask("GET", THING).json
    assert len(document["metadata"]["ownerReferences"]) == 1
    assert ask("PUT", THING, document).json["spec"] == {}


def test_a_status_that_an_earlier_definition_completed_is_not_settled_by_a_write_of_the_spec(ask: Asker) -> None:
    define(ask, status={"extra": {"type": "string"}})
    document = ask("POST", THINGS, a_thing("a")).json
    ask("PUT", f"{THING}/status", document | {"status": {"extra": "x"}})
    define(ask)
    document = ask("GET", THING).json
    document["metadata"]["labels"] = {"a": "b"}
    document = ask("PUT", THING, document).json
    assert document["status"] == {"extra": "x"}
    assert ask("PUT", f"{THING}/status", document).json["status"] == {}


@pytest.mark.parametrize("before, after", [(1, True), (0, False)])
def test_values_that_only_python_takes_for_equal_are_stored(ask: Asker, before: Any, after: Any) -> None:
    define(ask, any={"x-kubernetes-preserve-unknown-fields": True})
    document = ask("POST", THINGS, a_thing("a") | {"spec": {"any": before}}).json
    document["spec"]["any"] = after
    document["metadata"]["labels"] = {"a": "b"}
    assert ask("PUT", THING, document).json["spec"]["any"] is after


@pytest.mark.parametrize("before, after", [(1, True), (0, False)])
@pytest.mark.parametrize("labels", [{}, {"a": "b"}], ids=["alone", "with a label"])
def test_a_boolean_is_no_unchanged_number(ask: Asker, before: Any, after: Any, labels: dict[str, str]) -> None:
    define(ask, number={"type": "integer"}, any={"x-kubernetes-preserve-unknown-fields": True})
    document = ask("POST", THINGS, a_thing("a") | {"spec": {"number": before, "any": before}}).json
    document["metadata"]["labels"] = labels
    refused = ask("PUT", THING, document | {"spec": {"number": after, "any": before}})
    assert (refused.code, refused.json["details"]["causes"][0]["field"]) == (422, "spec.number")
    written = ask("PUT", THING, document | {"spec": {"number": before, "any": after}}).json
    assert (written["spec"]["any"], written["metadata"]["generation"]) == (after, 2)
    assert written["spec"]["any"] is after
