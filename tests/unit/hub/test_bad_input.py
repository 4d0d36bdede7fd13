"""Whatever is sent, the answer is a Kubernetes Status below 500 or a success, and the hub goes on."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.hub.schema.values import NAMES, Checks
from tests.unit.hub.asking import CONFIG_MAPS, DEFINITIONS, NAMESPACES, THINGS, Answer, Asker, a_definition, a_thing

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)
WORDS = ("metadata", "spec", "status", "name", "labels", "finalizers", "ownerReferences", "managedFields", "data")
OBJECTS = st.dictionaries(st.sampled_from(WORDS), JSON | st.dictionaries(st.sampled_from(WORDS), JSON), max_size=4)
URLS = (CONFIG_MAPS, THINGS, DEFINITIONS, NAMESPACES, f"{NAMESPACES}/default/secrets", f"{NAMESPACES}/default/events")
PATCHES = ("merge-patch+json", "json-patch+json", "strategic-merge-patch+json", "apply-patch+yaml")
OPTIONS = (
    *("labelSelector", "fieldSelector", "resourceVersion", "resourceVersionMatch", "limit", "continue", "watch"),
    *("timeoutSeconds", "allowWatchBookmarks", "sendInitialEvents", "dryRun", "force", "fieldManager"),
    *("fieldValidation", "propagationPolicy", "gracePeriodSeconds", "orphanDependents", "pretty"),
)
fuzzing = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def is_sound(answer: Answer) -> bool:
    if answer.code < 300 or (answer.code == 404 and b"page not found" in answer.content):
        return True
    return bool(answer.json["kind"] == "Status" and answer.json["code"] == answer.code < 500)


@fuzzing
@given(url=st.sampled_from(URLS), document=OBJECTS | JSON)
def test_any_document(things: Asker, url: str, document: Any) -> None:
    if isinstance(document, dict):
        document = {"apiVersion": "example.com/v1", "kind": "Thing"} | document if url == THINGS else document
    assert is_sound(things("POST", f"{url}?dryRun=All", document))


@fuzzing
@given(url=st.sampled_from(URLS), body=st.binary(max_size=64), media_type=st.sampled_from(["json", "yaml", "x"]))
def test_any_bytes(things: Asker, url: str, body: bytes, media_type: str) -> None:
    assert is_sound(things("POST", url, body, media_type=f"application/{media_type}"))
    assert is_sound(things("POST", url, b"k8s\x00" + body, media_type="application/vnd.kubernetes.protobuf"))


@fuzzing
@given(patch=OBJECTS | JSON, media_type=st.sampled_from(PATCHES), status=st.booleans())
def test_any_patch(things: Asker, patch: Any, media_type: str, status: bool) -> None:  # noqa: FBT001 - drawn
    document = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"n": 1}}
    things("POST", THINGS, document)
    if isinstance(patch, dict) and media_type.startswith("apply"):
        patch = {"apiVersion": "example.com/v1", "kind": "Thing"} | patch
    url = f"{THINGS}/t/status" if status else f"{THINGS}/t"
    query = "?fieldManager=fuzz" if media_type.startswith("apply") else ""
    assert is_sound(things("PATCH", url + query, patch, media_type=f"application/{media_type}"))
    assert things("GET", THINGS).code == 200


@fuzzing
@given(
    name=st.sampled_from(OPTIONS),
    value=st.text(max_size=20) | st.integers().map(str) | st.floats().map(str),
    method=st.sampled_from(["GET", "DELETE", "POST"]),
)
def test_any_option(things: Asker, name: str, value: str, method: str) -> None:
    answer = things(method, f"{CONFIG_MAPS}?{name}={quote(value)}", {} if method != "GET" else None)
    assert is_sound(answer) or answer.json["reason"] == "Timeout"


@fuzzing
@given(
    options=st.dictionaries(
        st.sampled_from(OPTIONS), st.sampled_from(["", "0", "1", "true", "Exact", "NotOlderThan", "-1", "x"])
    )
)
def test_any_watch(things: Asker, options: dict[str, str]) -> None:
    answer = things("GET", f"{THINGS}?{urlencode({'watch': '1', 'timeoutSeconds': '1'} | options)}")
    assert is_sound(answer) or answer.json["reason"] == "Timeout"


@fuzzing
@given(content=JSON | st.fixed_dictionaries({"v": JSON, "rv": JSON, "start": JSON | st.lists(st.text(), max_size=2)}))
def test_any_continue_token(things: Asker, content: Any) -> None:
    token = base64.urlsafe_b64encode(json.dumps(content).encode()).decode()
    assert is_sound(things("GET", f"{CONFIG_MAPS}?limit=1&continue={quote(token)}"))


@fuzzing
@given(version=JSON, uid=JSON, method=st.sampled_from(["PUT", "PATCH", "DELETE"]))
def test_any_precondition(things: Asker, version: Any, uid: Any, method: str) -> None:
    things("POST", THINGS, a_thing("t"))
    preconditions = {"resourceVersion": version, "uid": uid}
    document = a_thing("t", **preconditions) if method != "DELETE" else {"preconditions": preconditions}
    media_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
    assert is_sound(things(method, f"{THINGS}/t", document, media_type=media_type))
    assert things("GET", THINGS).code == 200


@fuzzing
@given(path=st.lists(st.sampled_from(["api", "apis", "v1", "namespaces", "default", "configmaps", "", "..", "ü"])))
def test_any_path(things: Asker, path: list[str]) -> None:
    url = "/" + "/".join(quote(part) for part in path)
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        assert is_sound(things(method, url, {"metadata": {}} if method != "GET" else None))


VERSION_FIELDS = ("additionalPrinterColumns", "selectableFields", "subresources", "deprecated", "deprecationWarning")


@fuzzing
@given(spec=OBJECTS, schema=JSON)
def test_any_definition(ask: Asker, spec: dict[str, Any], schema: Any) -> None:
    definition = a_definition()
    definition["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    answer = ask("POST", f"{DEFINITIONS}?dryRun=All", definition)
    assert is_sound(answer)
    if answer.code == 201:
        compile_all(schema)
    assert is_sound(ask("POST", f"{DEFINITIONS}?dryRun=All", a_definition() | {"spec": spec}))


def compile_all(schema: dict[str, Any]) -> None:
    """What would otherwise wait for a value of each type."""
    for kind in NAMES:
        _ = Checks(schema)[kind]
    branches = [inner for keyword in ("anyOf", "oneOf", "allOf") for inner in schema.get(keyword) or ()]
    others = [schema[keyword] for keyword in ("items", "additionalProperties", "not") if keyword in schema]
    for inner in (*(schema.get("properties") or {}).values(), *branches, *others):
        if isinstance(inner, dict):
            compile_all(inner)


@fuzzing
@given(field=st.sampled_from(VERSION_FIELDS), value=st.lists(st.just({}) | OBJECTS, max_size=2) | JSON)
def test_any_definition_that_is_taken_can_be_taken_away(ask: Asker, field: str, value: Any) -> None:
    definition = a_definition()
    definition["spec"]["versions"][0][field] = value
    assert is_sound(ask("POST", DEFINITIONS, definition))
    assert ask("DELETE", f"{DEFINITIONS}/things.example.com").code in (200, 404)
    ask.settle()
    assert ask("GET", f"{DEFINITIONS}/things.example.com").code == 404


@pytest.mark.parametrize(
    "body",
    [b'{"a":' * 5_000, b"[" * 100_000, json.dumps({"metadata": {"name": "x" * 10_000}}).encode()],
    ids=["deep object", "deep array", "long name"],
)
def test_monsters(ask: Asker, body: bytes) -> None:
    assert is_sound(ask("POST", CONFIG_MAPS, body))


def test_a_body_beyond_the_limit(ask: Asker) -> None:
    headers = [("content-length", str(50_000_000))]
    assert ask("POST", CONFIG_MAPS, {}, headers=headers).refusal[:2] == (413, "RequestEntityTooLarge")
