"""Which changes make the placement controller look at a placement again.

A binding changes more often than what it reports, and what it reports changes for many clusters at once. So only
reports are compared, and what they cause is collected for a moment; people who wait for a status do not notice.
"""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from fleet.informers.cache import Caches
from fleet.kube.cache.store import Store
from fleet.kube.resource import key_of
from fleet.kube.scopes import owner_key
from fleet.kube.workqueue import WorkQueue
from fleet.model.decoding import decode
from fleet.model.views import Binding, BindingStatus, Condition, Metadata, Observed, Placement, PolicySnapshot, View
from fleet.placement.status.namespaced_status import StatusCopy

COLLECTING: Final = 0.2
"""Seconds."""


class DeletionHandler(Protocol):
    def __call__(self, namespace: str, name: str) -> None: ...


class _BindingReport(View, frozen=True):
    """Of a binding, what other controllers wrote into it."""

    status: BindingStatus = BindingStatus()


class PlacementEventHandlers:
    def __init__(self, queue: WorkQueue[str], *, on_gone: DeletionHandler) -> None:
        self._queue = queue
        self._on_gone = on_gone

    def subscribe(self, caches: Caches, copies: Store[StatusCopy]) -> None:
        """From now on; every placement that is there already comes up once."""
        for kinds in caches.kinds:
            kinds.placements.store.subscribe(self._placement)
            kinds.policy_snapshots.store.subscribe(self._snapshot)
            kinds.bindings.store.subscribe(self._binding)
        copies.subscribe(self._copy)

    def content(self, key: str) -> None:
        """What the placement selects may have changed."""
        self._queue.add_after(key, COLLECTING)

    def _placement(self, old: Observed[Placement] | None, new: Observed[Placement] | None) -> None:
        if new is None:
            if old is not None:
                self._on_gone(old.view.metadata.namespace, old.view.metadata.name)
        elif old is None or _asks(old.view.metadata) != _asks(new.view.metadata):
            self._queue.add(key_of(new.view.metadata))

    def _snapshot(self, old: Observed[PolicySnapshot] | None, new: Observed[PolicySnapshot] | None) -> None:
        for owner in {owner_key(state.view.metadata) for state in (old, new) if state is not None}:
            if owner is not None:
                self._queue.add(str(owner))

    def _binding(self, old: Observed[Binding] | None, new: Observed[Binding] | None) -> None:
        some = new or old
        owner = None if some is None else owner_key(some.view.metadata)
        if owner is not None and _report(old) != _report(new):
            self._queue.add_after(str(owner), COLLECTING)

    def _copy(self, old: StatusCopy | None, new: StatusCopy | None) -> None:
        if new is None and old is not None:
            self._queue.add(old.view.metadata.name)


def _asks(metadata: Metadata) -> tuple[object, ...]:
    return metadata.generation, metadata.deletion_timestamp, metadata.finalizers


def _report(binding: Observed[Binding] | None) -> BindingStatus:
    """What counts of it: nothing, once the binding is going."""
    if binding is None or binding.view.metadata.deletion_timestamp:
        return BindingStatus()
    status = decode(binding.raw, _BindingReport).view.status
    return msgspec.structs.replace(status, conditions=tuple(map(_without_time, status.conditions)))


def _without_time(condition: Condition) -> Condition:
    return msgspec.structs.replace(condition, last_transition_time=None)
