"""The hub's objects as rows: of each kind what one wants to know first."""

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
        return [self._row(one, now) for one in documents]


def listing_of(kind: str) -> Listing:
    return _LISTINGS.get(kind, _OTHERS)


def key_of(document: Json) -> str:
    metadata = document.get("metadata") or {}
    return "/".join(str(metadata[part]) for part in ("namespace", "name") if metadata.get(part))


def age(text: str | None, now: int) -> str:
    """`41s`, `12m`, `3h` or `9d`"""
    then = timestamp_or_none(text)
    if then is None:
        return UNKNOWN
    seconds = max(0, now - then) // SECOND
    return next((f"{seconds // size}{unit}" for unit, size in _UNITS if seconds >= size), f"{seconds}s")


# --- placements -----------------------------------------------------------------------------------------------------


def _placement(document: Json, now: int) -> Row:
    policy = _part(document, "spec", "policy")
    kind = policy.get("placementType") or "PickAll"
    wanted = {"PickAll": "all", "PickN": str(policy.get("numberOfClusters", UNKNOWN))}
    chosen = _chosen(document)
    return (
        key_of(document),
        kind,
        wanted.get(kind, str(len(policy.get("clusterNames") or ()))),
        str(len(chosen)),
        _scheduled(document),
        _named(chosen),
        _age(document, now),
    )


def _chosen(document: Json) -> list[str]:
    named = (one.get("clusterName") for one in _part(document, "status").get("placementStatuses") or ())
    return [str(name) for name in named if name]


def _scheduled(document: Json) -> str:
    """Of the placement as it is now: a word about an earlier generation counts for nothing."""
    generation = _part(document, "metadata").get("generation")
    for one in _part(document, "status").get("conditions") or ():
        if str(one.get("type", "")).endswith("PlacementScheduled") and one.get("observedGeneration") == generation:
            return str(one.get("status"))
    return "Pending"


def _named(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return " ".join(names[:_MOST_NAMES]) + (f" +{more}" if more > 0 else "")


# --- clusters and bindings ------------------------------------------------------------------------------------------


def _cluster(document: Json, now: int) -> Row:
    agents = _part(document, "status").get("agentStatus") or ()
    agent: Json = next((one for one in agents if one.get("type") == MEMBER_AGENT), {})
    conditions = {one.get("type"): str(one.get("status")) for one in agent.get("conditions") or ()}
    taints = _part(document, "spec").get("taints") or ()
    return (
        key_of(document),
        "leaving" if _part(document, "metadata").get("deletionTimestamp") else conditions.get("Joined", UNKNOWN),
        conditions.get("Healthy", UNKNOWN),
        age(agent.get("lastReceivedHeartbeat"), now),
        " ".join(_taint(one) for one in taints),
        _age(document, now),
    )


def _taint(taint: Json) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"


def _binding(document: Json, now: int) -> Row:
    spec, metadata = _part(document, "spec"), _part(document, "metadata")
    labels = metadata.get("labels") or {}
    placement = [str(part) for part in (metadata.get("namespace"), labels.get(PARENT_PLACEMENT)) if part]
    return (
        "/".join(placement),
        str(spec.get("targetCluster", UNKNOWN)),
        "Deleting" if metadata.get("deletionTimestamp") else str(spec.get("state", UNKNOWN)),
        _condition(document, "Applied"),
        _condition(document, "Available"),
        str(metadata.get("name")),
        _age(document, now),
    )


def _condition(document: Json, type: str) -> str:
    conditions = _part(document, "status").get("conditions") or ()
    return next((str(one.get("status")) for one in conditions if one.get("type") == type), UNKNOWN)


def _other(document: Json, now: int) -> Row:
    return key_of(document), str(_part(document, "metadata").get("generation", UNKNOWN)), _age(document, now)


def _age(document: Json, now: int) -> str:
    return age(_part(document, "metadata").get("creationTimestamp"), now)


def _part(document: Json, *path: str) -> Json:
    for step in path:
        document = document.get(step) or {}
    return document


_PLACEMENTS: Final = Listing(
    ("PLACEMENT", "TYPE", "WANTED", "SELECTED", "SCHEDULED", "CLUSTERS", "AGE"), _placement, ("WANTED", "SELECTED")
)
_CLUSTERS: Final = Listing(("CLUSTER", "JOINED", "HEALTHY", "HEARD", "TAINTS", "AGE"), _cluster)
_BINDINGS: Final = Listing(("PLACEMENT", "CLUSTER", "STATE", "APPLIED", "AVAILABLE", "BINDING", "AGE"), _binding)
_OTHERS: Final = Listing(("NAME", "GENERATION", "AGE"), _other, ("GENERATION",))
_LISTINGS: Final[Mapping[str, Listing]] = {
    **dict.fromkeys(PLACEMENT_KINDS, _PLACEMENTS),
    **dict.fromkeys(BINDING_KINDS, _BINDINGS),
    CLUSTER_KIND: _CLUSTERS,
}
