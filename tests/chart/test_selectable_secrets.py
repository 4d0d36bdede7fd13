"""A controller that must not read Secrets: what the API server lets its account do, with the roles of the chart."""

from __future__ import annotations

from functools import partial
from typing import Final

import pytest

from tests.chart.release import Release
from tests.control_plane.waiting import soon

REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
PLACEMENT: Final = "placement.kubernetes-fleet.io"
SELECTABLE: Final = (
    ("", "configmaps"),
    ("apps", "deployments"),
    ("batch", "jobs"),
    ("networking.k8s.io", "ingresses"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    (PLACEMENT, "resourceenvelopes"),
)
WITHHELD: Final = (("", "secrets"), (PLACEMENT, "works"), ("coordination.k8s.io", "leases"))
"""Secrets, copies of them, and what is never placed."""


@pytest.fixture
def installed(release: Release) -> Release:
    """The roles alone: nothing has to run."""
    options = ("--set=rbac.selectableSecrets=false", "--show-only=templates/rbac-controller.yaml")
    rendered = release.succeeds("template", release.name, str(release.chart), "--dry-run=server", *options)
    release.kubectl("create", "--filename=-", stdin=rendered)
    return release


def may_list(release: Release, group: str, resource: str) -> bool:
    account = f"system:serviceaccount:{release.namespace}:fleet-controller"
    spec = {"user": account, "resourceAttributes": {"group": group, "resource": resource, "verb": "list"}}
    return bool(release.hub.post(REVIEWS, {"spec": spec}).ok()["status"]["allowed"])


def test_the_controller_may_read_everything_but_secrets(installed: Release) -> None:
    for group, resource in SELECTABLE:
        soon(partial(may_list, installed, group, resource))  # the authorizer learns of roles by a watch
    assert [one for one in WITHHELD if may_list(installed, *one)] == []
