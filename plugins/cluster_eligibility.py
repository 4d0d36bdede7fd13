"""Only clusters whose member agent is connected, joined and healthy take new work.

A short silence must not move workload while a policy is edited: a cluster that the placement is on already keeps
counting as eligible for a while (retention).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

import msgspec
import numpy as np

from fleet.framework.arguments import RawArgs, decode_into
from fleet.framework.context import HookContext
from fleet.framework.explaining import ClusterEvent, ClusterEventKind, RejectedClusters, Suggestion
from fleet.framework.handle import Handle
from fleet.framework.request import PlacementRequest
from fleet.framework.state import CycleState
from fleet.framework.status import Code
from fleet.framework.types import Details, PluginTraits, Reason, ReasonArray, ReasonTable, Verdict
from fleet.model.keys import PICK_FIXED
from fleet.model.timestamps import format_age, format_timestamp, parse_duration, timestamp_or_none
from fleet.model.views import PlacementPolicy
from fleet.snapshot.columns.bitset import as_bits, each_row, from_bools, to_rows
from fleet.snapshot.columns.signals import (
    AGENT_KNOWN,
    HEALTH_KNOWN,
    HEALTH_TIME_KNOWN,
    HEARTBEAT_KNOWN,
    JOINED_TRUE,
    TERMINATING,
    Eligibility,
    Signals,
    SignalsColumn,
    signals_of,
)
from fleet.snapshot.frame import Frame

_LEFT, _AGENT_MISSING, _AGENT_SILENT, _NOT_JOINED, _HEALTH_UNKNOWN, _UNHEALTHY = range(1, 7)
_EVENTS: Final = (ClusterEvent(ClusterEventKind.UPDATE_HEALTH),)
_TIMES: Final = {"lastSeen": "last heartbeat", "since": "unhealthy since"}
_DISCONNECTED: Final = "cluster is not connected to the fleet: "


class ClusterEligibilityArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    heartbeat_timeout: str = "5m"
    unhealthy_timeout: str = "5m"
    retention: str = "15m"
    """How long a cluster that dropped out keeps what it has over a policy change; 0 moves it at once."""


def _reason(name: str, form: str, *, short: str, since: str = "") -> Reason:
    return Reason(
        name,
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        form,
        short=short,
        lacks=partial(_describe_since, short, since) if since else None,
        lines=_describe_times,
        about_cluster_only=True,
    )


def _describe_times(details: Details, now: int) -> Iterator[str]:
    for key, words in _TIMES.items():
        then = timestamp_or_none(details.get(key))
        if then is not None:
            yield f"{words} {details[key]}, {format_age(now - then)} before this decision"


def _describe_since(short: str, key: str, details: Details) -> str:
    return f"{short} since {details[key]}" if key in details else f"{short}, {details['when']}"


class ClusterEligibility(PluginTraits):
    READS = ("signals", "obsolete")
    READS_POLICY_ONLY = True
    ROW_LOCAL = True
    ONLY_EXPIRES = True
    APPLIES_TO_FIXED = True
    REASONS = ReasonTable(
        _reason("Left", "cluster has left the fleet", short="left the fleet"),
        _reason("AgentMissing", _DISCONNECTED + "member agent not online yet", short="agent missing"),
        _reason(
            "AgentSilent",
            _DISCONNECTED + "no recent heartbeat signals ({when})",
            short="agent silent",
            since="lastSeen",
        ),
        _reason("NotJoined", _DISCONNECTED + "member agent not joined yet", short="agent not joined"),
        _reason(
            "HealthUnknown",
            _DISCONNECTED + "health condition from member agent is not available",
            short="health unknown",
        ),
        _reason(
            "Unhealthy",
            _DISCONNECTED + "unhealthy for a prolonged period of time ({when})",
            short="unhealthy",
            since="since",
        ),
    )

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del handle
        args = decode_into(raw, ClusterEligibilityArgs)
        self.eligibility: Final = Eligibility.parse(
            heartbeat_timeout=args.heartbeat_timeout, unhealthy_timeout=args.unhealthy_timeout
        )
        self.retention: Final = parse_duration(args.retention)

    def name(self) -> str:
        return "ClusterEligibility"

    def filter(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int) -> Verdict:
        del state
        signals = frame.signals
        ok = from_bools(self.eligibility.rows(signals, ctx.now))
        rejected = alive & ~ok
        if not rejected:
            return Verdict(ok=ok)
        reasons = self._reasons(signals, rejected, frame, ctx.now)
        retained = self._find_retained(ctx, frame, rejected, reasons)
        stays = 0 if req.placement_type == PICK_FIXED else retained
        return Verdict(ok=ok | stays, reason=reasons, retained=retained)

    def explain_row(self, req: PlacementRequest, frame: Frame, row: int, reason: int) -> Mapping[str, object]:
        del req
        signals = signals_of(frame.cluster(row))
        if reason == _AGENT_SILENT:
            if not signals.flags & HEARTBEAT_KNOWN:
                return {"when": "never received", "check": reason}
            last_seen = format_timestamp(signals.last_seen)
            return {"when": f"last received at {last_seen}", "check": reason, "lastSeen": last_seen}
        if reason == _UNHEALTHY:
            if not signals.flags & HEALTH_TIME_KNOWN:
                return {"when": "last transitioned at an unknown time", "check": reason}
            since = format_timestamp(signals.health_since)
            return {"when": f"last transitioned at {since}", "check": reason, "since": since}
        return {"check": reason}

    # --- explaining ---------------------------------------------------------------------------------------------

    def events_to_register(self, policy: PlacementPolicy, namespace: str) -> tuple[ClusterEvent, ...]:
        return _EVENTS

    def suggest(self, rejected: RejectedClusters) -> Iterator[Suggestion]:
        """A connected, healthy agent. No edit brings back a cluster that leaves."""
        frame = rejected.frame
        if rejected.reason != self.REASONS[_LEFT].name:
            yield from rejected.suggest_per_cluster(
                lambda row: [{"op": "setReady", "cluster": frame.name(row), "value": True}],
                frame.sort_by_name(rejected.rows),
            )

    # --- inside -------------------------------------------------------------------------------------------------

    def _reasons(self, signals: SignalsColumn, rejected: int, frame: Frame, now: int) -> ReasonArray:
        rows = to_rows(rejected, frame.size)
        flags = signals.flags[rows]
        silent = ((flags & HEARTBEAT_KNOWN) == 0) | (signals.last_seen[rows] < now - self.eligibility.heartbeat_timeout)
        checks = [
            (flags & TERMINATING) != 0,
            (flags & AGENT_KNOWN) == 0,
            silent,
            (flags & JOINED_TRUE) == 0,
            (flags & HEALTH_KNOWN) == 0,
        ]
        reasons = np.zeros(frame.size, dtype=np.uint16)
        reasons[rows] = np.select(
            checks, [_LEFT, _AGENT_MISSING, _AGENT_SILENT, _NOT_JOINED, _HEALTH_UNKNOWN], _UNHEALTHY
        )
        return reasons

    def _find_retained(self, ctx: HookContext, frame: Frame, rejected: int, reasons: ReasonArray) -> int:
        retained = 0
        if self.retention > 0:
            for row in each_row(as_bits(ctx.obsolete, rejected)):
                signal = _failing_signal(frame.signals.of(row), int(reasons[row]))
                if signal is not None and ctx.now - signal <= self.retention:
                    retained |= 1 << row
        return retained


def _failing_signal(signals: Signals, reason: int) -> int | None:
    """The time of the failing signal; None if waiting does not help."""
    if reason in (_AGENT_SILENT, _NOT_JOINED, _HEALTH_UNKNOWN):
        return signals.last_seen if signals.flags & HEARTBEAT_KNOWN else None
    if reason == _UNHEALTHY and signals.flags & HEALTH_TIME_KNOWN:
        return signals.health_since
    return None
