"""Eligibility of clusters at this moment, and the clusters that became eligible because the clock was set back.

Decisions judge heartbeats by the time of day, and that can be set. While it is ahead, healthy clusters look stale;
when it is corrected, they are eligible again without any change of their objects. A diff of two reports cannot show
that, so the latest time at which anything was decided is kept here.
"""

from __future__ import annotations

from fleet.clock import Clock, epoch_nanoseconds
from fleet.kube.cache.store import Store
from fleet.model.views import MemberCluster
from fleet.snapshot.eligibility import Eligibility


class EligibilityClock:
    def __init__(self, rule: Eligibility, clock: Clock) -> None:
        self._rule = rule
        self._clock = clock
        self._decided_at = 0

    def is_eligible(self, cluster: MemberCluster) -> bool:
        return self._rule.of(cluster, self._read_time())

    def note_decision(self) -> None:
        """From now on a decision relies on what is eligible at this moment."""
        self._decided_at = max(self._decided_at, self._read_time())

    def find_regained(self, clusters: Store[MemberCluster]) -> list[str]:
        """Names of the clusters that were stale for a decision and are no longer, because the clock was set
        back. Each is returned once. The store is read only when that has happened."""
        before, now = self._decided_at, self._read_time()
        if now >= before:
            return []
        self._decided_at = now
        return [
            cluster.metadata.name
            for cluster in clusters.values()
            if self._rule.of(cluster, now) and not self._rule.of(cluster, before)
        ]

    def _read_time(self) -> int:
        return epoch_nanoseconds(self._clock)
