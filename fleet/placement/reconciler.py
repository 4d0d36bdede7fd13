"""One look at one placement: from what its owner asks for to snapshots, and from what became of it to its status.

Every step may be repeated after a failure at any point, because each compares what should be with what is. What a
pass cannot finish it raises; when to try again is left to `loop`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol

from fleet.clock import Clock, epoch_nanoseconds
from fleet.informers.cache import Caches, PlacementKinds
from fleet.kube.patch import RetryPolicy
from fleet.kube.resource import join_key, split_key
from fleet.model.decoding import decode
from fleet.model.labels import LONGEST_LABEL_VALUE
from fleet.model.placement_key import PlacementKey
from fleet.model.views import BindingReport, Observed, Placement, PlacementPolicy, PolicySnapshot
from fleet.placement.deletion import add_finalizer, delete_orphans, delete_snapshots
from fleet.placement.reconcile_context import ReconcileContext
from fleet.placement.selection.selection import SelectionResult
from fleet.placement.snapshots.policy_snapshots import PolicySnapshots, read_cluster_count
from fleet.placement.snapshots.resource_snapshots import EnsureResult, ResourceSnapshots
from fleet.placement.status.cluster_statuses import ClusterProgress, PublishedDecision, build_progress
from fleet.placement.status.conditions import UNKNOWN
from fleet.placement.status.kubernetes_events import PlacementReporter
from fleet.placement.status.namespaced_status import (
    NamespacedStatuses,
    check_namespace_unchanged,
    find_chosen_namespace,
)
from fleet.placement.status.publisher import StatusWriter
from fleet.placement.status.staged_runs import StagedRunLister, find_common_index
from fleet.placement.status.status import (
    DesiredStatus,
    ReportedSnapshot,
    build_external,
    build_pending,
    build_rejected,
    is_external,
    read_scheduled_condition,
    scheduled,
    spec_of,
)

Json = dict[str, Any]


class ResourceSelection(Protocol):
    async def resolve(self, placement: Observed[Placement]) -> SelectionResult: ...

    def forget(self, key: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilerDeps:
    """What passes work with."""

    caches: Caches
    content: ResourceSelection
    groups: ResourceSnapshots
    visible: NamespacedStatuses
    runs: StagedRunLister
    reports: PlacementReporter
    retry_policy: RetryPolicy
    clock: Clock


class PlacementReconciler:
    def __init__(self, equipment: ReconcilerDeps) -> None:
        self._with = equipment
        self._policies = PolicySnapshots(equipment.caches, retry_policy=equipment.retry_policy)
        self._publisher = StatusWriter(
            equipment.visible, equipment.reports, retry_policy=equipment.retry_policy, clock=equipment.clock
        )

    async def run(self, key: str, *, reads_live: bool = False) -> float | None:
        """Seconds after which another look is due; None where only a change asks for one.

        `reads_live` after a failed pass, when the caches may lack one of our own writes."""
        kinds = self._with.caches.kinds_of(PlacementKey.parse(key))
        placement = await self._read(kinds, key, reads_live=reads_live)
        if placement is None:
            if reads_live:
                await self._sweep(kinds, key)
            self.forget(*split_key(key))
            return None
        if placement.view.metadata.deletion_timestamp:
            await self._end(kinds, placement)
            return None
        claimed = await add_finalizer(kinds, placement, retry_policy=self._with.retry_policy)
        if claimed is None:
            return None  # deleted this moment: that change brings it here again
        return await self._bring_about(ReconcileContext(kinds, claimed, spec_of(claimed), reads_live))

    def forget(self, namespace: str, name: str) -> None:
        """The placement is gone."""
        key = join_key(namespace, name)
        self._with.content.forget(key)
        self._with.groups.forget(key)
        self._with.reports.forget(namespace, name)

    # --- steps --------------------------------------------------------------------------------------------------------

    async def _read(self, kinds: PlacementKinds, key: str, *, reads_live: bool) -> Observed[Placement] | None:
        if not reads_live:
            return kinds.placements.store.get(key)
        return await kinds.placements.objects.find(key)

    async def _end(self, kinds: PlacementKinds, placement: Observed[Placement]) -> None:
        snapshots = self._with.groups.objects(placement.view.metadata.namespace)
        if await delete_snapshots(kinds, snapshots, placement, retry_policy=self._with.retry_policy):
            self._with.reports.released(kinds, placement)
        metadata = placement.view.metadata
        self.forget(metadata.namespace, metadata.name)

    async def _sweep(self, kinds: PlacementKinds, key: str) -> None:
        snapshots = self._with.groups.objects(split_key(key)[0])
        await delete_orphans(kinds, snapshots, key, retry_policy=self._with.retry_policy)

    async def _bring_about(self, look: ReconcileContext) -> float | None:
        if look.is_accessible:
            await self._with.visible.ready()
        selected = await self._with.content.resolve(look.placement)
        namespace_before = self._with.visible.namespace_in_use(look.placement) if look.is_accessible else ""
        namespace = find_chosen_namespace(look.placement, selected) if look.is_accessible else ""
        problem = _overlong(look) or check_namespace_unchanged(namespace_before, namespace) or selected.user_error
        wait = None
        if problem is None:
            self._with.reports.unmatched(look, selected.unmatched)
            statement, wait = await self._carry_out(look, selected)
        else:
            statement = build_rejected(problem)
        shows = look.is_accessible and (namespace_before or problem is None)
        await self._publisher.publish(look, statement, shown_in=(namespace_before or namespace) if shows else None)
        return wait

    async def _carry_out(self, look: ReconcileContext, selected: SelectionResult) -> tuple[DesiredStatus, float | None]:
        snapshot = await self._policies.ensure(look.kinds, look.placement, look.spec, reads_live=look.reads_live)
        group = None if is_external(look.spec) else await self._ensure_group(look, selected)
        shown = None if group is None else self._shown(look, group, selected)
        wait = None if group is None else group.wait_seconds
        said = read_scheduled_condition(snapshot.view, look.generation)
        if said.status == UNKNOWN:
            return build_pending(look.generation, shown), wait
        decided = _decided(snapshot.view)
        if group is None:
            await self._with.groups.ready()
        clusters = self._progress(look, decided, master=None if group is None else group.master)
        statement = scheduled(said, shown=shown, chain=look.chain, clusters=clusters, unfilled=decided.unfilled)
        return statement if group is not None else await self._externally(look, statement, clusters), wait

    async def _ensure_group(self, look: ReconcileContext, selected: SelectionResult) -> EnsureResult:
        now = epoch_nanoseconds(self._with.clock)
        return await self._with.groups.ensure(look.placement, selected, now=now, reads_live=look.reads_live)

    def _shown(self, look: ReconcileContext, group: EnsureResult, selected: SelectionResult) -> ReportedSnapshot:
        """While a newer group has to wait, the status goes on describing the present one."""
        if group.wait_seconds is None:
            return ReportedSnapshot(
                index=str(group.index), resources=[selected_object.identifier() for selected_object in selected.objects]
            )
        return self._shown_as_stored(look, group.index)

    def _shown_as_stored(self, look: ReconcileContext, index: int) -> ReportedSnapshot:
        return ReportedSnapshot(index=str(index), resources=self._with.groups.resources_of(look.placement, index))

    async def _externally(
        self, look: ReconcileContext, statement: DesiredStatus, clusters: Sequence[ClusterProgress]
    ) -> DesiredStatus:
        """Others decide about the rollout: the status is about what the clusters have."""
        index = find_common_index(clusters)
        if index:
            return replace(statement, shown=self._shown_as_stored(look, int(index)))
        runs = await self._with.runs.naming(look.placement.view.metadata) if clusters else []
        return build_external(statement, runs=runs)

    def _progress(
        self, look: ReconcileContext, decided: PublishedDecision, *, master: str | None
    ) -> list[ClusterProgress]:
        @cache
        def index_of(snapshot: str) -> str:
            index = self._with.groups.index_of(look.placement, snapshot)
            return "" if index is None else str(index)

        observed = self._with.caches.bindings(PlacementKey.of(look.placement.view.metadata))
        bindings = [decode(binding.raw, BindingReport).view for binding in observed]
        return build_progress(decided, bindings, chain=look.chain, master=master, index_of=index_of)


def _overlong(look: ReconcileContext) -> str | None:
    length = len(look.placement.view.metadata.name)
    if length <= LONGEST_LABEL_VALUE:
        return None
    return (
        f"PL-01: name has {length} characters, {LONGEST_LABEL_VALUE} is the maximum because it is used as a label value"
    )


def _decided(snapshot: PolicySnapshot) -> PublishedDecision:
    return PublishedDecision(
        snapshot=snapshot.metadata.name,
        policy=snapshot.spec.policy or PlacementPolicy(),
        wanted=read_cluster_count(snapshot),
        decisions=snapshot.status.target_clusters,
    )
