"""Lists: selection, pages, and the revisions they show."""

from __future__ import annotations

import pytest

from fleet.hub.storage import store as storing
from fleet.hub.storage.entries import StoredEntry, encode_entry
from tests.unit.hub.asking import CONFIG_MAPS, THINGS, Asker, a_config_map, a_thing


@pytest.fixture
def five(ask: Asker) -> Asker:
    for number in range(5):
        labels = {"number": str(number), "kind": "odd" if number % 2 else "even"}
        ask("POST", CONFIG_MAPS, {"metadata": {"name": f"c{number}", "labels": labels}})
    return ask


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
