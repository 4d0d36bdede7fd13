"""The objects of a secondary scheduler. Pure."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from fleet.kube.resource import Resource
from fleet.model.keys import OPENSHIFT_OPERATOR_GROUP, OPERATOR_GROUP
from fleet.operator.configuration import KEY, ConfigReview
from fleet.operator.partitions import format_selector, read_selector
from fleet.operator.pods import build_address_settings, build_metrics_service, build_pod
from fleet.operator.tls_policy import TLS_FOLDER, read_tls_policy

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
OWNERS: Final = (
    SECONDARY_SCHEDULERS,
    Resource(OPENSHIFT_OPERATOR_GROUP, "v1", "secondaryschedulers", "SecondaryScheduler", namespaced=True),
)
"""Kinds of the resource. Of two resources of one namespace that of the first kind counts."""
PODS: Final = Resource("", "v1", "pods", "Pod", namespaced=True)
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)
SERVICES: Final = Resource("", "v1", "services", "Service", namespaced=True)
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
MANAGED: Final = (SERVICE_ACCOUNTS, CONFIG_MAPS, SERVICES, DEPLOYMENTS)

_LABELS: Final = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/managed-by": "fleet-operator"}
_SELECTOR: Final = {"app.kubernetes.io/name": NAME}
POD_SELECTOR: Final = f"app.kubernetes.io/name={NAME}"
ENVIRONMENT: Final = f"{NAME}-environment"
"""A Secret of users with variables of the scheduler's process."""
VERBOSITY: Final = {"Normal": 2, "Debug": 4, "Trace": 6, "TraceAll": 8}
_FOLDER: Final = "/etc/fleet"
CERTIFICATE: Final = f"{NAME}-tls"
"""A Secret with the certificate of the pods, if there is one: from OpenShift's service CA, or of users."""
_ANNOTATIONS: Final = {SERVICES: {"service.beta.openshift.io/serving-cert-secret-name": CERTIFICATE}}
_ROLLING: Final = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
"""With the hub's defaults: only fields that were applied are removed when they are no longer wanted."""


def get_operand_name(resource: Resource) -> str:
    return CONFIG_COPY if resource is CONFIG_MAPS else NAME


def build_operands(owner: Json, config: ConfigReview, image: str, replicas: int) -> dict[Resource, Json]:
    """In the order in which they are applied."""
    deployment = _build_deployment(owner["spec"], owner["metadata"]["namespace"], config, image, replicas)
    contents: dict[Resource, Json] = {
        SERVICE_ACCOUNTS: {"automountServiceAccountToken": False},
        CONFIG_MAPS: {"data": {KEY: config.document}},
        SERVICES: {"spec": build_metrics_service(_SELECTOR)},
        DEPLOYMENTS: {"spec": deployment},
    }
    return {resource: _build_object(owner, resource, content) for resource, content in contents.items()}


def _build_object(owner: Json, resource: Resource, content: Json) -> Json:
    metadata = owner["metadata"]
    reference = {
        "apiVersion": owner["apiVersion"],
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
            "annotations": {**_ANNOTATIONS.get(resource, {}), APPLIED: digest},
            "ownerReferences": [reference],
        },
        **content,
    }


def _build_deployment(spec: Json, namespace: str, config: ConfigReview, image: str, replicas: int) -> Json:
    pod = build_pod(
        NAME,
        image,
        _build_arguments(spec, namespace, config),
        name="scheduler",
        cpu="100m",
        memory="256Mi",
        volumes=[
            ("config", _FOLDER, {"configMap": {"name": CONFIG_COPY}}),
            ("tls", TLS_FOLDER, {"secret": {"secretName": CERTIFICATE, "optional": True}}),
        ],
        scheme="HTTPS",
    )
    pod["containers"][0]["envFrom"] = [{"secretRef": {"name": ENVIRONMENT, "optional": True}}]
    topology = get_topology(spec) or {}
    term = {"labelSelector": {"matchLabels": _SELECTOR}, "topologyKey": "kubernetes.io/hostname"}
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    pod["affinity"] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    pod |= {field: topology[field] for field in ("nodeSelector", "tolerations") if topology.get(field)}
    return {
        "replicas": replicas,
        # Without a lease, old and new pods would decide at the same time.
        "strategy": _ROLLING if config.elects else {"type": "Recreate"},
        "selector": {"matchLabels": _SELECTOR},
        "template": {
            "metadata": {"labels": _LABELS, "annotations": {CONFIG_HASH: config.digest}},
            "spec": pod,
        },
    }


def get_topology(spec: Json) -> Json | None:
    """None for one replica."""
    topology: Json = spec.get("topology", {})
    return topology.get("highlyAvailableTopology", {}) if topology.get("mode") == "HighlyAvailable" else None


def _divide(spec: Json) -> str:
    selector = read_selector({"spec": spec})
    return "reservation=Shared" if selector is None else f"clusterSelector={format_selector(selector)}"


def _build_arguments(spec: Json, namespace: str, config: ConfigReview) -> list[str]:
    settings = {"resourceNamespace": namespace, "resourceName": NAME, **dict(config.lease_terms)}
    return [
        "controller",
        f"-v={VERBOSITY[spec.get('logLevel', 'Normal')]}",
        f"--config={_FOLDER}/{KEY}",
        "--controllers=scheduler",
        *build_address_settings(),
        *(f"--set=tls.{name}={value}" for name, value in read_tls_policy(spec).settings.items()),
        *(f"--set=leaderElection.{name}={value}" for name, value in settings.items()),
        f"--set=capacity.{_divide(spec)}",
    ]
