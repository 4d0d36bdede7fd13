"""The objects that install the operator in a namespace, and grant its scheduler what it needs. Pure.

`fleet operator manifests` prints them. The chart has them as files/operator.yaml, with placeholders for its values.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import yaml

from fleet.kube.resource import split_key
from fleet.model.catalog import CATALOG
from fleet.model.crd_generator import PlainDumper, build_crd
from fleet.model.keys import OPERATOR_GROUP
from fleet.operator.operands import NAME as SCHEDULER
from fleet.operator.operands import OWNERS
from fleet.operator.pods import build_address_settings, build_metrics_service, build_pod
from fleet.operator.prerequisites import DEFAULT_LEASE

Json = dict[str, Any]
Rule = tuple[str, ...]
"""API group, resources and verbs separated by spaces, and the name of the only object, if there is one."""

OPERATOR: Final = "fleet-operator"
NAMESPACE: Final = "NAMESPACE"
IMAGE: Final = "IMAGE"
"""Placeholders of the chart's file."""

_READ: Final = "get list watch"
_WRITE: Final = f"{_READ} create patch delete"
_LABELS: Final = {"app.kubernetes.io/name": OPERATOR}

_GROUPS: Final = tuple(owner.group for owner in OWNERS)

OPERATOR_RULES: Final[tuple[Rule, ...]] = (
    *((group, "secondaryschedulers secondaryschedulers/status", "patch") for group in _GROUPS),
    # Objects name the resource as the owner that waits for them, which OwnerReferencesPermissionEnforcement restricts.
    *((group, "secondaryschedulers/finalizers", "update") for group in _GROUPS),
    ("", "pods", "list"),
    ("", "configmaps services serviceaccounts", _WRITE),
    ("apps", "deployments", _WRITE),
    ("coordination.k8s.io", "leases", f"{_READ} create update"),
    ("", "events", "create patch"),
)
HUB_RULES: Final[tuple[Rule, ...]] = (
    ("", "nodes", "list"),
    *((group, "secondaryschedulers", _READ) for group in _GROUPS),
    ("coordination.k8s.io", "leases", _READ, split_key(DEFAULT_LEASE)[1]),
    ("config.openshift.io", "apiservers", "get", "cluster"),
)
LEASE_RULES: Final[tuple[Rule, ...]] = (("coordination.k8s.io", "leases", "get watch create update"),)
SCHEDULER_RULES: Final[tuple[Rule, ...]] = (
    ("cluster.kubernetes-fleet.io", "memberclusters", "list watch"),
    ("placement.kubernetes-fleet.io", "clusterresourceplacements resourceplacements", f"{_READ} update"),
    ("placement.kubernetes-fleet.io", "clusterresourcebindings resourcebindings", _WRITE),
    ("placement.kubernetes-fleet.io", "clusterschedulingpolicysnapshots schedulingpolicysnapshots", _READ),
    (
        "placement.kubernetes-fleet.io",
        "clusterschedulingpolicysnapshots/status schedulingpolicysnapshots/status",
        "update",
    ),
    ("scheduling.fleet.dev", "placementoptions clusterplacementoptions", f"{_READ} create"),
    ("scheduling.fleet.dev", "placementoptions/status clusterplacementoptions/status", "update"),
    ("scheduling.fleet.dev", "placementapprovals clusterplacementapprovals", "list watch delete"),
    ("scheduling.fleet.dev", "placementquotas clusterplacementquotas", _READ),
    ("scheduling.fleet.dev", "placementquotas/status clusterplacementquotas/status", "update"),
    ("scheduling.fleet.dev", "placementgroups clusterplacementgroups", _READ),
    ("scheduling.fleet.dev", "placementgroups/status clusterplacementgroups/status", "update"),
    ("scheduling.fleet.dev", "clusterreservations", "get list watch create update delete"),
    ("placement.kubernetes-fleet.io", "clusterresourceplacementdisruptionbudgets", "list watch"),
    ("scheduling.k8s.io", "priorityclasses", "list watch"),
    ("", "events", "create patch"),
)


def build_manifests(namespace: str, image: str, *, group: str = OPERATOR_GROUP) -> list[Json]:
    """With the definition of the resource under that group, and the namespace, in the order in which they are
    applied."""
    definitions = [build_crd(replace(kind, group=group)) for kind in CATALOG if kind.group == OPERATOR_GROUP]
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    return [*definitions, space, *build_installation(namespace, image)]


def build_installation(namespace: str, image: str) -> list[Json]:
    """Cluster-wide objects have the namespace in their name: each namespace has an operator of its own."""
    wide = f"{SCHEDULER}-{namespace}"
    account: Json = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _name(OPERATOR, namespace),
        "automountServiceAccountToken": False,
    }
    service: Json = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _name(OPERATOR, namespace),
        "spec": build_metrics_service(_LABELS),
    }
    return [
        account,
        *_grant(OPERATOR, OPERATOR, namespace, OPERATOR_RULES),
        *_grant(f"{OPERATOR}-{namespace}", OPERATOR, namespace, HUB_RULES, is_wide=True),
        *_grant(wide, SCHEDULER, namespace, SCHEDULER_RULES, is_wide=True),
        *_grant(f"{SCHEDULER}-leases", SCHEDULER, namespace, LEASE_RULES),
        service,
        _build_deployment(namespace, image),
    ]


def _grant(name: str, account: str, namespace: str, rules: Iterable[Rule], *, is_wide: bool = False) -> Iterator[Json]:
    kind = "ClusterRole" if is_wide else "Role"
    metadata = _name(name, None if is_wide else namespace)
    group = "rbac.authorization.k8s.io"
    yield {
        "apiVersion": f"{group}/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": [
            {"apiGroups": [api], "resources": resources.split(), "verbs": verbs.split()}
            | ({"resourceNames": names} if names else {})
            for api, resources, verbs, *names in rules
        ],
    }
    yield {
        "apiVersion": f"{group}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }


def _build_deployment(namespace: str, image: str) -> Json:
    arguments = ["operator", "run", f"--namespace={namespace}", *build_address_settings()]
    pod = build_pod(OPERATOR, image, arguments, name="operator", cpu="50m", memory="96Mi")
    pod["securityContext"] |= {"runAsUser": 65532, "runAsGroup": 65532}
    pod["containers"][0]["resources"]["limits"]["memory"] = "256Mi"
    template = {"metadata": {"labels": _LABELS}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _name(OPERATOR, namespace),
        "spec": {"replicas": 1, "selector": {"matchLabels": _LABELS}, "template": template},
    }


def _name(name: str, namespace: str | None) -> Json:
    metadata: Json = {"name": name, "labels": _LABELS}
    return metadata if namespace is None else {**metadata, "namespace": namespace}


def format_manifests(documents: Iterable[Json]) -> str:
    text: str = yaml.dump_all(documents, Dumper=PlainDumper, sort_keys=False, allow_unicode=True, width=120)
    return text


def main(target: Path) -> None:
    target.write_text(format_manifests(build_installation(NAMESPACE, IMAGE)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
