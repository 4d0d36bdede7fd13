"""A scheduler's triggers over stores that are fed by hand, and a queue that only writes down whom they wake."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from fleet.framework.profiles.profile import CompiledProfile
from fleet.informers.cache import Caches, PlacementKinds
from fleet.kube.cache.store import Store
from fleet.kube.informer import InformerConfig
from fleet.model.keys import IS_LATEST_SNAPSHOT, PARENT_PLACEMENT, SCHEDULED_CONDITION
from fleet.model.placement_key import PlacementKey
from fleet.model.timestamps import MINUTE
from fleet.model.views import (
    Binding,
    Condition,
    Metadata,
    Observed,
    Placement,
    PolicySnapshot,
    PolicySnapshotStatus,
    View,
)
from fleet.scheduler.cleanup import Orphans
from fleet.scheduler.events.cluster_hints import ClusterHints, Hint
from fleet.scheduler.events.event_handlers import EligibilityClock, EventHandlers
from fleet.scheduler.ledgers.room_ledger import RoomLedger
from fleet.scheduler.requests import RequestCache
from fleet.snapshot.columns.signals import Eligibility
from plugins.default_profile import compile_default
from tests.builders import ClusterBuilder, PolicyBuilder, a_policy, ago
from tests.fake_clock import FakeClock

V = TypeVar("V", bound=View)

PROFILE = compile_default()
RULE = Eligibility(heartbeat_timeout=5 * MINUTE, unhealthy_timeout=5 * MINUTE)


class NoApi:
    """Nothing is read or written: stores are fed by hand."""

    call: Any = None
    stream: Any = None


@dataclass
class Queue:
    added: list[tuple[str, str]] = field(default_factory=list)
    woken: list[tuple[list[str], str]] = field(default_factory=list)
    slow: list[bool] = field(default_factory=list)
    held: set[str] = field(default_factory=set)

    def __contains__(self, key: PlacementKey) -> bool:
        return str(key) in self.held

    def add(self, key: PlacementKey, *, trigger: str) -> None:
        self.added.append((str(key), trigger))

    def requeue(self, keys: Iterable[PlacementKey], *, trigger: str, batched: bool = False) -> None:
        self.woken.append((sorted(map(str, keys)), trigger))
        self.slow.append(batched)

    @property
    def keys(self) -> list[str]:
        """Of everybody that anything has woken."""
        return [*(key for key, _ in self.added), *(key for keys, _ in self.woken for key in keys)]


class World:
    def __init__(
        self,
        *,
        batched: bool = False,
        namespaced: bool = True,
        hinted: bool = False,
        profile: CompiledProfile = PROFILE,
        hint_of_quota: Callable[[PlacementKey], Hint | None] = lambda _: None,
    ) -> None:
        """With `hinted`, events wake only those whose decision they can alter."""
        self.clock = FakeClock()
        access = InformerConfig(reads=NoApi(), writes=NoApi(), clock=self.clock, jitter=lambda: 0.0)
        self.caches = Caches(access, namespaced_placements=namespaced)
        self.queue = Queue()
        hints = ClusterHints(
            self.caches,
            profile_of=lambda _: profile,
            requests=RequestCache(),
            clock=self.clock,
            hint_of_quota=hint_of_quota,
        )
        self.orphans = Orphans(self.clock)
        self.released: list[str] = []
        self.told: list[tuple[str, int]] = []
        self.handlers = EventHandlers(
            self.caches,
            self.queue,
            sources_of=lambda _: profile.event_sources,
            hints=hints if hinted else None,
            eligibility=EligibilityClock(lambda: (RULE.of,), self.clock),
            room=RoomLedger(self.caches, lambda _: None, book=lambda *_: None),
            release=self._release,
            orphans=self.orphans,
            clock=self.clock,
            on_event=lambda source, woken, _: self.told.append((source, woken)),
            batched=batched,
        )
        self._version = 0

    def _release(self, kinds: PlacementKinds, binding: Observed[Binding]) -> None:
        self.released.append(f"{kinds.scope.binding.kind} {binding.view.metadata.name}")

    def start(self) -> World:
        """Forgets whom that has woken."""
        self.handlers.start()
        self.queue.added.clear()
        self.released.clear()
        return self

    def saw(self, *seen: ClusterBuilder | Placement | PolicySnapshot | Binding) -> World:
        for one in seen:
            if isinstance(one, ClusterBuilder):
                self.caches.clusters.apply_event(self._newer(one.build()))
            else:
                self._store_of(one).apply_event(observed(self._newer(one)))
        return self

    def gone(self, store: Store[Any], key: str) -> None:
        self._version += 1
        store.apply_delete_event(key, uid="", version=str(self._version))

    def _store_of(self, view: Placement | PolicySnapshot | Binding) -> Store[Any]:
        kinds = self.caches.kinds[1 if view.metadata.namespace else 0]
        match view:
            case Placement():
                return kinds.placements.store
            case PolicySnapshot():
                return kinds.policy_snapshots.store
            case Binding():
                return kinds.bindings.store

    def _newer(self, view: V) -> V:
        self._version += 1
        return with_metadata(view, resource_version=str(self._version))


def observed(view: V) -> Observed[V]:
    return Observed(view, msgspec.json.encode(view))


def with_metadata(view: V, **changes: Any) -> V:
    return msgspec.structs.replace(view, metadata=msgspec.structs.replace(view.metadata, **changes))  # type: ignore[attr-defined]


# --- objects ----------------------------------------------------------------------------------------------------------


def a_placement(*finalizers: str, name: str = "web", namespace: str = "") -> Placement:
    return Placement(metadata=Metadata(name=name, namespace=namespace, finalizers=finalizers))


def a_snapshot(policy: PolicyBuilder | None = None, *, of: str = "web", index: int = 0) -> PolicySnapshot:
    """The latest of its placement; nothing has been decided yet."""
    view = (policy or a_policy()).snapshot()
    labels = {PARENT_PLACEMENT: of, IS_LATEST_SNAPSHOT: "true"}
    return with_metadata(view, name=f"{of}-{index}", labels=labels)


def labelled_latest(snapshot: PolicySnapshot, text: str | None) -> PolicySnapshot:
    labels = {key: value for key, value in (snapshot.metadata.labels or {}).items() if key != IS_LATEST_SNAPSHOT}
    return with_metadata(snapshot, labels=labels if text is None else {**labels, IS_LATEST_SNAPSHOT: text})


def annotated(snapshot: PolicySnapshot, annotation: str, text: str) -> PolicySnapshot:
    return with_metadata(snapshot, annotations={**(snapshot.metadata.annotations or {}), annotation: text})


def satisfied(snapshot: PolicySnapshot) -> PolicySnapshot:
    condition = Condition(SCHEDULED_CONDITION, "True", observed_generation=1)
    return msgspec.structs.replace(snapshot, status=PolicySnapshotStatus(1, (condition,)))


def leaving(view: V) -> V:
    return with_metadata(view, deletion_timestamp=ago(1))
