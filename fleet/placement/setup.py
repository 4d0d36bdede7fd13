"""Builds the placement controller from settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from fleet.informers.cache import Caches
from fleet.kube.informer import InformerConfig
from fleet.kube.objects import RetryPolicy
from fleet.kube.resource import key_of
from fleet.model.views import Metadata
from fleet.placement.controller import PlacementController
from fleet.placement.metrics import (
    PlacementMetrics,
    compute_heartbeat_ages,
    count_bindings_by_state,
    total_snapshots_by_kind,
)
from fleet.placement.reconciler import PlacementReconciler, ReconcilerDeps
from fleet.placement.selection.resource_filter import build_resource_filter
from fleet.placement.selection.resource_selection import ResourceSelection
from fleet.placement.snapshots.resource_snapshots import Pacing, ResourceSnapshots
from fleet.placement.snapshots.workload_overrides import Overrides
from fleet.placement.status.kubernetes_events import PlacementEventSink, PlacementReporter
from fleet.placement.status.namespaced_status import NamespacedStatuses, build_copy_informer
from fleet.placement.status.staged_runs import StagedRunLister
from fleet.settings import Settings


def build_placement_controller(
    caches: Caches,
    access: InformerConfig,
    settings: Settings,
    *,
    events: PlacementEventSink,
    metrics: PlacementMetrics,
    reads_requests: Callable[[Metadata], bool] = lambda _: False,
    reads_limits: Callable[[Metadata], bool] = lambda _: False,
) -> PlacementController:
    metrics.watch_bindings(lambda: count_bindings_by_state(caches))
    metrics.watch_heartbeats(lambda: compute_heartbeat_ages(caches, access.clock))
    reporter = PlacementReporter(events, metrics, access.clock)
    metrics.watch_placed_objects(reporter.placed_objects.counts)
    retry_policy = RetryPolicy(access.clock, access.jitter)
    selection = ResourceSelection(access, build_resource_filter(settings))
    resource_snapshots = ResourceSnapshots(
        access,
        [kinds.scope for kinds in caches.kinds],
        retry_policy=retry_policy,
        pacing=Pacing(
            settings.resource_snapshots.minimum_interval.seconds, settings.resource_snapshots.collection_time.seconds
        ),
    )
    metrics.watch_snapshots(lambda: total_snapshots_by_kind(caches, resource_snapshots))
    namespaced = NamespacedStatuses(build_copy_informer(access), retry_policy=retry_policy, clock=access.clock)
    overrides = Overrides(
        access,
        namespaced=settings.resource_placements.enabled,
        list_affected=partial(_list_readers, caches, reads_requests),
    )
    reconciler = PlacementReconciler(
        ReconcilerDeps(
            caches=caches,
            selection=selection,
            resource_snapshots=resource_snapshots,
            namespaced=namespaced,
            runs=StagedRunLister(access.reads),
            reporter=reporter,
            reads_requests=reads_requests,
            reads_limits=reads_limits,
            overrides=overrides,
            retry_policy=retry_policy,
            clock=access.clock,
        )
    )
    return PlacementController(
        caches, reconciler, namespaced, selection, resource_snapshots, overrides, metrics=metrics, clock=access.clock
    )


def _list_readers(caches: Caches, reads_requests: Callable[[Metadata], bool]) -> Iterator[str]:
    for kinds in caches.kinds:
        for placement in kinds.placements.store.values():
            if reads_requests(placement.view.metadata):
                yield key_of(placement.view.metadata)
