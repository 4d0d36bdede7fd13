"""Patches and schemas: whatever comes, the answer is a document or an error that says what is wrong."""

from __future__ import annotations

import json
from contextlib import suppress
from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import PatchError, SchemaError
from fleet.hub.apply.patches import json_patch, merge_patch, strategic_merge_patch
from fleet.hub.schema.schema import compile_schema

Document = dict[str, Any]

names = st.sampled_from(["a", "b", "metadata", "spec", "containers", "name", "finalizers", "items", ""])
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=12
)
documents = st.dictionaries(names, anything, max_size=4)
directives = st.sampled_from(
    ["$patch", "$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers"]
)
patches = st.recursive(
    scalars | st.sampled_from(["delete", "replace", "merge"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | directives, inner, max_size=3),
    max_leaves=12,
)
pointers = st.lists(st.sampled_from(["a", "b", "spec", "0", "-", "-1", "~1", "items"]), max_size=3).map(
    lambda steps: "".join(f"/{step}" for step in steps)
)
operations = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "frob"]), "path": pointers | anything},
    optional={"from": pointers | anything, "value": anything},
)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    return value


def difference(old: Any, new: Any) -> Any:
    """The merge patch between two documents without nulls."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    changed = {name: difference(old.get(name), item) for name, item in new.items() if old.get(name) != item}
    return {**changed, **dict.fromkeys(old.keys() - new.keys())}


@given(documents, documents)
def test_a_merge_patch_leads_from_one_document_to_another(old: Document, new: Document) -> None:
    old, new = without_nulls(old), without_nulls(new)
    assert merge_patch(old, difference(old, new)) == new


@given(documents, documents)
def test_a_merge_patch_applied_twice_is_applied_once(document: Document, patch: Document) -> None:
    once = merge_patch(document, patch)
    assert merge_patch(once, patch) == once


@given(documents, st.lists(operations, max_size=3) | anything)
def test_a_json_patch_works_or_is_refused(document: Document, patch: Any) -> None:
    before = deepcopy(document)
    with suppress(PatchError):
        json.dumps(json_patch(document, patch))
    assert document == before


@given(documents, patches, st.sampled_from(["Pod", "ConfigMap", "Frob"]))
def test_a_strategic_merge_patch_works_or_is_refused(document: Document, patch: Any, kind: str) -> None:
    document = {**document, "apiVersion": "v1"}
    before = deepcopy(document)
    with suppress(PatchError):
        json.dumps(strategic_merge_patch(document, patch, kind))
    assert document == before


ITEM: Document = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string", "pattern": "^[a-z]+$"}},
}
SCHEMA = compile_schema(
    {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "minimum": 0, "multipleOf": 2, "default": 4},
            "b": {"type": "string", "format": "date-time", "maxLength": 3},
            "containers": {
                "type": "array",
                "items": ITEM,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
            "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "spec": {
                "type": "object",
                "default": {},
                "properties": {"name": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}]}},
                "x-kubernetes-validations": [{"rule": "!has(self.name) || self.name != 3"}],
            },
            "items": {"type": "object", "additionalProperties": {"type": "number", "nullable": True}},
            "name": {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
            },
        },
    }
)


@given(documents, st.none() | documents)
def test_any_document_is_validated(document: Document, old: Document | None) -> None:
    for cause in SCHEMA.validate(document, old):
        assert str(cause)


@given(documents)
def test_what_was_wrong_before_is_not_held_against_an_update(document: Document) -> None:
    """Except embedded objects, and rules that cannot be evaluated at all."""
    document.pop("name", None)
    causes = SCHEMA.validate(document, deepcopy(document))
    assert all("evaluating rule" in cause.message for cause in causes)


@given(documents)
def test_defaulting_and_pruning_are_done_after_once(document: Document) -> None:
    SCHEMA.default(document)
    SCHEMA.prune(document)
    once = deepcopy(document)
    assert SCHEMA.unknown_fields(document) == []
    assert SCHEMA.prune(SCHEMA.default(document)) == []
    assert document == once


keywords = st.sampled_from(
    [
        *("type", "properties", "items", "additionalProperties", "required", "enum", "default", "pattern", "minLength"),
        *("maximum", "anyOf", "not", "nullable", "format", "multipleOf", "x-kubernetes-list-type"),
        *("x-kubernetes-list-map-keys", "x-kubernetes-validations", "x-kubernetes-preserve-unknown-fields"),
    ]
)
plain = st.sampled_from(
    ["object", "array", "string", "integer", "map", "set", "a", "(", "self == oldSelf", 0, 1, -1, None, True]
)
schemas = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(keywords | names | st.sampled_from(["rule"]), inner, max_size=3)
        | st.builds(lambda kind, value: {"type": kind, "properties": {"a": value}}, st.just("object"), inner)
        | st.builds(lambda value: {"type": "array", "items": value}, inner)
    ),
    max_leaves=10,
)


@given(schemas, documents)
def test_any_schema_is_compiled_or_refused(schema: Any, document: Document) -> None:
    with suppress(SchemaError):
        compiled = compile_schema(schema)
        compiled.prune(compiled.default(document))
        compiled.validate(document, deepcopy(document))
