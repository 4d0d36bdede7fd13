"""The present state of the hub: watched objects, the columns and framework of decisions, and the scheduling queue.

In `fleet up` all of it belongs to the controller. `fleet api` has its own informers, with the same settings, and writes
nothing but the answers of its callers to placements that wait.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, Self

from prometheus_client import CollectorRegistry

from api.http.problems import not_found, unavailable
from api.live.placement_status import find_selector_problems
from api.live.proposed_snapshots import build_first_snapshot, build_proposed_snapshot, read_proposed_metadata
from fleet.clock import Clock, epoch_nanoseconds
from fleet.errors import InvalidKey, NotLeading
from fleet.explain.whatif.scenario import Scenario
from fleet.external.feed_collector import FeedCollector
from fleet.framework.approvals import ApprovalFacts
from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.policy.quotas import Quotas
from fleet.framework.policy.size import has_more_parts
from fleet.framework.request import PlacementRequest
from fleet.framework.runtime.framework import with_snapshot_lister
from fleet.informers.cache import Caches, FleetTable, PlacementKinds
from fleet.informers.placed_feeds import PlacedLimits, RecentPlacements
from fleet.kube.api import Api, WriteGate
from fleet.kube.backoff import Jitter
from fleet.kube.cache.store import adds_or_deletes
from fleet.kube.informer import InformerConfig
from fleet.model.keys import UNSCHEDULED
from fleet.model.placement_key import PlacementKey
from fleet.model.views import (
    ApprovalRule,
    Binding,
    MemberCluster,
    Metadata,
    Observed,
    Placement,
    PlacementOptions,
    PolicySnapshot,
)
from fleet.placement.selection.proposed_selectors import find_proposed_problems
from fleet.placement.selection.resource_filter import EVERYTHING, ResourceFilter, build_resource_filter
from fleet.scheduler.companions import Companions, list_approval_rules, read_approval_facts, refuse_unusable
from fleet.scheduler.ledgers.resident_ledger import ResidentLedger
from fleet.scheduler.ledgers.room_ledger import RoomLedger
from fleet.scheduler.load_requests import find_cpu_use, find_limit_excess
from fleet.scheduler.preemption.disruption_budgets import DisruptionBudgets, read_wanted
from fleet.scheduler.priority_classes import PriorityClasses
from fleet.scheduler.profiles.frameworks import Frameworks, build_configured_frameworks
from fleet.scheduler.queue.item import QueueCounts, QueueItem
from fleet.scheduler.quotas.quota_ledger import QuotaLedger
from fleet.scheduler.requests import RequestCache
from fleet.scheduler.telemetry.metrics import new_registry
from fleet.settings import Settings
from fleet.snapshot.frame import Frame, QuestionFrames

_MOST_DEPARTURES: Final = 1000
_LISTED_AT_ONCE: Final = 100
_BYTES_OF_A_PART: Final = 32


class LiveBudget(NamedTuple):
    """A disruption budget, and what it allows now."""

    rule: str
    disruptions: int


class QueueReader(Protocol):
    """The scheduling queue, as far as answers describe it."""

    def peek(self, key: PlacementKey) -> QueueItem | None: ...

    def count_active(self) -> int: ...

    def count_items(self) -> QueueCounts: ...


@dataclass(frozen=True, slots=True)
class LivePlacement:
    """A placement with its latest policy snapshot, if there is one, and its bindings."""

    key: str
    placement: Observed[Placement]
    snapshot: Observed[PolicySnapshot] | None
    bindings: tuple[Binding, ...]
    options: Observed[PlacementOptions] | None = None
    quotas: Quotas = ()
    """Read with the others: threads must not ask the ledger."""

    @property
    def has_decision(self) -> bool:
        return self.snapshot is not None and bool(self.snapshot.view.status.conditions)

    @property
    def version(self) -> bytes:
        """A digest of the versions of all these objects, with the uid of the placement."""
        own = self.placement.view.metadata
        snapshot = "" if self.snapshot is None else self.snapshot.view.metadata.resource_version
        options = "" if self.options is None else self.options.view.metadata.resource_version
        versions = (
            own.uid,
            own.resource_version,
            snapshot,
            options,
            *(each.metadata.resource_version for each in self.bindings),
        )
        return hashlib.blake2b(" ".join(versions).encode(), digest_size=16).digest()

    def is_larger(self, parts: int) -> bool:
        """Whether its policy has more parts; by its length as long as there is no snapshot."""
        if self.snapshot is None:
            return memoryview(self.placement.view.spec).nbytes > parts * _BYTES_OF_A_PART
        return has_more_parts(self.snapshot.view.spec.policy, parts)

    def list_live_bindings(self) -> list[Binding]:
        """Without those that are given up or being deleted."""
        return [
            binding
            for binding in self.bindings
            if binding.metadata.deletion_timestamp is None and binding.spec.state != UNSCHEDULED
        ]

    def without_bindings(self) -> LivePlacement:
        return replace(self, bindings=())


class LiveState:
    def __init__(
        self,
        caches: Caches,
        frameworks: Frameworks,
        frame: Callable[[], Frame],
        *,
        clock: Clock,
        registry: CollectorRegistry,
        queue: QueueReader | None = None,
        hub: Api | None = None,
        feeds: FeedCollector | None = None,
        resource_filter: ResourceFilter = EVERYTHING,
        writes: Api | None = None,
        residents: ResidentLedger | None = None,
        annotations_of: Callable[[Metadata], Mapping[str, str]] | None = None,
        classes: PriorityClasses | None = None,
    ) -> None:
        """`hub` is for what is not watched, such as events; `writes` for the answers of callers; `residents` and
        `classes` where no scheduler of this process keeps them."""
        self.caches = caches
        self.frameworks = frameworks
        self._frames = QuestionFrames(frame)
        self.clock = clock
        self.registry = registry
        self.queue = queue
        self.hub = hub
        self.feeds = feeds
        self._resource_filter = resource_filter
        self._writes = writes
        self._residents, self._classes = residents, classes
        self.companions = Companions(caches)
        self._requests = RequestCache(
            self.companions.scheduler_name_of, annotations_of or self._read_annotations, frameworks.reads_labels
        )
        self._quotas = QuotaLedger(caches, self.companions.requests_of)
        self._budgets = DisruptionBudgets(caches.disruption_budgets, lambda _: None)
        self.note_profiles()
        self._departures: dict[str, int] = {}
        caches.clusters.subscribe(self._note_departure, when=adds_or_deletes)
        self._is_synced = False
        for kinds in caches.kinds:
            kinds.placements.store.subscribe(self._forget_deleted)

    @classmethod
    def standalone(cls, api: Api, settings: Settings, *, clock: Clock, jitter: Jitter) -> Self:
        """With its own informers: run `caches`. The write gate stays closed, so that only answers can be written."""
        gate = WriteGate(api, clock=clock)
        config = InformerConfig(reads=api, writes=gate, clock=clock, jitter=jitter)
        caches = Caches(
            config,
            namespaced_placements=settings.resource_placements.enabled,
            cluster_selector=settings.capacity.cluster_selector,
        )
        companions = Companions(caches)
        stores = [kinds.bindings.store for kinds in caches.kinds]
        recent = RecentPlacements(
            stores,
            loads_of=lambda: frameworks.list_loads(),
            use_of=partial(find_cpu_use, caches, companions),
            clock=clock,
        )
        limits = PlacedLimits(
            caches.kinds,
            is_read=lambda: frameworks.reads_placed_limits,
            excess_of=partial(find_limit_excess, caches, companions),
        )
        table = FleetTable(caches.clusters, recent, limits)
        RoomLedger(caches, companions.requests_of, book=table.book)
        frameworks = build_configured_frameworks(settings, with_snapshot_lister(table.frame))
        residents = ResidentLedger(caches, companions.annotations_of)
        table.read_residents = residents.read
        feeds = FeedCollector(settings.feeds, hub=gate, clock=clock, apply=table.feed)
        return cls(
            caches,
            frameworks,
            table.frame,
            clock=clock,
            registry=new_registry(),
            hub=gate,
            feeds=feeds,
            resource_filter=build_resource_filter(settings),
            writes=api,
            residents=residents,
            classes=PriorityClasses(caches.priority_classes, lambda _: None),
        )

    async def run(self) -> None:
        """Until cancelled: what is watched where no controller runs in this process."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.caches.run(), name="watching")
            if self._classes is not None:
                group.create_task(self._classes.watch.run(), name="priority classes")
                group.create_task(self._budgets.watch.run(), name="disruption budgets")

    def note_profiles(self) -> None:
        """They are others, or new."""
        if self._classes is not None and self.frameworks.evict:
            self._classes.watch.need()
            self._budgets.watch.need()
        if self._residents is not None:
            self._residents.keep(is_wanted=self.frameworks.read_residents)
        if self.frameworks.reads_quotas:
            self.caches.watch_quotas()
        if self.frameworks.decide_groups:
            self.caches.watch_groups()

    def _read_annotations(self, placement: Metadata) -> Mapping[str, str]:
        annotations = self.companions.annotations_of(placement)
        if self._classes is not None and self.frameworks.evict:
            annotations |= self._classes.describe(self.companions.find(PlacementKey.of(placement)), placement)
        return annotations

    def find_budget(self, key: str) -> LiveBudget | None:
        """Of a placement that has one, where a profile evicts."""
        own = PlacementKey.parse(key)
        latest, rule = self.caches.latest_snapshots(own), self._budgets.describe(own)
        if not rule or len(latest) != 1:
            return None
        bindings = self.caches.bindings(own)
        return LiveBudget(rule, self._budgets.count_disruptions(own, bindings, read_wanted(latest[0].view)))

    def frame(self) -> Frame:
        """The present fleet."""
        return self._frames.frame()

    def now(self) -> int:
        return epoch_nanoseconds(self.clock)

    def is_scheduling(self) -> bool:
        """Whether the scheduler of this process, if there is one, has work."""
        counts = None if self.queue is None else self.queue.count_items()
        return counts is not None and counts.active + counts.in_flight > 0

    def list_unsynced(self) -> list[str]:
        return self.caches.list_unsynced()

    def require_synced(self) -> None:
        """Answers from half of a fleet would be wrong. What was read once stays."""
        missing = [] if self._is_synced else self.list_unsynced()
        self._is_synced = not missing
        if missing:
            raise unavailable(f"not everything was read from the hub yet: {', '.join(missing)}")

    # --- placements ---------------------------------------------------------------------------------------------------

    def placement_keys(self) -> list[str]:
        """Sorted."""
        return sorted(key for kinds in self.caches.kinds for key in kinds.placements.store)

    def find_placement(self, key: str, *, with_bindings: bool = True) -> LivePlacement | None:
        try:
            own = PlacementKey.parse(key)
            placement = self.caches.placement(own)
        except (KeyError, InvalidKey):
            return None  # ResourcePlacements are switched off
        if placement is None:
            return None
        latest = self.caches.latest_snapshots(own)
        bindings = tuple(binding.view for binding in self.caches.bindings(own)) if with_bindings else ()
        options = self.caches.kinds_of(own).options.store.get(key)
        quotas = self._quotas.list_shares(own) if self.frameworks.reads_quotas else ()
        return LivePlacement(key, placement, latest[0] if len(latest) == 1 else None, bindings, options, quotas)

    def get_placement(self, key: str) -> LivePlacement:
        placement = self.find_placement(key)
        if placement is None:
            raise not_found(f"placement {key}", "GET /v1/placements lists those that are there")
        return placement

    # --- approvals and gates ------------------------------------------------------------------------------------------

    def read_approval_facts(self, key: PlacementKey) -> ApprovalFacts:
        return read_approval_facts(self.caches, self.companions, key)

    def list_approval_rules(self, key: PlacementKey, facts: ApprovalFacts) -> list[ApprovalRule]:
        """Of the profile that decides the placement, and of the placement itself."""
        placement = self.caches.placement(key)
        name = "" if placement is None else self.companions.scheduler_name_of(placement.view.metadata)
        return list_approval_rules(self.frameworks.choose(name).profile, facts)

    async def record_approval(self, kinds: PlacementKinds, document: Mapping[str, Any]) -> None:
        await replace(kinds.approvals.objects, api=self._require_writes()).create(document)

    async def patch_options(
        self, key: PlacementKey, operations: Sequence[Mapping[str, Any]]
    ) -> Observed[PlacementOptions]:
        objects = replace(self.caches.kinds_of(key).options.objects, api=self._require_writes())
        return await objects.json_patch(str(key), operations)

    def _require_writes(self) -> Api:
        if self._writes is None:
            raise NotLeading("nothing is written here")
        return self._writes

    # --- scenarios ----------------------------------------------------------------------------------------------------

    def asks_extenders(self, placement: LivePlacement) -> bool:
        name = self.companions.scheduler_name_of(placement.placement.view.metadata)
        return self.frameworks.choose(name).profile.asks_extenders

    def is_foreign(self, placement: LivePlacement) -> bool:
        """Whether the placement names a profile that this process does not have."""
        return self.frameworks.is_foreign(self.companions.scheduler_name_of(placement.placement.view.metadata))

    def build_scenario(self, placement: LivePlacement, frame: Frame) -> Scenario:
        """The input of the scheduler's next decision on the placement. Reads nothing else, in any thread."""
        metadata = placement.placement.view.metadata
        if placement.snapshot is not None:
            request = self._requests.get(placement.snapshot, placement=metadata)
            return self._build_scenario(placement.snapshot.view, request, placement.quotas, placement.bindings, frame)
        snapshot = build_first_snapshot(placement.placement)
        request = self._requests.compile(snapshot, placement=metadata)
        request = request.add_problems(find_selector_problems(placement.placement))
        return self._build_scenario(snapshot, request, placement.quotas, placement.bindings, frame)

    def forget_if_deleted(self, placement: LivePlacement) -> None:
        """After its scenario was built in a thread: what was compiled may have come after the deletion."""
        key = PlacementKey.parse(placement.key)
        if self.caches.placement(key) is None:
            self._requests.forget(key)

    def list_policy_snapshots(self, placement: LivePlacement) -> Sequence[Observed[PolicySnapshot]]:
        return self.caches.policy_snapshots(PlacementKey.parse(placement.key))

    def build_proposed_scenario(
        self,
        document: Mapping[str, Any],
        existing: LivePlacement | None,
        known: Sequence[Observed[PolicySnapshot]],
        quotas: Quotas,
        frame: Frame,
    ) -> Scenario:
        """For a placement that the hub does not have, or has with another spec: its bindings and options stay in place.
        `known` are its policy snapshots."""
        if existing is None:
            uid, snapshot = "", build_proposed_snapshot(document)
        else:
            uid = existing.placement.view.metadata.uid
            snapshot = build_proposed_snapshot(document, existing=existing.placement, known=known)
        request = self._requests.compile(snapshot, placement=read_proposed_metadata(document, uid=uid))
        request = request.add_problems(
            find_proposed_problems(document["spec"], namespace=request.namespace, resource_filter=self._resource_filter)
        )
        return self._build_scenario(snapshot, request, quotas, () if existing is None else existing.bindings, frame)

    def list_proposed_quotas(self, document: Mapping[str, Any]) -> Quotas:
        """What is in use of the quotas that the placement of a document would belong to."""
        if not self.frameworks.reads_quotas:
            return ()
        metadata = read_proposed_metadata(document)
        return self._quotas.list_proposed_shares(PlacementKey.of(metadata), metadata.labels)

    async def list_decided_placements(self) -> list[LivePlacement]:
        """Those that have a policy snapshot. There may be thousands: others get the event loop meanwhile."""
        listed = []
        for number, key in enumerate(self.placement_keys(), start=1):
            placement = self.find_placement(key)
            if placement is not None and placement.snapshot is not None:
                listed.append(placement)
            if number % _LISTED_AT_ONCE == 0:
                await self.clock.sleep(0)
        return listed

    def _build_scenario(
        self,
        snapshot: PolicySnapshot,
        request: PlacementRequest,
        quotas: Quotas,
        bindings: tuple[Binding, ...],
        frame: Frame,
    ) -> Scenario:
        profile, now = self.frameworks.choose(request.scheduler_name).profile, self.now()
        companion = self.companions.find(PlacementKey(request.namespace, request.placement))
        request = refuse_unusable(request, companion)
        question = DecisionInput(
            frame=frame,
            request=replace(request, quotas=quotas) if profile.reads_quotas else request,
            bindings=bindings,
            profile=profile,
            now=now,
            previous=snapshot.status,
            nominated=companion.list_hints(now),
        )
        return Scenario(question, snapshot)

    def find_departure(self, cluster: str) -> int | None:
        """When the cluster left the fleet, if it was while this process watched."""
        return self._departures.get(cluster)

    def _note_departure(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        if new is not None:
            self._departures.pop(new.metadata.name, None)
        elif old is not None:
            self._departures[old.metadata.name] = self.now()
            if len(self._departures) > _MOST_DEPARTURES:
                del self._departures[next(iter(self._departures))]

    def _forget_deleted(self, old: Observed[Placement] | None, new: Observed[Placement] | None) -> None:
        if old is not None and new is None:
            self._requests.forget(PlacementKey.of(old.view.metadata))

    # --- clusters -----------------------------------------------------------------------------------------------------

    def cluster_names(self) -> list[str]:
        """Sorted."""
        return sorted(self.caches.clusters)
