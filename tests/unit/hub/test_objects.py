"""The life of objects, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.hub.asking import CONFIG_MAPS, NAMESPACES, THINGS, Answer, Asker, a_config_map, a_thing

MERGE = "application/merge-patch+json"


def test_a_new_object_gets_what_only_the_server_gives(ask: Asker) -> None:
    answer = ask("POST", CONFIG_MAPS, a_config_map("a", key="value"))
    created = answer.json
    assert answer.code == 201
    assert created["metadata"]["creationTimestamp"] == "2023-11-14T22:13:20Z"
    assert created["metadata"]["namespace"] == "default"
    assert {"uid", "resourceVersion"} <= created["metadata"].keys()
    assert ask("GET", f"{CONFIG_MAPS}/a").json == created


def test_revisions_rise_with_every_write_of_any_object(ask: Asker) -> None:
    answers = [ask("POST", CONFIG_MAPS, a_config_map(name)) for name in "abc"]
    revisions = [int(answer.json["metadata"]["resourceVersion"]) for answer in answers]
    assert revisions == sorted(set(revisions))


def test_a_name_is_completed(ask: Asker) -> None:
    document = {"metadata": {"generateName": "job-"}}
    names = {ask("POST", CONFIG_MAPS, document).json["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(name.startswith("job-") and len(name) == 9 for name in names)


def test_a_name_is_taken_once(ask: Asker) -> None:
    ask("POST", CONFIG_MAPS, a_config_map("a"))
    assert ask("POST", CONFIG_MAPS, a_config_map("a")).refusal == (
        409,
        "AlreadyExists",
        'configmaps "a" already exists',
    )


def test_objects_need_a_namespace_that_is_there(ask: Asker) -> None:
    answer = ask("POST", f"{NAMESPACES}/nowhere/configmaps", a_config_map("a"))
    assert answer.refusal == (404, "NotFound", 'namespaces "nowhere" not found')


def test_an_update_of_an_older_state_is_a_conflict(ask: Asker) -> None:
    first = ask("POST", CONFIG_MAPS, a_config_map("a", key="1")).json
    assert ask("PUT", f"{CONFIG_MAPS}/a", first | {"data": {"key": "2"}}).code == 200
    refused = ask("PUT", f"{CONFIG_MAPS}/a", first | {"data": {"key": "3"}})
    assert refused.refusal == (
        409,
        "Conflict",
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to '
        "the latest version and try again",
    )
    assert ask("GET", f"{CONFIG_MAPS}/a").json["data"] == {"key": "2"}


def test_an_update_that_changes_nothing_writes_nothing(ask: Asker) -> None:
    first = ask("POST", CONFIG_MAPS, a_config_map("a", key="1")).json
    again = ask("PUT", f"{CONFIG_MAPS}/a", first).json
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_a_dry_run_answers_and_forgets(ask: Asker) -> None:
    answer = ask("POST", f"{CONFIG_MAPS}?dryRun=All", a_config_map("a"))
    assert answer.code == 201
    assert "resourceVersion" not in answer.json["metadata"]
    assert ask("GET", f"{CONFIG_MAPS}/a").code == 404


@pytest.mark.parametrize(
    "patch",
    [
        (MERGE, {"data": {"b": "2"}}),
        ("application/json-patch+json", [{"op": "add", "path": "/data/b", "value": "2"}]),
        ("application/strategic-merge-patch+json", {"data": {"b": "2"}}),
    ],
    ids=["merge", "json", "strategic"],
)
def test_a_patch_changes_what_it_names(ask: Asker, patch: tuple[str, Any]) -> None:
    ask("POST", CONFIG_MAPS, a_config_map("a", a="1"))
    media_type, body = patch
    answer = ask("PATCH", f"{CONFIG_MAPS}/a", body, media_type=media_type)
    assert (answer.code, answer.json["data"]) == (200, {"a": "1", "b": "2"})


def test_a_patch_cannot_rename(ask: Asker) -> None:
    ask("POST", CONFIG_MAPS, a_config_map("a"))
    answer = ask("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"name": "b"}}, media_type=MERGE)
    text = "the name of the object (b) does not match the name on the URL (a)"
    assert answer.refusal == (400, "BadRequest", text)


def test_custom_kinds_have_no_strategic_patches(things: Asker) -> None:
    things("POST", THINGS, a_thing("t"))
    answer = things("PATCH", f"{THINGS}/t", {}, media_type="application/strategic-merge-patch+json")
    assert answer.code == 415


def test_the_main_endpoint_ignores_the_status(things: Asker) -> None:
    things("POST", THINGS, a_thing("t") | {"status": {"ready": True}})
    things("PATCH", f"{THINGS}/t", {"status": {"ready": True}}, media_type=MERGE)
    assert "status" not in things("GET", f"{THINGS}/t").json


def test_the_status_endpoint_ignores_everything_else(things: Asker) -> None:
    things("POST", THINGS, a_thing("t", n=1))
    patch = {"status": {"ready": True}, "spec": {"n": 2}, "metadata": {"labels": {"a": "b"}}}
    changed = things("PATCH", f"{THINGS}/t/status", patch, media_type=MERGE).json
    assert changed["status"] == {"ready": True}
    assert changed["spec"] == {"n": 1}
    assert "labels" not in changed["metadata"]


def test_the_generation_counts_changes_of_the_spec_only(things: Asker) -> None:
    things("POST", THINGS, a_thing("t", n=1))
    for patch in ({"metadata": {"labels": {"a": "b"}}}, {"spec": {"n": 2}}):
        things("PATCH", f"{THINGS}/t", patch, media_type=MERGE)
    things("PATCH", f"{THINGS}/t/status", {"status": {"ready": True}}, media_type=MERGE)
    assert things("GET", f"{THINGS}/t").json["metadata"]["generation"] == 2


def test_a_finalizer_keeps_a_deleted_object_until_it_is_taken_away(things: Asker) -> None:
    things("POST", THINGS, a_thing("t", finalizers=["example.com/wait"]))
    marked = things("DELETE", f"{THINGS}/t").json["metadata"]
    assert (marked["deletionTimestamp"], marked["deletionGracePeriodSeconds"]) == ("2023-11-14T22:13:20Z", 0)
    assert marked["generation"] == 2
    assert things("GET", f"{THINGS}/t").code == 200
    assert things("PATCH", f"{THINGS}/t", {"metadata": {"finalizers": None}}, media_type=MERGE).code == 200
    assert things("GET", f"{THINGS}/t").code == 404


def test_nothing_new_can_wait_for_an_object_that_is_being_deleted(things: Asker) -> None:
    things("POST", THINGS, a_thing("t", finalizers=["example.com/wait"]))
    things("DELETE", f"{THINGS}/t")
    finalizers = {"metadata": {"finalizers": ["example.com/wait", "example.com/more"]}}
    code, _, message = things("PATCH", f"{THINGS}/t", finalizers, media_type=MERGE).refusal
    assert code == 422
    assert 'found new finalizers []string{"example.com/more"}' in message


@pytest.mark.parametrize(
    "precondition, text",
    [("uid", "the UID in the precondition (x)"), ("resourceVersion", "the ResourceVersion in the precondition (x)")],
    ids=["uid", "revision"],
)
def test_a_deletion_may_ask_for_a_certain_state(ask: Asker, precondition: str, text: str) -> None:
    ask("POST", CONFIG_MAPS, a_config_map("a"))
    code, reason, message = ask("DELETE", f"{CONFIG_MAPS}/a", {"preconditions": {precondition: "x"}}).refusal
    assert (code, reason) == (409, "Conflict")
    assert text in message


def test_deleting_a_collection_deletes_what_is_selected(ask: Asker) -> None:
    for name in ("a", "b"):
        ask("POST", CONFIG_MAPS, {"metadata": {"name": name, "labels": {"name": name}}})
    ask("DELETE", f"{CONFIG_MAPS}?labelSelector=name%3Da")
    assert ask.names(CONFIG_MAPS) == ["b"]


def test_unknown_fields_are_dropped_with_a_warning(things: Asker) -> None:
    document = a_thing("t")
    document["spec"]["unheard"] = 1
    answer = things("POST", THINGS, document)
    assert answer.headers["warning"] == '299 - "unknown field \\"spec.unheard\\""'
    assert answer.json["spec"] == {"n": 1}


def test_strict_clients_have_unknown_and_repeated_fields_refused(things: Asker) -> None:
    document = a_thing("t")
    document["spec"]["unheard"] = 1
    unknown = things("POST", f"{THINGS}?fieldValidation=Strict", document)
    start = 'Thing in version "v1" cannot be handled as a Thing: strict decoding error: '
    assert unknown.refusal == (400, "BadRequest", f'{start}unknown field "spec.unheard"')
    body = b'{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"t"},"spec":{"n":1,"n":2}}'
    repeated = things("POST", f"{THINGS}?fieldValidation=Strict", body)
    assert repeated.refusal == (400, "BadRequest", f'{start}duplicate field "spec.n"')


def test_a_wrong_value_is_told_by_field(things: Asker) -> None:
    answer = things("POST", THINGS, a_thing("t", n="x"))
    text = 'spec.n: Invalid value: "string": spec.n in body must be of type integer: "string"'
    assert answer.refusal == (422, "Invalid", f'Thing.example.com "t" is invalid: {text}')
    assert answer.json["details"]["causes"][0]["field"] == "spec.n"


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


def test_two_appliers_own_what_they_applied(ask: Asker) -> None:
    def apply(manager: str, force: str = "", **data: str) -> Answer:
        url = f"{CONFIG_MAPS}/a?fieldManager={manager}{force}"
        return ask("PATCH", url, a_config_map("a", **data), media_type="application/apply-patch+yaml")

    assert apply("one", a="1").code == 201
    assert apply("two", b="2").json["data"] == {"a": "1", "b": "2"}
    text = 'Apply failed with 1 conflict: conflict with "one": .data.a'
    refused = apply("two", a="9", b="2")
    assert refused.refusal == (409, "Conflict", text)
    assert refused.json["details"]["causes"][0]["field"] == ".data.a"
    assert apply("two", "&force=true", a="9", b="2").json["data"] == {"a": "9", "b": "2"}
    assert apply("two", b="2").json["data"] == {"b": "2"}


def test_an_apply_that_changes_nothing_writes_nothing(things: Asker) -> None:
    url = f"{THINGS}/t?fieldManager=one"
    first = things("PATCH", url, a_thing("t"), media_type="application/apply-patch+yaml").json
    again = things("PATCH", url, a_thing("t"), media_type="application/apply-patch+yaml").json
    assert again == first


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
