"""An installation that cannot work says so, and leaves nothing behind that is in the way of the next one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from fleet.cli.commands.config import WRONG, check_config
from tests.chart.helm import Helm
from tests.chart.release import CHART, Release
from tests.control_plane.waiting import soon
from tests.installed import lettered_plugins
from tests.unit.scheduler.test_configured_profiles import MISTAKES

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


# --- mistakes in the document -----------------------------------------------------------------------------------------

PARTS: Final = ("profiles", "extenders", "feeds", "substitution")
LOST_IN_VALUES: Final = (
    *("a key that is given twice", "a field that is given twice"),  # Helm takes the last one
    *("a weight with a leading zero", "a setting with a leading zero"),  # and reads YAML of another version
)
UNKNOWN_PLUGIN: Final = {"schedulerName": "mine", "plugins": {"score": {"enabled": [{"name": "ClusterAfinity"}]}}}
MISTAKEN: Final = ("--set-json", f"profiles={json.dumps([UNKNOWN_PLUGIN])}")


@pytest.mark.parametrize("mistake", [name for name in MISTAKES if name not in LOST_IN_VALUES])
def test_a_mistake_in_the_document_is_refused_by_the_chart_or_by_its_check(
    helm: Helm, tmp_path: Path, mistake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text, _ = MISTAKES[mistake]
    file = tmp_path / "values.yaml"
    file.write_text(text, encoding="utf-8")
    if mistake != "an alias of what it is in":
        content = yaml.safe_load(text)
        settings = {name: value for name, value in content.items() if name not in PARTS}
        values = {name: content[name] for name in PARTS if name in content}
        file.write_text(yaml.safe_dump({**values, **({"settings": settings} if settings else {})}), encoding="utf-8")
    done = helm.run("template", "fleet", str(CHART), "--set", "crds.install=false", "--values", str(file))
    if done.returncode:
        assert done.stdout == ""
        return
    documents = [each for each in yaml.safe_load_all(done.stdout) if each]
    by_name: dict[tuple[str, str], Any] = {(each["kind"], each["metadata"]["name"]): each for each in documents}
    job = by_name["Job", "fleet-config-check"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert job["spec"]["template"]["spec"]["containers"][0]["args"] == ["config", "check", "/etc/fleet/config.yaml"]
    document = tmp_path / "config.yaml"
    document.write_text(by_name["ConfigMap", "fleet-config-check"]["data"]["config.yaml"], encoding="utf-8")
    (folder := tmp_path / "letters").mkdir()
    with lettered_plugins(folder):
        assert check_config(document) == WRONG
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {document}:")


def test_a_document_that_is_refused_stops_an_upgrade_and_what_runs_goes_on(release: Release) -> None:
    release.succeeds("install", *HERE)
    deployment = f"/apis/apps/v1/namespaces/{release.namespace}/deployments/fleet-controller"
    settings = f"/api/v1/namespaces/{release.namespace}/configmaps/fleet-settings"
    before = release.hub.get(deployment).ok()["spec"], release.hub.get(settings).ok()["data"]

    said = release.fails("upgrade", *HERE, *MISTAKEN, "--set=image.tag=broken")

    assert "fleet-config-check" in said
    assert (release.hub.get(deployment).ok()["spec"], release.hub.get(settings).ok()["data"]) == before
    release.succeeds("upgrade", *HERE, "--set-json", 'profiles=[{"schedulerName": "mine"}]')
    jobs = f"/apis/batch/v1/namespaces/{release.namespace}/jobs"
    soon(lambda: release.hub.get(jobs).ok()["items"] == [])  # the hub deletes them after Helm has ended
