"""Namespaces: where everything else lives."""

from __future__ import annotations

import pytest

from tests.conformance.documents import a_config_map
from tests.conformance.hub import Hub

NAMESPACES = "/api/v1/namespaces"


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public", "kube-node-lease"])
def test_some_are_there_from_the_start(hub: Hub, name: str) -> None:
    assert hub.http.get(f"{NAMESPACES}/{name}").ok()["status"] == {"phase": "Active"}


def test_a_new_one_is_active_and_labelled_with_its_name(hub: Hub) -> None:
    namespace = hub.http.get(f"{NAMESPACES}/{hub.namespace}").ok()
    assert namespace["status"] == {"phase": "Active"}
    assert namespace["spec"] == {"finalizers": ["kubernetes"]}
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": hub.namespace}


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_some_stay(hub: Hub, name: str) -> None:
    answer = hub.http.delete(f"{NAMESPACES}/{name}")
    assert answer.status == 403
    assert answer.message == f'namespaces "{name}" is forbidden: this namespace may not be deleted'


def test_its_name_is_a_label(hub: Hub) -> None:
    answer = hub.http.post(NAMESPACES, {"metadata": {"name": "a_b"}})
    assert answer.status == 422
    assert answer.message == (
        'Namespace "a_b" is invalid: metadata.name: Invalid value: "a_b": a lowercase RFC 1123 label must consist of '
        "lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. "
        "'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
    )


def test_listing_one_that_is_not_there_finds_nothing(hub: Hub) -> None:
    assert hub.http.get(f"{NAMESPACES}/nowhere/configmaps").ok()["items"] == []


@pytest.fixture
def terminating(hub: Hub) -> Hub:
    """A namespace that cannot go yet, because something in it holds on."""
    hub.http.post(hub.path("configmaps"), a_config_map("held", finalizers=["example.com/hold"])).ok()
    hub.http.delete(f"{NAMESPACES}/{hub.namespace}").ok()
    return hub


def test_a_deleted_one_terminates(terminating: Hub) -> None:
    namespace = terminating.http.get(f"{NAMESPACES}/{terminating.namespace}").ok()
    assert namespace["status"]["phase"] == "Terminating"
    assert namespace["metadata"]["deletionTimestamp"]


def test_one_that_terminates_takes_nothing_new(terminating: Hub) -> None:
    namespace = terminating.namespace
    answer = terminating.http.post(terminating.path("configmaps"), a_config_map("new"))
    assert (answer.status, answer.json["reason"]) == (403, "Forbidden")
    assert answer.message == (
        f'configmaps "new" is forbidden: unable to create new content in namespace {namespace} because it is being '
        "terminated"
    )
    assert answer.json["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
    ]


@pytest.mark.servers
def test_kubectl_creates_one(hub: Hub, unique: str) -> None:
    assert hub.kubectl("create", "namespace", unique).ok() == f"namespace/{unique} created\n"
    assert hub.kubectl("create", "namespace", unique).err == (
        f'Error from server (AlreadyExists): namespaces "{unique}" already exists\n'
    )


@pytest.mark.servers
def test_kubectl_says_which_one_is_missing(hub: Hub) -> None:
    said = hub.kubectl("--namespace=nowhere", "create", "configmap", "a")
    assert said.err == 'error: failed to create configmap: namespaces "nowhere" not found\n'
    assert hub.kubectl("--namespace=nowhere", "get", "cm").err == "No resources found in nowhere namespace.\n"
