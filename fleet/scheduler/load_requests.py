"""The cpu that placements request, for the load that they will be on their clusters."""

from __future__ import annotations

from fleet.framework.policy.resource_requests import parse_needs
from fleet.informers.cache import Caches
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.companions import Companions


def find_cpu_request(caches: Caches, companions: Companions, key: PlacementKey) -> int | None:
    """In thousandths, on one cluster; None if it is not known."""
    kinds = caches.find_kinds(key)
    placement = None if kinds is None else kinds.get_placement(key)
    text = None if placement is None else companions.requests_of(placement.view.metadata)
    return parse_needs(text).fixed.get("cpu") if text else None
