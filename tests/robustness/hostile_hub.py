"""Hostile requests to the hub: what its clients send, with something else in one place; and objects, patches, patterns,
rules, selectors and lists that no client asks for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from random import Random
from typing import Any, Final
from urllib.parse import quote

from tests.robustness.hostile_messages import SCALARS, VALUES, frame, spoil
from tests.robustness.hostile_objects import KINDS, NAMES, Kind, build_json_patch, build_merge_patch, build_object

_FIELDS: Final = ("kind", "apiVersion", "metadata", "spec", "resourceVersion", "policy", "finalizers")
_GROUP: Final = "hostile.example.com"
_RULES: Final = (
    "self.all(a, self.all(b, a.size() + b.size() > 0))", "self.exists(a, a.matches('^(a+)+$'))",
    "self.map(a, a + a).size() >= 0",
    "self.all(a, a.startsWith(a))", "1 / self.size() > 0", "self[9].size() > 0", "self", "((((((",
    "self.all(a, int(a) > 0)", "'a' * 99", "self.filter(a, duration(a) > duration('1s')).size() == 0",
)  # fmt: skip
_PATTERNS: Final = ("^[a-z]*[a-z]*$", "(a+)+$", "(", "^(?=a)", "a{1,1000}{1,1000}", "(?i)é", "\\\\1", "[[:alpha:]]+")
_COLLECTIONS: Final = (
    "/api/v1/namespaces", "/api/v1/namespaces/{}/configmaps", "/api/v1/configmaps", "/api/v1/namespaces/{}/events",
    "/api/v1/nodes", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles", "/apis/authorization.k8s.io/v1/subjectaccessreviews",
    "/apis/authentication.k8s.io/v1/tokenreviews", "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
    "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements",
    "/apis/placement.kubernetes-fleet.io/v1/clusterresourceplacements",
    "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters",
    "/apis/placement.kubernetes-fleet.io/v1beta1/namespaces/{}/resourceplacements",
    f"/apis/{_GROUP}/v1/namespaces/{{}}/things", f"/apis/{_GROUP}/v1/namespaces/{{}}/things",
)  # fmt: skip
_KINDS: Final = {
    "namespaces": "Namespace", "configmaps": "ConfigMap", "things": "Thing", "leases": "Lease", "events": "Event",
    "clusterresourceplacements": "ClusterResourcePlacement", "resourceplacements": "ResourcePlacement",
    "memberclusters": "MemberCluster", "clusterroles": "ClusterRole",
}  # fmt: skip
_QUERIES: Final = (
    "limit", "continue", "resourceVersion", "resourceVersionMatch", "watch", "timeoutSeconds", "labelSelector",
    "fieldSelector", "dryRun", "fieldManager", "force", "propagationPolicy", "sendInitialEvents", "allowWatchBookmarks",
)  # fmt: skip
_ANSWERS: Final = (
    *VALUES, "1", "true", "0", "9" * 30, "a in (b,", "a,b,c=d,!e", "x" * 5000, "metadata.name=web", "All", "Exact",
    "NotOlderThan", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTF9", ",".join(f"k{i}=v" for i in range(500)),
)  # fmt: skip
_SHARE_OF_CLIENTS: Final = 0.6
_APPLY: Final = "application/apply-patch+yaml"
_ACTIONS: Final = {
    "create": 3, "replace": 3, "merge": 3, "strategic": 2, "patch": 3, "status": 2, "release": 1, "apply": 5,
    "delete": 1, "clear": 0.1,
}  # fmt: skip
"""With their weights. What a kind lacks is applied."""
_PATCHES: Final = (
    "application/merge-patch+json", "application/json-patch+json", "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)  # fmt: skip
_MEDIA: Final = (
    "application/json", "application/json", "application/json", "application/yaml", *_PATCHES[:2],
    "application/vnd.kubernetes.protobuf", 'application/json; charset="', "",
)  # fmt: skip


def _define(rule: str, pattern: str) -> dict[str, Any]:
    texts = {"type": "array", "items": {"type": "string"}, "x-kubernetes-validations": [{"rule": rule}]}
    properties = {
        "texts": texts,
        "text": {"type": "string", "pattern": pattern},
        "any": {"x-kubernetes-int-or-string": True},
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
        "type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}}}  # fmt: skip
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    spec = {"group": _GROUP, "scope": "Namespaced", "names": names, "versions": [version]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{_GROUP}"},
        "spec": spec,
    }


DEFINITION: Final = _define(_RULES[0], _PATTERNS[0])
"""Its objects are validated by rules and patterns whose cost grows faster than their input."""


def make_request(rng: Random, tokens: Sequence[str]) -> bytes:
    if rng.random() < _SHARE_OF_CLIENTS:
        return _make_client_request(rng, tokens)
    return _make_odd_request(rng, tokens)


def _make_client_request(rng: Random, tokens: Sequence[str]) -> bytes:
    """As a client sends it; every third time with other values at random places."""
    kind, name = rng.choice(KINDS), rng.choice(NAMES)
    (action,) = rng.choices(list(_ACTIONS), list(_ACTIONS.values())) if kind.is_stored else ("create",)
    method, path, media, body = _write(rng, kind, name, action)
    queries = ["fieldManager=" + rng.choice(("one", "two")), "force=true"] if media == _APPLY else []
    queries += ["dryRun=All"] if rng.random() < 0.1 else []
    if isinstance(body, dict) and rng.random() < 0.3:
        spoil(rng, body, (*body, *_FIELDS))
    content = b"" if body is None else json.dumps(body).encode()
    start = f"{method} {path}?{'&'.join(queries)}"
    if rng.random() < 0.2:
        return frame(rng, start, content, tokens, content_type=media)
    return frame(rng, start, content, tokens[:1], content_type=media, is_whole=True)


def _write(rng: Random, kind: Kind, name: str, action: str) -> tuple[str, str, str, Any]:
    """Method, path, media type and body."""
    path = f"{kind.path}/{name}"
    match action:
        case "create":
            return "POST", kind.path, "application/json", build_object(rng, kind, name)
        case "replace" if not kind.is_custom:  # which has to name a version
            return "PUT", path, "application/json", build_object(rng, kind, name)
        case "merge":
            return "PATCH", path, "application/merge-patch+json", build_merge_patch(rng, kind, name)
        case "strategic" if not kind.is_custom:
            return "PATCH", path, "application/strategic-merge-patch+json", build_merge_patch(rng, kind, name)
        case "patch":
            return "PATCH", path, "application/json-patch+json", build_json_patch(rng, kind, name)
        case "status" if kind.status is not None:
            return "PATCH", f"{path}/status", "application/merge-patch+json", {"status": kind.status(rng)}
        case "release":
            return "PATCH", path, "application/merge-patch+json", {"metadata": {"finalizers": None}}
        case "delete":
            return "DELETE", path, "", None
        case "clear":
            return "DELETE", kind.path, "", None
    return "PATCH", path, _APPLY, build_object(rng, kind, name)


def _make_odd_request(rng: Random, tokens: Sequence[str]) -> bytes:
    collection = rng.choice(_COLLECTIONS)
    path = collection.format(quote(rng.choice(("default", rng.choice(VALUES))), safe="%"))
    method = rng.choice(("GET", "GET", "POST", "POST", "PUT", "PATCH", "PATCH", "DELETE", "OPTIONS"))
    if method in ("PUT", "PATCH", "DELETE") or (method == "GET" and rng.random() < 0.5):
        path += f"/{quote(rng.choice(('web', rng.choice(VALUES[5:]))), safe='%')}"
        path += rng.choice(("", "", "", "/status", "/scale", "/x/y"))
    names = rng.sample(_QUERIES, rng.choice((0, 0, 0, 1, 2)))
    query = "&".join(f"{name}={quote(rng.choice(_ANSWERS))}" for name in names)
    query += "&fieldManager=hostile" if method == "PATCH" and "fieldManager" not in names else ""
    media = rng.choice(_PATCHES if method == "PATCH" else _MEDIA)
    body = _make_body(rng, collection, media) if method not in ("GET", "OPTIONS") or rng.random() < 0.1 else b""
    return frame(rng, f"{method} {path}?{query}", body, tokens, content_type=media)


def _make_body(rng: Random, collection: str, media: str) -> bytes:
    if rng.random() < 0.1:
        return rng.choice(
            (b"{", b"\xff", b"[" * 50_000, b'{"a":' * 5000, b"null", b"a: &a [*a, *a]", b"k8s\x00\xff\xff")
        )
    if "json-patch" in media:
        return json.dumps(_make_patch(rng)).encode()
    if "definitions" in collection and rng.random() < 0.7:
        document = _define(rng.choice(_RULES), rng.choice(_PATTERNS))
        document["metadata"]["name"] = rng.choice((f"things.{_GROUP}", "web"))
    else:
        name = rng.choice(("web", rng.choice(VALUES)))
        *_, plural = collection.split("/")
        version = "v1" if collection.startswith("/api/") else "/".join(collection.split("/")[2:4])
        document = {"kind": _KINDS.get(plural, "X"), "apiVersion": version}
        document["metadata"] = {"name": name, "labels": {"a": "b"}}
        if "configmaps" in collection:
            document["data"] = {"a": "b"}
        elif "things" in collection:
            texts = [str(i) for i in range(rng.choice((1, 10, 300)))]
            document["spec"] = {
                "texts": texts,
                "text": deepcopy(rng.choice(("a" * 200_000, "a" * 900, rng.choice(SCALARS)))),
            }
    for _ in range(rng.choice((0, 0, 1, 2))):
        spoil(rng, document, (*document, *_FIELDS))
    return json.dumps(document).encode()


def _make_patch(rng: Random) -> Any:
    kind = rng.randrange(4)
    if kind == 0:  # each copy doubles
        first = {"op": "add", "path": "/data", "value": {"a": "x" * 1000}}
        return [first, *({"op": "copy", "from": "/data", "path": f"/data/b{i}"} for i in range(40))]
    if kind == 1:
        return [{"op": "test", "path": "/data/a", "value": "b"}] * 12_000
    operations = ("add", "remove", "replace", "move", "copy", "test", "x")
    pointers = ("", "/", "/data", "/data/-", "/metadata/name", "/~2", "/a" * 2000, "data", "/spec/texts/999999999999")
    if kind == 2:
        choices = {"op": operations, "path": pointers, "from": pointers, "value": SCALARS}
        return [{name: rng.choice(among) for name, among in choices.items()} for _ in range(rng.randrange(1, 6))]
    return rng.choice(SCALARS)
