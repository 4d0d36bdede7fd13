"""The JSON of answers about the whole fleet and about one cluster, limited to what the caller may read."""

from __future__ import annotations

from typing import Literal

from api.models import ApiModel, TaintModel


class TroubledPlacement(ApiModel, frozen=True, kw_only=True):
    """A placement that does not have what its policy requires, or is not available everywhere."""

    key: str
    type: str
    wanted: int | None
    """How many clusters; None for PickAll."""
    selected: int
    condition: str
    """The first condition that does not hold, such as Scheduled or Applied."""
    reason: str
    """The reason of that condition; empty while there is none."""
    why: str
    """In words: what rejects the clusters that are missing, or the message of the condition."""
    since: str | None


class TroubledCluster(ApiModel, frozen=True, kw_only=True):
    """A cluster that takes no new work, or only tolerated work."""

    name: str
    eligible: bool
    state: str
    """`silent`, `unhealthy`, `not joined`, `leaving` or `tainted`."""
    last_heartbeat: str | None
    taints: tuple[TaintModel, ...]
    placements: int
    """How many placements of those that the caller may list are there."""


class RecentMove(ApiModel, frozen=True, kw_only=True):
    """What one decision gave to a placement, and took from it."""

    at: str
    key: str
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    redacted: int
    """How many more clusters there are that the caller may not read."""
    triggers: tuple[str, ...]


class PlacementCounts(ApiModel, frozen=True, kw_only=True):
    total: int
    fulfilled: int
    short: int
    """The scheduler could not select all clusters that the policy requires."""
    undecided: int


class EligibilityCounts(ApiModel, frozen=True, kw_only=True):
    total: int
    eligible: int
    tainted: int
    redacted: int
    """How many more there are that the caller may not read."""


class FleetStatus(ApiModel, frozen=True, kw_only=True):
    """The fleet at a glance: what is in trouble, and what moved."""

    at: str
    placements: PlacementCounts
    trouble: tuple[TroubledPlacement, ...]
    """Those without clusters first, then by what is missing."""
    more_trouble: int
    """How many are left out."""
    clusters: EligibilityCounts
    troubled_clusters: tuple[TroubledCluster, ...]
    more_clusters: int
    moves_since: str | None
    """None where no history is kept, or where it cannot be read."""
    moves: tuple[RecentMove, ...]
    """The newest first."""
    more_moves: int


Presence = Literal["there", "leaving", "fits", "rejected", "not-named", "unknown"]


class PlacementOnCluster(ApiModel, frozen=True, kw_only=True):
    """One placement, as seen from a cluster."""

    key: str
    state: Presence
    """`there`: it has a binding for the cluster. `fits`: nothing rejects the cluster, others were chosen."""
    plugin: str
    """The first plugin that rejects the cluster; empty if none does."""
    why: str
    """What rejects the cluster. For a placement that is there: what would reject it as a newcomer."""


class ClusterPlacements(ApiModel, frozen=True, kw_only=True):
    cluster: str
    items: tuple[PlacementOnCluster, ...]
    """By placement."""
    next: str | None
