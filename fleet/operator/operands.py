"""The objects of a secondary scheduler. Pure."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from fleet.kube.resource import Resource
from fleet.model.keys import OPERATOR_GROUP
from fleet.operator.configuration import KEY, ConfigReview

Json = dict[str, Any]

NAME: Final = "secondary-scheduler"
"""Of all objects of the scheduler, and of its lease."""
CONFIG_COPY: Final = f"{NAME}-config"
CONFIG_HASH: Final = f"{OPERATOR_GROUP}/config-hash"
"""On the pod template: another document rolls the Deployment."""
APPLIED: Final = f"{OPERATOR_GROUP}/applied"
"""On each managed object: digest of what the operator applied."""

SECONDARY_SCHEDULERS: Final = Resource(
    OPERATOR_GROUP, "v1", "secondaryschedulers", "SecondaryScheduler", namespaced=True
)
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)
SERVICES: Final = Resource("", "v1", "services", "Service", namespaced=True)
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
MANAGED: Final = (SERVICE_ACCOUNTS, CONFIG_MAPS, SERVICES, DEPLOYMENTS)

_LABELS: Final = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/managed-by": "fleet-operator"}
_SELECTOR: Final = {"app.kubernetes.io/name": NAME}
_HEALTH: Final = 8081
_METRICS: Final = 8080
_FOLDER: Final = "/etc/fleet"


def get_operand_name(resource: Resource) -> str:
    return CONFIG_COPY if resource is CONFIG_MAPS else NAME


def build_operands(owner: Json, config: ConfigReview, image: str) -> dict[Resource, Json]:
    """In the order in which they are applied."""
    deployment = _build_deployment(owner["metadata"]["namespace"], config, image)
    service = {
        "selector": _SELECTOR,
        "ports": [{"name": "metrics", "port": _METRICS, "protocol": "TCP", "targetPort": "metrics"}],
    }
    contents: dict[Resource, Json] = {
        SERVICE_ACCOUNTS: {},
        CONFIG_MAPS: {"data": {KEY: config.document}},
        SERVICES: {"spec": service},
        DEPLOYMENTS: {"spec": deployment},
    }
    return {resource: _build_object(owner, resource, content) for resource, content in contents.items()}


def _build_object(owner: Json, resource: Resource, content: Json) -> Json:
    metadata = owner["metadata"]
    reference = {
        "apiVersion": SECONDARY_SCHEDULERS.api_version,
        "kind": SECONDARY_SCHEDULERS.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    digest = hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": get_operand_name(resource),
            "namespace": metadata["namespace"],
            "labels": _LABELS,
            "annotations": {APPLIED: digest},
            "ownerReferences": [reference],
        },
        **content,
    }


def _build_deployment(namespace: str, config: ConfigReview, image: str) -> Json:
    container = {
        "name": "scheduler",
        "image": image,
        "args": _build_arguments(namespace, config),
        "ports": [
            {"name": "metrics", "containerPort": _METRICS, "protocol": "TCP"},
            {"name": "health", "containerPort": _HEALTH, "protocol": "TCP"},
        ],
        "livenessProbe": {"httpGet": {"path": "/livez", "port": "health"}, "initialDelaySeconds": 45},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "health"}},
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "config", "mountPath": _FOLDER, "readOnly": True}],
    }
    pod = {
        "serviceAccountName": NAME,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": CONFIG_COPY}}],
    }
    return {
        "replicas": 1,
        "selector": {"matchLabels": _SELECTOR},
        "template": {
            "metadata": {"labels": _LABELS, "annotations": {CONFIG_HASH: config.digest}},
            "spec": pod,
        },
    }


def _build_arguments(namespace: str, config: ConfigReview) -> list[str]:
    settings = {"resourceNamespace": namespace, "resourceName": NAME, **dict(config.lease_terms)}
    return [
        "controller",
        f"--config={_FOLDER}/{KEY}",
        "--controllers=scheduler",
        f"--health-address=:{_HEALTH}",
        f"--metrics-address=:{_METRICS}",
        *(f"--set=leaderElection.{name}={value}" for name, value in settings.items()),
    ]
