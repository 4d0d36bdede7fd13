"""What every documented combination of values renders is what an API server takes, without a word of warning."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import pytest

from tests.chart.helm import COMBINATIONS, NAMESPACE, Helm
from tests.chart.release import DEFINITIONS, make_restricted
from tests.control_plane.access import Access
from tests.control_plane.cluster import Cluster
from tests.control_plane.http_client import HttpClient
from tests.control_plane.waiting import soon

Json = dict[str, Any]

FOREIGN: Final = (
    ("monitoring.coreos.com", "v1", "ServiceMonitor"),
    ("monitoring.coreos.com", "v1", "PrometheusRule"),
    ("gateway.networking.k8s.io", "v1", "HTTPRoute"),
)
"""Kinds of other projects that the chart makes use of where they are wanted. Here they may say anything."""

MISTAKEN: Final = "spec.SessionAffinity is ignored for headless services"
"""API servers of some releases say so about every headless service, whatever its affinity is."""


@pytest.fixture(scope="module")
def access(cluster: Cluster) -> Access:
    """A hub with a restricted namespace, with the kinds of other projects, and with the accounts that test pods
    name."""
    client = HttpClient(cluster.access)
    make_restricted(client, NAMESPACE)
    for name in ("fleet-controller", "fleet-api"):
        account = {"name": name, "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}
        client.post(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": account}).ok()
    for group, version, kind in FOREIGN:
        client.post(DEFINITIONS, definition(group, version, kind)).ok()
    for group, version, kind in FOREIGN:
        soon(partial(is_served, client, f"/apis/{group}/{version}/{kind.lower()}s"))
    return cluster.access


def is_served(client: HttpClient, path: str) -> bool:
    return client.get(path).status == 200


def definition(group: str, version: str, kind: str) -> Json:
    plural = f"{kind.lower()}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind}
    approved = {"api-approved.kubernetes.io": "unapproved, for a test"}
    return {
        "metadata": {"name": f"{plural}.{group}", "annotations": approved},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
    }


def violations(access: Access, manifests: Iterable[Json]) -> list[str]:
    """Of the API server, about objects it would take or not."""
    objects = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)})
    command = [str(access.kubectl), f"--kubeconfig={access.kubeconfig}", "apply", "--dry-run=server", "--filename=-"]
    done = subprocess.run(command, input=objects, capture_output=True, text=True, timeout=120, check=False)
    said = [line for line in done.stderr.splitlines() if MISTAKEN not in line]
    assert done.returncode == 0 or said
    return said


@pytest.mark.parametrize("name", COMBINATIONS)
def test_an_api_server_takes_every_object(access: Access, helm: Helm, name: str) -> None:
    assert violations(access, helm.combination(name).manifests) == []


def test_an_api_server_takes_every_definition(access: Access, helm: Helm) -> None:
    rendered = helm.template(with_definitions=True)
    assert violations(access, rendered.of("CustomResourceDefinition")) == []


def test_pods_that_are_not_restricted_would_be_complained_about(access: Access, helm: Helm) -> None:
    deployment = json.loads(json.dumps(helm.combination("default").one("Deployment", "fleet-controller")))
    deployment["spec"]["template"]["spec"]["hostNetwork"] = True
    (said,) = violations(access, [deployment])
    assert re.search(r'Warning: would violate PodSecurity "restricted:latest".*hostNetwork', said)


def test_fields_that_do_not_exist_would_be_complained_about(access: Access, helm: Helm) -> None:
    deployment = json.loads(json.dumps(helm.combination("default").one("Deployment", "fleet-controller")))
    deployment["spec"]["replcas"] = 2
    (said,) = violations(access, [deployment])
    assert 'unknown field "replcas"' in said
