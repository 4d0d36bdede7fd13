"""Signals of member agents (heartbeats, joining, health, leaving), and the eligibility that follows from them.

Times are stored, never ages: ages need the moment of a decision.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fleet.model.keys import HEALTHY, JOINED, MEMBER_AGENT
from fleet.model.timestamps import parse_duration, timestamp_or_none
from fleet.model.views import AgentStatus, Condition, MemberCluster
from fleet.snapshot.columns.bitset import BoolArray, Int64Array, enlarge, writable

TERMINATING: Final = 1
AGENT_KNOWN: Final = 2
HEARTBEAT_KNOWN: Final = 4
JOINED_TRUE: Final = 8
HEALTH_KNOWN: Final = 16
HEALTHY_TRUE: Final = 32
HEALTH_TIME_KNOWN: Final = 64
NEVER: Final = 2**63 - 1
_REQUIRED: Final = AGENT_KNOWN | HEARTBEAT_KNOWN | JOINED_TRUE | HEALTH_KNOWN

# The range of a column, with a margin for addition and subtraction: the years 1823 to 2116.
_EARLIEST: Final = -(2**62)
_LATEST: Final = 2**62


class Signals(NamedTuple):
    """One cluster's signals; an unreported time is 0 and its flag is not set."""

    flags: int
    last_seen: int
    health_since: int

    def within_reach(self) -> Signals:
        """As a column stores them."""
        if _EARLIEST <= self.last_seen <= _LATEST and _EARLIEST <= self.health_since <= _LATEST:
            return self
        return Signals(self.flags, _clamp_moment(self.last_seen), _clamp_moment(self.health_since))


NO_SIGNALS: Final = Signals(0, 0, 0)


def signals_of(cluster: MemberCluster) -> Signals:
    flags = TERMINATING if cluster.metadata.deletion_timestamp else 0
    agent = _member_agent(cluster)
    if agent is None:
        return Signals(flags, 0, 0)
    flags |= AGENT_KNOWN
    last_seen = timestamp_or_none(agent.last_received_heartbeat)
    if last_seen is not None:
        flags |= HEARTBEAT_KNOWN
    joined, health = _condition(agent, JOINED), _condition(agent, HEALTHY)
    if joined is not None and joined.status == "True":
        flags |= JOINED_TRUE
    health_since = None
    if health is not None:
        flags |= HEALTH_KNOWN | (HEALTHY_TRUE if health.status == "True" else 0)
        health_since = timestamp_or_none(health.last_transition_time)
        if health_since is not None:
            flags |= HEALTH_TIME_KNOWN
    return Signals(flags, last_seen or 0, health_since or 0)


def _member_agent(cluster: MemberCluster) -> AgentStatus | None:
    for agent in cluster.status.agent_status:
        if agent.type == MEMBER_AGENT:
            return agent
    return None


def _condition(agent: AgentStatus, kind: str) -> Condition | None:
    for condition in agent.conditions:
        if condition.type == kind:
            return condition
    return None


def _clamp_moment(moment: int) -> int:
    """Absurd times, such as the year 1 or 9999, are cut to what a column can hold."""
    return min(max(moment, _EARLIEST), _LATEST)


class SignalsColumn:
    __slots__ = ("flags", "frozen", "health_since", "last_seen")

    def __init__(self, size: int, rows: Iterable[MemberCluster | None]) -> None:
        self.frozen = False
        self.flags: npt.NDArray[np.uint8] = np.zeros(size, dtype=np.uint8)
        self.last_seen: Int64Array = np.zeros(size, dtype=np.int64)
        self.health_since: Int64Array = np.zeros(size, dtype=np.int64)
        reported = [NO_SIGNALS if cluster is None else signals_of(cluster) for cluster in rows]
        if reported:
            flags, last_seen, health_since = zip(*reported, strict=True)
            self.flags[: len(reported)] = flags
            self.last_seen[: len(reported)] = [_clamp_moment(moment) for moment in last_seen]
            self.health_since[: len(reported)] = [_clamp_moment(moment) for moment in health_since]

    def of(self, row: int) -> Signals:
        return Signals(int(self.flags[row]), int(self.last_seen[row]), int(self.health_since[row]))

    # --- upkeep, called by the table only -----------------------------------------------------------------------

    def differs(self, old: MemberCluster | None, new: MemberCluster | None) -> bool:
        if old is not None and new is not None:
            same_agents = old.status.agent_status == new.status.agent_status
            return not same_agents or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        return True

    def thaw(self) -> SignalsColumn:
        copy = SignalsColumn.__new__(SignalsColumn)
        copy.frozen = False
        copy.flags, copy.last_seen, copy.health_since = self.flags, self.last_seen, self.health_since
        return copy

    def freeze(self) -> None:
        self.frozen = True
        for array in (self.flags, self.last_seen, self.health_since):
            array.flags.writeable = False

    def put(self, row: int, cluster: MemberCluster | None) -> None:
        signals = NO_SIGNALS if cluster is None else signals_of(cluster)
        if self.flags[row] != signals.flags:
            self.flags = writable(self.flags)
            self.flags[row] = signals.flags
        last_seen, health_since = _clamp_moment(signals.last_seen), _clamp_moment(signals.health_since)
        if self.last_seen[row] != last_seen:
            self.last_seen = writable(self.last_seen)
            self.last_seen[row] = last_seen
        if self.health_since[row] != health_since:
            self.health_since = writable(self.health_since)
            self.health_since[row] = health_since

    def resize(self, size: int) -> None:
        self.flags = enlarge(self.flags, size, 0)
        self.last_seen = enlarge(self.last_seen, size, 0)
        self.health_since = enlarge(self.health_since, size, 0)


# --- eligibility ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Eligibility:
    """Whether clusters may get new work: one rule, for a whole column and for a single cluster.

    The plugin that filters and the event handlers that requeue placements must never disagree, so both use this rule.
    The plugin names the signal that failed. Timeouts are in nanoseconds; a signal of exactly that age still counts as
    recent.
    """

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

    def holds_until(self, signals: SignalsColumn, now: int, *, retention: int = 0) -> int:
        """The last moment at which the same signals are judged as now, also for a retention counted from them."""
        ends = []
        for moments, is_known, age in (
            (signals.last_seen, HEARTBEAT_KNOWN, self.heartbeat_timeout),
            (signals.last_seen, HEARTBEAT_KNOWN, retention),
            (signals.health_since, HEALTH_TIME_KNOWN, self.unhealthy_timeout),
            (signals.health_since, HEALTH_TIME_KNOWN, retention),
        ):
            expiring = moments[(signals.flags & is_known) != 0] + age
            ends.append(int(expiring.min(initial=NEVER, where=expiring >= now)))
        return min(ends)

    def _holds(self, signals: Signals | SignalsColumn, now: int) -> Any:
        """One result for numbers, one per row for columns."""
        flags = signals.flags
        connected = (flags & (_REQUIRED | TERMINATING)) == _REQUIRED
        heard = signals.last_seen >= now - self.heartbeat_timeout
        recent = ((flags & HEALTH_TIME_KNOWN) != 0) & (signals.health_since >= now - self.unhealthy_timeout)
        return connected & heard & (((flags & HEALTHY_TRUE) != 0) | recent)
