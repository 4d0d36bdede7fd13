"""The nine clusters of `tests.oracle.example_fleet` as a hub takes them: c8 is silent since January, c9 is leaving."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from tests.oracle.example_fleet import FRESH, STALE, example_clusters

Json = dict[str, Any]

SILENT_SINCE: Final = STALE
FILTERED_C8: Final = (
    "ClusterUnschedulable, cluster is not connected to the fleet: no recent heartbeat signals "
    f"(last received at {SILENT_SINCE})"
)
FILTERED_C9: Final = "ClusterUnschedulable, cluster has left the fleet"


def example_members() -> list[Json]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return [_complete(one, now) for one in example_clusters()]


def _complete(cluster: Json, now: str) -> Json:
    status = cluster["status"]
    for agent in status["agentStatus"]:
        if agent["lastReceivedHeartbeat"] == FRESH:
            agent["lastReceivedHeartbeat"] = now
        for condition in agent["conditions"]:
            condition |= {"reason": condition["type"], "message": ""}
    for measured in status.get("properties", {}).values():
        measured["observationTime"] = now
    if "resourceUsage" in status:
        status["resourceUsage"]["observationTime"] = now
    return cluster
