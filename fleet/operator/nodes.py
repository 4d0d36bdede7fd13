"""Nodes on which the pods of a scheduler may run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from fleet.kube.resource import Resource
from fleet.model.views import MemberClusterSpec, Metadata, Toleration, View, find_untolerated

NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
_ONLY_PREFERRED: Final = "PreferNoSchedule"


class Node(View, frozen=True):
    metadata: Metadata = Metadata()
    spec: MemberClusterSpec = MemberClusterSpec()
    """Taints have the form that those of clusters have."""


def format_selector(topology: dict[str, Any]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((topology.get("nodeSelector") or {}).items()))


def count_tolerated(nodes: Iterable[Node], topology: dict[str, Any]) -> int:
    tolerations = msgspec.convert(topology.get("tolerations") or [], tuple[Toleration, ...])
    return sum(not find_untolerated(_list_binding(node), tolerations) for node in nodes)


def _list_binding(node: Node) -> Iterable[Any]:
    return (taint for taint in node.spec.taints if taint.effect != _ONLY_PREFERRED)
