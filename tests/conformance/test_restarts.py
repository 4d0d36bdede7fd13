"""What a client finds after the server was restarted: the same objects, and no version that goes back."""

from __future__ import annotations

from itertools import islice

from tests.conformance.conftest import Restartable
from tests.conformance.documents import Object, a_config_map
from tests.control_plane.http_client import HttpClient

PATH = "/api/v1/namespaces/default/configmaps"


def _version(document: Object) -> str:
    version: str = document["metadata"]["resourceVersion"]
    return version


def _names_after(client: HttpClient, version: str, number: int) -> list[str]:
    """What was created after a version, by watch; or by a new list, if the server has forgotten that moment."""
    with client.watch(PATH, {"resourceVersion": version}) as events:
        first = next(events)
        if first["type"] != "ERROR":
            return [event["object"]["metadata"]["name"] for event in [first, *islice(events, number - 1)]]
    assert (first["object"]["code"], first["object"]["reason"]) == (410, "Expired")
    items = client.get(PATH).ok()["items"]
    return [item["metadata"]["name"] for item in sorted(items, key=_number) if _number(item) > int(version)]


def _number(document: Object) -> int:
    return int(_version(document))


def test_a_watch_goes_on_where_it_stopped(restartable: Restartable) -> None:
    before = HttpClient(restartable.access)
    seen = before.post(PATH, a_config_map("seen")).ok()
    missed = before.post(PATH, a_config_map("missed")).ok()
    restartable.restart()
    after = HttpClient(restartable.access)
    later = after.post(PATH, a_config_map("later")).ok()
    assert _number(later) > _number(missed)
    assert _names_after(after, _version(seen), 2) == ["missed", "later"]
    assert _names_after(after, _version(missed), 1) == ["later"]


def test_a_watch_ends_with_its_server(restartable: Restartable) -> None:
    client = HttpClient(restartable.access)
    created = client.post(PATH, a_config_map("a")).ok()
    with client.watch(PATH, {"resourceVersion": _version(created)}, seconds=30) as events:
        restartable.restart()
        assert list(events) == []
    assert HttpClient(restartable.access).get(f"{PATH}/a").ok() == created
