"""The cpu that placements are expected to use on clusters, as long as no measurement contains it."""

from __future__ import annotations

from fleet.framework.policy.resource_requests import Needs, parse_needs
from fleet.framework.policy.workload_limits import read_cpu_use
from fleet.informers.cache import Caches
from fleet.model.placement_key import PlacementKey
from fleet.model.views import MemberCluster
from fleet.scheduler.companions import Companions
from fleet.scheduler.room_ledger import needs_on
from fleet.snapshot.sidedata import CpuUse


def find_cpu_use(caches: Caches, companions: Companions, key: PlacementKey, cluster: str) -> CpuUse:
    kinds = caches.find_kinds(key)
    placement = None if kinds is None else kinds.get_placement(key)
    if placement is None:
        return CpuUse(unsized=1)
    texts = companions.requests_of(placement.view.metadata), companions.limits_of(placement.view.metadata)
    requests, limits = (parse_needs(text or "") for text in texts)
    return estimate_use(requests, limits, caches.clusters.get(cluster))


def estimate_use(requests: Needs, limits: Needs, cluster: MemberCluster | None) -> CpuUse:
    if any(limits):
        return read_cpu_use(needs_on(limits, cluster))
    request = requests.fixed.get("cpu")
    return CpuUse(unsized=1) if request is None else CpuUse(requested=((request, 1),))
