"""What happens to a fleet: the n-th change goes to another row than the last one and always changes something.

Clusters come as they do from a watch, decoded from bytes, so that no comparison is spared by shared texts.
"""

from __future__ import annotations

from typing import Final

from fleet.model.views import MemberCluster
from tests.bench.fleets import NODE_COUNT, Json, as_watched, cluster_document

_STRIDE: Final = 37


def a_heartbeat(number: int, fleet: int) -> MemberCluster:
    row, visit = _place(number, fleet)
    return as_watched(cluster_document(row, heartbeat=_moment(visit)))


def another_property(number: int, fleet: int) -> MemberCluster:
    row, visit = _place(number, fleet)
    return as_watched(_with_nodes(cluster_document(row), visit))


def another_label(number: int, fleet: int) -> MemberCluster:
    row, visit = _place(number, fleet)
    return as_watched(cluster_document(row, labels=_moved(row, visit)))


def all_at_once(number: int, fleet: int) -> MemberCluster:
    row, visit = _place(number, fleet)
    document = cluster_document(row, heartbeat=_moment(visit), labels=_moved(row, visit))
    return as_watched(_with_nodes(document, visit))


def _place(number: int, fleet: int) -> tuple[int, int]:
    """The row, and how often it has been visited with this time."""
    return number * _STRIDE % fleet, 1 + number // fleet


def _moment(visit: int) -> str:
    return f"2026-01-01T00:00:{visit % 60:02d}Z"


def _moved(row: int, visit: int) -> dict[str, str]:
    return {"region": f"r{(row + visit) % 8}"}


def _with_nodes(document: Json, visit: int) -> Json:
    document["status"]["properties"][NODE_COUNT]["value"] = str(1_000 + visit)
    return document
