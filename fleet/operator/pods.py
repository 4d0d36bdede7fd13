"""Pods of the operator and of its scheduler. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from fleet.model.views import View
from fleet.release.oci.references import DIGEST

Json = dict[str, Any]

HEALTH_PORT: Final = 8081
METRICS_PORT: Final = 8080
_LIVENESS_DELAY: Final = 45


def build_pod(
    account: str,
    image: str,
    arguments: Sequence[str],
    *,
    name: str,
    cpu: str,
    memory: str,
    volumes: Sequence[tuple[str, str, Mapping[str, Any]]] = (),
    scheme: str = "HTTP",
) -> Json:
    """The spec of a pod with one container, its folder /tmp, and read-only volumes: names, folders and sources."""
    container = {
        "name": name,
        "image": image,
        "args": list(arguments),
        "ports": [
            {"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"},
            {"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"},
        ],
        "startupProbe": {**_probe("/livez", scheme), "periodSeconds": 2, "failureThreshold": 60},
        "livenessProbe": {**_probe("/livez", scheme), "initialDelaySeconds": _LIVENESS_DELAY, "failureThreshold": 6},
        "readinessProbe": _probe("/readyz", scheme),
        # Without a request of its own, disk would be requested up to the limit.
        "resources": {
            "requests": {"cpu": cpu, "memory": memory, "ephemeral-storage": "0"},
            "limits": {"ephemeral-storage": "1Gi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},
            *({"name": volume, "mountPath": folder, "readOnly": True} for volume, folder, _ in volumes),
        ],
    }
    return {
        "serviceAccountName": account,
        "automountServiceAccountToken": True,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [
            {"name": "tmp", "emptyDir": {"sizeLimit": "512Mi"}},
            *({"name": volume, **source} for volume, _, source in volumes),
        ],
    }


class Pod(View, frozen=True):
    status: PodStatus | None = None


class PodStatus(View, frozen=True):
    container_statuses: tuple[ContainerStatus, ...] = ()


class ContainerStatus(View, frozen=True):
    name: str = ""
    image_id: str = msgspec.field(name="imageID", default="")


def find_digest(pod: Pod, container: str) -> str:
    """Of the image that the container runs; empty if the pod does not say. Others may have been added to it."""
    running = pod.status.container_statuses if pod.status else ()
    digest = next((each.image_id.rpartition("@")[2] for each in running if each.name == container), "")
    return digest if DIGEST.fullmatch(digest) else ""


def build_metrics_service(selector: Mapping[str, str]) -> Json:
    """The spec of the Service."""
    port = {"name": "metrics", "port": METRICS_PORT, "protocol": "TCP", "targetPort": "metrics"}
    return {"selector": dict(selector), "ports": [port]}


def build_address_settings() -> list[str]:
    return [f"--set=health.address=:{HEALTH_PORT}", f"--set=metrics.address=:{METRICS_PORT}"]


def _probe(path: str, scheme: str) -> Json:
    return {"httpGet": {"path": path, "port": "health", "scheme": scheme}, "timeoutSeconds": 5}
