"""Defaults and nulls."""

from __future__ import annotations

from typing import Any

from fleet.hub.schema.defaulting import compile_defaulting


def completed(schema: dict[str, Any], value: Any) -> Any:
    compile_defaulting(schema)(value)
    return value


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def test_a_default_is_a_copy_each_time() -> None:
    schema = an_object(a={"type": "object", "default": {"b": []}, "properties": {"b": {"type": "array"}}})
    fill = compile_defaulting(schema)
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    fill(first)
    fill(second)
    first["a"]["b"].append(1)
    assert second == {"a": {"b": []}}


def test_defaults_inside_a_default_are_filled_in() -> None:
    inner = {"type": "object", "default": {}, "properties": {"b": {"type": "integer", "default": 1}}}
    assert completed(an_object(a=inner), {}) == {"a": {"b": 1}}


def test_nothing_is_filled_into_a_missing_object_without_default() -> None:
    assert completed(an_object(a=an_object(b={"default": 1})), {}) == {}


def test_a_null_that_may_not_be_is_replaced_by_the_default() -> None:
    assert completed(an_object(a={"type": "string", "default": "x"}), {"a": None}) == {"a": "x"}


def test_a_null_without_default_is_removed() -> None:
    assert completed(an_object(a={"type": "string"}), {"a": None}) == {}


def test_a_null_that_may_be_stays() -> None:
    schema = an_object(a={"type": "string", "nullable": True, "default": "x"})
    assert completed(schema, {"a": None}) == {"a": None}


def test_unknown_nulls_stay() -> None:
    assert completed(an_object(a={"type": "string"}), {"b": None}) == {"b": None}


def test_values_of_maps_and_items_of_lists_are_completed() -> None:
    item = an_object(b={"type": "integer", "default": 1})
    schema = an_object(m={"type": "object", "additionalProperties": item}, l={"type": "array", "items": item})
    assert completed(schema, {"m": {"x": {}}, "l": [{}]}) == {"m": {"x": {"b": 1}}, "l": [{"b": 1}]}


def test_values_of_the_wrong_type_are_left_alone() -> None:
    assert completed(an_object(a=an_object(b={"default": 1})), {"a": "x"}) == {"a": "x"}
