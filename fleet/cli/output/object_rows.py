"""Rows of `fleet get`: the main facts of each kind of object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fleet.cli.client.names import BINDING_KINDS, CLUSTER_KIND, PLACEMENT_KINDS
from fleet.errors import InputError
from fleet.model.keys import MEMBER_AGENT, PARENT_PLACEMENT
from fleet.model.timestamps import format_elapsed
from fleet.text_table import Page, apply_style, finish

Json = Mapping[str, Any]
Row = tuple[str, ...]

_MOST_NAMES: Final = 8
_CREATED: Final = ("metadata", "creationTimestamp")
UNKNOWN: Final = "-"
ELIGIBLE: Final = "eligible"
"""Added to the document of a cluster by `fleet get`: whether it takes new work, as the API decides."""


class Listing:
    """Columns of one kind of rows. `wide` ones are shown with `-o wide` only."""

    def __init__(
        self,
        headings: Row,
        row: Callable[[Json, int], Row],
        *,
        wide: Row = (),
        numbers: Row = (),
        trouble: Callable[[Json], bool] = lambda _: False,
    ) -> None:
        self.headings = headings
        self.wide = wide
        self.numbers = numbers
        self.is_troubled = trouble
        self._row = row

    def rows(self, documents: Sequence[Json], now: int) -> list[Row]:
        """`now` in nanoseconds since the epoch."""
        return [self._row(document, now) for document in documents]

    def select(self, *, is_wide: bool) -> list[int]:
        """The positions of the columns that are shown."""
        return [position for position, name in enumerate(self.headings) if is_wide or name not in self.wide]


def listing_of(kind: str) -> Listing:
    return _LISTINGS.get(kind, _OTHERS)


def key_of(document: Json) -> str:
    metadata = document.get("metadata") or {}
    return "/".join(str(metadata[part]) for part in ("namespace", "name") if metadata.get(part))


def list_clusters(document: Json) -> list[str]:
    """Those that a placement is on, or that a binding is for."""
    target = _find_part(document, "spec").get("targetCluster")
    return [str(target)] if target else _list_chosen(document)


def sort_documents(documents: Sequence[Json], kind: str, by: str | None) -> list[Any]:
    """By a column, or a path such as `.metadata.creationTimestamp`; without either, what is in trouble first."""
    listing = listing_of(kind)
    if by is None:
        return sorted(documents, key=lambda document: (not listing.is_troubled(document), key_of(document)))
    if by.lstrip("{").startswith("."):
        path = by.strip("{}").lstrip(".").split(".")
        return sorted(documents, key=lambda document: (_rank(_find_value(document, path)), key_of(document)))
    column = {name.lower(): position for position, name in enumerate(listing.headings)}.get(by.lower())
    if column is None:
        known = ", ".join(name.lower() for name in listing.headings)
        raise InputError(f"{by!r} is not a column; use one of {known}, or a path", field="--sort-by", value=by)
    if listing.headings[column] == "AGE":  # the youngest first, as the column has it
        return sorted(documents, key=lambda document: _find_value(document, _CREATED) or "", reverse=True)
    return sorted(documents, key=lambda document: (_rank(_find_cell(listing, document, column)), key_of(document)))


def _find_cell(listing: Listing, document: Json, column: int) -> str:
    """Counts such as 4/6 are sorted by what is missing."""
    text = finish(listing.rows([document], 0)[0][column], Page())
    have, slash, wanted = text.partition("/")
    return str(int(have) - int(wanted)) if slash and have.isdecimal() and wanted.isdecimal() else text


def _find_value(document: Any, path: Sequence[str]) -> Any:
    for step in path:
        document = document.get(step) if isinstance(document, dict) else None
    return document


def _rank(value: Any) -> tuple[int, float, str]:
    """Numbers before texts, and what is missing last."""
    text = "" if value is None else str(value)
    try:
        return 0, float(text), ""
    except ValueError:
        return (1, 0.0, text) if text else (2, 0.0, "")


# --- placements -----------------------------------------------------------------------------------------------------


def _build_placement_row(document: Json, now: int) -> Row:
    policy = _find_part(document, "spec", "policy")
    kind = policy.get("placementType") or "PickAll"
    chosen = _list_chosen(document)
    condition = find_trouble(document)
    scheduled = _describe_scheduled(document)
    ready = f"{_count_available(document)}/{_count_wanted(policy, kind, chosen)}"
    return (
        key_of(document),
        kind,
        apply_style(ready, "red") if condition else ready,
        apply_style(scheduled, "red") if scheduled != "True" else scheduled,
        str(condition.get("reason") or "") if condition else "",
        _join_names(chosen),
        str(condition.get("message") or "") if condition else "",
        _format_age(document, now),
    )


def _count_wanted(policy: Json, kind: str, chosen: Sequence[str]) -> int:
    """PickAll has as many as it selected."""
    if kind == "PickFixed":
        return len(set(policy.get("clusterNames") or ()))
    return int(policy.get("numberOfClusters") or 0) if kind == "PickN" else len(chosen)


def _count_available(document: Json) -> int:
    """Clusters on which the last step is done; without agents that report any step, those that are selected."""
    statuses = [status for status in _list_statuses(document) if status.get("clusterName")]
    reported = [status for status in statuses if len(status.get("conditions") or ()) > 1]
    ready = [status for status in reported if all(each.get("status") == "True" for each in status["conditions"])]
    return len(ready) if reported else len(statuses)


def find_trouble(document: Json) -> Json | None:
    """The first condition of the present generation that does not hold; an empty one before the first decision."""
    generation = _find_part(document, "metadata").get("generation")
    conditions = [
        condition
        for condition in _find_part(document, "status").get("conditions") or ()
        if condition.get("observedGeneration") == generation
    ]
    broken = next((condition for condition in conditions if condition.get("status") != "True"), None)
    if broken is not None:
        return dict(broken)
    is_decided = any(str(condition.get("type", "")).endswith("PlacementScheduled") for condition in conditions)
    return None if is_decided else {"reason": "NotDecided"}


def is_unfulfilled(document: Json) -> bool:
    """Whether clusters are missing, or nothing is decided yet."""
    return _describe_scheduled(document) != "True"


def _list_chosen(document: Json) -> list[str]:
    named = (status.get("clusterName") for status in _list_statuses(document))
    return [str(name) for name in named if name]


def _list_statuses(document: Json) -> Sequence[Json]:
    return _find_part(document, "status").get("placementStatuses") or ()


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
    labels = _find_part(document, "metadata").get("labels") or {}
    return (
        key_of(document),
        _describe_eligible(document),
        "leaving" if _find_part(document, "metadata").get("deletionTimestamp") else conditions.get("Joined", UNKNOWN),
        conditions.get("Healthy", UNKNOWN),
        format_elapsed(agent.get("lastReceivedHeartbeat"), now),
        " ".join(_format_taint(taint) for taint in taints),
        ",".join(f"{key}={value}" for key, value in sorted(labels.items())),
        _format_age(document, now),
    )


def _describe_eligible(document: Json) -> str:
    eligible = document.get(ELIGIBLE)
    if eligible is None:
        return UNKNOWN
    return "yes" if eligible else apply_style("no", "red")


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
        str(spec.get("schedulingPolicySnapshotName") or UNKNOWN),
        str(spec.get("resourceSnapshotName") or UNKNOWN),
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
    return format_elapsed(_find_part(document, "metadata").get("creationTimestamp"), now)


def _find_part(document: Json, *path: str) -> Json:
    for step in path:
        document = document.get(step) or {}
    return document


_PLACEMENTS: Final = Listing(
    ("PLACEMENT", "TYPE", "READY", "SCHEDULED", "REASON", "CLUSTERS", "MESSAGE", "AGE"),
    _build_placement_row,
    wide=("MESSAGE",),
    trouble=lambda document: find_trouble(document) is not None,
)
_CLUSTERS: Final = Listing(
    ("CLUSTER", "ELIGIBLE", "JOINED", "HEALTHY", "HEARD", "TAINTS", "LABELS", "AGE"),
    _build_cluster_row,
    wide=("LABELS",),
    trouble=lambda document: document.get(ELIGIBLE) is False,
)
_BINDINGS: Final = Listing(
    ("PLACEMENT", "CLUSTER", "STATE", "APPLIED", "AVAILABLE", "BINDING", "SNAPSHOT", "RESOURCES", "AGE"),
    _build_binding_row,
    wide=("SNAPSHOT", "RESOURCES"),
    trouble=lambda document: "False" in (_find_condition(document, "Applied"), _find_condition(document, "Available")),
)
_OTHERS: Final = Listing(("NAME", "GENERATION", "AGE"), _build_row, numbers=("GENERATION",))
_LISTINGS: Final[Mapping[str, Listing]] = {
    **dict.fromkeys(PLACEMENT_KINDS, _PLACEMENTS),
    **dict.fromkeys(BINDING_KINDS, _BINDINGS),
    CLUSTER_KIND: _CLUSTERS,
}
