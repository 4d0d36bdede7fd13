"""The order of selected objects. It is part of the hash of a snapshot group, so it must not change.

Members apply the objects in an order of their own.
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

SortPosition = tuple[int, str, str]


def sort_position(*, api_version: str, kind: str, namespace: str, name: str) -> SortPosition:
    """Sort key of an object. Strings are compared as a whole: `apps/v1` sorts before `v1`."""
    rank = _RANKS.get(kind, _UNKNOWN)
    if rank < _UNKNOWN:
        return rank, api_version, f"{namespace}/{name}"
    group_and_version = api_version if "/" in api_version else f"/{api_version}"
    return rank, f"{group_and_version}, Kind={kind}", f"{namespace}/{name}"
