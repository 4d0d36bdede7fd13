"""Scopes of placements, cluster-scoped and namespaced: the same rules for two sets of kinds.

One key names a placement of either: `name`, or `namespace/name`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from fleet.kube.resource import Resource
from fleet.model.keys import (
    CLUSTER_GROUP,
    COMPANION_VERSION,
    PARENT_PLACEMENT,
    PLACEMENT_GROUP,
    SCHEDULING_GROUP,
    STORAGE_VERSION,
)
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Metadata


@dataclass(frozen=True, slots=True)
class PlacementScope:
    placement: Resource
    policy_snapshot: Resource
    resource_snapshot: Resource
    binding: Resource
    options: Resource
    approval: Resource
    quota: Resource
    group: Resource

    @property
    def namespaced(self) -> bool:
        return self.placement.namespaced

    @property
    def condition_prefix(self) -> str:
        """Of the types of a placement's own conditions."""
        return self.placement.kind


def _build_scope(*kinds: str, namespaced: bool) -> PlacementScope:
    # Not from the catalog: that brings pydantic, which a controller needs for nothing else.
    resources = [_build_resource(PLACEMENT_GROUP, kind, namespaced=namespaced) for kind in kinds]
    prefix = "" if namespaced else "Cluster"
    companions = ("PlacementOptions", "PlacementApproval", "PlacementQuota", "PlacementGroup")
    resources += [_build_companion(f"{prefix}{kind}", namespaced=namespaced) for kind in companions]
    return PlacementScope(*resources)


def _build_companion(kind: str, *, namespaced: bool) -> Resource:
    plural = f"{kind.lower().removesuffix('s')}s"
    return Resource(SCHEDULING_GROUP, COMPANION_VERSION, plural, kind, namespaced=namespaced)


def _build_resource(group: str, kind: str, *, namespaced: bool) -> Resource:
    return Resource(group, STORAGE_VERSION, f"{kind.lower()}s", kind, namespaced=namespaced)


CLUSTER_SCOPED: Final = _build_scope(
    "ClusterResourcePlacement",
    "ClusterSchedulingPolicySnapshot",
    "ClusterResourceSnapshot",
    "ClusterResourceBinding",
    namespaced=False,
)
NAMESPACED: Final = _build_scope(
    "ResourcePlacement", "SchedulingPolicySnapshot", "ResourceSnapshot", "ResourceBinding", namespaced=True
)
MEMBER_CLUSTERS: Final = _build_resource(CLUSTER_GROUP, "MemberCluster", namespaced=False)
DISRUPTION_BUDGETS: Final = _build_resource(
    PLACEMENT_GROUP, "ClusterResourcePlacementDisruptionBudget", namespaced=False
)
RESERVATIONS: Final = _build_companion("ClusterReservation", namespaced=False)
PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)


def find_scope(key: PlacementKey | str) -> PlacementScope:
    """Of a key or of its text."""
    known = PlacementKey.parse(key) if isinstance(key, str) else key
    return NAMESPACED if known.namespace else CLUSTER_SCOPED


def parse_key(text: str) -> tuple[str, str]:
    """Namespace, empty for a cluster-scoped placement, and name."""
    key = PlacementKey.parse(text)
    return key.namespace, key.name


def owner_key(metadata: Metadata) -> PlacementKey | None:
    """The key of the placement that a snapshot or a binding belongs to; None without a usable tracking label."""
    placement = metadata.label(PARENT_PLACEMENT)
    return _find_owner(metadata.namespace, placement) if placement else None


@lru_cache(maxsize=4_096)
def _find_owner(namespace: str, placement: str) -> PlacementKey | None:
    """Every event handler of a binding asks for its owner."""
    return None if "/" in placement else PlacementKey(namespace, placement)
