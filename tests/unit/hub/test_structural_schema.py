"""Compiled schemas: what the recorded answers do not reach."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.errors import SchemaError
from fleet.hub.schema.field_errors import go_number, go_quote
from fleet.hub.schema.schema import compile_schema
from fleet.hub.schema.values import Checks


def problems(schema: dict[str, Any], document: dict[str, Any], **options: Any) -> list[str]:
    return [str(cause) for cause in compile_schema(schema).validate(document, **options)]


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


POSITIVE = {"type": "integer", "minimum": 1}


def test_a_status_is_checked_alone_and_its_messages_start_at_the_status() -> None:
    schema = an_object(spec=an_object(n=POSITIVE), status=an_object(n=POSITIVE))
    document = {"spec": {"n": 0}, "status": {"n": 0}}
    want = ["status.n: Invalid value: 0: n in body should be greater than or equal to 1"]
    assert problems(schema, document, subresource="status") == want


def test_a_missing_status_is_not_checked() -> None:
    schema = an_object(status={**an_object(n=POSITIVE), "required": ["n"]})
    assert problems(schema, {}, subresource="status") == []


def test_required_fields_follow_the_fields_that_are_there() -> None:
    schema = {**an_object(a=POSITIVE, b={"type": "string"}), "required": ["b"]}
    assert [text.partition(":")[0] for text in problems(schema, {"a": 0})] == ["a", "b"]


def test_the_kind_and_version_of_an_object_are_never_unknown() -> None:
    document = {"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "x"}, "spec": 1}
    assert compile_schema({"type": "object"}).unknown_fields(document) == ["spec"]


def test_unknown_metadata_is_named() -> None:
    metadata = {"name": "x", "labls": {}, "ownerReferences": [{"uid": "u", "nam": "x"}]}
    dropped = compile_schema({"type": "object"}).prune({"metadata": metadata})
    assert dropped == ["metadata.labls", "metadata.ownerReferences[0].nam"]
    assert metadata == {"name": "x", "ownerReferences": [{"uid": "u"}]}


def test_numbers_beyond_64_bits_are_floats_as_in_go() -> None:
    schema = an_object(n={"type": "integer"}, m={"type": "number", "maximum": 5})
    assert problems(schema, {"n": 2**63, "m": 10**400}) == [
        'n: Invalid value: "number": n in body must be of type integer: "number"',
        "m: Invalid value: +Inf: m in body should be less than or equal to 5",
    ]


@pytest.mark.cel
@pytest.mark.parametrize(
    "keyword, value, place",
    [
        ("pattern", "(", "properties[a].pattern"),
        ("pattern", "(?=x)", "properties[a].pattern"),
        ("x-kubernetes-validations", [{"rule": "self.frobnicate()"}], "properties[a].x-kubernetes-validations[0].rule"),
        ("x-kubernetes-validations", [{"rule": "self +"}], "properties[a].x-kubernetes-validations[0].rule"),
        ("x-kubernetes-validations", [{"rule": "size(self)"}], "properties[a].x-kubernetes-validations[0].rule"),
    ],
)
def test_what_cannot_be_compiled_is_named_with_its_place(keyword: str, value: Any, place: str) -> None:
    with pytest.raises(SchemaError) as raised:
        compile_schema(an_object(a={"type": "string", keyword: value}))
    assert [cause.field for cause in raised.value.causes] == [place]


@pytest.mark.cel
def test_patterns_that_backtrack_take_no_time() -> None:
    schema = an_object(a={"type": "string", "pattern": "^(a+)+$"})
    assert len(problems(schema, {"a": "a" * 5000 + "b"})) == 1


def test_a_pattern_does_not_match_before_a_final_line_feed() -> None:
    assert len(problems(an_object(a={"type": "string", "pattern": "^a$"}), {"a": "a\n"})) == 1


@pytest.mark.parametrize(
    "number, want",
    [
        (1.0, "1"),
        (1.5, "1.5"),
        (0.0001, "0.0001"),
        (1e-05, "1e-05"),
        (123456.0, "123456"),
        (1234567.0, "1.234567e+06"),
        (1e21, "1e+21"),
    ],
)
def test_floats_are_written_as_in_go(number: float, want: str) -> None:
    assert go_number(number) == want


def test_checks_are_compiled_for_types_that_occur_only() -> None:
    checks = Checks(an_object(n=POSITIVE))
    assert not checks
    assert checks[dict] is not None
    assert set(checks) == {dict}


def test_texts_are_quoted_as_in_go() -> None:
    assert go_quote('a"b\\\n\x01é\u200b') == '"a\\"b\\\\\\n\\x01é\\u200b"'
