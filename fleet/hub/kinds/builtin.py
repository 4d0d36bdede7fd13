"""The closed list of built-in kinds: what users place, what controllers need beside it, and nothing more."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from fleet.hub.kinds.kind import Kind, PrinterColumn

NAMESPACES: Final = "namespaces"
DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
AGE: Final = PrinterColumn("Age", ".metadata.creationTimestamp", "date")

_STATUS: Final = ("status",)
_SCALED: Final = ("status", "scale")
_ALL: Final = ("all",)


def _ready(name: str, have: str, want: str) -> PrinterColumn:
    """Two numbers as `have/want`; the table knows the notation."""
    return PrinterColumn(name, f"{have}/{want}")


_APPS: Final = partial(
    Kind, "apps", "v1", namespaced=True, categories=_ALL, subresources=_STATUS, counts_generations=True
)
_BATCH: Final = partial(Kind, "batch", "v1", namespaced=True, categories=_ALL, subresources=_STATUS)
_CORE: Final = partial(Kind, "", "v1", namespaced=True)
_RBAC: Final = partial(Kind, "rbac.authorization.k8s.io", "v1", names_are_paths=True)

_EVENT_LABELS: Final = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)
_EVENT_COLUMNS: Final = (
    PrinterColumn("Last Seen", ".lastTimestamp|.eventTime|.firstTimestamp", "date"),
    PrinterColumn("Type", ".type"),
    PrinterColumn("Reason", ".reason"),
    PrinterColumn("Object", "{.involvedObject.kind}/{.involvedObject.name}"),
    PrinterColumn("Message", ".message"),
)

KINDS: Final[tuple[Kind, ...]] = (
    _CORE(
        "Namespace",
        "namespaces",
        namespaced=False,
        short_names=("ns",),
        subresources=("status", "finalize"),
        columns=(PrinterColumn("Status", ".status.phase"), AGE),
        field_labels=("status.phase",),
    ),
    _CORE(
        "ConfigMap",
        "configmaps",
        short_names=("cm",),
        columns=(PrinterColumn("Data", "#data,binaryData", "string"), AGE),
    ),
    _CORE(
        "Secret",
        "secrets",
        columns=(PrinterColumn("Type", ".type"), PrinterColumn("Data", "#data", "integer"), AGE),
        field_labels=("type",),
    ),
    _CORE(
        "Service",
        "services",
        short_names=("svc",),
        categories=_ALL,
        subresources=_STATUS,
        columns=(PrinterColumn("Type", ".spec.type"), PrinterColumn("Cluster-IP", ".spec.clusterIP"), AGE),
        field_labels=("spec.clusterIP", "spec.type"),
    ),
    _CORE(
        "ServiceAccount",
        "serviceaccounts",
        short_names=("sa",),
        columns=(PrinterColumn("Secrets", "#secrets", "integer"), AGE),
    ),
    _CORE("Event", "events", short_names=("ev",), columns=_EVENT_COLUMNS, field_labels=_EVENT_LABELS),
    Kind(
        "events.k8s.io",
        "v1",
        "Event",
        "events",
        namespaced=True,
        short_names=("ev",),
        columns=_EVENT_COLUMNS,
        field_labels=("reason", "type", "regarding.kind", "regarding.name", "regarding.namespace", "regarding.uid"),
    ),
    _CORE(
        "LimitRange", "limitranges", short_names=("limits",), columns=(PrinterColumn("Created At", AGE.path, "date"),)
    ),
    _CORE("ResourceQuota", "resourcequotas", short_names=("quota",), subresources=_STATUS),
    _CORE(
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        short_names=("pvc",),
        subresources=_STATUS,
        columns=(
            PrinterColumn("Status", ".status.phase"),
            PrinterColumn("Volume", ".spec.volumeName"),
            PrinterColumn("StorageClass", ".spec.storageClassName"),
            AGE,
        ),
    ),
    _APPS(
        "Deployment",
        "deployments",
        subresources=_SCALED,
        short_names=("deploy",),
        columns=(
            _ready("Ready", ".status.readyReplicas", ".spec.replicas"),
            PrinterColumn("Up-to-date", ".status.updatedReplicas", "integer"),
            PrinterColumn("Available", ".status.availableReplicas", "integer"),
            AGE,
            PrinterColumn("Containers", ".spec.template.spec.containers[*].name", priority=1),
            PrinterColumn("Images", ".spec.template.spec.containers[*].image", priority=1),
            PrinterColumn("Selector", "=.spec.selector.matchLabels", priority=1),
        ),
    ),
    _APPS(
        "StatefulSet",
        "statefulsets",
        subresources=_SCALED,
        short_names=("sts",),
        columns=(_ready("Ready", ".status.readyReplicas", ".spec.replicas"), AGE),
    ),
    _APPS(
        "DaemonSet",
        "daemonsets",
        short_names=("ds",),
        columns=(
            PrinterColumn("Desired", ".status.desiredNumberScheduled", "integer"),
            PrinterColumn("Ready", ".status.numberReady", "integer"),
            AGE,
        ),
    ),
    _APPS(
        "ReplicaSet",
        "replicasets",
        subresources=_SCALED,
        short_names=("rs",),
        columns=(
            PrinterColumn("Desired", ".spec.replicas", "integer"),
            PrinterColumn("Ready", ".status.readyReplicas", "integer"),
            AGE,
        ),
    ),
    _BATCH(
        "Job",
        "jobs",
        counts_generations=True,
        columns=(_ready("Completions", ".status.succeeded", ".spec.completions"), AGE),
    ),
    _BATCH(
        "CronJob",
        "cronjobs",
        short_names=("cj",),
        counts_generations=True,
        columns=(
            PrinterColumn("Schedule", ".spec.schedule"),
            PrinterColumn("Suspend", ".spec.suspend", "boolean"),
            AGE,
        ),
    ),
    Kind(
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        namespaced=True,
        short_names=("hpa",),
        categories=_ALL,
        subresources=_STATUS,
        columns=(
            PrinterColumn("Reference", "{.spec.scaleTargetRef.kind}/{.spec.scaleTargetRef.name}"),
            PrinterColumn("MinPods", ".spec.minReplicas"),
            PrinterColumn("MaxPods", ".spec.maxReplicas"),
            AGE,
        ),
    ),
    Kind(
        "networking.k8s.io",
        "v1",
        "Ingress",
        "ingresses",
        namespaced=True,
        short_names=("ing",),
        subresources=_STATUS,
        counts_generations=True,
        columns=(PrinterColumn("Class", ".spec.ingressClassName"), PrinterColumn("Hosts", ".spec.rules[*].host"), AGE),
    ),
    Kind(
        "networking.k8s.io",
        "v1",
        "NetworkPolicy",
        "networkpolicies",
        namespaced=True,
        short_names=("netpol",),
        counts_generations=True,
    ),
    Kind(
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        namespaced=True,
        short_names=("pdb",),
        subresources=_STATUS,
        counts_generations=True,
        columns=(
            PrinterColumn("Min Available", ".spec.minAvailable"),
            PrinterColumn("Max Unavailable", ".spec.maxUnavailable"),
            AGE,
        ),
    ),
    Kind(
        "scheduling.k8s.io",
        "v1",
        "PriorityClass",
        "priorityclasses",
        namespaced=False,
        short_names=("pc",),
        counts_generations=True,
        columns=(
            PrinterColumn("Value", ".value", "integer"),
            PrinterColumn("Global-Default", ".globalDefault", "boolean"),
            AGE,
        ),
    ),
    Kind(
        "storage.k8s.io",
        "v1",
        "StorageClass",
        "storageclasses",
        namespaced=False,
        short_names=("sc",),
        columns=(PrinterColumn("Provisioner", ".provisioner"), PrinterColumn("ReclaimPolicy", ".reclaimPolicy"), AGE),
    ),
    Kind(
        "coordination.k8s.io",
        "v1",
        "Lease",
        "leases",
        namespaced=True,
        columns=(PrinterColumn("Holder", ".spec.holderIdentity"), AGE),
    ),
    _RBAC("ClusterRole", "clusterroles", namespaced=False, columns=(PrinterColumn("Created At", AGE.path, "date"),)),
    _RBAC(
        "ClusterRoleBinding",
        "clusterrolebindings",
        namespaced=False,
        columns=(PrinterColumn("Role", "{.roleRef.kind}/{.roleRef.name}"), AGE),
    ),
    _RBAC("Role", "roles", namespaced=True, columns=(PrinterColumn("Created At", AGE.path, "date"),)),
    _RBAC(
        "RoleBinding",
        "rolebindings",
        namespaced=True,
        columns=(PrinterColumn("Role", "{.roleRef.kind}/{.roleRef.name}"), AGE),
    ),
    Kind(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        subresources=_STATUS,
        counts_generations=True,
        columns=(PrinterColumn("Created At", AGE.path, "date"),),
    ),
)

# Kinds that only answer a question: created, never kept.
_REVIEW: Final = partial(Kind, verbs=("create",))
REVIEWS: Final[tuple[Kind, ...]] = (
    _REVIEW("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False),
    _REVIEW("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", namespaced=False),
    _REVIEW("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False),
    _REVIEW("authorization.k8s.io", "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", namespaced=True),
    _REVIEW("authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False),
    _REVIEW("authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", namespaced=False),
)

SCALE: Final = Kind("autoscaling", "v1", "Scale", "scales", namespaced=True)

# Every kind that a definition describes with these two lives without a version: one form for both event APIs.
_EVENT_FIELDS: Final = {
    "regarding": "involvedObject",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "reportingController": "reportingComponent",
}
_NEW_EVENT_FIELDS: Final = {old: new for new, old in _EVENT_FIELDS.items()}


def event_to_core(document: dict[str, Any]) -> dict[str, Any]:
    """The newer event API in the words of the older, which is the stored form."""
    renamed = {_EVENT_FIELDS.get(key, key): value for key, value in document.items()}
    return renamed | {"apiVersion": "v1"}


def event_from_core(document: dict[str, Any]) -> dict[str, Any]:
    renamed = {_NEW_EVENT_FIELDS.get(key, key): value for key, value in document.items()}
    return renamed | {"apiVersion": "events.k8s.io/v1"}
