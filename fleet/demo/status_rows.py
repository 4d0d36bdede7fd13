"""Rows of the terminal view, derived only from objects of the hub, so it agrees with `kubectl`."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from fleet.kube.resource import key_of
from fleet.model.keys import MEMBER_AGENT, PICK_ALL, PICK_FIXED
from fleet.model.timestamps import SECOND, timestamp_or_none
from fleet.model.views import Condition, MemberCluster, Observed, Placement, PlacementPolicy, View

_PENDING: Final = "waiting for the controller"
_SCHEDULED: Final = "Scheduled"
_CHAIN: Final = (_SCHEDULED, "RolloutStarted", "Overridden", "WorkSynchronized", "Applied", "Available")
_STAGES: Final = {
    "RolloutStarted": "rollout not started",
    "Overridden": "overrides not settled",
    "WorkSynchronized": "writing work",
    "Applied": "applying",
    "Available": "not available yet",
}


class State(enum.StrEnum):
    """State of a member cluster, worst first."""

    SILENT = "not connected"
    LATE = "late"
    LEAVING = "leaving"
    JOINING = "joining"
    CONNECTED = "connected"


class ClusterStatusRow(NamedTuple):
    name: str
    region: str
    age: float | None
    """Seconds since the last heartbeat; None before the first."""
    state: State
    taints: str


class PlacementStatusRow(NamedTuple):
    key: str
    type: str
    wanted: str
    selected: tuple[str, ...]
    status: str
    is_settled: bool
    """All desired clusters are selected and available."""


class HeartbeatThresholds(NamedTuple):
    """In seconds."""

    late: float
    """Age at which a heartbeat is overdue."""
    silent: float
    """Age at which a cluster counts as not connected."""


def cluster_rows(
    clusters: Iterable[MemberCluster], *, now: int, thresholds: HeartbeatThresholds
) -> list[ClusterStatusRow]:
    """Those that need attention first, then by name. `now` in nanoseconds since the epoch."""
    rows = [_cluster_row(cluster, now, thresholds) for cluster in clusters]
    order = list(State)
    return sorted(rows, key=lambda row: (order.index(row.state), row.name))


def _cluster_row(cluster: MemberCluster, now: int, thresholds: HeartbeatThresholds) -> ClusterStatusRow:
    metadata = cluster.metadata
    agents = (agent for agent in cluster.status.agent_status if agent.type == MEMBER_AGENT)
    heard = next((timestamp_or_none(agent.last_received_heartbeat) for agent in agents), None)
    age = None if heard is None else max(0.0, (now - heard) / SECOND)
    state = State.LEAVING if metadata.deletion_timestamp else _state_at(age, thresholds)
    taints = ", ".join(taint.key for taint in cluster.spec.taints)
    return ClusterStatusRow(metadata.name, metadata.label("region") or "", age, state, taints)


def _state_at(age: float | None, thresholds: HeartbeatThresholds) -> State:
    if age is None:
        return State.JOINING
    if age > thresholds.silent:
        return State.SILENT
    return State.LATE if age > thresholds.late else State.CONNECTED


# --- placements -------------------------------------------------------------------------------------------------------


class _Spec(View, frozen=True):
    policy: PlacementPolicy | None = None


class _ClusterStatus(View, frozen=True):
    cluster_name: str = ""


class _Status(View, frozen=True):
    conditions: tuple[Condition, ...] = ()
    placement_statuses: tuple[_ClusterStatus, ...] = ()


def placement_row(placement: Observed[Placement]) -> PlacementStatusRow:
    view = placement.view
    policy = msgspec.json.decode(view.spec, type=_Spec).policy or PlacementPolicy()
    status = msgspec.json.decode(view.status, type=_Status)
    selected = tuple(cluster.cluster_name for cluster in status.placement_statuses if cluster.cluster_name)
    text, is_settled = _status_text(placement, status)
    kind = policy.placement_type or PICK_ALL
    return PlacementStatusRow(key_of(view.metadata), kind, _format_wanted_count(policy), selected, text, is_settled)


def is_decided(placement: Observed[Placement]) -> bool:
    """Whether the status has the scheduler's result for the current generation."""
    status = msgspec.json.decode(placement.view.status, type=_Status)
    scheduled = _index_current(placement, status).get(_SCHEDULED)
    return scheduled is not None and scheduled.status != "Unknown"


def _format_wanted_count(policy: PlacementPolicy) -> str:
    if policy.placement_type == PICK_FIXED:
        return str(len(policy.cluster_names))
    return "all" if policy.number_of_clusters is None else str(policy.number_of_clusters)


def _status_text(placement: Observed[Placement], status: _Status) -> tuple[str, bool]:
    if placement.view.metadata.deletion_timestamp:
        return "being deleted", False
    current = _index_current(placement, status)
    scheduled = current.get(_SCHEDULED)
    if scheduled is None or scheduled.status == "Unknown":
        return _PENDING, False
    unfinished = [type for type in _CHAIN[1:] if type in current and current[type].status != "True"]
    rollout = _STAGES[unfinished[0]] if unfinished else ""
    if scheduled.status == "False":
        return ", ".join(part for part in ("not enough clusters", rollout) if part), False
    return rollout or ("available" if _CHAIN[-1] in current else "scheduled"), not rollout


def _index_current(placement: Observed[Placement], status: _Status) -> dict[str, Condition]:
    """Conditions of the current generation, by type without the prefix of the kind."""
    generation = placement.view.metadata.generation
    names = (
        (condition, condition.type.removeprefix("Cluster").removeprefix("ResourcePlacement"))
        for condition in status.conditions
    )
    return {name: condition for condition, name in names if condition.observed_generation >= generation}
