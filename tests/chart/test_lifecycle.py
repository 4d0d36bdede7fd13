"""What comes and goes with a release, and what stays: definitions, placements, the history, the lease's namespace."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.chart.release import (
    CHART,
    DEFINITIONS,
    PLACEMENTS,
    Release,
    a_placement,
    definitions_in,
    install_definitions,
)
from tests.control_plane.waiting import soon

Json = dict[str, Any]

DEFINITION: Final = f"{DEFINITIONS}/clusterresourceplacements.placement.kubernetes-fleet.io"
CHANGED: Final = "--set=settings.queue.maxDelay=17s"


def deployed(release: Release, name: str) -> Json:
    path = f"/apis/apps/v1/namespaces/{release.namespace}/deployments/{name}"
    found: Json = release.hub.get(path).ok()
    return found


def kept(release: Release, kind: str, name: str) -> Json:
    found: Json = release.hub.get(f"/api/v1/namespaces/{release.namespace}/{kind}/{name}").ok()
    return found


def identity(path: str, release: Release) -> str:
    """Changes when an object is made anew."""
    uid: str = release.hub.get(path).ok()["metadata"]["uid"]
    return uid


def settings_of(release: Release) -> Json:
    found: Json = yaml.safe_load(kept(release, "configmaps", "fleet-settings")["data"]["controller.yaml"])
    return found


def pods_of(release: Release, part: str) -> set[str]:
    query = {"labelSelector": f"app.kubernetes.io/component={part}"}
    found = release.hub.get(f"/api/v1/namespaces/{release.namespace}/pods", query).ok()["items"]
    return {one["metadata"]["name"] for one in found if "deletionTimestamp" not in one["metadata"]}


@pytest.fixture
def later(release: Release, tmp_path: Path) -> Path:
    """The next version of the chart, in which a definition has one more column."""
    chart = tmp_path / "later"
    shutil.copytree(release.chart, chart)
    about = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    (chart / "Chart.yaml").write_text(yaml.safe_dump({**about, "version": "9.9.9"}), encoding="utf-8")
    (file,) = chart.glob("files/crds/*_clusterresourceplacements.yaml")
    definition = yaml.safe_load(file.read_text(encoding="utf-8"))
    for version in definition["spec"]["versions"]:
        version["additionalPrinterColumns"].append({"name": "Later", "type": "string", "jsonPath": ".metadata.uid"})
    file.write_text(yaml.safe_dump(definition, sort_keys=False), encoding="utf-8")
    return chart


def has_later_column(release: Release) -> bool:
    versions = release.hub.get(DEFINITION).ok()["spec"]["versions"]
    return all(any(column["name"] == "Later" for column in one["additionalPrinterColumns"]) for one in versions)


def left_behind(release: Release) -> set[str]:
    """What is still in the namespace, of everything that a release may have made there."""
    wanted = "deployments,services,configmaps,secrets,serviceaccounts,roles,rolebindings,jobs,persistentvolumeclaims"
    printed = release.kubectl("get", wanted, "--selector=app.kubernetes.io/instance=fleet", "--output=json")
    return {f"{one['kind']}/{one['metadata']['name']}" for one in json.loads(printed)["items"]}


# --- one release ------------------------------------------------------------------------------------------------------


def test_an_installation_needs_no_values(release: Release) -> None:
    said = release.install(chart=CHART)
    for name in ("fleet-controller", "fleet-api"):
        assert deployed(release, name)["status"]["availableReplicas"] == 1
    soon(lambda: release.hub.get(PLACEMENTS).status == 200)
    assert "kubectl" in said


def test_changed_settings_reach_both_roles_and_leave_the_rest_alone(release: Release) -> None:
    names = "--set=api.tls.dnsNames={fleet.example.com,10.1.2.3}"
    release.install(names)
    release.hub.post(PLACEMENTS, a_placement()).ok()
    before = {part: pods_of(release, part) for part in ("controller", "api")}
    certificate = kept(release, "secrets", "fleet-api-tls")["data"]
    placement, claim = identity(f"{PLACEMENTS}/web", release), kept(release, "persistentvolumeclaims", "fleet-history")

    release.upgrade(names)

    assert {part: pods_of(release, part) for part in before} == before  # nothing changed

    release.upgrade(CHANGED, names)

    assert settings_of(release)["queue"] == {"maxDelay": "17s"}
    assert all(pods_of(release, part).isdisjoint(names) for part, names in before.items())
    assert kept(release, "secrets", "fleet-api-tls")["data"] == certificate
    assert identity(f"{PLACEMENTS}/web", release) == placement
    assert kept(release, "persistentvolumeclaims", "fleet-history")["metadata"]["uid"] == claim["metadata"]["uid"]


def test_a_later_chart_and_a_rollback_change_definitions_in_place_and_lose_no_placement(
    release: Release, later: Path
) -> None:
    release.install()
    release.hub.post(PLACEMENTS, a_placement()).ok()
    kept_objects = [identity(path, release) for path in (DEFINITION, f"{PLACEMENTS}/web")]

    release.upgrade(CHANGED, chart=later)

    assert has_later_column(release)
    assert [identity(path, release) for path in (DEFINITION, f"{PLACEMENTS}/web")] == kept_objects

    release.rollback(1)

    assert "queue" not in settings_of(release)
    assert not has_later_column(release)
    assert [identity(path, release) for path in (DEFINITION, f"{PLACEMENTS}/web")] == kept_objects
    assert deployed(release, "fleet-controller")["status"]["availableReplicas"] == 1


def test_placements_and_history_survive_until_the_release_is_back(release: Release) -> None:
    release.install()
    release.hub.post(PLACEMENTS, a_placement()).ok()
    placement, claim = identity(f"{PLACEMENTS}/web", release), kept(release, "persistentvolumeclaims", "fleet-history")

    release.uninstall()

    assert identity(f"{PLACEMENTS}/web", release) == placement
    soon(lambda: left_behind(release) == {"PersistentVolumeClaim/fleet-history"})  # what owned objects own goes later

    release.install()

    assert identity(f"{PLACEMENTS}/web", release) == placement
    assert kept(release, "persistentvolumeclaims", "fleet-history")["metadata"]["uid"] == claim["metadata"]["uid"]
    assert deployed(release, "fleet-controller")["status"]["availableReplicas"] == 1


# --- a hub with a past ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["full", "scheduler-only"])
def test_definitions_of_somebody_else_are_left_alone(release: Release, mode: str) -> None:
    install_definitions(release)
    before = definitions_in(release.hub)
    release.install(f"--set=mode={mode}")
    assert definitions_in(release.hub) == before
    release.upgrade(CHANGED, f"--set=mode={mode}")
    release.uninstall()
    assert definitions_in(release.hub) == before


def test_definitions_of_somebody_else_are_taken_over_where_that_is_wanted(release: Release, later: Path) -> None:
    install_definitions(release)
    definition = identity(DEFINITION, release)
    release.install("--set=crds.adopt=true", "--take-ownership", "--force-conflicts", chart=later)
    assert has_later_column(release)
    assert identity(DEFINITION, release) == definition


def test_a_second_release_shares_the_hub_and_touches_nothing_of_the_first(release: Release) -> None:
    release.install()
    before = definitions_in(release.hub), deployed(release, "fleet-controller")["metadata"]["uid"]
    second = replace(release, name="second", namespace="fleet-second")
    second.install("--set=history.type=none")
    assert api_service(release)["spec"]["service"]["namespace"] == release.namespace, "one API has the group on a hub"
    second.uninstall()
    assert api_service(release)["spec"]["service"]["namespace"] == release.namespace
    assert (definitions_in(release.hub), deployed(release, "fleet-controller")["metadata"]["uid"]) == before


def api_service(release: Release) -> Json:
    service: Json = release.hub.get("/apis/apiregistration.k8s.io/v1/apiservices/v1.explain.fleet").ok()
    return service


# --- the lease's namespace --------------------------------------------------------------------------------------------


def test_the_namespace_of_the_lease_is_made_and_kept(release: Release) -> None:
    release.install("--set=leaderElection.namespace=fleet-lease-made")
    assert release.hub.get("/api/v1/namespaces/fleet-lease-made").status == 200
    release.uninstall()
    assert release.hub.get("/api/v1/namespaces/fleet-lease-made").ok()["status"]["phase"] == "Active"


def test_a_namespace_of_somebody_else_holds_the_lease_untouched(release: Release) -> None:
    made = release.hub.post("/api/v1/namespaces", {"metadata": {"name": "fleet-lease-theirs"}}).ok()
    release.install("--set=leaderElection.namespace=fleet-lease-theirs")
    assert release.hub.get("/api/v1/namespaces/fleet-lease-theirs").ok() == made
