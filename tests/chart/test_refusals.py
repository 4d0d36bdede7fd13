"""An installation that cannot work says so, and leaves nothing behind that is in the way of the next one."""

from __future__ import annotations

from typing import Final

import pytest

from tests.chart.release import CHART, Release

HERE: Final = ("fleet", str(CHART), "--create-namespace", "--wait", "--timeout=90s", "--set=crds.install=false")
BROKEN: Final = ("--set=image.tag=broken", "--set=migration.backoffLimit=0")
"""The pods of Jobs fail."""
POSTGRESQL: Final = ("--set=history.type=postgresql", "--set=history.postgresql.existingSecret=history")


@pytest.mark.parametrize(
    "values, says",
    [
        pytest.param(
            ("--set=controller.replicas=2",),
            "controller.replicas is 2, and history.type sqlite is a file for one of each: set history.type to",
            id="two-controllers-on-a-file",
        ),
        pytest.param(
            ("--set=history.type=postgresql",),
            "set history.postgresql.existingSecret to the name of a Secret that holds the database's URL",
            id="no-database",
        ),
        pytest.param(
            ("--set=history.type=postgresql", "--set=history.postgresql.existingSecret=absent"),
            "history.postgresql.existingSecret is absent",
            id="no-secret",
        ),
        pytest.param(
            ("--set=history.type=postgresql", "--set=history.postgresql.authoritySecret=unknown"),
            "history.postgresql.authoritySecret is unknown, and namespace fleet-system has no such Secret with the key",
            id="no-authority",
        ),
        pytest.param(
            ("--set=leaderElection.namespace=nobodys", "--set=leaderElection.createNamespace=false"),
            "leaderElection.namespace is nobodys",
            id="no-namespace-for-the-lease",
        ),
    ],
)
def test_what_cannot_work_is_refused_with_the_way_out(release: Release, values: tuple[str, ...], says: str) -> None:
    said = release.fails("install", *HERE, *values)
    assert says in said
    records = release.hub.get(f"/api/v1/namespaces/{release.namespace}/secrets", {"labelSelector": "owner=helm"})
    assert records.ok()["items"] == []


def test_another_selector_is_refused_before_anything_changes(release: Release) -> None:
    """And what it says can be done loses nothing."""
    renamed = ("--set=nameOverride=placer", "--set=fullnameOverride=fleet")
    release.install()
    service = f"/api/v1/namespaces/{release.namespace}/services/fleet-api"
    before = release.hub.get(service).ok()["spec"]

    said = release.fails("upgrade", release.name, str(release.chart), *renamed)

    for part in ("controller", "api"):
        assert f"placer, and Deployment fleet-{part} selects its pods by fleet, which cannot be changed: set" in said
    assert release.hub.get(service).ok()["spec"] == before
    release.upgrade("--set=nameOverride=fleet", "--set=fullnameOverride=fleet")

    release.uninstall()
    release.install(*renamed)
    assert release.hub.get(service).ok()["spec"]["selector"]["app.kubernetes.io/name"] == "placer"


@pytest.fixture
def database(release: Release) -> None:
    """The Secret with its URL, which no pod asks here."""
    secret = {"metadata": {"name": "history"}, "stringData": {"url": "postgresql://nobody@nowhere/history"}}
    release.hub.post(f"/api/v1/namespaces/{release.namespace}/secrets", secret)


@pytest.mark.usefixtures("database")
def test_a_migration_that_fails_stops_an_installation_before_anything_runs(release: Release) -> None:
    said = release.fails("install", *HERE, *POSTGRESQL, *BROKEN)
    assert "fleet-migrate" in said
    deployments = f"/apis/apps/v1/namespaces/{release.namespace}/deployments"
    assert release.hub.get(deployments).ok()["items"] == []

    release.succeeds("upgrade", "--install", *HERE, *POSTGRESQL)


@pytest.mark.usefixtures("database")
def test_a_migration_that_fails_stops_an_upgrade_and_what_runs_goes_on(release: Release) -> None:
    release.succeeds("install", *HERE, *POSTGRESQL)
    deployment = f"/apis/apps/v1/namespaces/{release.namespace}/deployments/fleet-controller"
    before = release.hub.get(deployment).ok()["spec"]
    release.fails("upgrade", "--install", *HERE, *POSTGRESQL, *BROKEN)
    assert release.hub.get(deployment).ok()["spec"] == before
