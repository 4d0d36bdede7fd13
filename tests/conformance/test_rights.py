"""Who somebody is, and what they may do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.conformance.documents import CLUSTERS, Object, a_config_map
from tests.conformance.hub import Hub
from tests.control_plane.http_client import HttpClient, Response

RBAC = "rbac.authorization.k8s.io"
AUTHENTICATION = "authentication.k8s.io/v1"
AUTHORIZATION = "authorization.k8s.io/v1"


def _let_alice_read(hub: Hub) -> None:
    """A role that takes effect at once or a moment later: the server hears of it by a watch of its own."""
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]
    role = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": {"name": "reader"}, "rules": rules}
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "readers"},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "reader"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "alice"}],
    }
    hub.http.post(hub.path("roles", version=f"{RBAC}/v1"), role).ok()
    hub.http.post(hub.path("rolebindings", version=f"{RBAC}/v1"), binding).ok()
    hub.eventually(lambda: hub.http_as("alice").get(hub.path("configmaps")).status == 200)


def _review(kind: str, version: str, spec: Object) -> Object:
    return {"apiVersion": version, "kind": kind, "spec": spec}


def _reading(hub: Hub) -> Object:
    return {"resourceAttributes": {"verb": "get", "resource": "configmaps", "namespace": hub.namespace}}


# --- who --------------------------------------------------------------------------------------------------------------


def test_an_unknown_token_is_unauthorized(hub: Hub) -> None:
    stranger = HttpClient(replace(hub.access, tokens={"stranger": "guessed"}), user="stranger")
    answer = stranger.get(hub.path("configmaps"))
    assert answer.status == 401
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }


def test_without_a_token_one_is_anonymous(hub: Hub) -> None:
    answer = hub.http_as("nobody in particular").get(hub.path("configmaps"))
    assert answer.status == 403
    assert answer.message.startswith('configmaps is forbidden: User "system:anonymous" cannot list')


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version"])
def test_anybody_may_ask_how_it_is(hub: Hub, path: str) -> None:
    assert hub.http_as("nobody in particular").get(path).status == 200


def test_a_good_token_is_reviewed(hub: Hub) -> None:
    review = _review("TokenReview", AUTHENTICATION, {"token": hub.access.tokens["alice"]})
    answer = hub.http.post(f"/apis/{AUTHENTICATION}/tokenreviews", review)
    assert answer.status == 201
    assert answer.json["status"]["authenticated"] is True
    user = answer.json["status"]["user"]
    assert user == {"username": "alice", "uid": "alice-uid", "groups": ["team-a", "system:authenticated"]}


def test_a_bad_token_is_reviewed(hub: Hub) -> None:
    review = _review("TokenReview", AUTHENTICATION, {"token": "guessed"})
    answer = hub.http.post(f"/apis/{AUTHENTICATION}/tokenreviews", review)
    assert answer.status == 201
    assert answer.json["status"] == {"user": {}, "error": "invalid bearer token"}


def test_a_review_needs_a_token(hub: Hub) -> None:
    answer = hub.http.post(f"/apis/{AUTHENTICATION}/tokenreviews", _review("TokenReview", AUTHENTICATION, {}))
    assert (answer.status, answer.message) == (400, "token is required for TokenReview in authentication")


@pytest.mark.servers
def test_kubectl_knows_who_i_am(hub: Hub) -> None:
    said = hub.kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}", user="alice")
    assert said.ok() == "alice"


# --- what -------------------------------------------------------------------------------------------------------------

FORBIDDEN: list[tuple[str, Callable[[Hub], Response], str]] = [
    (
        "list",
        lambda hub: hub.http_as("alice").get(hub.path("configmaps")),
        'configmaps is forbidden: User "alice" cannot list resource "configmaps" in API group "" in the namespace '
        '"{namespace}"',
    ),
    (
        "get",
        lambda hub: hub.http_as("alice").get(hub.path("configmaps", "x")),
        'configmaps "x" is forbidden: User "alice" cannot get resource "configmaps" in API group "" in the namespace '
        '"{namespace}"',
    ),
    (
        "create",
        lambda hub: hub.http_as("alice").post(hub.path("configmaps"), a_config_map("x")),
        'configmaps is forbidden: User "alice" cannot create resource "configmaps" in API group "" in the namespace '
        '"{namespace}"',
    ),
    (
        "watch",
        lambda hub: hub.http_as("alice").get(hub.path("configmaps"), {"watch": True}),
        'configmaps is forbidden: User "alice" cannot watch resource "configmaps" in API group "" in the namespace '
        '"{namespace}"',
    ),
    (
        "delete all",
        lambda hub: hub.http_as("alice").delete(hub.path("configmaps")),
        'configmaps is forbidden: User "alice" cannot deletecollection resource "configmaps" in API group "" in the '
        'namespace "{namespace}"',
    ),
    (
        "list everywhere",
        lambda hub: hub.http_as("alice").get("/api/v1/configmaps"),
        'configmaps is forbidden: User "alice" cannot list resource "configmaps" in API group "" at the cluster scope',
    ),
    (
        "get a cluster",
        lambda hub: hub.http_as("alice").get(f"{CLUSTERS}/x"),
        'memberclusters.cluster.kubernetes-fleet.io "x" is forbidden: User "alice" cannot get resource '
        '"memberclusters" in API group "cluster.kubernetes-fleet.io" at the cluster scope',
    ),
    (
        "report a cluster's status",
        lambda hub: hub.http_as("alice").patch(f"{CLUSTERS}/x/status", {}),
        'memberclusters.cluster.kubernetes-fleet.io "x" is forbidden: User "alice" cannot patch resource '
        '"memberclusters/status" in API group "cluster.kubernetes-fleet.io" at the cluster scope',
    ),
    (
        "a path",
        lambda hub: hub.http_as("alice").get("/metrics"),
        'forbidden: User "alice" cannot get path "/metrics"',
    ),
]


@pytest.mark.parametrize("request_, message", [row[1:] for row in FORBIDDEN], ids=[row[0] for row in FORBIDDEN])
def test_without_a_role_it_is_forbidden_to(hub: Hub, request_: Callable[[Hub], Response], message: str) -> None:
    answer = request_(hub)
    assert (answer.status, answer.json["reason"]) == (403, "Forbidden")
    assert answer.message == message.format(namespace=hub.namespace)


def test_a_role_allows_what_it_says_and_no_more(hub: Hub) -> None:
    _let_alice_read(hub)
    alice = hub.http_as("alice")
    assert alice.get(hub.path("configmaps")).status == 200
    assert alice.post(hub.path("configmaps"), a_config_map("x")).status == 403
    assert alice.get("/api/v1/namespaces/kube-system/configmaps").status == 403
    assert hub.http_as("bob").get(hub.path("configmaps")).status == 403


def _reviewed(hub: Hub, user: str, kind: str, spec: Object) -> Any:
    path = f"/apis/{AUTHORIZATION}/{kind.lower()}s"
    return hub.http_as(user).post(path, _review(kind, AUTHORIZATION, spec)).ok()["status"]


@pytest.mark.parametrize(
    "groups, status", [([], {"allowed": False}), (["system:masters"], {"allowed": True})], ids=["nobody", "masters"]
)
def test_access_of_somebody_is_reviewed(hub: Hub, groups: list[str], status: Object) -> None:
    spec = {"user": "alice", "groups": groups} | _reading(hub)
    assert _reviewed(hub, "admin", "SubjectAccessReview", spec) == status


@pytest.mark.parametrize(
    "user, status", [("admin", {"allowed": True}), ("alice", {"allowed": False})], ids=["admin", "alice"]
)
def test_ones_own_access_is_reviewed(hub: Hub, user: str, status: Object) -> None:
    assert _reviewed(hub, user, "SelfSubjectAccessReview", _reading(hub)) == status


def test_a_review_names_the_role(hub: Hub) -> None:
    _let_alice_read(hub)
    assert _reviewed(hub, "alice", "SelfSubjectAccessReview", _reading(hub)) == {
        "allowed": True,
        "reason": f'RBAC: allowed by RoleBinding "readers/{hub.namespace}" of Role "reader" to User "alice"',
    }


def test_a_review_says_what_it_needs(hub: Hub) -> None:
    path = f"/apis/{AUTHORIZATION}/subjectaccessreviews"
    answer = hub.http.post(path, _review("SubjectAccessReview", AUTHORIZATION, {}))
    assert answer.status == 422
    assert answer.message.endswith(
        "[spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes "
        'must be specified, spec.user: Invalid value: "": at least one of user or group must be specified]'
    )


@pytest.mark.servers
@pytest.mark.parametrize("user, code, answer", [("admin", 0, "yes\n"), ("alice", 1, "no\n")])
def test_kubectl_knows_what_i_can(hub: Hub, user: str, code: int, answer: str) -> None:
    said = hub.kubectl("auth", "can-i", "get", "cm", user=user)
    assert (said.code, said.out) == (code, answer)


@pytest.mark.servers
def test_kubectl_says_what_is_forbidden(hub: Hub) -> None:
    assert hub.kubectl("get", "cm", user="alice").err == (
        'Error from server (Forbidden): configmaps is forbidden: User "alice" cannot list resource "configmaps" in API '
        f'group "" in the namespace "{hub.namespace}"\n'
    )
