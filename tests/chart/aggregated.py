"""The API of a release behind the API server: its Service leads to a process on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.chart.pods import Container, Machine
from tests.chart.release import Release
from tests.control_plane.cluster import Cluster
from tests.control_plane.instance import free_port
from tests.control_plane.waiting import soon

API_SERVICE: Final = "/apis/apiregistration.k8s.io/v1/apiservices/v1.explain.fleet"
LOCAL: Final = "localhost"
_MINUTE: Final = 60.0


@dataclass(frozen=True)
class AggregatedRelease:
    release: Release
    api: Container

    def availability(self) -> dict[str, Any]:
        """The condition of the APIService."""
        status = self.release.hub.get(API_SERVICE).ok().get("status", {})
        conditions: dict[str, dict[str, Any]] = {one["type"]: one for one in status.get("conditions", ())}
        return conditions.get("Available", {})

    def is_available(self) -> bool:
        return bool(self.availability().get("status") == "True")

    def answers(self) -> bool:
        return self.release.hub.get("/apis/explain.fleet/v1").status == 200


@contextmanager
def aggregated(machine: Machine, *values: str) -> Iterator[AggregatedRelease]:
    """Installs the chart, and runs its API where the Service leads: an ExternalName of the loopback interface, which
    the API server resolves by itself."""
    release, port = machine.release, free_port()
    release.install(f"--set=api.service.port={port}", *values)
    outward = {"type": "ExternalName", "externalName": LOCAL, "clusterIP": None, "clusterIPs": None, "selector": None}
    service = f"/api/v1/namespaces/{release.namespace}/services/{release.name}-api"
    release.hub.patch(service, {"spec": outward}).ok()
    api = machine.container_of(f"{release.name}-api")
    api.ports[8090] = port
    with api.running():
        found = AggregatedRelease(release, api)
        soon(found.is_available, within=_MINUTE)
        soon(found.answers, within=_MINUTE)  # the API server believes its own condition a moment later
        yield found


# --- users ------------------------------------------------------------------------------------------------------------


def kubeconfig_of(cluster: Cluster, folder: Path, name: str, credentials: dict[str, Any]) -> Path:
    """A kubeconfig of a user with these credentials, and nothing else."""
    access, file = cluster.access, folder / f"{name}.kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "hub",
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": name}}],
        "clusters": [{"name": "hub", "cluster": {"server": access.url, "certificate-authority": str(access.ca_file)}}],
        "users": [{"name": name, "user": credentials}],
    }
    file.write_text(json.dumps(document), encoding="utf-8")
    return file


def certificate_of(cluster: Cluster, name: str, *, group: str) -> dict[str, Any]:
    issued = cluster.authorities.user(name, group=group)
    return {"client-certificate": str(issued.certificate), "client-key": str(issued.key)}


def exec_plugin(folder: Path, token: str) -> dict[str, Any]:
    """A program that prints a credential, as those of cloud providers do."""
    plugin = folder / "credential-plugin"
    kind = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    plugin.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps({**kind, 'status': {'token': token}})}\nEND\n")
    plugin.chmod(0o700)
    described = {"apiVersion": kind["apiVersion"], "command": str(plugin), "interactiveMode": "Never"}
    return {"exec": described}
