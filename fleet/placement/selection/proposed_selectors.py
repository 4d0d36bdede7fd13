"""Problems of resource selectors that show without a hub: for simulations.

The controller's own rules, over the scopes of the kinds that Kubernetes has. Any other kind counts as one of the
placement's scope, and every named namespace as existing, because only the hub knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fleet.framework.request import SELECTORS_FIELD, PolicyProblem
from fleet.kube.resource import Resource
from fleet.model.decoding import decode
from fleet.placement.selection.candidates import AnyObject, CandidateObject, ObjectMetadata
from fleet.placement.selection.discovery import KindName
from fleet.placement.selection.resolution import select
from fleet.placement.selection.resource_filter import ResourceFilter
from fleet.placement.selection.selectors import SelectorTerm

_NAMESPACED: Final[Mapping[str, frozenset[str]]] = {
    "": frozenset(
        {
            "ConfigMap",
            "Endpoints",
            "LimitRange",
            "PersistentVolumeClaim",
            "PodTemplate",
            "ReplicationController",
            "ResourceQuota",
            "Secret",
            "Service",
            "ServiceAccount",
        }
    ),
    "apps": frozenset({"ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"}),
    "autoscaling": frozenset({"HorizontalPodAutoscaler"}),
    "batch": frozenset({"CronJob", "Job"}),
    "discovery.k8s.io": frozenset({"EndpointSlice"}),
    "networking.k8s.io": frozenset({"Ingress", "NetworkPolicy"}),
    "policy": frozenset({"PodDisruptionBudget"}),
    "rbac.authorization.k8s.io": frozenset({"Role", "RoleBinding"}),
}
_CLUSTER_SCOPED: Final[Mapping[str, frozenset[str]]] = {
    "": frozenset({"Namespace", "PersistentVolume"}),
    "admissionregistration.k8s.io": frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}),
    "apiextensions.k8s.io": frozenset({"CustomResourceDefinition"}),
    "apiregistration.k8s.io": frozenset({"APIService"}),
    "networking.k8s.io": frozenset({"IngressClass"}),
    "rbac.authorization.k8s.io": frozenset({"ClusterRole", "ClusterRoleBinding"}),
    "scheduling.k8s.io": frozenset({"PriorityClass"}),
    "storage.k8s.io": frozenset({"CSIDriver", "StorageClass"}),
}
_NAMESPACE: Final = b'{"metadata": {}}'


def find_proposed_problems(
    spec: Mapping[str, Any], *, namespace: str, resource_filter: ResourceFilter
) -> tuple[PolicyProblem, ...]:
    """Of the spec of a valid placement. `namespace` is empty for a cluster-scoped one. At most one: it names all."""
    given = spec.get("resourceSelectors") or ()
    terms = [decode(msgspec.json.encode(term), SelectorTerm).view for term in given]
    result = select(terms, namespace=namespace, source=_AssumedKinds(namespace), resource_filter=resource_filter)
    if result.user_error is None:
        return ()
    return (PolicyProblem(SELECTORS_FIELD, [str(term) for term in terms], result.user_error),)


class _AssumedKinds:
    """An `ObjectLister` of kinds without objects, in which every namespace exists."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def find(self, name: KindName) -> Resource:
        namespaced = bool(self._namespace)
        if name.kind in _NAMESPACED.get(name.group, ()) or name.kind in _CLUSTER_SCOPED.get(name.group, ()):
            namespaced = name.kind in _NAMESPACED.get(name.group, ())
        return Resource(name.group, name.version, name.kind.lower(), name.kind, namespaced=namespaced)

    def is_known(self, name: KindName) -> bool:
        del name
        return True

    def list_namespaced(self) -> Sequence[Resource]:
        return ()

    def all_of(self, resource: Resource) -> Iterable[CandidateObject]:
        del resource
        return ()

    def within(self, resource: Resource, namespace: str) -> Iterable[CandidateObject]:
        del resource, namespace
        return ()

    def get(self, resource: Resource, key: str) -> CandidateObject | None:
        is_namespace = (resource.group, resource.kind) == ("", "Namespace")
        return (
            CandidateObject(resource, AnyObject(metadata=ObjectMetadata(name=key)), _NAMESPACE)
            if is_namespace
            else None
        )

    def has_service(self, key: str) -> bool:
        del key
        return False
