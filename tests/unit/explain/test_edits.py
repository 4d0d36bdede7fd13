"""Reading edits: strict, and clear about what is wrong."""

from __future__ import annotations

import pytest

from fleet.errors import InputError
from fleet.explain.whatif.edits import (
    NOT_YET,
    OPERATIONS,
    AddCluster,
    LabelCluster,
    RelaxSpread,
    SetCount,
    SetReady,
    Tolerate,
    describe,
    list_clusters,
    parse_edits,
    scope_of,
    to_documents,
)


def test_edits_are_read_from_plain_objects() -> None:
    found = parse_edits(
        [
            {"op": "setCount", "value": 4},
            {"op": "tolerate", "key": "dedicated", "value": "batch", "effect": "NoSchedule"},
            {"op": "relaxSpread", "key": "zone", "maxSkew": 2},
            {"op": "addCluster", "name": "ams-9", "like": "ams-1"},
        ]
    )

    assert found == (
        SetCount(4),
        Tolerate("dedicated", "Equal", "batch", "NoSchedule"),
        RelaxSpread("zone", 2),
        AddCluster("ams-9", "ams-1"),
    )


def test_edits_are_written_as_they_are_read() -> None:
    edits = (SetCount(2), LabelCluster("c1", "tier", None), Tolerate("gpu"))

    assert parse_edits(to_documents(edits)) == edits


@pytest.mark.parametrize(
    "given, field, message",
    [
        ({"op": "setCount"}, "edits", "should be a list of edits, not dict"),
        (None, "edits", "should be a list of edits, not nothing"),
        (["setCount"], "edits[0]", 'should be an object such as {"op": "setCount", "value": 3}'),
        ([{"value": 3}], "edits[0].op", "the operation is missing; use one of tolerate, setCount"),
        ([{"op": "scale", "value": 3}], "edits[0].op", "'scale' is not an operation; use one of tolerate"),
        ([{"op": "setCount"}], "edits[0]", "missing required field `value`; setCount takes value"),
        ([{"op": "setCount", "value": "3"}], "edits[0].value", "Expected `int`, got `str`; setCount takes value"),
        ([{"op": "setCount", "value": 3, "by": 1}], "edits[0]", "unknown field `by`; setCount takes value"),
        ([{"op": "tolerate", "keys": "x"}], "edits[0]", "tolerate takes key?, operator?, value?, effect?"),
    ],
    ids=["no list", "nothing", "no object", "no op", "unknown op", "missing", "wrong type", "unknown field", "typo"],
)
def test_what_cannot_be_read_is_told_with_its_place_and_the_next_step(given: object, field: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_edits(given)

    assert caught.value.field == field
    assert message in caught.value.message


def test_the_place_of_a_mistake_counts_the_edits_before_it() -> None:
    with pytest.raises(InputError, match=r"edits\[1\]\.maxSkew"):
        parse_edits([{"op": "setCount", "value": 1}, {"op": "relaxSpread", "key": "zone", "maxSkew": "2"}])


@pytest.mark.parametrize("op", NOT_YET)
def test_operations_on_what_does_not_exist_yet_are_refused_as_such(op: str) -> None:
    with pytest.raises(InputError, match=f"{op} changes something that this release does not schedule by"):
        parse_edits([{"op": op}])


def test_an_operation_is_either_here_or_not_yet() -> None:
    assert not set(OPERATIONS) & set(NOT_YET)


@pytest.mark.parametrize(
    "edit, scope, text",
    [
        (
            {"op": "tolerate", "key": "dedicated", "value": "batch", "effect": "NoSchedule"},
            "placement",
            "tolerate dedicated=batch:NoSchedule",
        ),
        ({"op": "tolerate", "operator": "Exists"}, "placement", "tolerate every taint"),
        ({"op": "setCount", "value": 3}, "placement", "count 3"),
        (
            {"op": "relaxAffinity", "term": 0, "expression": "tier In [gold]"},
            "placement",
            "affinity term [0] without tier In [gold]",
        ),
        ({"op": "relaxSpread", "key": "zone", "maxSkew": 2}, "placement", "max skew of zone 2"),
        ({"op": "patch", "patch": {"numberOfClusters": 3}}, "placement", 'policy {"numberOfClusters":3}'),
        ({"op": "labelCluster", "cluster": "c1", "key": "tier", "value": "gold"}, "cluster", "c1: label tier=gold"),
        ({"op": "labelCluster", "cluster": "c1", "key": "tier", "value": None}, "cluster", "c1: remove label tier"),
        ({"op": "addTaint", "cluster": "c1", "key": "gpu"}, "cluster", "c1: taint gpu:NoSchedule"),
        ({"op": "removeTaint", "cluster": "c1", "key": "gpu"}, "cluster", "c1: remove taint gpu"),
        ({"op": "setReady", "cluster": "c1", "value": True}, "cluster", "c1: bring its agent back"),
        ({"op": "setReady", "cluster": "c1", "value": False}, "cluster", "c1: not ready"),
        ({"op": "setProperty", "cluster": "c1", "property": "nodes", "value": "5"}, "cluster", "c1: nodes 5"),
        ({"op": "addCluster", "name": "c9", "like": "c1"}, "cluster", "new cluster c9 like c1"),
        ({"op": "removeCluster", "cluster": "c1"}, "cluster", "c1: leaves the fleet"),
        ({"op": "evict", "cluster": "c1"}, "cluster", "c1: evict the placement"),
    ],
    ids=lambda value: value["op"] if isinstance(value, dict) else None,
)
def test_every_edit_has_a_scope_and_words(edit: dict[str, object], scope: str, text: str) -> None:
    (found,) = parse_edits([edit])

    assert (scope_of(found), describe(found)) == (scope, text)


def test_an_edit_tells_which_clusters_it_names() -> None:
    assert list_clusters(AddCluster("c9", "c1")) == ("c9", "c1")
    assert list_clusters(SetReady("c1", value=True)) == ("c1",)
    assert list_clusters(SetCount(3)) == ()
