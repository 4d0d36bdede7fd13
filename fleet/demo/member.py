"""One simulated member: the status its agent would report, and its drift. No clock, no API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Any, Final

from fleet.demo.locations import Location
from fleet.errors import QuantityError
from fleet.model.keys import (
    HEALTHY,
    JOINED,
    MEMBER_AGENT,
    MEMBER_CLUSTER_FINALIZER,
)
from fleet.model.keys import NAMESPACE_COLLECTION_SUCCEEDED as _NAMESPACES
from fleet.model.quantity import parse_quantity
from fleet.model.views import MemberCluster

Document = dict[str, Any]

NODE_COUNT: Final = "kubernetes-fleet.io/node-count"
VERSION: Final = "k8s.io/k8s-version"
CORE_PRICE: Final = "kubernetes.azure.com/per-cpu-core-cost"
GIBIBYTE_PRICE: Final = "kubernetes.azure.com/per-gb-memory-cost"
OWN_NAMESPACES: Final[Mapping[str, str]] = {"default": "", "kube-system": ""}
"""Namespaces of every cluster, without an owner."""

_NO_USAGE: Final[Mapping[str, int]] = MappingProxyType({})
_ALLOCATABLE: Final = 0.97
"""Share of a node that is not reserved for the system."""
_BUSIEST: Final = 0.95
_IDLEST: Final = 0.15
_RESIZES: Final = 0.04
_REPRICES: Final = 0.1


@dataclass(slots=True)
class Member:
    """`load` is the share of the allocatable resources that is in use."""

    location: Location
    nodes: int
    load: float
    core_price: float
    gibibyte_price: float
    joined: str
    """Since when, as the API writes times."""

    @classmethod
    def create(cls, location: Location, random: Random, *, now: str) -> Member:
        return cls(
            location,
            location.nodes,
            random.uniform(0.3, 0.8),
            location.core_price,
            location.gibibyte_price,
            now,
        )

    @classmethod
    def resume(cls, location: Location, seen: MemberCluster, random: Random, *, now: str) -> Member:
        """Continues from the last reported status, as far as it can be parsed."""
        member = cls.create(location, random, now=_find_join_time(seen) or now)
        reported = {name: value.value for name, value in (seen.status.properties or {}).items()}
        member.nodes = round(_number(reported.get(NODE_COUNT), member.nodes))
        member.core_price = _number(reported.get(CORE_PRICE), member.core_price)
        member.gibibyte_price = _number(reported.get(GIBIBYTE_PRICE), member.gibibyte_price)
        return member

    def drift(self, random: Random) -> None:
        """One step of a random walk within plausible bounds."""
        self.load = min(max(self.load + random.gauss(0, 0.04), _IDLEST), _BUSIEST)
        if random.random() < _RESIZES:
            self.nodes = max(1, self.nodes + random.choice((-1, 1)))
        if random.random() < _REPRICES:
            factor = random.uniform(0.98, 1.02)
            self.core_price *= factor
            self.gibibyte_price *= factor

    # --- documents ----------------------------------------------------------------------------------------------------

    def build_document(self, *, heartbeat_seconds: int) -> Document:
        """The MemberCluster that an administrator creates to let the cluster join."""
        name = self.location.name
        taints = [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in self.location.taints]
        return {
            "metadata": {"name": name, "labels": self.location.labels(), "finalizers": [MEMBER_CLUSTER_FINALIZER]},
            "spec": {
                "identity": {"kind": "User", "name": f"member-agent-{name}"},
                "heartbeatPeriodSeconds": heartbeat_seconds,
                "taints": taints,
            },
        }

    def build_status(
        self, now: str, *, namespaces: Mapping[str, str | None], used: Mapping[str, int] = _NO_USAGE
    ) -> Document:
        """The whole status, as a merge patch: null removes a namespace."""
        return {
            "conditions": [
                _condition("ReadyToJoin", "MemberClusterReadyToJoin", "The cluster may join the fleet.", self.joined),
                *_agent_conditions(self.joined),
                _condition(_NAMESPACES, _NAMESPACES, "All namespaces were collected.", self.joined),
            ],
            "properties": {
                name: {"value": value, "observationTime": now} for name, value in self._properties().items()
            },
            "resourceUsage": {**self._usage(used), "observationTime": now},
            "namespaces": dict(namespaces),
            **self.build_heartbeat(now),
        }

    def build_heartbeat(self, now: str) -> Document:
        """The minimum that keeps the cluster connected, as a merge patch."""
        agent = {"type": MEMBER_AGENT, "lastReceivedHeartbeat": now, "conditions": _agent_conditions(self.joined)}
        return {"agentStatus": [agent]}

    def _properties(self) -> dict[str, str]:
        return {
            NODE_COUNT: str(self.nodes),
            VERSION: self.location.version,
            CORE_PRICE: f"{self.core_price:.4f}",
            GIBIBYTE_PRICE: f"{self.gibibyte_price:.5f}",
        }

    def _usage(self, used: Mapping[str, int]) -> Document:
        cores, gibibytes = self.nodes * self.location.cores, self.nodes * self.location.gibibytes
        left = _ALLOCATABLE * (1 - self.load)
        return {
            "capacity": {"cpu": str(cores), "memory": f"{gibibytes}Gi"},
            "allocatable": {"cpu": f"{int(cores * _ALLOCATABLE * 1000)}m", "memory": f"{int(gibibytes * 993)}Mi"},
            "available": {
                "cpu": f"{max(int(cores * left * 1000) - used.get('cpu', 0), 0)}m",
                "memory": f"{max(int(gibibytes * left * 1024) - (used.get('memory', 0) >> 20), 0)}Mi",
            },
        }


def _agent_conditions(joined: str) -> list[Document]:
    return [
        _condition(JOINED, "MemberClusterJoined", "The cluster has joined the fleet.", joined),
        _condition(HEALTHY, "MemberClusterHealthy", "The member agent is healthy.", joined),
    ]


def _condition(type: str, reason: str, message: str, since: str) -> Document:
    return {"type": type, "status": "True", "reason": reason, "message": message, "lastTransitionTime": since}


def _number(text: str | None, otherwise: float) -> float:
    try:
        return otherwise if text is None else float(parse_quantity(text))
    except QuantityError:
        return otherwise


def _find_join_time(seen: MemberCluster) -> str | None:
    conditions = [condition for agent in seen.status.agent_status for condition in agent.conditions]
    return next((condition.last_transition_time for condition in conditions if condition.type == JOINED), None)
