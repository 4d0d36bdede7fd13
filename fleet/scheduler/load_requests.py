"""Expected load: the cpu that a placement is expected to use as long as no measurement contains it, and by how much its
limits exceed its requests."""

from __future__ import annotations

from collections.abc import Mapping

from fleet.framework.policy.resource_requests import NOTHING, Needs, parse_needs
from fleet.framework.policy.workload_limits import LIMITED_RESOURCES, read_cpu_use
from fleet.informers.cache import Caches
from fleet.model.placement_key import PlacementKey
from fleet.model.views import MemberCluster, Metadata
from fleet.scheduler.companions import Companions
from fleet.scheduler.ledgers.room_ledger import needs_on
from fleet.snapshot.sidedata import CpuUse


def find_cpu_use(caches: Caches, companions: Companions, key: PlacementKey, cluster: str) -> CpuUse:
    kinds = caches.find_kinds(key)
    placement = None if kinds is None else kinds.get_placement(key)
    if placement is None:
        return CpuUse(unsized=1)
    return estimate_use(*_read_needs(companions, placement.view.metadata), caches.clusters.get(cluster))


def find_limit_excess(caches: Caches, companions: Companions, key: PlacementKey, cluster: str) -> Mapping[str, int]:
    """By how much the limits of a placement exceed its requests, by resource."""
    kinds = caches.find_kinds(key)
    placement = None if kinds is None else kinds.get_placement(key)
    if placement is None:
        return NOTHING
    return compute_excess(*_read_needs(companions, placement.view.metadata), caches.clusters.get(cluster))


def compute_excess(requests: Needs, limits: Needs, cluster: MemberCluster | None) -> Mapping[str, int]:
    if not any(limits):
        return NOTHING
    requested, limited = needs_on(requests, cluster), needs_on(limits, cluster)
    return {name: max(limited.get(name, 0) - requested.get(name, 0), 0) for name in LIMITED_RESOURCES}


def _read_needs(companions: Companions, placement: Metadata) -> tuple[Needs, Needs]:
    texts = companions.requests_of(placement), companions.limits_of(placement)
    return parse_needs(texts[0] or ""), parse_needs(texts[1] or "")


def estimate_use(requests: Needs, limits: Needs, cluster: MemberCluster | None) -> CpuUse:
    if any(limits):
        return read_cpu_use(needs_on(limits, cluster))
    request = requests.fixed.get("cpu")
    return CpuUse(unsized=1) if request is None else CpuUse(requested=((request, 1),))
