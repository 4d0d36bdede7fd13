"""Server-side apply: what holds for all objects and managers."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fleet.hub.apply.managed_fields import apply, track_update
from fleet.hub.schema.schema import compile_schema

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"
TEXT = {"type": "string"}
ITEM = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": TEXT, "value": TEXT, "more": {"type": "object", "additionalProperties": TEXT}},
}
LIST_MAP = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
SPEC = {
    "text": TEXT,
    "map": {"type": "object", "additionalProperties": TEXT},
    "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": TEXT},
    "list": {"type": "array", "items": TEXT},
    "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
    "items": {"type": "array", "items": ITEM, **LIST_MAP},
    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
SCHEMA = compile_schema({"type": "object", "properties": {"spec": {"type": "object", "properties": SPEC}}})

Document = dict[str, Any]

values = st.sampled_from(["x", "y", "z"])
maps = st.dictionaries(st.sampled_from(["a", "b", "c"]), values, min_size=1)
items = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from(["a", "b", "c"])}, optional={"value": values, "more": maps}),
    unique_by=lambda item: str(item["name"]),
    min_size=1,
)
anything = st.recursive(
    values | st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(values, inner, min_size=1, max_size=2),
    max_leaves=4,
)
specs = st.fixed_dictionaries(
    {},
    optional={
        "text": values,
        "map": maps,
        "whole": maps,
        "list": st.lists(values, max_size=2),
        "tags": st.lists(values, unique=True, min_size=1),
        "items": items,
        "any": st.dictionaries(values, anything, min_size=1, max_size=2),
    },
)
managers = st.sampled_from(["first", "second", "third"])


def an_apple(spec: Document) -> Document:
    return {"apiVersion": "d.example.com/v1", "kind": "Apple", "metadata": {"name": "apple"}, "spec": deepcopy(spec)}


def forced(live: Document | None, spec: Document, manager: str, now: str = EARLY) -> Document:
    return apply(live, an_apple(spec), manager=manager, force=True, schema=SCHEMA, now=now).object


histories = st.lists(st.tuples(managers, specs), max_size=4)


def after(history: list[tuple[str, Document]]) -> Document | None:
    live: Document | None = None
    for manager, spec in history:
        live = forced(live, spec, manager)
    return live


def without_order(value: Any) -> Any:
    """Items and entries as sets: the order in which managers came shows in lists."""
    if isinstance(value, dict):
        return {name: without_order(item) for name, item in value.items() if name != "time"}
    if isinstance(value, list):
        return sorted((without_order(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
    return value


@given(histories, specs, managers)
def test_applying_twice_is_applying_once(history: list[tuple[str, Document]], spec: Document, manager: str) -> None:
    once = forced(after(history), spec, manager)
    assert forced(once, spec, manager, now=LATE) == once


@given(histories, specs, managers)
def test_what_is_applied_is_there(history: list[tuple[str, Document]], spec: Document, manager: str) -> None:
    result = forced(after(history), spec, manager)
    again = apply(result, an_apple(spec), manager="someone-else", force=False, schema=SCHEMA, now=LATE)
    assert again.conflicts == ()
    assert without_order(again.object["spec"]) == without_order(result["spec"])


@given(histories, specs, managers)
def test_inputs_are_not_changed(history: list[tuple[str, Document]], spec: Document, manager: str) -> None:
    live = after(history)
    before = deepcopy(live)
    forced(live, spec, manager)
    assert live == before


mine, theirs = {"text", "map", "items"}, {"whole", "list", "tags", "any"}


@given(specs, specs)
def test_disjoint_managers_commute(left: Document, right: Document) -> None:
    left = {name: value for name, value in left.items() if name in mine}
    right = {name: value for name, value in right.items() if name in theirs}
    one_way = forced(forced(None, left, "left"), right, "right")
    other_way = forced(forced(None, right, "right"), left, "left")
    assert without_order(one_way) == without_order(other_way)


@given(specs, specs)
def test_disjoint_managers_never_conflict(left: Document, right: Document) -> None:
    left = {name: value for name, value in left.items() if name in mine}
    right = {name: value for name, value in right.items() if name in theirs}
    live = forced(None, left, "left")
    assert apply(live, an_apple(right), manager="right", force=False, schema=SCHEMA, now=EARLY).conflicts == ()


@given(specs, specs)
def test_leaving_removes_ones_own_fields_only(left: Document, right: Document) -> None:
    both = forced(forced(None, left, "left"), right, "right")
    gone = forced(both, {}, "left")
    check = apply(gone, an_apple(right), manager="right", force=False, schema=SCHEMA, now=EARLY)
    assert check.conflicts == ()
    assert without_order(check.object["spec"]) == without_order(gone["spec"])
    assert without_order(gone["spec"]) == without_order(right)


@given(histories, specs, managers)
def test_an_update_is_noted_so_that_appliers_see_it(
    history: list[tuple[str, Document]], spec: Document, manager: str
) -> None:
    live = after([("first", {"text": "x"}), *history])
    new = an_apple(spec)
    noted = track_update(live, new, manager="updater", schema=SCHEMA, now=LATE)
    assert {**noted, "metadata": {"name": "apple"}} == new
    result = apply(noted, an_apple(spec), manager=manager, force=False, schema=SCHEMA, now=LATE)
    assert result.conflicts == ()
