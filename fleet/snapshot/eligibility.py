"""When a cluster may take new work: one rule, asked about a whole column or about a single cluster.

The plugin that filters and the triggers that wake placements must never disagree, so both ask here. Which of the
signals failed, and what it is called, is left to the plugin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fleet.model.timestamps import parse_duration
from fleet.snapshot.columns.signals import (
    AGENT_KNOWN,
    HEALTH_KNOWN,
    HEALTH_TIME_KNOWN,
    HEALTHY_TRUE,
    HEARTBEAT_KNOWN,
    JOINED_TRUE,
    TERMINATING,
    Signals,
    SignalsColumn,
    signals_of,
)

if TYPE_CHECKING:
    from fleet.model.views import MemberCluster
    from fleet.snapshot.columns.bitset import BoolArray

_REQUIRED: Final = AGENT_KNOWN | HEARTBEAT_KNOWN | JOINED_TRUE | HEALTH_KNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Eligibility:
    """Both in nanoseconds. What happened exactly that long ago still counts as recent."""

    heartbeat_timeout: int
    unhealthy_timeout: int

    @classmethod
    def parsed(cls, *, heartbeat_timeout: str, unhealthy_timeout: str) -> Eligibility:
        """From durations such as 5m."""
        return cls(
            heartbeat_timeout=parse_duration(heartbeat_timeout), unhealthy_timeout=parse_duration(unhealthy_timeout)
        )

    def rows(self, signals: SignalsColumn, now: int) -> BoolArray:
        found: BoolArray = self._holds(signals, now)
        return found

    def of(self, cluster: MemberCluster, now: int) -> bool:
        return bool(self._holds(signals_of(cluster).within_reach(), now))

    def _holds(self, signals: Signals | SignalsColumn, now: int) -> Any:
        """Of numbers one answer, of columns one per row."""
        flags = signals.flags
        connected = (flags & (_REQUIRED | TERMINATING)) == _REQUIRED
        heard = signals.last_seen >= now - self.heartbeat_timeout
        recent = ((flags & HEALTH_TIME_KNOWN) != 0) & (signals.health_since >= now - self.unhealthy_timeout)
        return connected & heard & (((flags & HEALTHY_TRUE) != 0) | recent)
