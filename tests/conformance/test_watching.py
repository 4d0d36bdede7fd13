"""Watches: every change once and in order, from the moment that was asked for."""

from __future__ import annotations

from itertools import count, islice
from typing import Any

import pytest

from tests.conformance.documents import CLUSTERS, PLACEMENTS, a_cluster, a_config_map
from tests.conformance.hub import Hub
from tests.control_plane.http_client import Query, Watch


def _version(hub: Hub) -> str:
    version: str = hub.http.get(hub.path("configmaps")).ok()["metadata"]["resourceVersion"]
    return version


def _seen(events: Watch, number: int) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"]["name"]) for event in islice(events, number)]


def test_a_watch_tells_what_happens(hub: Hub) -> None:
    path = hub.path("configmaps")
    with hub.http.watch(path, {"resourceVersion": _version(hub)}) as events:
        created = hub.http.post(path, a_config_map("a")).ok()
        changed = hub.http.patch(f"{path}/a", {"data": {"colour": "red"}}).ok()
        hub.http.delete(f"{path}/a").ok()
        first, second, third = islice(events, 3)
    assert (first["type"], first["object"]) == ("ADDED", created)
    assert (second["type"], second["object"]) == ("MODIFIED", changed)
    assert third["type"] == "DELETED"
    assert third["object"]["data"] == {"colour": "red"}
    assert int(third["object"]["metadata"]["resourceVersion"]) > int(changed["metadata"]["resourceVersion"])


def test_a_watch_starts_after_its_version(hub: Hub) -> None:
    path = hub.path("configmaps")
    hub.http.post(path, a_config_map("before")).ok()
    version = _version(hub)
    hub.http.post(path, a_config_map("after")).ok()
    with hub.http.watch(path, {"resourceVersion": version}) as events:
        assert _seen(events, 1) == [("ADDED", "after")]


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}], ids=["no version", "version zero"])
def test_a_watch_without_a_version_starts_with_what_there_is(hub: Hub, query: Query) -> None:
    path = hub.path("configmaps")
    for name in ("a", "b"):
        hub.http.post(path, a_config_map(name)).ok()
    with hub.http.watch(path, query) as events:
        hub.http.post(path, a_config_map("c")).ok()
        assert _seen(events, 3) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]


def test_a_watch_of_labels_sees_objects_come_and_go(hub: Hub) -> None:
    path = hub.path("configmaps")
    with hub.http.watch(path, {"resourceVersion": _version(hub), "labelSelector": "colour=red"}) as events:
        hub.http.post(path, a_config_map("other")).ok()
        hub.http.post(path, a_config_map("a", labels={"colour": "red"})).ok()
        hub.http.patch(f"{path}/a", {"metadata": {"labels": {"colour": "blue"}}}).ok()
        hub.http.patch(f"{path}/a", {"metadata": {"labels": {"colour": "red"}}}).ok()
        assert _seen(events, 3) == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a")]


def test_a_watch_of_one_name_sees_no_other(hub: Hub) -> None:
    path = hub.path("configmaps")
    with hub.http.watch(path, {"resourceVersion": _version(hub), "fieldSelector": "metadata.name=b"}) as events:
        for name in ("a", "b"):
            hub.http.post(path, a_config_map(name)).ok()
        assert _seen(events, 1) == [("ADDED", "b")]


def test_a_finalizer_shows_as_a_change_before_the_end(hub: Hub) -> None:
    path = hub.path("configmaps")
    with hub.http.watch(path, {"resourceVersion": _version(hub)}) as events:
        hub.http.post(path, a_config_map("a", finalizers=["example.com/hold"])).ok()
        hub.http.delete(f"{path}/a").ok()
        hub.http.patch(f"{path}/a", {"metadata": {"finalizers": None}}).ok()
        assert _seen(events, 3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


def test_a_status_shows_as_a_change(hub: Hub, unique: str) -> None:
    created = hub.http.post(CLUSTERS, a_cluster(unique)).ok()
    query = {"resourceVersion": created["metadata"]["resourceVersion"], "fieldSelector": f"metadata.name={unique}"}
    with hub.http.watch(CLUSTERS, query) as events:
        patched = hub.http.patch(f"{CLUSTERS}/{unique}/status", {"status": {"resourceUsage": {}}}).ok()
        assert next(events) == {"type": "MODIFIED", "object": patched}


def test_a_watch_speaks_the_version_it_was_asked_in(hub: Hub, unique: str) -> None:
    old = CLUSTERS.replace("/v1/", "/v1beta1/")
    created = hub.http.post(CLUSTERS, a_cluster(unique)).ok()
    with hub.http.watch(old, {"resourceVersion": "0", "fieldSelector": f"metadata.name={unique}"}) as events:
        seen = next(events)["object"]
    assert seen["apiVersion"] == "cluster.kubernetes-fleet.io/v1beta1"
    assert seen["metadata"]["uid"] == created["metadata"]["uid"]


def test_a_watch_ends_when_its_time_is_over(hub: Hub) -> None:
    with hub.http.watch(hub.path("configmaps"), {"resourceVersion": _version(hub), "timeoutSeconds": 1}) as events:
        assert list(events) == []


def test_a_version_from_before_memory_has_expired(hub: Hub) -> None:
    with hub.http.watch(PLACEMENTS, {"resourceVersion": "1"}) as events:
        event = next(events)
        assert list(events) == []
    assert event["type"] == "ERROR"
    status = event["object"]
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
    assert status["message"].startswith("too old resource version: 1 (")


# --- bookmarks and initial events -------------------------------------------------------------------------------------


def _watch_list(hub: Hub, events: Watch) -> tuple[list[str], Any]:
    """The names up to the bookmark that ends the initial events, and that bookmark."""
    names: list[str] = []
    for event in events:
        if event["type"] == "BOOKMARK":
            return names, event["object"]
        names.append(event["object"]["metadata"]["name"])
    raise AssertionError(f"the watch ended after {names}")


def test_a_watch_can_begin_with_a_list(hub: Hub) -> None:
    path = hub.path("configmaps")
    for name in ("a", "b"):
        hub.http.post(path, a_config_map(name)).ok()
    query: Query = {"sendInitialEvents": True, "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": True}
    with hub.http.watch(path, query) as events:
        names, bookmark = _watch_list(hub, events)
        hub.http.post(path, a_config_map("c")).ok()
        assert _seen(events, 1) == [("ADDED", "c")]
    assert names == ["a", "b"]
    assert bookmark["kind"] == "ConfigMap"
    assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(bookmark["metadata"]["resourceVersion"]) >= int(_oldest(hub))


def _oldest(hub: Hub) -> str:
    version: str = hub.http.get(hub.path("configmaps", "b")).ok()["metadata"]["resourceVersion"]
    return version


@pytest.mark.servers  # three seconds of waiting
def test_a_bookmark_tells_how_far_a_quiet_watch_has_come(hub: Hub, unique: str) -> None:
    """The last seconds of a watch with a deadline are when a server sends one at the latest."""
    numbers = count()

    def tells() -> bool:
        """Unless the machine is so slow that what happens elsewhere comes too late for the watch."""
        query: Query = {"resourceVersion": _version(hub), "allowWatchBookmarks": True, "timeoutSeconds": 3}
        with hub.http.watch(hub.path("configmaps"), query) as events:
            other = a_config_map(f"{unique}-{next(numbers)}")
            elsewhere = hub.http.post("/api/v1/namespaces/default/configmaps", other).ok()
            told = list(events)
        assert {event["type"] for event in told} <= {"BOOKMARK"}
        assert all(event["object"].keys() == {"kind", "apiVersion", "metadata"} for event in told)
        assert {event["object"]["kind"] for event in told} <= {"ConfigMap"}
        reached = [int(event["object"]["metadata"]["resourceVersion"]) for event in told[-1:]]
        return any(one >= int(elsewhere["metadata"]["resourceVersion"]) for one in reached)

    hub.eventually(tells)


FORBIDDEN = 'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '


@pytest.mark.parametrize(
    "query, message",
    [
        ({"sendInitialEvents": True}, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
        (
            {"resourceVersion": "1", "resourceVersionMatch": "NotOlderThan"},
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
    ],
    ids=["no match", "no initial events"],
)
def test_options_that_make_no_sense_are_refused(hub: Hub, query: Query, message: str) -> None:
    answer = hub.http.get(hub.path("configmaps"), {"watch": True} | dict(query))
    assert (answer.status, answer.message) == (422, FORBIDDEN + message)
