"""Rows of `fleet get`: the main facts of each kind of object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fleet.cli.client.names import BINDING_KINDS, CLUSTER_KIND, PLACEMENT_KINDS
from fleet.model.keys import MEMBER_AGENT, PARENT_PLACEMENT
from fleet.model.timestamps import SECOND, timestamp_or_none

Json = Mapping[str, Any]
Row = tuple[str, ...]

_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60))
_MOST_NAMES: Final = 8
UNKNOWN: Final = "-"


class Listing:
    """Columns of one kind of rows."""

    def __init__(self, headings: Row, row: Callable[[Json, int], Row], numbers: Row = ()) -> None:
        self.headings = headings
        self.numbers = numbers
        self._row = row

    def rows(self, documents: Sequence[Json], now: int) -> list[Row]:
        """`now` in nanoseconds since the epoch."""
        return [self._row(document, now) for document in documents]


def listing_of(kind: str) -> Listing:
    return _LISTINGS.get(kind, _OTHERS)


def key_of(document: Json) -> str:
    metadata = document.get("metadata") or {}
    return "/".join(str(metadata[part]) for part in ("namespace", "name") if metadata.get(part))


def format_age(text: str | None, now: int) -> str:
    """`41s`, `12m`, `3h` or `9d`"""
    then = timestamp_or_none(text)
    if then is None:
        return UNKNOWN
    seconds = max(0, now - then) // SECOND
    return next((f"{seconds // size}{unit}" for unit, size in _UNITS if seconds >= size), f"{seconds}s")


# --- placements -----------------------------------------------------------------------------------------------------


def _build_placement_row(document: Json, now: int) -> Row:
    policy = _find_part(document, "spec", "policy")
    kind = policy.get("placementType") or "PickAll"
    wanted = {"PickAll": "all", "PickN": str(policy.get("numberOfClusters", UNKNOWN))}
    chosen = _list_chosen(document)
    return (
        key_of(document),
        kind,
        wanted.get(kind, str(len(policy.get("clusterNames") or ()))),
        str(len(chosen)),
        _describe_scheduled(document),
        _join_names(chosen),
        _format_age(document, now),
    )


def _list_chosen(document: Json) -> list[str]:
    named = (status.get("clusterName") for status in _find_part(document, "status").get("placementStatuses") or ())
    return [str(name) for name in named if name]


def _describe_scheduled(document: Json) -> str:
    """Conditions of an earlier generation do not count."""
    generation = _find_part(document, "metadata").get("generation")
    for condition in _find_part(document, "status").get("conditions") or ():
        is_scheduled = str(condition.get("type", "")).endswith("PlacementScheduled")
        if is_scheduled and condition.get("observedGeneration") == generation:
            return str(condition.get("status"))
    return "Pending"


def _join_names(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return " ".join(names[:_MOST_NAMES]) + (f" +{more}" if more > 0 else "")


# --- clusters and bindings ------------------------------------------------------------------------------------------


def _build_cluster_row(document: Json, now: int) -> Row:
    agents = _find_part(document, "status").get("agentStatus") or ()
    agent: Json = next((agent for agent in agents if agent.get("type") == MEMBER_AGENT), {})
    conditions = {condition.get("type"): str(condition.get("status")) for condition in agent.get("conditions") or ()}
    taints = _find_part(document, "spec").get("taints") or ()
    return (
        key_of(document),
        "leaving" if _find_part(document, "metadata").get("deletionTimestamp") else conditions.get("Joined", UNKNOWN),
        conditions.get("Healthy", UNKNOWN),
        format_age(agent.get("lastReceivedHeartbeat"), now),
        " ".join(_format_taint(taint) for taint in taints),
        _format_age(document, now),
    )


def _format_taint(taint: Json) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"


def _build_binding_row(document: Json, now: int) -> Row:
    spec, metadata = _find_part(document, "spec"), _find_part(document, "metadata")
    labels = metadata.get("labels") or {}
    placement = [str(part) for part in (metadata.get("namespace"), labels.get(PARENT_PLACEMENT)) if part]
    return (
        "/".join(placement),
        str(spec.get("targetCluster", UNKNOWN)),
        "Deleting" if metadata.get("deletionTimestamp") else str(spec.get("state", UNKNOWN)),
        _find_condition(document, "Applied"),
        _find_condition(document, "Available"),
        str(metadata.get("name")),
        _format_age(document, now),
    )


def _find_condition(document: Json, type: str) -> str:
    conditions = _find_part(document, "status").get("conditions") or ()
    return next((str(condition.get("status")) for condition in conditions if condition.get("type") == type), UNKNOWN)


def _build_row(document: Json, now: int) -> Row:
    return (
        key_of(document),
        str(_find_part(document, "metadata").get("generation", UNKNOWN)),
        _format_age(document, now),
    )


def _format_age(document: Json, now: int) -> str:
    return format_age(_find_part(document, "metadata").get("creationTimestamp"), now)


def _find_part(document: Json, *path: str) -> Json:
    for step in path:
        document = document.get(step) or {}
    return document


_PLACEMENTS: Final = Listing(
    ("PLACEMENT", "TYPE", "WANTED", "SELECTED", "SCHEDULED", "CLUSTERS", "AGE"),
    _build_placement_row,
    ("WANTED", "SELECTED"),
)
_CLUSTERS: Final = Listing(("CLUSTER", "JOINED", "HEALTHY", "HEARD", "TAINTS", "AGE"), _build_cluster_row)
_BINDINGS: Final = Listing(
    ("PLACEMENT", "CLUSTER", "STATE", "APPLIED", "AVAILABLE", "BINDING", "AGE"), _build_binding_row
)
_OTHERS: Final = Listing(("NAME", "GENERATION", "AGE"), _build_row, ("GENERATION",))
_LISTINGS: Final[Mapping[str, Listing]] = {
    **dict.fromkeys(PLACEMENT_KINDS, _PLACEMENTS),
    **dict.fromkeys(BINDING_KINDS, _BINDINGS),
    CLUSTER_KIND: _CLUSTERS,
}
