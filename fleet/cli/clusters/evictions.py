"""Evictions of all placements from one cluster, in KubeFleet's form: created, reused where they are open, and awaited.

KubeFleet's hub agent executes them, within disruption budgets. It knows no eviction of namespaced placements.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fleet.cli.client.hub_objects import list_documents
from fleet.errors import NotFound
from fleet.kube.api import WRITE_CLASS, Api, Method, Request
from fleet.kube.resource import Resource, join_key
from fleet.kube.scopes import CLUSTER_SCOPED, NAMESPACED
from fleet.model.keys import PARENT_PLACEMENT, PICK_FIXED, PLACEMENT_GROUP, STORAGE_VERSION

Json = dict[str, Any]

EVICTIONS: Final = Resource(
    PLACEMENT_GROUP,
    STORAGE_VERSION,
    "clusterresourceplacementevictions",
    "ClusterResourcePlacementEviction",
    namespaced=False,
)
_POLL_INTERVAL: Final = 1.0
_LONGEST_NAME: Final = 253
_SUFFIX: Final = 4
"""Random bytes in the name of an eviction."""
_GONE: Final = (
    "Failed to find ClusterResourcePlacement targeted by eviction",
    "Found deleting ClusterResourcePlacement targeted by eviction",
    "Failed to find scheduler decision for placement in cluster targeted by eviction",
)
"""Messages of invalid evictions that leave nothing behind on the cluster."""


@dataclass(frozen=True, slots=True)
class ClusterContent:
    """What is on a cluster, by how it can be taken off."""

    evictable: list[str] = field(default_factory=list)
    """ClusterResourcePlacements."""
    fixed: list[str] = field(default_factory=list)
    """ClusterResourcePlacements that name the cluster: KubeFleet evicts none of them."""
    namespaced: list[str] = field(default_factory=list)
    """ResourcePlacements: there is no eviction for them."""

    @property
    def remaining(self) -> list[str]:
        return [*self.fixed, *self.namespaced]


@dataclass(frozen=True, slots=True)
class EvictionResult:
    placement: str
    is_gone: bool
    message: str


async def load_content(api: Api, cluster: str) -> ClusterContent:
    content = ClusterContent()
    on_cluster = {
        _placement_of(item) for item in await list_documents(api, CLUSTER_SCOPED.binding) if _is_on(item, cluster)
    }
    types = {item["metadata"]["name"]: _get_type(item) for item in await list_documents(api, CLUSTER_SCOPED.placement)}
    for name in sorted(on_cluster):
        (content.fixed if types.get(name) == PICK_FIXED else content.evictable).append(name)
    try:
        namespaced = await list_documents(api, NAMESPACED.binding)
    except NotFound:
        namespaced = []  # a hub without ResourcePlacements
    content.namespaced.extend(sorted({_placement_of(item) for item in namespaced if _is_on(item, cluster)}))
    return content


async def evict_all(
    api: Api, cluster: str, placements: Sequence[str], *, poll_interval: float = _POLL_INTERVAL
) -> AsyncIterator[EvictionResult]:
    """Results as they come. Evictions of an earlier, interrupted drain are awaited instead of repeated."""
    waiting = await _begin(api, cluster, placements)
    while waiting:
        present = {item["metadata"]["name"]: item for item in await list_documents(api, EVICTIONS)}
        for name, placement in list(waiting.items()):
            result = _read_result(present.get(name), placement)
            if result is not None:
                del waiting[name]
                yield result
        if waiting:
            await asyncio.sleep(poll_interval)


async def _begin(api: Api, cluster: str, placements: Sequence[str]) -> dict[str, str]:
    """Placements by the names of their evictions."""
    open_ones = {
        item["spec"].get("placementName"): item["metadata"]["name"]
        for item in await list_documents(api, EVICTIONS)
        if item["spec"].get("clusterName") == cluster and _read_result(item, "") is None
    }
    waiting = {}
    for placement in placements:
        name = open_ones.get(placement)
        waiting[name or await _create(api, cluster, placement)] = placement
    return waiting


async def _create(api: Api, cluster: str, placement: str) -> str:
    suffix = f"-{secrets.token_hex(_SUFFIX)}"
    name = f"drain-eviction-{placement}-{cluster}"[: _LONGEST_NAME - len(suffix)].rstrip(".-") + suffix
    document = {
        "apiVersion": EVICTIONS.api_version,
        "kind": EVICTIONS.kind,
        "metadata": {"name": name},
        "spec": {"placementName": placement, "clusterName": cluster},
    }
    body = json.dumps(document).encode()
    await api.call(Request(Method.POST, EVICTIONS.collection(), body=body, call_class=WRITE_CLASS))
    return name


def _read_result(eviction: Json | None, placement: str) -> EvictionResult | None:
    """None while it is not finished. As in KubeFleet, only an eviction that was executed, or has nothing to evict,
    leaves the cluster empty."""
    if eviction is None:
        return EvictionResult(placement, is_gone=False, message="its eviction was deleted")
    valid, executed = (_find_condition(eviction, kind) for kind in ("Valid", "Executed"))
    if valid.get("status") == "False":
        message = str(valid.get("message", ""))
        return EvictionResult(placement, is_gone=message in _GONE, message=message or "the eviction is invalid")
    if not executed:
        return None
    is_executed = executed.get("status") == "True" and valid.get("status") == "True"
    return EvictionResult(placement, is_gone=is_executed, message=str(executed.get("message", "")))


def _find_condition(eviction: Json, kind: str) -> Json:
    """Of the present generation; empty without one."""
    generation = eviction["metadata"].get("generation")
    conditions = (eviction.get("status") or {}).get("conditions") or ()
    return next(
        (
            condition
            for condition in conditions
            if condition.get("type") == kind and condition.get("observedGeneration", generation) == generation
        ),
        {},
    )


def _is_on(binding: Json, cluster: str) -> bool:
    return binding["spec"].get("targetCluster") == cluster and not binding["metadata"].get("deletionTimestamp")


def _placement_of(binding: Json) -> str:
    metadata = binding["metadata"]
    return join_key(metadata.get("namespace", ""), (metadata.get("labels") or {}).get(PARENT_PLACEMENT, ""))


def _get_type(placement: Json) -> str:
    return str(((placement.get("spec") or {}).get("policy") or {}).get("placementType", ""))
