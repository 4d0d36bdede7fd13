"""ClusterEligibility: the six checks, and the retention of clusters that dropped out a moment ago."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from tests.oracle.documents import Json, condition_of, dig, is_terminating, moment, rfc3339
from tests.oracle.settings import Settings

DISCONNECTED = "cluster is not connected to the fleet: "

LEFT, NO_AGENT, SILENT, NOT_JOINED, HEALTH_UNKNOWN, UNHEALTHY = range(1, 7)


@dataclass(frozen=True)
class Failure:
    """The first check that a cluster fails, and how old the failing signal is where it has an age."""

    check: int
    reason: str
    age: datetime.timedelta | None = None

    def may_be_retained(self, settings: Settings) -> bool:
        if self.check in (LEFT, NO_AGENT) or self.age is None or not settings.retention:
            return False
        return self.age <= settings.retention


def eligibility_failure(cluster: Json, now: datetime.datetime, settings: Settings) -> Failure | None:
    if is_terminating(cluster):
        return Failure(LEFT, "cluster has left the fleet")
    agent = member_agent(cluster)
    if agent is None:
        return Failure(NO_AGENT, DISCONNECTED + "member agent not online yet")
    return agent_failure(agent, now, settings)


def member_agent(cluster: Json) -> Json | None:
    return condition_of(dig(cluster, "status", "agentStatus"), "MemberAgent")


def agent_failure(agent: Json, now: datetime.datetime, settings: Settings) -> Failure | None:
    heartbeat = moment(agent.get("lastReceivedHeartbeat"))
    if heartbeat is None:
        return Failure(SILENT, DISCONNECTED + "no recent heartbeat signals (never received)")
    silence = now - heartbeat
    if silence > settings.heartbeat_timeout:
        text = f"no recent heartbeat signals (last received at {rfc3339(heartbeat)})"
        return Failure(SILENT, DISCONNECTED + text, silence)
    joined = condition_of(agent.get("conditions"), "Joined")
    if joined is None or joined.get("status") != "True":
        return Failure(NOT_JOINED, DISCONNECTED + "member agent not joined yet", silence)
    healthy = condition_of(agent.get("conditions"), "Healthy")
    if healthy is None:
        return Failure(HEALTH_UNKNOWN, DISCONNECTED + "health condition from member agent is not available", silence)
    return None if healthy.get("status") == "True" else health_failure(healthy, now, settings)


def health_failure(healthy: Json, now: datetime.datetime, settings: Settings) -> Failure | None:
    prolonged = DISCONNECTED + "unhealthy for a prolonged period of time "
    transition = moment(healthy.get("lastTransitionTime"))
    if transition is None:
        return Failure(UNHEALTHY, prolonged + "(last transitioned at an unknown time)")
    if now - transition <= settings.health_timeout:
        return None
    return Failure(UNHEALTHY, prolonged + f"(last transitioned at {rfc3339(transition)})", now - transition)
