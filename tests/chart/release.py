"""The chart as an operator handles it: installed into a cluster with the real Helm, changed, and taken away."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.conformance.crds import is_established, parse_crd
from tests.control_plane.access import Access
from tests.control_plane.http_client import HttpClient
from tests.control_plane.process import GO
from tests.control_plane.sharing import ROOT
from tests.control_plane.waiting import soon

CHART: Final = ROOT / "charts" / "fleet"
SECONDS: Final = 180
"""Until Helm has given up or something hangs."""
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
VOLUMES: Final = "/api/v1/persistentvolumes"
PLACEMENTS: Final = "/apis/placement.kubernetes-fleet.io/v1/clusterresourceplacements"


@dataclass(frozen=True)
class Release:
    """One release, whether it is installed or not. `home` is where Helm keeps what it likes to keep."""

    access: Access
    home: Path
    chart: Path = CHART
    namespace: str = "fleet-system"
    name: str = "fleet"

    @property
    def hub(self) -> HttpClient:
        return HttpClient(self.access)

    def install(self, *values: str, chart: Path | None = None) -> str:
        return self.succeeds("install", self.name, str(chart or self.chart), "--create-namespace", *_WAITING, *values)

    def upgrade(self, *values: str, chart: Path | None = None) -> str:
        return self.succeeds("upgrade", self.name, str(chart or self.chart), *_WAITING, *values)

    def rollback(self, revision: int) -> str:
        return self.succeeds("rollback", self.name, str(revision), *_WAITING)

    def uninstall(self) -> str:
        return self.succeeds("uninstall", self.name, *_WAITING)

    def manifests(self) -> list[dict[str, Any]]:
        """What Helm says it installed, without hooks."""
        return [one for one in yaml.safe_load_all(self.succeeds("get", "manifest", self.name)) if one]

    def hooks(self) -> list[dict[str, Any]]:
        """What runs before or after, and is gone then."""
        return [one for one in yaml.safe_load_all(self.succeeds("get", "hooks", self.name)) if one]

    def succeeds(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, f"helm {' '.join(arguments)}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def fails(self, *arguments: str) -> str:
        """What it says about it."""
        done = self.run(*arguments)
        assert done.returncode != 0, f"helm {' '.join(arguments)} succeeded:\n{done.stdout}"
        return done.stderr

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """What it prints; it has to succeed."""
        command = [str(self.access.kubectl), f"--kubeconfig={self.access.kubeconfig}", f"--namespace={self.namespace}"]
        done = subprocess.run(
            [*command, *arguments],
            input=stdin,
            env={**GO, "HOME": str(self.home)},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}:\n{done.stderr}"
        return done.stdout

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                self.access.program("helm"),
                *arguments,
                f"--namespace={self.namespace}",
                f"--kubeconfig={self.access.kubeconfig}",
            ],
            env={**GO, "HOME": str(self.home)},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )


def a_placement(name: str = "web") -> dict[str, Any]:
    selectors = [{"group": "", "version": "v1", "kind": "Namespace", "name": name}]
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": name},
        "spec": {"resourceSelectors": selectors},
    }


def install_definitions(release: Release) -> None:
    """As somebody else does, who is not Helm."""
    for file in release.chart.glob("files/crds/*.yaml"):
        release.hub.post(DEFINITIONS, parse_crd(file.read_text(encoding="utf-8"))).ok()
    soon(lambda: all(map(is_established, release.hub.get(DEFINITIONS).ok()["items"])))


def definitions_in(hub: HttpClient) -> dict[str, str]:
    """Each with the version of the object, which any change changes. What the API server says about it is no change."""
    found = hub.get(DEFINITIONS).ok()["items"]
    return {one["metadata"]["name"]: json.dumps([one["metadata"], one["spec"]]) for one in found}


def make_restricted(hub: HttpClient, namespace: str) -> None:
    """A namespace that takes only pods of the restricted profile, and says so about whatever would make others."""
    labels = {f"pod-security.kubernetes.io/{reaction}": "restricted" for reaction in ("enforce", "warn")}
    if hub.get(f"/api/v1/namespaces/{namespace}").status == 404:
        hub.post("/api/v1/namespaces", {"metadata": {"name": namespace, "labels": labels}}).ok()


def provide_volume(hub: HttpClient, name: str, *, size: str = "10Gi") -> None:
    """Somewhere a claim without a storage class may be bound to, as a provisioner would make it."""
    spec = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Delete",
        "hostPath": {"path": f"/nowhere/{name}"},
    }
    hub.post(VOLUMES, {"metadata": {"name": name}, "spec": spec}).ok()


_WAITING: Final = ("--wait", f"--timeout={SECONDS // 2}s")
