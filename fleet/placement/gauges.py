"""Gauges about the hub, computed from the caches at scrape time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from fleet.clock import Clock, epoch_nanoseconds
from fleet.informers.cache import Caches
from fleet.model.timestamps import SECOND
from fleet.placement.metrics import SnapshotTotals
from fleet.placement.snapshots.resource_snapshots import ResourceSnapshots
from fleet.snapshot.columns.signals import HEARTBEAT_KNOWN, signals_of

_NO_STATE: Final = ""


def count_bindings_by_state(caches: Caches) -> Mapping[str, int]:
    """Of both scopes; a binding without a state counts under the empty string."""
    bindings = (binding for kinds in caches.kinds for binding in kinds.bindings.store.values())
    return Counter(binding.view.spec.state or _NO_STATE for binding in bindings)


def total_snapshots_by_kind(caches: Caches, groups: ResourceSnapshots) -> Mapping[str, SnapshotTotals]:
    """Number and size of policy and resource snapshots; the size as the API server sends them."""
    return {kind: SnapshotTotals(len(sizes), sum(sizes)) for kind, sizes in _iter_snapshot_sizes(caches, groups)}


def _iter_snapshot_sizes(caches: Caches, groups: ResourceSnapshots) -> Iterator[tuple[str, list[int]]]:
    for kinds in caches.kinds:
        policies = kinds.policy_snapshots
        yield policies.resource.kind, [len(snapshot.raw) for snapshot in policies.store.values()]
    for resource, snapshots in groups.snapshots():
        yield resource.kind, [snapshot.size for snapshot in snapshots]


def compute_heartbeat_ages(caches: Caches, clock: Clock) -> Mapping[str, float]:
    """Seconds by cluster. A cluster without a heartbeat is left out."""
    now = epoch_nanoseconds(clock)
    seen = {cluster.metadata.name: signals_of(cluster) for cluster in caches.clusters.values()}
    return {
        name: (now - signals.last_seen) / SECOND for name, signals in seen.items() if signals.flags & HEARTBEAT_KNOWN
    }
