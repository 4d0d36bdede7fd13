"""What a client finds after the server was restarted: the same objects, and no version that goes back."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.conformance.conftest import Restartable
from tests.conformance.documents import Object, a_config_map
from tests.control_plane.http_client import HttpClient

pytestmark = pytest.mark.servers


@pytest.fixture
def path(restartable: Restartable, unique: str) -> str:
    """Of the ConfigMaps of a namespace of the test's own."""
    HttpClient(restartable.access).post("/api/v1/namespaces", {"metadata": {"name": unique}}).ok()
    return f"/api/v1/namespaces/{unique}/configmaps"


def _version(document: Object) -> str:
    version: str = document["metadata"]["resourceVersion"]
    return version


def _names_after(client: HttpClient, path: str, version: str, number: int) -> list[str]:
    """What was created after a version, by watch; or by a new list, if the server has forgotten that moment."""
    with client.watch(path, {"resourceVersion": version}) as events:
        first = next(events)
        if first["type"] != "ERROR":
            return [event["object"]["metadata"]["name"] for event in [first, *islice(events, number - 1)]]
    assert (first["object"]["code"], first["object"]["reason"]) == (410, "Expired")
    items = client.get(path).ok()["items"]
    return [item["metadata"]["name"] for item in sorted(items, key=_number) if _number(item) > int(version)]


def _number(document: Object) -> int:
    return int(_version(document))


def test_a_watch_goes_on_where_it_stopped(restartable: Restartable, path: str) -> None:
    before = HttpClient(restartable.access)
    seen = before.post(path, a_config_map("seen")).ok()
    missed = before.post(path, a_config_map("missed")).ok()
    restartable.restart()
    after = HttpClient(restartable.access)
    later = after.post(path, a_config_map("later")).ok()
    assert _number(later) > _number(missed)
    assert _names_after(after, path, _version(seen), 2) == ["missed", "later"]
    assert _names_after(after, path, _version(missed), 1) == ["later"]


def test_a_watch_ends_with_its_server(restartable: Restartable, path: str) -> None:
    client = HttpClient(restartable.access)
    created = client.post(path, a_config_map("a")).ok()
    with client.watch(path, {"resourceVersion": _version(created)}) as events:
        restartable.restart()
        assert list(events) == []
    assert HttpClient(restartable.access).get(f"{path}/a").ok() == created


def test_a_page_of_a_forgotten_moment_is_refused_with_a_way_on(restartable: Restartable, path: str) -> None:
    client = HttpClient(restartable.access)
    for name in ("a", "b", "c"):
        client.post(path, a_config_map(name)).ok()
    first = client.get(path, {"limit": 1}).ok()
    client.delete(f"{path}/b").ok()
    restartable.forget_history()
    after = HttpClient(restartable.access)
    refused = after.get(path, {"limit": 1, "continue": first["metadata"]["continue"]})
    assert (refused.status, refused.json["reason"]) == (410, "Expired")
    assert refused.message == (
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
        "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
        "modified, or deleted between the time the first chunk was returned and now may show up in the list."
    )
    rest = after.get(path, {"continue": refused.json["metadata"]["continue"]}).ok()
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c"]


def test_a_watch_from_a_forgotten_moment_is_sent_to_list_again(restartable: Restartable, path: str) -> None:
    client = HttpClient(restartable.access)
    forgotten = client.post(path, a_config_map("a")).ok()
    client.post(path, a_config_map("b")).ok()
    restartable.forget_history()
    with HttpClient(restartable.access).watch(path, {"resourceVersion": _version(forgotten)}) as events:
        (event,) = list(events)
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert event["object"]["message"].startswith(f"too old resource version: {_version(forgotten)} (")
