"""Which of several controllers leads, and whether it works, for Prometheus: these two tell that nobody serves a hub.

A standby is as ready as the leader, and a leader that waits for a list holds its lease all the same; so neither probes
nor other figures tell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry

from fleet.scheduler.telemetry.scrape_gauges import ScrapeGauges

_LEADER: Final = "fleet_leader"
_WORKING: Final = "fleet_working"
_READ_WHEN_ASKED: Final = (
    (_LEADER, "Whether this process holds the lease: 1 or 0.", ("lease",)),
    (_WORKING, "Whether it has begun to work: 1 or 0.", ()),
)


class LeadershipMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._gauges = ScrapeGauges(registry, _READ_WHEN_ASKED)

    def watch_lease(self, key: str, is_held: Callable[[], bool]) -> None:
        """Where there is one to compete for. `key`: its namespace and name."""
        self._gauges.attach(_LEADER, lambda: {(key,): float(is_held())})

    def watch_work(self, has_begun: Callable[[], bool]) -> None:
        self._gauges.attach(_WORKING, lambda: {(): float(has_begun())})
