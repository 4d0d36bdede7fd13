"""Event handlers: enqueue the placements that a change of a watched object may affect.

A binding changes more often than its reported status, and that changes for many clusters at once. So only the reported
status is compared, and events are collected for a moment before the placement is enqueued.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from fleet.informers.cache import Caches
from fleet.kube.cache.store import Store
from fleet.kube.resource import key_of
from fleet.kube.scopes import owner_key
from fleet.kube.workqueue import WorkQueue
from fleet.model.decoding import decode
from fleet.model.keys import SCHEDULER_NAME
from fleet.model.views import (
    Binding,
    BindingStatus,
    Condition,
    Metadata,
    Observed,
    Placement,
    PlacementOptions,
    PolicySnapshot,
    View,
)
from fleet.placement.status.namespaced_status import StatusCopy

COLLECTING: Final = 0.2
"""Seconds."""


class DeletionHandler(Protocol):
    def __call__(self, namespace: str, name: str) -> None: ...


class _BindingReport(View, frozen=True):
    """The part of a binding that other controllers write."""

    status: BindingStatus = BindingStatus()


class PlacementEventHandlers:
    def __init__(self, queue: WorkQueue[str], *, on_gone: DeletionHandler, on_vanished: Callable[[str], None]) -> None:
        """`on_vanished` gets the keys of placements that were gone before they were terminating."""
        self._queue = queue
        self._on_gone = on_gone
        self._on_vanished = on_vanished

    def subscribe(self, caches: Caches, copies: Store[StatusCopy]) -> None:
        """Registers the handlers; every existing placement is enqueued once."""
        for kinds in caches.kinds:
            kinds.placements.store.subscribe(self._on_placement)
            kinds.policy_snapshots.store.subscribe(self._on_policy_snapshot)
            kinds.bindings.store.subscribe(self._on_binding)
            kinds.options.store.subscribe(self._on_options)
        copies.subscribe(self._on_status_copy)

    def enqueue_soon(self, key: str) -> None:
        """Enqueues a placement whose selected objects may have changed, after collecting further events."""
        self._queue.add_after(key, COLLECTING)

    def _on_placement(self, old: Observed[Placement] | None, new: Observed[Placement] | None) -> None:
        if new is None:
            if old is not None:
                self._handle_deletion(old.view.metadata)
        elif old is None or _spec_version(old.view.metadata) != _spec_version(new.view.metadata):
            self._queue.add(key_of(new.view.metadata))

    def _handle_deletion(self, gone: Metadata) -> None:
        self._on_gone(gone.namespace, gone.name)
        if not gone.deletion_timestamp:
            self._on_vanished(key_of(gone))

    def _on_policy_snapshot(self, old: Observed[PolicySnapshot] | None, new: Observed[PolicySnapshot] | None) -> None:
        for owner in {owner_key(state.view.metadata) for state in (old, new) if state is not None}:
            if owner is not None:
                self._queue.add(str(owner))

    def _on_binding(self, old: Observed[Binding] | None, new: Observed[Binding] | None) -> None:
        current = new or old
        owner = None if current is None else owner_key(current.view.metadata)
        if owner is not None and _read_reported_status(old) != _read_reported_status(new):
            self._queue.add_after(str(owner), COLLECTING)

    def _on_options(self, old: Observed[PlacementOptions] | None, new: Observed[PlacementOptions] | None) -> None:
        """Some profiles read more of a placement than others."""
        current = new or old
        if current is not None and _read_scheduler_name(old) != _read_scheduler_name(new):
            self._queue.add(key_of(current.view.metadata))

    def _on_status_copy(self, old: StatusCopy | None, new: StatusCopy | None) -> None:
        if new is None and old is not None:
            self._queue.add(old.view.metadata.name)


def _spec_version(metadata: Metadata) -> tuple[object, ...]:
    scheduler_name = metadata.annotation(SCHEDULER_NAME)
    return metadata.generation, metadata.deletion_timestamp, metadata.finalizers, scheduler_name


def _read_scheduler_name(options: Observed[PlacementOptions] | None) -> str:
    return "" if options is None else options.view.spec.scheduler_name


def _read_reported_status(binding: Observed[Binding] | None) -> BindingStatus:
    """Empty for a missing or terminating binding."""
    if binding is None or binding.view.metadata.deletion_timestamp:
        return BindingStatus()
    status = decode(binding.raw, _BindingReport).view.status
    return msgspec.structs.replace(status, conditions=tuple(map(_without_time, status.conditions)))


def _without_time(condition: Condition) -> Condition:
    return msgspec.structs.replace(condition, last_transition_time=None)
