"""The order of selected objects. It feeds the hash of a group, so it must stay as it is.

In which order members apply the objects is their own business.
"""

from __future__ import annotations

from typing import Final

_KINDS: Final = (
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
)
_RANKS: Final = {kind: rank for rank, kind in enumerate(_KINDS)}
_UNKNOWN: Final = len(_KINDS)

Place = tuple[int, str, str]


def place(*, api_version: str, kind: str, namespace: str, name: str) -> Place:
    """Sorts objects. Texts are compared as a whole, as they are written: `apps/v1` comes before `v1`."""
    rank = _RANKS.get(kind, _UNKNOWN)
    if rank < _UNKNOWN:
        return rank, api_version, f"{namespace}/{name}"
    group_and_version = api_version if "/" in api_version else f"/{api_version}"
    return rank, f"{group_and_version}, Kind={kind}", f"{namespace}/{name}"
