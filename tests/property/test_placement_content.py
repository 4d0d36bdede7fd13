"""What placements select, for any objects: neither the order of keys nor that of reading ever shows."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fleet.kube.resource import Resource
from fleet.placement.selection import canonical_json as canonical
from fleet.placement.selection.candidates import candidate_codec
from fleet.placement.selection.resolution import SelectedObject
from fleet.placement.selection.sanitizing import sanitize
from fleet.placement.snapshots.hashing import (
    are_policies_equal,
    fingerprint,
    is_policy_unchanged,
    policy_hash,
    resources_hash,
)
from fleet.placement.snapshots.snapshot_group import split_objects

KINDS = ("Namespace", "ConfigMap", "Service", "Job", "Deployment", "Widget", "Gear")
NAMES = st.text("ab-<é\u2028", min_size=1, max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.fixed_dictionaries(
    {
        "apiVersion": st.sampled_from(("v1", "apps/v1", "apps/v1beta1", "batch/v1", "example.com/v1")),
        "kind": st.sampled_from(KINDS),
        "metadata": st.fixed_dictionaries(
            {"name": NAMES},
            optional={
                "namespace": NAMES,
                "labels": st.dictionaries(NAMES, NAMES, max_size=3),
                "annotations": st.dictionaries(NAMES, NAMES, max_size=3),
                "uid": NAMES,
            },
        ),
        "spec": st.dictionaries(NAMES, VALUES, max_size=4),
    }
)
TERMS = st.fixed_dictionaries(
    {},
    optional={
        "labelSelector": st.fixed_dictionaries(
            {}, optional={"matchLabels": st.dictionaries(NAMES, NAMES, min_size=1, max_size=3)}
        ),
        "propertySorter": st.fixed_dictionaries({"name": NAMES, "sortOrder": st.sampled_from(["Ascending"])}),
    },
)
POLICIES = st.fixed_dictionaries(
    {"placementType": st.sampled_from(["PickAll", "PickN", "PickFixed"])},
    optional={
        "clusterNames": st.lists(NAMES, max_size=3),
        "numberOfClusters": st.integers(0, 9),
        "affinity": st.fixed_dictionaries(
            {},
            optional={
                "clusterAffinity": st.fixed_dictionaries(
                    {},
                    optional={
                        "requiredDuringSchedulingIgnoredDuringExecution": st.fixed_dictionaries(
                            {"clusterSelectorTerms": st.lists(TERMS, max_size=2)}
                        ),
                        "preferredDuringSchedulingIgnoredDuringExecution": st.lists(
                            st.fixed_dictionaries({"weight": st.integers(-100, 100), "preference": TERMS}), max_size=2
                        ),
                    },
                )
            },
        ),
        "tolerations": st.lists(
            st.fixed_dictionaries({}, optional={"key": NAMES, "operator": st.just("Exists"), "value": NAMES}),
            max_size=2,
        ),
    },
)


def shuffled(value: Any, luck: random.Random) -> Any:
    """The same, with the keys of all maps in another order."""
    if isinstance(value, dict):
        keys = list(value)
        luck.shuffle(keys)
        return {key: shuffled(value[key], luck) for key in keys}
    return [shuffled(item, luck) for item in value] if isinstance(value, list) else value


def as_selected(document: dict[str, Any]) -> SelectedObject:
    group, _, version = document["apiVersion"].rpartition("/")
    resource = Resource(group, version, "things", document["kind"], namespaced="namespace" in document["metadata"])
    found = candidate_codec(resource).read(json.dumps(document).encode())
    metadata = document["metadata"]
    return SelectedObject(
        group, version, document["kind"], metadata.get("namespace", ""), metadata["name"], found.content
    )


def hash_of(documents: list[dict[str, Any]]) -> str:
    objects = sorted(map(as_selected, documents), key=lambda one: (one.sort_position, one.content))
    return resources_hash(one.content for one in objects)


@given(OBJECTS, st.randoms(use_true_random=False))
def test_the_order_of_keys_never_matters_to_an_object(document: dict[str, Any], luck: random.Random) -> None:
    assert as_selected(document).content == as_selected(shuffled(document, luck)).content


@given(st.lists(OBJECTS, max_size=6), st.randoms(use_true_random=False))
def test_neither_the_order_of_keys_nor_that_of_objects_matters_to_a_group(
    documents: list[dict[str, Any]], luck: random.Random
) -> None:
    others = shuffled(documents, luck)
    luck.shuffle(others)
    assert hash_of(documents) == hash_of(others)


@given(POLICIES, st.randoms(use_true_random=False))
def test_the_order_of_keys_never_matters_to_a_policy(policy: dict[str, Any], luck: random.Random) -> None:
    other = shuffled(policy, luck)
    assert policy_hash(policy) == policy_hash(other)
    assert are_policies_equal(policy, other)
    assert is_policy_unchanged(policy, {**other, "numberOfClusters": 7})


@given(POLICIES, POLICIES)
def test_policies_with_one_hash_ask_for_the_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert are_policies_equal(one, other) or policy_hash(one) != policy_hash(other)
    assert are_policies_equal(one, other) or not is_policy_unchanged(one, other)


@given(VALUES)
def test_canonical_json_means_the_same_and_is_final(value: Any) -> None:
    text = canonical.canonical(json.dumps(value).encode())
    assert msgspec.json.decode(text) == value
    assert canonical.canonical(text) == text
    assert not any(character.encode() in text for character in "<>& \u2028\u2029")


@given(OBJECTS)
def test_sanitising_twice_is_sanitising_once(document: dict[str, Any]) -> None:
    api_version, kind = document["apiVersion"], document["kind"]
    once = sanitize(json.loads(json.dumps(document)), api_version=api_version, kind=kind)
    again = sanitize(json.loads(json.dumps(once)), api_version=api_version, kind=kind)
    assert once == again


@given(st.lists(OBJECTS, min_size=1, max_size=4), st.lists(OBJECTS, min_size=1, max_size=4))
def test_equal_groups_have_equal_fingerprints(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> None:
    def prints(documents: list[dict[str, Any]]) -> str:
        objects = sorted(map(as_selected, documents), key=lambda each: (each.sort_position, each.content))
        return fingerprint(each.content for each in objects)

    assert hash_of(one) != hash_of(other) or prints(one) == prints(other)


@given(st.lists(st.integers(0, 120), max_size=30), st.integers(1, 100))
def test_splitting_keeps_the_order_and_fills_every_part(sizes: list[int], limit: int) -> None:
    objects = [SelectedObject("", "v1", "ConfigMap", "", str(at), b"x" * size) for at, size in enumerate(sizes)]
    parts = split_objects(objects, limit=limit)
    assert parts
    assert [one for part in parts for one in part] == objects
    assert all(parts) or parts == [()]
    for part in parts:
        assert len(part) == 1 or sum(len(one.content) for one in part) <= limit or not part
    for part, following in itertools.pairwise(parts):
        assert sum(len(one.content) for one in part) + len(following[0].content) > limit
