"""Figures about the hub that nobody keeps: counted from the caches when somebody asks for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from fleet.clock import Clock, epoch_nanoseconds
from fleet.informers.cache import Caches
from fleet.model.timestamps import SECOND
from fleet.placement.metrics import Tally
from fleet.placement.snapshots.resource_snapshots import ResourceGroups
from fleet.snapshot.columns.signals import HEARTBEAT_KNOWN, signals_of

_NO_STATE: Final = ""


def bindings_by_state(caches: Caches) -> Mapping[str, int]:
    """Of both flavours; a binding without a state counts under an empty one."""
    bindings = (one for kinds in caches.kinds for one in kinds.bindings.store.values())
    return Counter(one.view.spec.state or _NO_STATE for one in bindings)


def snapshots_by_kind(caches: Caches, groups: ResourceGroups) -> Mapping[str, Tally]:
    """Of policies and of resources: how many, and their size as the API server sends them."""
    return {kind: Tally(len(sizes), sum(sizes)) for kind, sizes in _snapshot_sizes(caches, groups)}


def _snapshot_sizes(caches: Caches, groups: ResourceGroups) -> Iterator[tuple[str, list[int]]]:
    for kinds in caches.kinds:
        policies = kinds.policy_snapshots
        yield policies.resource.kind, [len(one.raw) for one in policies.store.values()]
    for resource, snapshots in groups.snapshots():
        yield resource.kind, [one.size for one in snapshots]


def heartbeat_ages(caches: Caches, clock: Clock) -> Mapping[str, float]:
    """Seconds by cluster. A cluster that was never heard of has no age."""
    now = epoch_nanoseconds(clock)
    seen = {one.metadata.name: signals_of(one) for one in caches.clusters.values()}
    return {name: (now - one.last_seen) / SECOND for name, one in seen.items() if one.flags & HEARTBEAT_KNOWN}
