"""What is wrong with schemas, word for word as the API server says it. The answers were recorded from one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fleet.errors import SchemaError
from fleet.hub.schema.schema import compile_schema
from fleet.hub.schema.structural import validate_definition

pytestmark = pytest.mark.cel

RECORDED: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data/definitions.json").read_text(encoding="utf-8")
)["cases"]
IDS = [f"{index}-{json.dumps(case['schema'])[:50]}" for index, case in enumerate(RECORDED)]


def around(schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": schema}}


def problems(schema: Any) -> list[str]:
    return [str(cause) for cause in validate_definition(around(schema))]


@pytest.mark.parametrize("case", RECORDED, ids=IDS)
def test_causes_are_those_of_the_api_server(case: dict[str, Any]) -> None:
    found = validate_definition(around(case["schema"]))
    assert sorted([cause.field, cause.reason, cause.message] for cause in found) == case["causes"]


@pytest.mark.parametrize(
    "keyword, value",
    [
        ("type", 5),
        ("minLength", "x"),
        ("maximum", True),
        ("properties", []),
        ("required", "a"),
        ("enum", {}),
        ("items", "x"),
        ("nullable", "yes"),
        ("anyOf", {}),
        ("not", []),
    ],
)
def test_a_keyword_of_the_wrong_type_is_named(keyword: str, value: Any) -> None:
    shown = json.dumps(value, separators=(",", ":"))
    want = f"properties[spec].{keyword}: Invalid value: {shown}: has the wrong JSON type"
    assert problems({"type": "object", keyword: value}) == [want]


@pytest.mark.parametrize("rule", ["true", {"rule": 5}, {"rule": "true", "optionalOldSelf": "yes"}])
def test_what_is_no_rule_is_named(rule: Any) -> None:
    found = problems({"type": "object", "x-kubernetes-validations": [rule]})
    assert len(found) == 1
    assert "must be a rule" in found[0]


def test_a_rule_about_the_past_has_none_in_a_plain_list() -> None:
    rules = {"x-kubernetes-validations": [{"rule": "self == oldSelf"}]}
    assert problems({"type": "array", "items": {"type": "string", **rules}}) == [
        'properties[spec].items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be '
        "used on the uncorrelatable portion of the schema within properties[spec]"
    ]


def test_a_default_may_use_the_defaults_inside_it() -> None:
    inner = {"a": {"type": "integer", "default": 1}}
    schema = {"type": "object", "default": {}, "required": ["a"], "properties": inner}
    assert problems(schema) == []


def test_all_causes_are_in_the_error() -> None:
    with pytest.raises(SchemaError) as raised:
        compile_schema({"type": "object", "properties": {"a": {}, "b": {"type": "frob"}}})
    assert [cause.field for cause in raised.value.causes] == ["properties[a].type", "properties[b].type"]
    assert str(raised.value).startswith("not a structural schema; properties[a].type: Required value")
