"""Eligibility of clusters for new work: one rule, for a whole column and for a single cluster.

The plugin that filters and the event handlers that requeue placements must never disagree, so both use this rule.
The plugin names the signal that failed.
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
    """Both in nanoseconds. A signal of exactly that age still counts as recent."""

    heartbeat_timeout: int
    unhealthy_timeout: int

    @classmethod
    def parse(cls, *, heartbeat_timeout: str, unhealthy_timeout: str) -> Eligibility:
        """From durations such as 5m."""
        return cls(
            heartbeat_timeout=parse_duration(heartbeat_timeout), unhealthy_timeout=parse_duration(unhealthy_timeout)
        )

    def rows(self, signals: SignalsColumn, now: int) -> BoolArray:
        eligible: BoolArray = self._holds(signals, now)
        return eligible

    def of(self, cluster: MemberCluster, now: int) -> bool:
        return bool(self._holds(signals_of(cluster).within_reach(), now))

    def _holds(self, signals: Signals | SignalsColumn, now: int) -> Any:
        """One result for numbers, one per row for columns."""
        flags = signals.flags
        connected = (flags & (_REQUIRED | TERMINATING)) == _REQUIRED
        heard = signals.last_seen >= now - self.heartbeat_timeout
        recent = ((flags & HEALTH_TIME_KNOWN) != 0) & (signals.health_since >= now - self.unhealthy_timeout)
        return connected & heard & (((flags & HEALTHY_TRUE) != 0) | recent)
