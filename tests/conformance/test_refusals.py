"""What the server says when it refuses: code, reason and message, which people search for and clients branch on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest

from tests.conformance.differences import wanted
from tests.conformance.documents import CLUSTERS, a_cluster, a_config_map
from tests.conformance.hub import Hub
from tests.control_plane.http_client import JSON, Response

MEDIA_TYPES: Final = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
UNRECOGNIZED: Final = "the object provided is unrecognized (must be of type"
CANNOT_PARSE: Final = "couldn't get version/kind; json parse error"
NOT_CHECKED: Final = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the "
    "existing errors to complete validation"
)


@dataclass(frozen=True)
class Refusal:
    """A request, and what is said against it."""

    id: str
    request: Callable[[Hub], Response]
    code: int
    reason: str
    message: str


def _configmaps(hub: Hub, name: str = "") -> str:
    return hub.path("configmaps", name)


def _unknown_namespace(hub: Hub, plural: str) -> str:
    return hub.path(plural).replace(hub.namespace, "nowhere")


REFUSALS: Final = (
    Refusal(
        "an object that is not there",
        lambda hub: hub.http.get(_configmaps(hub, "nope")),
        *(404, "NotFound", 'configmaps "nope" not found'),
    ),
    Refusal(
        "a custom object that is not there",
        lambda hub: hub.http.get(f"{CLUSTERS}/nope"),
        *(404, "NotFound", 'memberclusters.cluster.kubernetes-fleet.io "nope" not found'),
    ),
    Refusal(
        "deleting what is not there",
        lambda hub: hub.http.delete(_configmaps(hub, "nope")),
        *(404, "NotFound", 'configmaps "nope" not found'),
    ),
    Refusal(
        "patching what is not there",
        lambda hub: hub.http.patch(f"{CLUSTERS}/nope", {}),
        *(404, "NotFound", 'memberclusters.cluster.kubernetes-fleet.io "nope" not found'),
    ),
    Refusal(
        "replacing a custom object that is not there",
        lambda hub: hub.http.put(f"{CLUSTERS}/nope", a_cluster("nope")),
        *(404, "NotFound", 'memberclusters.cluster.kubernetes-fleet.io "nope" not found'),
    ),
    Refusal(
        "a namespace that is not there",
        lambda hub: hub.http.post(_unknown_namespace(hub, "configmaps"), a_config_map("a")),
        *(404, "NotFound", 'namespaces "nowhere" not found'),
    ),
    Refusal(
        "another namespace in the object",
        lambda hub: hub.http.post(_configmaps(hub), a_config_map("a", namespace="other")),
        *(400, "BadRequest"),
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
    Refusal(
        "another name in the object",
        lambda hub: hub.http.put(_configmaps(hub, "a"), a_config_map("b")),
        *(400, "BadRequest", "the name of the object (b) does not match the name on the URL (a)"),
    ),
    Refusal(
        "another name in a patch",
        lambda hub: hub.http.patch("/api/v1/namespaces/default", {"metadata": {"name": "b"}}),
        *(400, "BadRequest", "the name of the object (b) does not match the name on the URL (default)"),
    ),
    Refusal(
        "another kind",
        lambda hub: hub.http.post(CLUSTERS, a_cluster("c") | {"kind": "Planet"}),
        *(422, "Invalid"),
        'Planet.cluster.kubernetes-fleet.io "c" is invalid: kind: Invalid value: "Planet": must be MemberCluster',
    ),
    Refusal(
        "another version",
        lambda hub: hub.http.post(CLUSTERS, a_cluster("c") | {"apiVersion": "v1"}),
        *(400, "BadRequest", "the API version in the data (v1) does not match the expected API version "),
    ),
    Refusal(
        "no kind",
        lambda hub: hub.http.post(CLUSTERS, {"metadata": {"name": "x"}}),
        *(400, "BadRequest", f"{UNRECOGNIZED} MemberCluster): Object 'Kind' is missing in "),
    ),
    Refusal(
        "no name",
        lambda hub: hub.http.post(_configmaps(hub), a_config_map()),
        *(422, "Invalid", 'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'),
    ),
    Refusal(
        "a custom object without a name",
        lambda hub: hub.http.post(CLUSTERS, a_cluster()),
        *(422, "Invalid"),
        'MemberCluster.cluster.kubernetes-fleet.io "" is invalid: [metadata.name: Required value: name or generateName '
        f"is required, {NOT_CHECKED}]",
    ),
    Refusal(
        "no JSON",
        lambda hub: hub.http.request("POST", CLUSTERS, body=b"{nope"),
        *(400, "BadRequest", f"{UNRECOGNIZED} MemberCluster): {CANNOT_PARSE}: invalid character 'n'"),
    ),
    Refusal(
        "no body",
        lambda hub: hub.http.request("POST", _configmaps(hub), body=b""),
        *(400, "BadRequest"),
        f"{UNRECOGNIZED} ConfigMap): {CANNOT_PARSE}: unexpected end of JSON input (<empty>)",
    ),
    Refusal(
        "a body of an unknown type",
        lambda hub: hub.http.request("POST", CLUSTERS, body=b"x", headers={"Content-Type": "text/plain"}),
        *(415, "UnsupportedMediaType"),
        f"the body of the request was in an unknown format - accepted media types include: {MEDIA_TYPES}",
    ),
    Refusal(
        "a patch of an unknown type",
        lambda hub: hub.http.patch(_configmaps(hub, "a"), {}, kind=JSON),
        *(415, "UnsupportedMediaType", "415: Unsupported Media Type"),
    ),
    Refusal(
        "an answer of an unknown type",
        lambda hub: hub.http.request("GET", CLUSTERS, headers={"Accept": "text/plain"}),
        *(406, "NotAcceptable", f"only the following media types are accepted: {MEDIA_TYPES}"),
    ),
    Refusal(
        "POST to an object",
        lambda hub: hub.http.post(_configmaps(hub, "a"), {}),
        *(405, "MethodNotAllowed", "the server does not allow this method on the requested resource"),
    ),
    Refusal(
        "PUT to a collection",
        lambda hub: hub.http.put(_configmaps(hub), {}),
        *(405, "MethodNotAllowed", "the server does not allow this method on the requested resource"),
    ),
    Refusal(
        "an unknown kind of dry run",
        lambda hub: hub.http.post(CLUSTERS, a_cluster("c"), {"dryRun": "Some"}),
        *(422, "Invalid"),
        'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"',
    ),
    Refusal(
        "an unknown kind of field validation",
        lambda hub: hub.http.post(CLUSTERS, a_cluster("c"), {"fieldValidation": "Nope"}),
        *(422, "Invalid"),
        'CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Nope": supported values: "", '
        '"Ignore", "Strict", "Warn"',
    ),
    Refusal(
        "an unknown way of deleting dependents",
        lambda hub: hub.http.delete(_configmaps(hub, "a"), {"propagationPolicy": "Nope"}),
        *(422, "Invalid"),
        'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Nope": supported values: '
        '"Foreground", "Background", "Orphan", "nil"',
    ),
)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.id)
def test_a_refusal_says(hub: Hub, refusal: Refusal) -> None:
    answer = refusal.request(hub)
    status = answer.json
    message = wanted(hub.target, f"refusal: {refusal.id}", real=refusal.message)
    assert (answer.status, status["reason"]) == (refusal.code, refusal.reason)
    assert status["message"].startswith(message)
    assert status["message"] == message or message.endswith((" ", "'"))
    assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure")
    assert status["code"] == refusal.code


@pytest.mark.parametrize("path", ["/nope", "/apis/nope.example.com/v1", "/apis/cluster.kubernetes-fleet.io/v1/nope"])
def test_an_unknown_path_is_not_found(hub: Hub, path: str) -> None:
    answer = hub.http.get(path)
    assert (answer.status, answer.content) == (404, b"404 page not found\n")


def test_a_name_that_is_taken_is_refused(hub: Hub) -> None:
    hub.http.post(hub.path("configmaps"), a_config_map("a")).ok()
    answer = hub.http.post(hub.path("configmaps"), a_config_map("a"))
    assert answer.status == 409
    assert answer.json["reason"] == "AlreadyExists"
    assert answer.message == 'configmaps "a" already exists'
    assert answer.json["details"] == {"name": "a", "kind": "configmaps"}


@pytest.mark.cel
def test_an_invalid_object_is_refused_field_by_field(hub: Hub) -> None:
    answer = hub.http.post(CLUSTERS, a_cluster("c", identity={"kind": "User"}, heartbeatPeriodSeconds=0))
    assert answer.status == 422
    details = answer.json["details"]
    assert (details["name"], details["group"], details["kind"]) == ("c", "cluster.kubernetes-fleet.io", "MemberCluster")
    *causes, last = [(cause["reason"], cause["field"]) for cause in details["causes"]]
    assert sorted(causes) == [  # the server goes through the properties of an object in any order
        ("FieldValueInvalid", "spec.heartbeatPeriodSeconds"),
        ("FieldValueRequired", "spec.identity.name"),
    ]
    assert last == ("FieldValueInvalid", "<nil>")
