"""The fleets that are measured, made from their definition: a cluster's number says everything about it.

Labels, properties and resources run through their values at different speeds (the factors share no divisor with the
periods), so that any selection leaves every kind of cluster. All clusters are eligible at `NOW`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from fleet.model.decoding import decode
from fleet.model.timestamps import parse_timestamp
from fleet.model.views import MemberCluster
from fleet.snapshot import Frame, Table

Json = dict[str, Any]

RECORDED_SIZES: Final = (1_000, 10_000)
"""Fleets for which the picks of another implementation are known."""

NODE_COUNT: Final = "kubernetes-fleet.io/node-count"
CORE_COST: Final = "kubernetes.azure.com/per-cpu-core-cost"
HOST: Final = "host"
"""A label with a value of its own on every cluster; only some fleets have it."""

_NOW_TEXT: Final = "2026-01-01T00:01:00Z"
_REPORTED_AT: Final = "2026-01-01T00:00:00Z"
_USAGE_FACTORS: Final = {"capacity": 3, "allocatable": 5, "available": 11}

NOW: Final = parse_timestamp(_NOW_TEXT)


def name_of(number: int) -> str:
    return f"member-{number:05d}"


def labels_of(number: int) -> dict[str, str]:
    return {
        "region": f"r{number % 8}",
        "zone": f"z{number % 24}",
        "env": "canary" if number // 3 % 2 else "prod",
        "tier": str(number % 5),
    }


def cluster_document(number: int, *, heartbeat: str = _REPORTED_AT, labels: Mapping[str, str] | None = None) -> Json:
    """A MemberCluster as the hub holds it; `labels` are additions or changes."""
    identity = {"kind": "ServiceAccount", "name": "fleet-member", "namespace": "fleet-system"}
    return {
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
        "kind": "MemberCluster",
        "metadata": {"name": name_of(number), "labels": {**labels_of(number), **(labels or {})}},
        "spec": {"identity": identity},
        "status": {
            "agentStatus": [_agent(heartbeat)],
            "properties": _properties(number),
            "resourceUsage": _usage(number),
        },
    }


def _agent(heartbeat: str) -> Json:
    conditions = [
        {"type": kind, "status": "True", "reason": "r", "message": "", "lastTransitionTime": _REPORTED_AT}
        for kind in ("Joined", "Healthy")
    ]
    return {"type": "MemberAgent", "lastReceivedHeartbeat": heartbeat, "conditions": conditions}


def _properties(number: int) -> Json:
    values = {NODE_COUNT: str(1 + 7 * number % 100), CORE_COST: f"0.{13 * number % 997:03d}"}
    return {name: {"value": value, "observationTime": _REPORTED_AT} for name, value in values.items()}


def _usage(number: int) -> Json:
    quantities = {
        kind: {"cpu": str(4 + factor * number % 96), "memory": f"{4 + factor * number % 253}Gi"}
        for kind, factor in _USAGE_FACTORS.items()
    }
    return {**quantities, "observationTime": _REPORTED_AT}


def fleet_document(size: int) -> Json:
    return {"now": _NOW_TEXT, "memberClusters": [cluster_document(number) for number in range(size)]}


def as_watched(document: Json) -> MemberCluster:
    """As it comes out of a watch: decoded from bytes, so it shares no text with any other object."""
    return decode(msgspec.json.encode(document), MemberCluster).view


def clusters(size: int) -> list[MemberCluster]:
    return [as_watched(cluster_document(number)) for number in range(size)]


def clusters_with_hosts(size: int) -> Iterator[MemberCluster]:
    for number in range(size):
        yield as_watched(cluster_document(number, labels={HOST: f"h{number}"}))


def frame_of(size: int) -> Frame:
    return Table(clusters(size)).freeze()
