"""Policy snapshots that do not exist yet, as the placement controller would create them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fleet.errors import DocumentError
from fleet.kube.scopes import CLUSTER_SCOPED, NAMESPACED
from fleet.model.documents import read_document
from fleet.model.keys import (
    IS_LATEST_SNAPSHOT,
    NUMBER_OF_CLUSTERS,
    PARENT_PLACEMENT,
    PICK_N,
    PLACEMENT_GENERATION,
    POLICY_INDEX,
)
from fleet.model.views import Metadata, Observed, Placement, PlacementPolicy, PolicySnapshot, PolicySnapshotSpec

_SCOPES: Final = {scope.placement.kind: scope for scope in (CLUSTER_SCOPED, NAMESPACED)}


def parse_identity(document: Mapping[str, Any]) -> tuple[str, str]:
    """Namespace and name of a placement's document, before the rest is validated."""
    kind, metadata = document.get("kind"), document.get("metadata")
    if not isinstance(kind, str) or kind not in _SCOPES:
        message = f"should be a placement, of kind {' or '.join(_SCOPES)}"
        raise DocumentError(message, field="placement.kind", value=kind)
    metadata = metadata if isinstance(metadata, dict) else {}
    name, namespace = metadata.get("name"), metadata.get("namespace") or ""
    if not isinstance(name, str) or not name:
        raise DocumentError("the placement needs a name", field="placement.metadata.name", value=name)
    namespaced = _SCOPES[kind].namespaced
    if not isinstance(namespace, str) or bool(namespace) is not namespaced:
        expected = "needs a namespace" if namespaced else "has no namespace"
        raise DocumentError(f"a {kind} {expected}", field="placement.metadata.namespace", value=namespace)
    return namespace, name


def build_proposed_snapshot(document: Mapping[str, Any]) -> PolicySnapshot:
    """Raises DocumentError with everything that is wrong, by the rules of the placement's kind."""
    placement = read_document(document)
    metadata, spec = placement.metadata, placement.spec  # type: ignore[attr-defined]  # placements have one
    policy = None
    if spec.policy is not None:
        fields = spec.policy.model_dump(mode="json", by_alias=True, exclude_none=True)
        policy = msgspec.convert(fields, PlacementPolicy)
    return _build_snapshot(metadata.namespace or "", metadata.name, metadata.generation or 1, policy)


def build_first_snapshot(placement: Observed[Placement]) -> PolicySnapshot:
    """For a placement that has no snapshot yet."""
    metadata = placement.view.metadata
    policy = msgspec.json.decode(placement.view.spec, type=_Spec).policy
    return _build_snapshot(metadata.namespace, metadata.name, metadata.generation, policy)


class _Spec(msgspec.Struct):
    policy: PlacementPolicy | None = None


def _build_snapshot(namespace: str, name: str, generation: int, policy: PlacementPolicy | None) -> PolicySnapshot:
    annotations = {PLACEMENT_GENERATION: str(generation)}
    if policy is not None and policy.placement_type == PICK_N and policy.number_of_clusters is not None:
        annotations[NUMBER_OF_CLUSTERS] = str(policy.number_of_clusters)
    labels = {PARENT_PLACEMENT: name, IS_LATEST_SNAPSHOT: "true", POLICY_INDEX: "0"}
    metadata = Metadata(name=f"{name}-0", namespace=namespace, generation=1, labels=labels, annotations=annotations)
    return PolicySnapshot(metadata=metadata, spec=PolicySnapshotSpec(policy=policy))
