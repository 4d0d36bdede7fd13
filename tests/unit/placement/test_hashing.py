"""Hashes are shared with other controllers, so their texts are held to the byte."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from fleet.placement.selection import canonical_json as canonical
from fleet.placement.snapshots.hashing import are_policies_equal, fingerprint, policy_hash, resources_hash

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_no_policy_has_the_hash_of_null() -> None:
    assert policy_hash(None) == "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b"


def test_the_plainest_policy_has_its_known_hash() -> None:
    known = "8cc57dee59684ff88766e26936c8fb125f4bde234a2beb5c54aded4569db0d5a"
    assert policy_hash({"placementType": "PickAll"}) == known


def test_an_empty_selection_has_its_known_hash() -> None:
    assert resources_hash([]) == "83ff749c5d8eb5a0b62d714175bcbaef1409b371fc5a229a002db6fcc1f144e1"


def test_every_field_of_a_policy_has_its_place() -> None:
    policy = {
        "tolerations": [
            {"effect": "NoSchedule", "value": "v", "operator": "Equal", "key": "k"},
            {"operator": "Exists"},
        ],
        "topologySpreadConstraints": [
            {"whenUnsatisfiable": "ScheduleAnyway", "topologyKey": "region", "maxSkew": 2},
            {"topologyKey": "zone"},
        ],
        "affinity": {
            "clusterAffinity": {
                PREFERRED: [
                    {
                        "preference": {"propertySorter": {"sortOrder": "Ascending", "name": "a/b"}},
                        "weight": -5,
                    }
                ],
                REQUIRED: {
                    "clusterSelectorTerms": [
                        {
                            "propertySelector": {
                                "matchExpressions": [{"values": ["3"], "operator": "Gt", "name": "nodes"}]
                            },
                            "labelSelector": {
                                "matchExpressions": [
                                    {"values": ["x", "a"], "operator": "In", "key": "env"},
                                    {"operator": "Exists", "key": "gpu"},
                                ],
                                "matchLabels": {"z": "<&>", "a": "1"},
                            },
                        }
                    ]
                },
            }
        },
        "numberOfClusters": 3,
        "clusterNames": ["c2", "c1"],
        "placementType": "PickN",
    }
    text = (
        '{"placementType":"PickN","clusterNames":["c2","c1"],"affinity":{"clusterAffinity":{'
        '"requiredDuringSchedulingIgnoredDuringExecution":{"clusterSelectorTerms":[{"labelSelector":{'
        '"matchLabels":{"a":"1","z":"\\u003c\\u0026\\u003e"},"matchExpressions":['
        '{"key":"env","operator":"In","values":["x","a"]},{"key":"gpu","operator":"Exists"}]},'
        '"propertySelector":{"matchExpressions":[{"name":"nodes","operator":"Gt","values":["3"]}]}}]},'
        '"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":-5,"preference":{'
        '"propertySorter":{"name":"a/b","sortOrder":"Ascending"}}}]}},'
        '"topologySpreadConstraints":[{"maxSkew":2,"topologyKey":"region","whenUnsatisfiable":"ScheduleAnyway"},'
        '{"topologyKey":"zone"}],'
        '"tolerations":[{"key":"k","operator":"Equal","value":"v","effect":"NoSchedule"},{"operator":"Exists"}]}'
    )
    assert policy_hash(policy) == sha256(text)


def test_a_list_of_thousands_is_encoded_like_a_short_one() -> None:
    expressions = [{"operator": "Exists", "key": f"k{number}"} for number in range(2_001)]
    term = {"labelSelector": {"matchExpressions": expressions}}
    policy = {"affinity": {"clusterAffinity": {REQUIRED: {"clusterSelectorTerms": [term]}}}}
    listed = ",".join(f'{{"key":"k{number}","operator":"Exists"}}' for number in range(2_001))
    text = (
        '{"affinity":{"clusterAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"clusterSelectorTerms":['
        f'{{"labelSelector":{{"matchExpressions":[{listed}]}}}}]}}}}}}}}'
    )
    assert policy_hash(policy) == sha256(text)


def test_the_number_of_clusters_does_not_count() -> None:
    assert policy_hash({"placementType": "PickN", "numberOfClusters": 1}) == policy_hash({"placementType": "PickN"})
    assert are_policies_equal({"placementType": "PickN", "numberOfClusters": 1}, {"placementType": "PickN"})


def test_empty_lists_are_left_out_and_empty_structures_are_not() -> None:
    policy = {"placementType": "PickAll", "clusterNames": [], "tolerations": [], "affinity": {}}
    assert policy_hash(policy) == sha256('{"placementType":"PickAll","affinity":{}}')


def test_required_fields_appear_even_where_they_are_missing() -> None:
    affinity = {"clusterAffinity": {REQUIRED: {"clusterSelectorTerms": []}, PREFERRED: [{}]}}
    text = (
        '{"affinity":{"clusterAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"clusterSelectorTerms":[]},'
        '"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":0,"preference":{}}]}}}'
    )
    assert policy_hash({"affinity": affinity}) == sha256(text)


@pytest.mark.parametrize(
    "one, other",
    [
        (None, {"placementType": "PickAll"}),
        ({}, {"placementType": "PickAll"}),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "a", "operator": "Equal"}]}),
        (
            {"topologySpreadConstraints": [{"topologyKey": "r"}]},
            {"topologySpreadConstraints": [{"topologyKey": "r", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]},
        ),
        ({"clusterNames": []}, {"clusterNames": None}),
    ],
    ids=["absent", "empty", "toleration", "spread", "empty list"],
)
def test_what_defaults_say_makes_no_difference(one: Any, other: Any) -> None:
    assert are_policies_equal(one, other)


@pytest.mark.parametrize(
    "one, other",
    [
        ({"clusterNames": ["a", "b"]}, {"clusterNames": ["b", "a"]}),
        ({"tolerations": [{"key": "a"}]}, {}),
        ({"placementType": "PickN"}, {"placementType": "PickAll"}),
        ({"topologySpreadConstraints": [{"topologyKey": "r", "maxSkew": 2}]}, {"topologySpreadConstraints": []}),
    ],
    ids=["order", "tolerations", "type", "spread"],
)
def test_what_was_asked_for_makes_a_difference(one: Any, other: Any) -> None:
    assert not are_policies_equal(one, other)


@pytest.mark.parametrize(
    "given, text",
    [
        ('{ "b" : 1, "a" : [ ] }', '{"a":[],"b":1}'),
        ('"<a href=\\"x\\">&\\u2028\\u2029"', '"\\u003ca href=\\"x\\"\\u003e\\u0026\\u2028\\u2029"'),
        ('"\\u0001\\u001F\\n\\t\\u00e9\\u007f\\/"', '"\\u0001\\u001f\\n\\té\x7f/"'),
        ("[1.0,1.50,1e3,-0,-0.0]", "[1.0,1.50,1e3,-0,-0.0]"),
        (
            "[123456789012345678901234567890,9223372036854775807]",
            "[123456789012345678901234567890,9223372036854775807]",
        ),
        ('{"é":1,"z":2,"\\ud83d\\ude00":3,"\\uffff":4}', '{"z":2,"é":1,"\uffff":4,"\U0001f600":3}'),
        ('{"a":1,"a":2}', '{"a":2}'),
    ],
    ids=["spaces and order", "scripts", "escapes", "numbers", "long numbers", "byte order", "repeated key"],
)
def test_canonical_json_is_what_go_writes(given: str, text: str) -> None:
    assert canonical.canonical(given.encode()).decode() == text


def test_objects_are_hashed_in_the_order_given() -> None:
    assert resources_hash([b'{"a":1}', b'{"b":2}']) == sha256('{"selectedResources":[{"a":1},{"b":2}]}')


def test_a_fingerprint_does_not_depend_on_how_objects_are_written() -> None:
    web = '{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"web"},"data":{"a":"<"},"n":1.0}'
    same = '{"apiVersion":"v1","data":{"a":"\\u003c"},"kind":"ConfigMap","metadata":{"name":"web"},"n":1}'
    other = '{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"db"}}'
    assert fingerprint([web.encode(), other.encode()]) == fingerprint([other.encode(), same.encode()])
    assert fingerprint([web.encode()]) != fingerprint([other.encode()])
