"""Reconciles one placement: creates policy and resource snapshots from its spec, and its status from bindings.

Every step is idempotent: it compares the desired with the current state, so a reconcile may fail at any point and run
again. Errors are raised; retries and backoff are left to `controller`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Protocol

from fleet.clock import Clock, epoch_nanoseconds
from fleet.informers.cache import Caches, PlacementKinds
from fleet.kube.objects import RetryPolicy
from fleet.kube.resource import join_key, split_key
from fleet.model.decoding import decode
from fleet.model.labels import LONGEST_LABEL_VALUE
from fleet.model.placement_key import PlacementKey
from fleet.model.views import BindingReport, Metadata, Observed, Placement, PlacementPolicy, PolicySnapshot
from fleet.placement.deletion import add_finalizer, delete_orphans, delete_snapshots
from fleet.placement.reconcile_context import ReconcileContext
from fleet.placement.selection.resolution import SelectionResult
from fleet.placement.selection.selectors import SelectorTerm
from fleet.placement.snapshots.policy_snapshots import NO_WORKLOADS, PolicySnapshots, read_cluster_count
from fleet.placement.snapshots.resource_snapshots import EnsureResult, ResourceSnapshots
from fleet.placement.snapshots.workload_overrides import Overrides
from fleet.placement.snapshots.workload_requests import describe_workloads
from fleet.placement.status.cluster_statuses import ClusterProgress, PublishedDecision, build_progress
from fleet.placement.status.conditions import UNKNOWN
from fleet.placement.status.kubernetes_events import PlacementReporter
from fleet.placement.status.namespaced_status import (
    NamespacedStatuses,
    check_namespace_unchanged,
)
from fleet.placement.status.placement_status import (
    DesiredStatus,
    ReportedSnapshot,
    build_externally_controlled,
    build_pending,
    build_rejected,
    build_scheduled,
    is_external,
    read_scheduled_condition,
    select_chain,
)
from fleet.placement.status.staged_runs import StagedRunLister, find_common_index
from fleet.placement.status.status_writer import PlacementStatusWriter

Json = dict[str, Any]


class SelectionResolver(Protocol):
    async def resolve(self, placement: Metadata, terms: Sequence[SelectorTerm]) -> SelectionResult: ...

    def forget(self, key: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilerDeps:
    caches: Caches
    selection: SelectionResolver
    resource_snapshots: ResourceSnapshots
    namespaced: NamespacedStatuses
    runs: StagedRunLister
    reporter: PlacementReporter
    reads_requests: Callable[[Metadata], bool] = lambda _: False
    reads_limits: Callable[[Metadata], bool] = lambda _: False
    """Whether the profile of a placement reads what its workloads request."""
    overrides: Overrides | None = None
    retry_policy: RetryPolicy
    clock: Clock


class PlacementReconciler:
    def __init__(self, deps: ReconcilerDeps) -> None:
        self._deps = deps
        self._policies = PolicySnapshots(deps.caches, retry_policy=deps.retry_policy)
        self._status_writer = PlacementStatusWriter(
            deps.namespaced, deps.reporter, retry_policy=deps.retry_policy, clock=deps.clock
        )

    async def reconcile(self, key: str, *, reads_live: bool = False) -> float | None:
        """Seconds after which to requeue the placement; None where only an event requires that.

        `reads_live` after a failed reconcile, when the caches may lack one of our own writes."""
        kinds = self._deps.caches.kinds_of(PlacementKey.parse(key))
        placement = await self._get_placement(kinds, key, reads_live=reads_live)
        if placement is None:
            if reads_live:
                await self._delete_orphans(kinds, key)
            self.forget(*split_key(key))
            return None
        if placement.view.metadata.deletion_timestamp:
            await self._finalize(kinds, placement)
            return None
        claimed = await add_finalizer(kinds, placement, retry_policy=self._deps.retry_policy)
        if claimed is None:
            return None  # deleted just now: its event enqueues it again
        return await self._reconcile_live(ReconcileContext(kinds, claimed, reads_live))

    def forget(self, namespace: str, name: str) -> None:
        """The placement is gone."""
        key = join_key(namespace, name)
        self._deps.selection.forget(key)
        self._deps.resource_snapshots.forget(key)
        self._deps.reporter.forget(namespace, name)

    # --- steps --------------------------------------------------------------------------------------------------------

    async def _get_placement(self, kinds: PlacementKinds, key: str, *, reads_live: bool) -> Observed[Placement] | None:
        if not reads_live:
            return kinds.placements.store.get(key)
        return await kinds.placements.objects.find(key)

    async def _finalize(self, kinds: PlacementKinds, placement: Observed[Placement]) -> None:
        snapshots = self._deps.resource_snapshots.objects(placement.view.metadata.namespace)
        if await delete_snapshots(kinds, snapshots, placement, retry_policy=self._deps.retry_policy):
            self._deps.reporter.report_released(kinds, placement)
        metadata = placement.view.metadata
        self.forget(metadata.namespace, metadata.name)

    async def _delete_orphans(self, kinds: PlacementKinds, key: str) -> None:
        snapshots = self._deps.resource_snapshots.objects(split_key(key)[0])
        await delete_orphans(kinds, snapshots, key, retry_policy=self._deps.retry_policy)

    async def _reconcile_live(self, context: ReconcileContext) -> float | None:
        if context.is_accessible:
            await self._deps.namespaced.wait_for_sync()
        selected = await self._deps.selection.resolve(context.placement.view.metadata, context.spec.resource_selectors)
        namespace_before = self._deps.namespaced.namespace_in_use(context.placement) if context.is_accessible else ""
        namespace = selected.namespace if context.is_accessible else ""
        problem = (
            _check_name_length(context) or check_namespace_unchanged(namespace_before, namespace) or selected.user_error
        )
        wait = None
        if problem is None:
            self._deps.reporter.report_unmatched(context, selected.unmatched)
            desired, wait = await self._apply_spec(context, selected)
        else:
            desired = build_rejected(problem)
        shows = context.is_accessible and (namespace_before or namespace or problem is None)
        await self._status_writer.publish(
            context, desired, namespace=(namespace_before or namespace) if shows else None
        )
        return wait

    async def _apply_spec(
        self, context: ReconcileContext, selected: SelectionResult
    ) -> tuple[DesiredStatus, float | None]:
        snapshot = await self._policies.ensure(context, await self._describe_workloads(context, selected))
        group = None if is_external(context.spec) else await self._ensure_group(context, selected)
        reported = None if group is None else self._build_reported_snapshot(context, group, selected)
        wait = None if group is None else group.wait_seconds
        condition = read_scheduled_condition(snapshot.view, context.generation)
        if condition.status == UNKNOWN:
            return build_pending(context.generation, reported), wait
        published = _read_published_decision(snapshot.view)
        if group is None:
            await self._deps.resource_snapshots.wait_for_sync()
        clusters = self._collect_progress(context, published, master=None if group is None else group.master)
        desired = build_scheduled(
            condition,
            reported=reported,
            chain=select_chain(context.spec),
            clusters=clusters,
            unfilled=published.unfilled,
        )
        return desired if group is not None else await self._build_external_status(context, desired, clusters), wait

    async def _describe_workloads(self, context: ReconcileContext, selected: SelectionResult) -> Mapping[str, str]:
        """Only for profiles that read it."""
        metadata, overrides = context.placement.view.metadata, self._deps.overrides
        if overrides is None or not self._deps.reads_requests(metadata):
            return NO_WORKLOADS
        await overrides.wait_for_sync()
        list_rules, with_limits = partial(overrides.list_rules, metadata), self._deps.reads_limits(metadata)
        return describe_workloads(selected.objects, list_rules, with_limits=with_limits)

    async def _ensure_group(self, context: ReconcileContext, selected: SelectionResult) -> EnsureResult:
        now = epoch_nanoseconds(self._deps.clock)
        return await self._deps.resource_snapshots.ensure(
            context.placement.view.metadata, context.spec, selected, now=now, reads_live=context.reads_live
        )

    def _build_reported_snapshot(
        self, context: ReconcileContext, group: EnsureResult, selected: SelectionResult
    ) -> ReportedSnapshot:
        """While a newer group has to wait, the status describes the current one."""
        if group.wait_seconds is None:
            return ReportedSnapshot(
                index=str(group.index), resources=[selected_object.identifier() for selected_object in selected.objects]
            )
        return self._build_stored_snapshot(context, group.index)

    def _build_stored_snapshot(self, context: ReconcileContext, index: int) -> ReportedSnapshot:
        return ReportedSnapshot(
            index=str(index), resources=self._deps.resource_snapshots.resources_of(context.placement, index)
        )

    async def _build_external_status(
        self, context: ReconcileContext, desired: DesiredStatus, clusters: Sequence[ClusterProgress]
    ) -> DesiredStatus:
        """Staged update runs control the rollout, so the status describes what the clusters run."""
        index = find_common_index(clusters)
        if index:
            return replace(desired, reported=self._build_stored_snapshot(context, int(index)))
        runs = await self._deps.runs.list_names(context.placement.view.metadata) if clusters else []
        return build_externally_controlled(desired, runs=runs)

    def _collect_progress(
        self, context: ReconcileContext, published: PublishedDecision, *, master: str | None
    ) -> list[ClusterProgress]:
        @cache
        def index_of(snapshot: str) -> str:
            index = self._deps.resource_snapshots.index_of(context.placement, snapshot)
            return "" if index is None else str(index)

        observed = self._deps.caches.bindings(PlacementKey.of(context.placement.view.metadata))
        bindings = [decode(binding.raw, BindingReport).view for binding in observed]
        return build_progress(published, bindings, chain=select_chain(context.spec), master=master, index_of=index_of)


def _check_name_length(context: ReconcileContext) -> str | None:
    length = len(context.placement.view.metadata.name)
    if length <= LONGEST_LABEL_VALUE:
        return None
    return (
        f"PL-01: name has {length} characters, {LONGEST_LABEL_VALUE} is the maximum because it is used as a label value"
    )


def _read_published_decision(snapshot: PolicySnapshot) -> PublishedDecision:
    return PublishedDecision(
        snapshot=snapshot.metadata.name,
        policy=snapshot.spec.policy or PlacementPolicy(),
        wanted=read_cluster_count(snapshot),
        decisions=snapshot.status.target_clusters,
    )
