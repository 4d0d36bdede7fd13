"""Prometheus gauges about leadership and running controllers, for an alert on a hub without a leader.

Probes do not show this: a standby is as ready as the leader, and a leader that still waits for its caches holds the
lease.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry

from fleet.scheduler.telemetry.scrape_gauges import ScrapeGauges

_LEADER: Final = "fleet_leader"
_WORKING: Final = "fleet_working"
_SCRAPED: Final = (
    (_LEADER, "Whether this process holds the lease: 1 or 0.", ("lease",)),
    (_WORKING, "Whether its controllers are running: 1 or 0.", ()),
)


class LeadershipMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._gauges = ScrapeGauges(registry, _SCRAPED)

    def watch_lease(self, key: str, is_held: Callable[[], bool]) -> None:
        """With leader election only. `key` is the namespace and name of the lease."""
        self._gauges.attach(_LEADER, lambda: {(key,): float(is_held())})

    def watch_work(self, is_working: Callable[[], bool]) -> None:
        self._gauges.attach(_WORKING, lambda: {(): float(is_working())})
