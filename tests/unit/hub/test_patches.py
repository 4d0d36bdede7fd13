"""Merge patches and JSON patches, including the oddities of the API server."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from fleet.errors import PatchError, PatchTestFailed
from fleet.hub.apply.patches import json_patch, merge_patch

DOCUMENT: dict[str, Any] = {"data": {"a": "1", "b": "2"}, "list": ["x", "y"], "deep": {"er": {"n": 1}}}


@pytest.mark.parametrize(
    "patch, want",
    [
        ({"data": {"a": None}}, {"data": {"b": "2"}}),
        ({"data": None}, {}),
        ({"data": {"c": {"d": None, "e": 1}}}, {"data": {"a": "1", "b": "2", "c": {"e": 1}}}),
        ({"data": [None]}, {"data": [None]}),
        ({"data": {"a": {"x": 1}}}, {"data": {"a": {"x": 1}, "b": "2"}}),
    ],
)
def test_merge_patches(patch: Any, want: Any) -> None:
    document = {"data": {"a": "1", "b": "2"}}
    assert merge_patch(document, patch) == want
    assert document == {"data": {"a": "1", "b": "2"}}


@pytest.mark.parametrize(
    "patch, text",
    [
        (None, "Invalid JSON Patch"),
        ([], "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
        (5, "error decoding patch: json: cannot unmarshal number into Go value of type map[string]interface {}"),
    ],
)
def test_what_is_no_merge_patch_is_a_bad_request(patch: Any, text: str) -> None:
    with pytest.raises(PatchError) as raised:
        merge_patch({}, patch)
    assert (str(raised.value), raised.value.is_unprocessable) == (text, False)


def op(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **more}


@pytest.mark.parametrize(
    "operations, field, want",
    [
        ([op("add", "/data/c", value="3")], "data", {"a": "1", "b": "2", "c": "3"}),
        ([op("add", "/data/c")], "data", {"a": "1", "b": "2", "c": None}),
        ([op("add", "/data/x~1y~0z", value=1)], "data", {"a": "1", "b": "2", "x/y~z": 1}),
        ([op("add", "/list/1", value="n")], "list", ["x", "n", "y"]),
        ([op("add", "/list/-", value="n")], "list", ["x", "y", "n"]),
        ([op("add", "/list/-1", value="n")], "list", ["x", "y", "n"]),
        ([op("remove", "/data/a")], "data", {"b": "2"}),
        ([op("remove", "/list/-1")], "list", ["x"]),
        ([op("replace", "/data/a", value="9")], "data", {"a": "9", "b": "2"}),
        ([op("replace", "/data/new", value="9")], "data", {"a": "1", "b": "2", "new": "9"}),
        ([op("replace", "/list/0", value="9")], "list", ["9", "y"]),
        ([op("move", "/data/c", **{"from": "/data/a"})], "data", {"b": "2", "c": "1"}),
        ([op("copy", "/data/c", **{"from": "/data/a"})], "data", {"a": "1", "b": "2", "c": "1"}),
        ([op("copy", "/data/c", **{"from": "/data/missing"})], "data", {"a": "1", "b": "2", "c": None}),
        ([op("test", "/data/a", value="1"), op("remove", "/data/a")], "data", {"b": "2"}),
        ([op("test", "/data/missing", value=None)], "data", {"a": "1", "b": "2"}),
        ([op("add", "data/n", value="1")], "n", "1"),
        (None, "data", {"a": "1", "b": "2"}),
    ],
)
def test_json_patches(operations: Any, field: str, want: Any) -> None:
    document = deepcopy(DOCUMENT)
    assert json_patch(document, operations)[field] == want
    assert document == DOCUMENT


@pytest.mark.parametrize(
    "operation",
    [
        op("remove", "/data/zz"),
        op("remove", "/zz/yy"),
        op("remove", "/list/-"),
        op("remove", "/list/2"),
        op("remove", ""),
        op("replace", "/q/zz", value="1"),
        op("replace", "/list/3", value="1"),
        op("add", "/q/zz", value="1"),
        op("add", "/list/5", value="1"),
        op("add", "/list/x", value="1"),
        op("add", "/list/" + "9" * 5000, value="1"),
        op("add", "/data/a/b", value="1"),
        op("add", "", value={}),
        op("move", "/data/q", **{"from": "/data/zz"}),
        op("move", "/data/q"),
        op("copy", "/q/q", **{"from": "/data/a"}),
        op("frobnicate", "/data/q"),
        {"path": "/data/q"},
        {"op": "add", "value": 1},
    ],
)
def test_what_does_not_fit_the_document_is_unprocessable(operation: Any) -> None:
    with pytest.raises(PatchError) as raised:
        json_patch(deepcopy(DOCUMENT), [operation])
    assert raised.value.is_unprocessable


@pytest.mark.parametrize("path, value", [("/data/a", "2"), ("/data/zz", "2"), ("/deep/er/n", True), ("", {})])
def test_a_failed_test_says_so(path: str, value: Any) -> None:
    with pytest.raises(PatchTestFailed, match=f"testing value {path} failed"):
        json_patch(deepcopy(DOCUMENT), [op("test", path, value=value)])


@pytest.mark.parametrize(
    "operations, text",
    [
        ({"op": "add"}, "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        ([5], "json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        (
            [op("add", "/x"), {"op": 5}],
            "json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
        ),
    ],
)
def test_what_is_no_json_patch_is_a_bad_request(operations: Any, text: str) -> None:
    with pytest.raises(PatchError) as raised:
        json_patch({}, operations)
    assert (str(raised.value), raised.value.is_unprocessable) == (f"error decoding patch: {text}", False)
