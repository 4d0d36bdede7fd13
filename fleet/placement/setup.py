"""The placement controller, put together from settings."""

from __future__ import annotations

from fleet.informers.cache import Caches
from fleet.kube.informer.informer import InformerConfig
from fleet.kube.patch import RetryPolicy
from fleet.placement.controller import PlacementController
from fleet.placement.gauges import bindings_by_state, heartbeat_ages, snapshots_by_kind
from fleet.placement.metrics import PlacementMetrics
from fleet.placement.reconciler import Equipment, Passes
from fleet.placement.selection.resource_filter import KindList, Rules
from fleet.placement.selection.resource_selection import Content
from fleet.placement.snapshots.resource_snapshots import Pacing, ResourceGroups
from fleet.placement.status.kubernetes_events import Events, Reports
from fleet.placement.status.namespaced_status import VisibleStatuses, watched_copies
from fleet.placement.status.staged_runs import StagedRuns
from fleet.settings import Settings


def placement_controller(
    caches: Caches, access: InformerConfig, settings: Settings, *, events: Events, metrics: PlacementMetrics
) -> PlacementController:
    metrics.watch_bindings(lambda: bindings_by_state(caches))
    metrics.watch_heartbeats(lambda: heartbeat_ages(caches, access.clock))
    reports = Reports(events, metrics, access.clock)
    metrics.watch_troubles(reports.troubles.counts)
    retry_policy = RetryPolicy(access.clock, access.jitter)
    content = Content(access, rules_of(settings))
    groups = ResourceGroups(
        access,
        [kinds.flavour for kinds in caches.kinds],
        retry_policy=retry_policy,
        pacing=Pacing(
            settings.resource_snapshots.minimum_interval.seconds, settings.resource_snapshots.collection_time.seconds
        ),
    )
    metrics.watch_snapshots(lambda: snapshots_by_kind(caches, groups))
    visible = VisibleStatuses(watched_copies(access), retry_policy=retry_policy, clock=access.clock)
    passes = Passes(
        Equipment(
            caches=caches,
            content=content,
            groups=groups,
            visible=visible,
            runs=StagedRuns(access.reads),
            reports=reports,
            retry_policy=retry_policy,
            clock=access.clock,
        )
    )
    return PlacementController(caches, passes, visible, content, groups, metrics=metrics, clock=access.clock)


def rules_of(settings: Settings) -> Rules:
    chosen = settings.selection
    return Rules(
        skipped=KindList.parse(chosen.skipped_kinds),
        allowed=KindList.parse(chosen.allowed_kinds),
        skipped_namespaces=frozenset(chosen.skipped_namespaces),
        workloads_on_hub=chosen.workloads_on_hub,
    )
