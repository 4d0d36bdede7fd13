"""Lists: pages, selectors, and which moment a list shows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.documents import CLUSTERS, a_config_map
from tests.conformance.hub import Hub
from tests.control_plane.http_client import Query

NAMES = ["a", "b", "c", "d", "e"]


@pytest.fixture
def five(hub: Hub) -> Hub:
    """A namespace with five objects, numbered from 0."""
    for number, name in enumerate(NAMES):
        labels = {"number": str(number), "parity": "odd" if number % 2 else "even"}
        hub.http.post(hub.path("configmaps"), a_config_map(name, labels=labels)).ok()
    return hub


def _list(hub: Hub, **query: str | int) -> Any:
    return hub.http.get(hub.path("configmaps"), query).ok()


def _names(answer: Any) -> list[str]:
    return [item["metadata"]["name"] for item in answer["items"]]


# --- pages ------------------------------------------------------------------------------------------------------------


def test_a_list_is_in_the_order_of_names(five: Hub) -> None:
    answer = _list(five)
    assert (answer["kind"], answer["apiVersion"]) == ("ConfigMapList", "v1")
    assert _names(answer) == NAMES


def test_an_empty_list_is_a_list(hub: Hub) -> None:
    answer = _list(hub)
    assert answer["items"] == []
    assert answer["metadata"].keys() == {"resourceVersion"}


def test_pages_add_up_to_one_moment(five: Hub) -> None:
    first = _list(five, limit=2)
    assert first["metadata"]["remainingItemCount"] == 3
    five.http.post(five.path("configmaps"), a_config_map("bb")).ok()
    five.http.delete(five.path("configmaps", "d")).ok()
    second = _list(five, limit=2, **{"continue": first["metadata"]["continue"]})
    third = _list(five, limit=2, **{"continue": second["metadata"]["continue"]})
    assert _names(first) + _names(second) + _names(third) == NAMES
    assert first["metadata"]["resourceVersion"] == third["metadata"]["resourceVersion"]
    assert third["metadata"].keys() == {"resourceVersion"}


def test_a_page_of_a_selection_does_not_count_the_rest(five: Hub) -> None:
    metadata = _list(five, limit=2, labelSelector="parity")["metadata"]
    assert metadata.keys() == {"resourceVersion", "continue"}


def test_pages_hold_what_is_selected(five: Hub) -> None:
    first = _list(five, limit=2, labelSelector="parity=even")
    second = _list(five, limit=2, labelSelector="parity=even", **{"continue": first["metadata"]["continue"]})
    assert [_names(first), _names(second)] == [["a", "c"], ["e"]]


def test_a_page_at_once_with_a_version_is_refused(five: Hub) -> None:
    token = _list(five, limit=2)["metadata"]["continue"]
    answer = five.http.get(five.path("configmaps"), {"continue": token, "resourceVersion": "5"})
    assert answer.status == 400
    assert answer.message == "specifying resource version is not allowed when using continue"


def test_a_made_up_token_is_refused(hub: Hub) -> None:
    answer = hub.http.get(hub.path("configmaps"), {"limit": 2, "continue": "garbage"})
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
    assert answer.message.startswith("invalid continue token: continue key is not valid: ")


@pytest.mark.parametrize(
    "limit, problem",
    [("x", "invalid syntax"), ("1_000", "invalid syntax"), (str(2**63), "value out of range")],
    ids=["no number", "a number of Python's", "more than 64 bits"],
)
def test_a_limit_is_a_number(hub: Hub, limit: str, problem: str) -> None:
    answer = hub.http.get(hub.path("configmaps"), {"limit": limit})
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
    assert answer.message == f'strconv.ParseInt: parsing "{limit}": {problem}'


def test_all_namespaces_are_listed_together(five: Hub) -> None:
    items = five.http.get("/api/v1/configmaps", {"labelSelector": "parity"}).ok()["items"]
    assert {item["metadata"]["namespace"] for item in items} >= {five.namespace}


# --- selectors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "selector, names",
    [
        ("parity=odd", "b d"),
        ("parity==odd", "b d"),
        ("parity!=odd", "a c e"),
        ("parity in (odd,even)", "a b c d e"),
        ("parity notin (even)", "b d"),
        ("parity", "a b c d e"),
        ("!parity", ""),
        ("number>2", "d e"),
        ("number<1", "a"),
        ("parity==odd,number in (1, 2)", "b"),
    ],
)
def test_labels_select(five: Hub, selector: str, names: str) -> None:
    assert _names(_list(five, labelSelector=selector)) == names.split()


@pytest.mark.parametrize(
    "selector, names",
    [("metadata.name=b", "b"), ("metadata.name!=b", "a c d e"), ("metadata.name=b,metadata.name=c", "")],
)
def test_names_select(five: Hub, selector: str, names: str) -> None:
    assert _names(_list(five, fieldSelector=selector)) == names.split()


@pytest.mark.parametrize(
    "query, message",
    [
        ({"labelSelector": "a in"}, "unable to parse requirement: found '' expected: '('"),
        ({"labelSelector": "a in (b"}, "unable to parse requirement: found '', expected: ',' or ')'"),
        ({"labelSelector": ","}, "found ',', expected: !, identifier, or 'end of string'"),
        ({"labelSelector": "a=b c"}, "found 'c', expected: ',' or 'end of string'"),
        ({"fieldSelector": "metadata.name"}, "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        (
            {"fieldSelector": "spec.x=1"},
            '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
    ],
    ids=["no set", "an open set", "no key", "two values", "no operator", "unknown field"],
)
def test_a_selector_that_makes_no_sense_is_refused(hub: Hub, query: Query, message: str) -> None:
    answer = hub.http.get(hub.path("configmaps"), query)
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
    assert answer.message == message


def test_an_unknown_field_of_a_custom_kind_is_refused(hub: Hub) -> None:
    answer = hub.http.get(CLUSTERS, {"fieldSelector": "spec.x=1"})
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
    assert answer.message == "field label not supported: spec.x"


# --- moments ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def before(five: Hub) -> str:
    """The version of a list that was taken before `a` was deleted."""
    version: str = _list(five)["metadata"]["resourceVersion"]
    five.http.delete(five.path("configmaps", "a")).ok()
    return version


def test_a_list_shows_the_latest_writes(five: Hub, before: str) -> None:
    assert _names(_list(five)) == NAMES[1:]


def test_an_exact_version_shows_that_moment(five: Hub, before: str) -> None:
    answer = _list(five, resourceVersion=before, resourceVersionMatch="Exact")
    assert _names(answer) == NAMES
    assert answer["metadata"]["resourceVersion"] == before


@pytest.mark.parametrize("match", [{"resourceVersionMatch": "NotOlderThan"}, {}], ids=["not older than", "no match"])
def test_a_version_is_the_oldest_acceptable(five: Hub, before: str, match: dict[str, str]) -> None:
    answer = _list(five, resourceVersion=before, **match)
    assert int(answer["metadata"]["resourceVersion"]) >= int(before)
    assert set(_names(answer)) >= set(NAMES[1:])


def test_a_page_of_a_version_is_of_that_version(five: Hub, before: str) -> None:
    answer = _list(five, resourceVersion=before, limit=2)
    assert _names(answer) == ["a", "b"]
    assert answer["metadata"]["resourceVersion"] == before


def test_version_zero_takes_any_moment(five: Hub) -> None:
    assert _list(five, resourceVersion=0)["kind"] == "ConfigMapList"


INVALID_OPTIONS = 'ListOptions.meta.k8s.io "" is invalid: '


@pytest.mark.parametrize(
    "query, code, message",
    [
        (
            {"resourceVersion": "x"},
            400,
            'invalid resource version: resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid '
            "syntax",
        ),
        (
            {"resourceVersionMatch": "Exact"},
            422,
            f"{INVALID_OPTIONS}resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless "
            "resourceVersion is provided",
        ),
        (
            {"resourceVersion": "0", "resourceVersionMatch": "Exact"},
            422,
            f'{INVALID_OPTIONS}resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for '
            'resourceVersion "0"',
        ),
        (
            {"resourceVersion": "1", "resourceVersionMatch": "Nope"},
            422,
            f'{INVALID_OPTIONS}resourceVersionMatch: Unsupported value: "Nope": supported values: "Exact", '
            '"NotOlderThan", ""',
        ),
        (
            {"sendInitialEvents": True},
            422,
            f"{INVALID_OPTIONS}sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
        ),
    ],
    ids=["no number", "match without version", "exactly anything", "unknown match", "initial events"],
)
def test_a_moment_that_makes_no_sense_is_refused(hub: Hub, query: Query, code: int, message: str) -> None:
    answer = hub.http.get(hub.path("configmaps"), query)
    assert (answer.status, answer.message) == (code, message)


def test_the_future_is_not_waited_for_long(hub: Hub) -> None:
    version = int(_list(hub)["metadata"]["resourceVersion"]) + 1_000_000
    query: Query = {"resourceVersion": version, "resourceVersionMatch": "NotOlderThan"}
    answer = hub.http.get(hub.path("configmaps"), query)
    assert (answer.status, answer.json["reason"]) == (504, "Timeout")
    assert answer.message.startswith(f"Timeout: Too large resource version: {version}, current: ")
    assert answer.json["details"] == {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
