"""Placed limits: by how much the limits of the placements on each cluster exceed what they request.

Members report what is requested on their clusters, and no limits. What is not placed by the fleet counts as limited to
its requests.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from fleet.kube.scopes import owner_key
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Binding, Observed, Placement, PlacementOptions, PolicySnapshot

if TYPE_CHECKING:
    from fleet.informers.cache import PlacementKinds

Named = TypeVar("Named", Placement, PlacementOptions)
Outer = TypeVar("Outer")
Inner = TypeVar("Inner")
ExcessOf = Callable[[PlacementKey, str], Mapping[str, int]]


class PlacedLimits:
    def __init__(
        self, all_kinds: Iterable[PlacementKinds], *, is_read: Callable[[], bool], excess_of: ExcessOf
    ) -> None:
        """`excess_of` returns it by resource, in whole units, for a placement on a cluster."""
        self._is_read, self._excess_of = is_read, excess_of
        self._lock = threading.Lock()
        self._on: dict[str, Counter[PlacementKey]] = {}
        """By cluster, the bindings of each placement."""
        self._clusters: dict[PlacementKey, Counter[str]] = {}
        self._changed: set[str] = set()
        """Clusters to sum up anew."""
        self._sums: dict[str, Mapping[str, int]] = {}
        self._is_stale = True
        for kinds in all_kinds:
            kinds.bindings.store.subscribe(self._update)
            kinds.policy_snapshots.store.subscribe(self._note_snapshot)
            kinds.placements.store.subscribe(self._note)
            kinds.options.store.subscribe(self._note)

    def note_report(self, cluster: str) -> None:
        """Labels and nodes may be others, by which limits are."""
        with self._lock:
            if cluster in self._on:
                self._changed.add(cluster)

    def note_joined(self, cluster: str) -> None:
        """Its sums are returned again, even if they are those of before it left."""
        with self._lock:
            self._is_stale |= cluster in self._on

    def sum_up(self) -> dict[str, dict[str, float]] | None:
        """By resource and cluster; None if it is as it was at the last call."""
        with self._lock:
            if not self._is_read() or not (self._changed or self._is_stale):
                return None
            changed, self._changed = self._changed, set()
            before = dict(self._sums)
            for cluster in changed:
                self._sums[cluster] = self._sum_cluster(cluster)
            if before == self._sums and not self._is_stale:
                return None
            self._is_stale = False
            return build_columns(self._sums)

    def _sum_cluster(self, cluster: str) -> Mapping[str, int]:
        return sum_excess(self._excess_of(key, cluster) for key in self._on.get(cluster, ()))

    def _note_snapshot(self, old: Observed[PolicySnapshot] | None, new: Observed[PolicySnapshot] | None) -> None:
        observed = new or old
        key = None if observed is None else owner_key(observed.view.metadata)
        if key is not None:
            self._note_key(key)

    def _note(self, old: Observed[Named] | None, new: Observed[Named] | None) -> None:
        observed = new or old
        if observed is not None:
            self._note_key(PlacementKey.of(observed.view.metadata))

    def _note_key(self, key: PlacementKey) -> None:
        with self._lock:
            self._changed.update(self._clusters.get(key, ()))

    def _update(self, old: Observed[Binding] | None, new: Observed[Binding] | None) -> None:
        with self._lock:
            for observed, change in ((old, -1), (new, 1)):
                key = None if observed is None else owner_key(observed.view.metadata)
                if observed is not None and key is not None:
                    cluster = observed.view.spec.target_cluster
                    _count(self._on, cluster, key, change)
                    _count(self._clusters, key, cluster, change)
                    self._changed.add(cluster)


def _count(index: dict[Outer, Counter[Inner]], outer: Outer, inner: Inner, change: int) -> None:
    counts = index.setdefault(outer, Counter())
    counts[inner] += change
    if counts[inner] <= 0:
        del counts[inner]
    if not counts:
        del index[outer]


def sum_excess(parts: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return total


def build_columns(sums: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, float]]:
    """Of the feed of placed limits."""
    columns: dict[str, dict[str, float]] = {}
    for cluster, amounts in sums.items():
        for resource, amount in amounts.items():
            columns.setdefault(resource, {})[cluster] = float(amount)
    return columns
