"""The life of objects, over HTTP."""

from __future__ import annotations

from tests.unit.hub.asking import NAMESPACES, THINGS, Asker, a_thing

MERGE = "application/merge-patch+json"


def test_other_versions_show_the_fields_they_know(things: Asker) -> None:
    things("POST", THINGS, a_thing("t", n=1))
    shown = things("GET", THINGS.replace("v1", "v2") + "/t").json
    assert (shown["apiVersion"], shown["spec"]) == ("example.com/v2", {})


def test_secrets_take_plain_texts_and_keep_them_encoded(ask: Asker) -> None:
    secret = {"metadata": {"name": "s"}, "stringData": {"key": "value"}}
    created = ask("POST", f"{NAMESPACES}/default/secrets", secret).json
    assert (created["data"], created["type"]) == ({"key": "dmFsdWU="}, "Opaque")
    assert "stringData" not in created


def test_both_event_apis_show_the_same_events(ask: Asker) -> None:
    event = {"metadata": {"name": "e"}, "regarding": {"name": "x"}, "note": "it happened", "reason": "Because"}
    assert ask("POST", "/apis/events.k8s.io/v1/namespaces/default/events", event).code == 201
    older = ask("GET", f"{NAMESPACES}/default/events/e").json
    assert (older["message"], older["involvedObject"]) == ("it happened", {"name": "x"})
    newer = ask("GET", "/apis/events.k8s.io/v1/namespaces/default/events/e").json
    assert (newer["note"], newer["apiVersion"]) == ("it happened", "events.k8s.io/v1")


def test_unqualified_finalizers_are_accepted_with_a_warning(things: Asker) -> None:
    answer = things("POST", THINGS, a_thing("t", finalizers=["wait"]))
    assert answer.code == 201
    assert "prefer a domain-qualified finalizer name" in answer.headers["warning"]


def test_workloads_are_scaled_without_touching_the_rest(ask: Asker) -> None:
    url = "/apis/apps/v1/namespaces/default/deployments"
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    ask("POST", url, {"metadata": {"name": "d"}, "spec": {"replicas": 1, "template": template}})
    scaled = ask("PATCH", f"{url}/d/scale", {"spec": {"replicas": 3}}, media_type=MERGE).json
    assert (scaled["kind"], scaled["spec"]) == ("Scale", {"replicas": 3})
    encode_entry = ask("GET", f"{url}/d").json
    assert (encode_entry["spec"], encode_entry["metadata"]["generation"]) == ({"replicas": 3, "template": template}, 2)
    stale = scaled | {"metadata": {"name": "d", "resourceVersion": "1"}}
    assert ask("PUT", f"{url}/d/scale", stale).refusal[0] == 409
