"""Lists: selection, pages, and the revisions they show."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from fleet.hub.storage import store as storing
from fleet.hub.storage.entries import StoredEntry, encode_entry
from tests.unit.hub.asking import CONFIG_MAPS, NAMESPACES, THINGS, Asker, a_config_map, a_thing


@pytest.fixture
def five(ask: Asker) -> Asker:
    for number in range(5):
        labels = {"number": str(number), "kind": "odd" if number % 2 else "even"}
        ask("POST", CONFIG_MAPS, {"metadata": {"name": f"c{number}", "labels": labels}})
    return ask


@pytest.mark.parametrize(
    "selector, names",
    [
        ("kind=odd", ["c1", "c3"]),
        ("kind!=odd", ["c0", "c2", "c4"]),
        ("kind==odd,number in (1, 2)", ["c1"]),
        ("number notin (0,1,2)", ["c3", "c4"]),
        ("number", ["c0", "c1", "c2", "c3", "c4"]),
        ("!number", []),
        ("number>2", ["c3", "c4"]),
    ],
)
def test_labels_select(five: Asker, selector: str, names: list[str]) -> None:
    assert five.names(f"{CONFIG_MAPS}?labelSelector={quote(selector)}") == names


@pytest.mark.parametrize(
    "selector, text",
    [
        ("a in", "unable to parse requirement: found '' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        (",", "found ',', expected: !, identifier, or 'end of string'"),
    ],
)
def test_a_selector_that_is_none_is_refused(five: Asker, selector: str, text: str) -> None:
    assert five("GET", f"{CONFIG_MAPS}?labelSelector={quote(selector)}").refusal == (400, "BadRequest", text)


def test_fields_select(five: Asker) -> None:
    assert five.names(f"{CONFIG_MAPS}?fieldSelector=metadata.name%3Dc3") == ["c3"]
    assert five.names(f"{NAMESPACES}?fieldSelector=status.phase!%3DActive") == []
    refused = five("GET", f"{CONFIG_MAPS}?fieldSelector=data.x%3D1")
    text = '"data.x" is not a known field selector: only "metadata.name", "metadata.namespace"'
    assert refused.refusal == (400, "BadRequest", text)


def test_pages_show_the_state_of_the_first_one(five: Asker) -> None:
    first = five("GET", f"{CONFIG_MAPS}?limit=2").json
    assert first["metadata"]["remainingItemCount"] == 3
    five("DELETE", f"{CONFIG_MAPS}/c3")
    five("POST", CONFIG_MAPS, a_config_map("c2a"))
    second = five("GET", f"{CONFIG_MAPS}?limit=2&continue={first['metadata']['continue']}").json
    assert [item["metadata"]["name"] for item in second["items"]] == ["c2", "c3"]
    last = five("GET", f"{CONFIG_MAPS}?limit=2&continue={second['metadata']['continue']}").json
    assert [item["metadata"]["name"] for item in last["items"]] == ["c4"]
    assert "continue" not in last["metadata"]
    assert {page["metadata"]["resourceVersion"] for page in (first, second, last)} == {
        first["metadata"]["resourceVersion"]
    }


def test_a_page_of_a_forgotten_state_offers_to_go_on_with_the_present(
    five: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = five("GET", f"{CONFIG_MAPS}?limit=2").json["metadata"]["continue"]
    collection = five.hub.store.collection("configmaps")
    monkeypatch.setattr(collection, "floor", five.hub.store.revision + 1)
    refused = five("GET", f"{CONFIG_MAPS}?limit=2&continue={token}")
    assert refused.refusal[:2] == (410, "Expired")
    offered = refused.json["metadata"]["continue"]
    assert five.names(f"{CONFIG_MAPS}?continue={offered}") == ["c2", "c3", "c4"]


def test_a_revision_can_be_asked_for_exactly(five: Asker) -> None:
    revision = five("GET", CONFIG_MAPS).json["metadata"]["resourceVersion"]
    five("DELETE", f"{CONFIG_MAPS}/c0")
    then = f"{CONFIG_MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact"
    assert five.names(then) == ["c0", "c1", "c2", "c3", "c4"]
    assert five.names(f"{CONFIG_MAPS}?resourceVersion={revision}") == ["c1", "c2", "c3", "c4"]


def test_a_revision_from_the_future_is_refused_with_a_wait(five: Asker) -> None:
    refused = five("GET", f"{CONFIG_MAPS}?resourceVersion=99999")
    assert refused.refusal[:2] == (504, "Timeout")
    assert refused.headers["retry-after"] == "1"


def test_a_state_older_than_the_kept_changes_is_gone(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storing, "EVENTS_KEPT", 3)
    ask.hub.store._collections.clear()
    ask.hub.store.collection("namespaces").load(_namespace(ask))
    revisions = [
        ask("POST", CONFIG_MAPS, a_config_map(f"c{number}")).json["metadata"]["resourceVersion"] for number in range(6)
    ]
    kept = f"{CONFIG_MAPS}?resourceVersionMatch=Exact&resourceVersion={revisions[3]}"
    assert ask.names(kept) == ["c0", "c1", "c2", "c3"]
    forgotten = f"{CONFIG_MAPS}?resourceVersionMatch=Exact&resourceVersion={revisions[1]}"
    text = "The resourceVersion for the provided list is too old."
    assert ask("GET", forgotten).refusal == (410, "Expired", text)


def test_lists_of_custom_kinds_repeat_the_kind_and_others_do_not(things: Asker) -> None:
    things("POST", CONFIG_MAPS, a_config_map("a"))
    things("POST", THINGS, a_thing("t"))
    assert "kind" not in things("GET", CONFIG_MAPS).json["items"][0]
    assert things("GET", THINGS).json["items"][0]["kind"] == "Thing"


def _namespace(ask: Asker) -> StoredEntry:
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    return encode_entry(document, ask.hub.store.revision)
