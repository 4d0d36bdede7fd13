"""Strategic merge patches of built-in kinds."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.errors import PatchError
from fleet.hub.apply.patches import strategic_merge_patch


def a_pod(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def patched(spec: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    changed: dict[str, Any] = strategic_merge_patch(a_pod(**spec), {"spec": patch}, "Pod")["spec"]
    return changed


def names(items: list[dict[str, Any]]) -> list[str]:
    return [item["name"] for item in items]


APP = {"name": "app", "image": "app:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}
LOG = {"name": "log", "image": "log:1"}


def test_containers_are_merged_by_name() -> None:
    spec = patched({"containers": [APP, LOG]}, {"containers": [{"name": "log", "image": "log:2"}]})
    assert {item["name"]: item["image"] for item in spec["containers"]} == {"app": "app:1", "log": "log:2"}


def test_lists_inside_lists_are_merged_too() -> None:
    env = [{"name": "B", "value": "3"}, {"name": "A", "$patch": "delete"}]
    spec = patched({"containers": [APP]}, {"containers": [{"name": "app", "env": env}]})
    assert spec["containers"][0]["env"] == [{"name": "B", "value": "3"}]


def test_ports_are_told_apart_by_their_number() -> None:
    ports = [{"containerPort": 80, "name": "http"}]
    spec = patched(
        {"containers": [{"name": "a", "ports": ports}]},
        {"containers": [{"name": "a", "ports": [{"containerPort": 81}]}]},
    )
    assert spec["containers"][0]["ports"] == [{"containerPort": 81}, {"containerPort": 80, "name": "http"}]


def test_lists_without_a_key_are_replaced() -> None:
    spec = patched({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]})
    assert spec["tolerations"] == [{"key": "b"}]


def test_a_list_may_be_replaced_on_request() -> None:
    spec = patched({"containers": [APP, LOG]}, {"containers": [{"$patch": "replace"}, {"name": "new"}]})
    assert spec["containers"] == [{"name": "new"}]


def test_a_map_may_be_replaced_or_emptied_on_request() -> None:
    old = {"nodeSelector": {"a": "b"}, "securityContext": {"runAsUser": 1}}
    patch = {"nodeSelector": {"$patch": "replace", "c": "d"}, "securityContext": {"$patch": "delete"}}
    assert patched(old, patch) == {"nodeSelector": {"c": "d"}, "securityContext": {}}


def test_retained_keys_drop_the_others() -> None:
    volumes = [{"name": "v", "configMap": {"name": "c"}}]
    patch = {"volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}}]}
    assert patched({"volumes": volumes}, patch)["volumes"] == [{"name": "v", "secret": {"secretName": "s"}}]


def test_the_order_of_items_can_be_told() -> None:
    patch = {
        "$setElementOrder/containers": [{"name": "log"}, {"name": "new"}, {"name": "app"}],
        "containers": [{"name": "new"}],
    }
    assert names(patched({"containers": [APP, LOG]}, patch)["containers"]) == ["log", "new", "app"]


def test_items_that_only_the_server_has_keep_their_place() -> None:
    server = [{"name": "first"}, APP, LOG]
    patch = {"$setElementOrder/containers": [{"name": "log"}, {"name": "app"}]}
    assert names(patched({"containers": server}, patch)["containers"]) == ["first", "log", "app"]


def test_scalars_are_added_to_and_deleted_from_merged_lists() -> None:
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"finalizers": ["a/a", "b/b"]}}
    added = strategic_merge_patch(document, {"metadata": {"finalizers": ["c/c"]}}, "ConfigMap")
    assert sorted(added["metadata"]["finalizers"]) == ["a/a", "b/b", "c/c"]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/a"]}}
    assert strategic_merge_patch(document, patch, "ConfigMap")["metadata"]["finalizers"] == ["b/b"]
    assert document["metadata"] == {"finalizers": ["a/a", "b/b"]}


def test_nulls_remove_and_new_values_have_none() -> None:
    assert patched({"a": 1}, {"a": None, "b": {"c": None, "d": 1}, "e": None}) == {"b": {"d": 1}}


def test_a_kind_without_a_table_is_merged_like_any_json() -> None:
    document = {"apiVersion": "x/v1", "kind": "X", "items": [{"name": "a"}], "map": {"a": 1}}
    patch = {"items": [{"name": "b"}], "map": {"b": 2}}
    assert strategic_merge_patch(document, patch, "X") == {
        **document,
        "items": [{"name": "b"}],
        "map": {"a": 1, "b": 2},
    }


@pytest.mark.parametrize(
    "patch, text",
    [
        ({"containers": [{"image": "x"}]}, "does not contain declared merge key: name"),
        ({"containers": ["x"]}, "expected a map"),
        ({"containers": [{"name": "a", "$patch": "frob"}]}, "unknown patch type: frob"),
        ({"nodeSelector": {"$patch": "frob"}}, "unknown patch type: frob"),
        ({"$retainKeys": ["x"], "y": 1}, "invalid patch format of retainKeys"),
        ({"$setElementOrder/containers": 5}, "invalid patch format of setElementOrder list"),
        ({"$setElementOrder/containers": [{"name": "x"}], "containers": [{"name": "app"}]}, "The order in patch list"),
        ({"$deleteFromPrimitiveList/x": 5}, "invalid patch format of primitive list"),
    ],
)
def test_malformed_patches_are_refused(patch: dict[str, Any], text: str) -> None:
    with pytest.raises(PatchError, match=text):
        patched({"containers": [APP], "nodeSelector": {"a": "b"}}, patch)


def test_a_patch_is_an_object() -> None:
    with pytest.raises(PatchError, match="invalid JSON document"):
        strategic_merge_patch(a_pod(), ["x"], "Pod")
