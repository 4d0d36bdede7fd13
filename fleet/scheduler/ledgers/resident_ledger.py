"""Resident ledger: the placements on each cluster, in groups of those that are alike to others.

A placement is on a cluster from the moment when an attempt reserves it there, then by its binding, until that is given
up or deleted. The ledger follows from the bindings and placements of the hub and from what attempts of this process
have reserved, so a new leader derives the same. It is empty as long as no profile reads it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Set
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

from fleet.framework.policy.placement_terms import build_group, is_named, list_repelling
from fleet.informers.cache import Caches, PlacementKinds
from fleet.kube.scopes import owner_key
from fleet.model.keys import AFFINITY, UNSCHEDULED
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Binding, Metadata, Observed, Placement, PlacementOptions
from fleet.snapshot.sidedata import NO_RESIDENTS, ResidentGroup, Residents

AnnotationsOf = Callable[[Metadata], dict[str, str]]
ResidentChanged = Callable[[ResidentGroup, PlacementKey, str, str], None]
"""Called with the group and the key of a placement, a cluster, and `Add` if it came there, `Delete` if it left."""


class _Terms(NamedTuple):
    """About placements of a namespace, as text."""

    namespace: str
    terms: str


class ResidentLedger:
    def __init__(
        self, caches: Caches, annotations_of: AnnotationsOf, *, on_change: ResidentChanged = lambda *_: None
    ) -> None:
        """Construct it before the caches are filled."""
        self._caches, self._annotations_of, self._on_change = caches, annotations_of, on_change
        self._is_kept = False
        self._bound: dict[PlacementKey, Counter[str]] = {}
        self._reserved: dict[PlacementKey, set[str]] = {}
        self._group_of: dict[PlacementKey, ResidentGroup] = {}
        self.naming: Final[dict[PlacementKey, _Terms]] = {}
        """Placements with terms of their own."""
        self._alike: dict[_Terms, set[PlacementKey]] = {}
        """The same, by their terms."""
        self._lock = threading.Lock()
        """Of what follows: frames are also built in threads of plugins."""
        self._by_group: dict[ResidentGroup, dict[str, frozenset[str]]] = {}
        self._shared: Residents | None = NO_RESIDENTS
        """What was read last; None if that has changed."""
        self._own: set[ResidentGroup] = set()
        """Groups whose clusters no reader has."""
        for kinds in caches.kinds:
            kinds.placements.store.subscribe(self._on_placement)
            kinds.options.store.subscribe(partial(self._on_options, kinds))
            kinds.bindings.store.subscribe(self._on_binding)

    def keep(self, *, is_wanted: bool) -> None:
        """Whether a profile reads it. What was reserved before that counts once it is bound."""
        if is_wanted == self._is_kept:
            return
        self._is_kept = is_wanted
        with self._lock:
            self._by_group, self._shared, self._own = {}, NO_RESIDENTS, set()
        for kept in (self._bound, self._reserved, self._group_of, self.naming, self._alike):
            kept.clear()
        for kinds in self._caches.kinds if is_wanted else ():
            for placement in kinds.placements.store.values():
                self._on_placement(None, placement)
            for binding in kinds.bindings.store.values():
                self._on_binding(None, binding)

    def read(self) -> Residents:
        """The residents of this moment: they do not change any more."""
        with self._lock:
            if self._shared is None:
                self._shared = dict(self._by_group)
                self._own.clear()
            return self._shared

    def select_concerned(self, keys: Set[PlacementKey], group: ResidentGroup) -> set[PlacementKey]:
        """Those to which placements of the group matter, by their terms or by its own."""
        if len(self._alike) < len(keys):
            named = [alike & keys for own, alike in self._alike.items() if _is_about(own, group)]
            concerned = set(chain.from_iterable(named))
        else:
            concerned = {key for key in keys if (own := self.naming.get(key)) is not None and _is_about(own, group)}
        if group.affinity:
            concerned.update(key for key in keys if self._is_repelled(key, group))
        return concerned

    def _is_repelled(self, key: PlacementKey, group: ResidentGroup) -> bool:
        return key.namespace == group.namespace and bool(list_repelling(group, self._find_group(key).labels))

    # --- what attempts reserve ----------------------------------------------------------------------------------------

    def reserve(self, key: PlacementKey, cluster: str) -> None:
        if self._is_kept and cluster not in self._bound.get(key, ()):
            self._reserved.setdefault(key, set()).add(cluster)
            self._settle(key, cluster)

    def release(self, key: PlacementKey, cluster: str) -> None:
        reserved = self._reserved.get(key)
        if reserved is not None:
            reserved.discard(cluster)
            if not reserved:
                del self._reserved[key]
            self._settle(key, cluster)
            self._forget_unused(key)

    def begin(self) -> None:
        """This process leads from now on. What an earlier leadership had reserved was bound, or will not be."""
        for key, clusters in list(self._reserved.items()):
            for cluster in list(clusters):
                self.release(key, cluster)

    # --- changes on the hub -------------------------------------------------------------------------------------------

    def _on_binding(self, old: Observed[Binding] | None, new: Observed[Binding] | None) -> None:
        before, after = _find_place(old), _find_place(new)
        if not self._is_kept or before == after:
            return
        if after is not None:
            key, cluster = after
            self._bound.setdefault(key, Counter())[cluster] += 1
            self._settle(key, cluster)
            self.release(key, cluster)  # the binding stands for it
        if before is not None:
            key, cluster = before
            bound = self._bound.get(key, Counter())
            bound[cluster] -= 1
            if bound[cluster] <= 0:
                del bound[cluster]
            if not bound:
                self._bound.pop(key, None)
            self._settle(key, cluster)
            self._forget_unused(key)

    def _on_placement(self, old: Observed[Placement] | None, new: Observed[Placement] | None) -> None:
        """One that is gone stays what it was until its bindings are gone, too."""
        if new is not None:
            self._regroup(new.view.metadata)
        elif old is not None:
            key = PlacementKey.of(old.view.metadata)
            self._note_terms(key, "")
            self._forget_unused(key)

    def _on_options(
        self, kinds: PlacementKinds, old: Observed[PlacementOptions] | None, new: Observed[PlacementOptions] | None
    ) -> None:
        known = old if new is None else new
        assert known is not None
        placement = kinds.get_placement(PlacementKey.of(known.view.metadata))
        if placement is not None:
            self._regroup(placement.view.metadata)

    def _regroup(self, metadata: Metadata) -> None:
        if not self._is_kept:
            return
        key, terms = PlacementKey.of(metadata), self._annotations_of(metadata).get(AFFINITY, "")
        group = build_group(metadata.namespace, metadata.labels, terms)
        self._note_terms(key, terms)
        before = self._find_group(key)
        if group == before:
            self._group_of[key] = before
            return
        clusters = self._list_clusters(key)
        for cluster in clusters:
            self._move(before, key, cluster, is_there=False)
        self._group_of[key] = group
        for cluster in clusters:
            self._move(group, key, cluster, is_there=True)

    def _note_terms(self, key: PlacementKey, terms: str) -> None:
        before, own = self.naming.get(key), _Terms(key.namespace, terms) if terms else None
        if own == before:
            return
        if before is not None:
            del self.naming[key]
            self._alike[before].discard(key)
            if not self._alike[before]:
                del self._alike[before]
        if own is not None:
            self.naming[key] = own
            self._alike.setdefault(own, set()).add(key)

    def _forget_unused(self, key: PlacementKey) -> None:
        if key in self._group_of and not self._list_clusters(key) and self._caches.placement(key) is None:
            del self._group_of[key]

    # --- groups -------------------------------------------------------------------------------------------------------

    def _find_group(self, key: PlacementKey) -> ResidentGroup:
        return self._group_of.get(key) or build_group(key.namespace, None, "")

    def _list_clusters(self, key: PlacementKey) -> Iterable[str]:
        return {*self._bound.get(key, ()), *self._reserved.get(key, ())}

    def _settle(self, key: PlacementKey, cluster: str) -> None:
        """After a change of what keeps the placement there."""
        is_there = cluster in self._bound.get(key, ()) or cluster in self._reserved.get(key, ())
        self._move(self._find_group(key), key, cluster, is_there=is_there)

    def _move(self, group: ResidentGroup, key: PlacementKey, cluster: str, *, is_there: bool) -> None:
        name = str(key)
        with self._lock:
            on = self._by_group.get(group, {})
            present = on.get(cluster, frozenset())
            if (name in present) == is_there:
                return
            if group not in self._own:
                on = self._by_group[group] = dict(on)
                self._own.add(group)
            present = present | {name} if is_there else present - {name}
            if present:
                on[cluster] = present
            else:
                del on[cluster]
            if not on:
                del self._by_group[group]
                self._own.discard(group)
            self._shared = None
        self._on_change(group, key, cluster, "Add" if is_there else "Delete")


def _is_about(own: _Terms, group: ResidentGroup) -> bool:
    return own.namespace == group.namespace and is_named(group, own.terms)


def _find_place(binding: Observed[Binding] | None) -> tuple[PlacementKey, str] | None:
    """The placement and the cluster of a binding that stays; None for one that is given up or being deleted."""
    if binding is None or binding.view.metadata.deletion_timestamp or binding.view.spec.state == UNSCHEDULED:
        return None
    key = owner_key(binding.view.metadata)
    return None if key is None else (key, binding.view.spec.target_cluster)
