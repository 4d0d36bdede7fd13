"""Reports of preemptions: to the queue, as events of the placements concerned, and as metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fleet.informers.cache import Caches
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.preemption.preemptor import Preemption, describe_preemptions
from fleet.scheduler.telemetry.kubernetes_events import SchedulingEvents
from fleet.scheduler.telemetry.metrics import SchedulerMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionReports:
    """Implements `preemptions.Reports`."""

    caches: Caches
    enqueue: Callable[[PlacementKey, str], None]
    on_freed: Callable[[str, Mapping[str, int], PlacementKey], None]
    """Room is kept no longer on a cluster, for this placement."""
    events: SchedulingEvents
    metrics: SchedulerMetrics

    def requeue(self, key: PlacementKey, trigger: str) -> None:
        """Of one that is gone, nothing is tried."""
        if self.caches.placement(key) is not None:
            self.enqueue(key, trigger)

    def report_freed(self, cluster: str, requests: Mapping[str, int], key: PlacementKey) -> None:
        self.on_freed(cluster, requests, key)

    def report_search(self, victims: int | None) -> None:
        self.metrics.observe_search(victims)

    def report_preempting(self, key: PlacementKey, targets: tuple[Preemption, ...]) -> None:
        placement = self.caches.placement(key)
        if placement is not None:
            self.events.report_preempting(self.caches.kinds_of(key), placement, describe_preemptions(key, targets))

    def report_evicted(self, victim: PlacementKey, cluster: str, preemptor: PlacementKey) -> None:
        placement = self.caches.placement(victim)
        if placement is not None:
            who = f"placement {preemptor}" if preemptor.namespace == victim.namespace else "a more important placement"
            text = f"leaves cluster {cluster}, where room is needed for {who}"
            self.events.report_evicted(self.caches.kinds_of(victim), placement, text)
