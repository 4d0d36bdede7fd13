"""What wakes whom: from changes of the watched objects to keys in the queue.

Every change is handled at once and in memory, so none can be lost on the way. Until `start_up` nothing is woken: a
standby only keeps its index of interests up to date. What counts as a change of a cluster is decided in `changes`, who
cares in `interests`, what waking means in the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Set
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Protocol

import structlog

from fleet.clock import Clock
from fleet.informers.cache import Caches, Kinds
from fleet.kube.resource import Resource, key_of
from fleet.kube.scopes import MEMBER_CLUSTERS, owner_key
from fleet.model.keys import (
    IS_LATEST_SNAPSHOT,
    NUMBER_OF_CLUSTERS,
    PLACEMENT_GENERATION,
    SCHEDULER_BINDING_CLEANUP,
    SCHEDULER_CLEANUP,
)
from fleet.model.views import Binding, MemberCluster, Metadata, Observed, Placement, PolicySnapshot
from fleet.scheduler.cleanup import is_as_created
from fleet.scheduler.events.cluster_diff import changes_between
from fleet.scheduler.events.eligibility_clock import Judging
from fleet.scheduler.events.interest_index import InterestIndex, is_short

START_UP: Final = "StartUp"
CLOCK_SET_BACK: Final = "ClockSetBack"
_TRUE: Final = frozenset(("1", "t", "T", "TRUE", "true", "True"))

log = structlog.get_logger(__name__)


class Wakened(Protocol):
    """The queue, as far as it is needed here."""

    def __contains__(self, key: str) -> bool: ...

    def add(self, key: str, *, trigger: str) -> None: ...

    def wake(self, keys: Iterable[str], *, trigger: str, slow: bool = False) -> None: ...


Release = Callable[[Kinds, Observed[Binding]], None]
"""Takes our finalizer off a binding that is being deleted, then wakes its placement. Returns at once, retries alone."""

OnTrigger = Callable[[str, int, float], None]
"""Told which kind of object changed in a way that counts, how many placements that woke, and how many seconds it took
to find that out and wake them."""


class Triggers:
    def __init__(
        self,
        caches: Caches,
        queue: Wakened,
        *,
        judging: Judging,
        release: Release,
        clock: Clock,
        on_trigger: OnTrigger = lambda *_: None,
        batched: bool = False,
    ) -> None:
        """With `batched`, changes of clusters go to the queue's slow lane."""
        self._caches = caches
        self._queue = queue
        self._judging = judging
        self._release = release
        self._clock = clock
        self._on_trigger = on_trigger
        self._heard_at = 0.0
        self._batched = batched
        self._interests = InterestIndex()
        self._in_work: dict[str, set[str]] = {}
        """Placements, and the bindings that have appeared since their attempts began."""
        self._started = False
        caches.clusters.subscribe(self._cluster_changed)
        for kinds in caches.kinds:
            kinds.placements.store.subscribe(partial(self._placement_changed, kinds))
            kinds.policy_snapshots.store.subscribe(partial(self._snapshot_changed, kinds))
            kinds.bindings.store.subscribe(partial(self._binding_changed, kinds))

    def start_up(self) -> None:
        """Once, when everything is synced and this process leads: all that may have been left undone is taken up."""
        self._started = True
        for kinds in self._caches.kinds:
            for binding in kinds.bindings.store.values():
                if _is_leaving(binding.view.metadata, SCHEDULER_BINDING_CLEANUP):
                    self._release(kinds, binding)
            for key in self._keys_to_start_with(kinds):
                self._queue.add(key, trigger=START_UP)

    def _keys_to_start_with(self, kinds: Kinds) -> Iterable[str]:
        snapshots = kinds.policy_snapshots.store.values()
        owners = dict.fromkeys(owner_key(one.view.metadata) for one in snapshots)
        yield from (key for key in owners if key is not None and self._caches.latest_snapshots(key))
        yield from self._owners_that_are_gone(kinds)
        for placement in kinds.placements.store.values():
            if _is_leaving(placement.view.metadata, SCHEDULER_CLEANUP):
                yield key_of(placement.view.metadata)

    def _owners_that_are_gone(self, kinds: Kinds) -> Iterable[str]:
        """As far as the cache knows."""
        bindings = (one.view for one in kinds.bindings.store.values())
        owners = dict.fromkeys(owner_key(one.metadata) for one in bindings if is_as_created(one))
        return (key for key in owners if key is not None and key not in kinds.placements.store)

    @contextmanager
    def deciding(self, key: str) -> Iterator[Set[str]]:
        """While a placement is being decided it is as interested as one that lacks clusters: it may turn out to.

        Yields the names of the bindings that appear meanwhile. Only the attempt can tell which of them are its own.
        """
        self._judging.decides()
        self._interests.deciding(key)
        appeared = self._in_work[key] = set()
        try:
            yield appeared
        finally:
            del self._in_work[key]
            self._interests.decided(key)

    def in_work(self) -> Set[str]:
        """Placements that are being decided."""
        return self._in_work.keys()

    # --- clusters -----------------------------------------------------------------------------------------------------

    def _cluster_changed(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        if not self._started:
            return
        self._heard_at = self._clock.elapsed()
        self._heed_set_clock()
        change = changes_between(old, new, eligible=self._judging.now)
        if change:
            self._wake_affected(self._interests.affected(change), trigger=str(change))

    def _heed_set_clock(self) -> None:
        """Looked at with every report: they come all the time, and nobody tells us that a clock was set."""
        regained = [one.metadata.name for one in self._judging.regained(self._caches.clusters.values())]
        if regained:
            log.warning("the clock was set back: clusters that looked silent are not", clusters=len(regained))
            keys = self._interests.affected_by_eligible(regained)
            self._wake_affected(keys, trigger=f"{MEMBER_CLUSTERS.kind}/{CLOCK_SET_BACK}")

    def _wake_affected(self, keys: Collection[str], *, trigger: str) -> None:
        if keys:
            self._queue.wake(keys, trigger=trigger, slow=self._batched)
        self._tell(MEMBER_CLUSTERS, len(keys))

    # --- placements ---------------------------------------------------------------------------------------------------

    def _placement_changed(
        self, kinds: Kinds, old: Observed[Placement] | None, new: Observed[Placement] | None
    ) -> None:
        self._heard_at = self._clock.elapsed()
        key = _key_of_either(old, new)
        if old is None or new is None:
            self._index(kinds, key)
        if not self._started:
            return
        if new is not None and _starts_leaving(old, new, SCHEDULER_CLEANUP):
            self._wake(key, kinds.flavour.placement, "Terminating", new.view.metadata)
        elif old is not None and new is None and (key in self._queue or self._leaves_bindings(key)):
            self._wake(key, kinds.flavour.placement, "Delete", old.view.metadata)  # finds out that there is nothing

    def _leaves_bindings(self, key: str) -> bool:
        return any(is_as_created(one.view) for one in self._caches.bindings(key))

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def _snapshot_changed(
        self, kinds: Kinds, old: Observed[PolicySnapshot] | None, new: Observed[PolicySnapshot] | None
    ) -> None:
        self._heard_at = self._clock.elapsed()
        for owner in {owner_key(one.view.metadata) for one in (old, new) if one is not None} - {None}:
            assert owner is not None
            self._index(kinds, owner)
        if not self._started or new is None:
            return
        event = snapshot_event(None if old is None else old.view, new.view)
        if event is not None:
            self._wake_owner(kinds.flavour.policy_snapshot, event, new.view.metadata)

    def _index(self, kinds: Kinds, key: str) -> None:
        """None or several latest snapshots: what the placement reads will be known when one of them changes."""
        latest = self._caches.latest_snapshots(key)
        if len(latest) == 1:
            self._interests.put(key, latest[0].view, short=is_short(latest[0].view))
        elif latest or key in kinds.placements.store:
            self._interests.put(key, None, short=True)
        else:
            self._interests.forget(key)

    # --- bindings -----------------------------------------------------------------------------------------------------

    def _binding_changed(self, kinds: Kinds, old: Observed[Binding] | None, new: Observed[Binding] | None) -> None:
        if not self._started:
            return
        self._heard_at = self._clock.elapsed()
        if new is not None and _starts_leaving(old, new, SCHEDULER_BINDING_CLEANUP):
            self._release(kinds, new)
            self._tell(kinds.flavour.binding, 1)
        elif old is not None and new is None and _left_unseen(old):
            self._wake_owner(kinds.flavour.binding, "Delete", old.view.metadata)
        elif old is None and new is not None:
            self._binding_appeared(kinds, new.view.metadata)

    def _binding_appeared(self, kinds: Kinds, metadata: Metadata) -> None:
        """Where no attempt made it, it is a create that everybody had given up on, and may be one too many."""
        appeared = self._in_work.get(owner_key(metadata) or "")
        if appeared is None:
            self._wake_owner(kinds.flavour.binding, "Add", metadata)
        else:
            appeared.add(metadata.name)

    # --- waking -------------------------------------------------------------------------------------------------------

    def _wake_owner(self, resource: Resource, event: str, metadata: Metadata) -> None:
        owner = owner_key(metadata)
        if owner is None:
            log.warning(
                "the object has no tracking label, so no placement is woken", kind=resource.kind, name=key_of(metadata)
            )
            self._tell(resource, 0)
        else:
            self._wake(owner, resource, event, metadata)

    def _wake(self, key: str, resource: Resource, event: str, metadata: Metadata) -> None:
        self._queue.add(key, trigger=f"{resource.kind}/{event} {metadata.name}")
        self._tell(resource, 1)

    def _tell(self, resource: Resource, woken: int) -> None:
        self._on_trigger(resource.kind, woken, self._clock.elapsed() - self._heard_at)


def snapshot_event(old: PolicySnapshot | None, new: PolicySnapshot) -> str | None:
    """What about a snapshot asks for a decision. Its status never does."""
    if new.metadata.deletion_timestamp or not _is_true(new.metadata.label(IS_LATEST_SNAPSHOT)):
        return None
    if old is None:
        return "Add"
    if old.metadata.annotation(NUMBER_OF_CLUSTERS) != new.metadata.annotation(NUMBER_OF_CLUSTERS):
        return "UpdateCount"
    if old.metadata.annotation(PLACEMENT_GENERATION) != new.metadata.annotation(PLACEMENT_GENERATION):
        return "UpdateGeneration"
    return None if _is_true(old.metadata.label(IS_LATEST_SNAPSHOT)) else "UpdateLatest"


def _is_true(label: str | None) -> bool:
    return label in _TRUE


def _is_leaving(metadata: Metadata, finalizer: str) -> bool:
    return metadata.deletion_timestamp is not None and finalizer in metadata.finalizers


def _starts_leaving(old: Observed[Any] | None, new: Observed[Any], finalizer: str) -> bool:
    """Also where the object was not known before: its time among the living may have passed between two watches."""
    return _is_leaving(new.view.metadata, finalizer) and (old is None or old.view.metadata.deletion_timestamp is None)


def _left_unseen(binding: Observed[Binding]) -> bool:
    """Gone with our finalizer on it: somebody else took that off, and the watch missed the last moments."""
    metadata = binding.view.metadata
    return metadata.deletion_timestamp is None and SCHEDULER_BINDING_CLEANUP in metadata.finalizers


def _key_of_either(old: Observed[Any] | None, new: Observed[Any] | None) -> str:
    one = old if new is None else new
    assert one is not None
    return key_of(one.view.metadata)
