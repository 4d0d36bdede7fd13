"""Optional methods of plugins: group and order explanations, suggest fixes, name the events that may end a rejection,
and list what they read, so that mistakes in a policy can be pointed out.

These methods take no part in decisions. A plugin without these methods is explained cluster by cluster, suggests
nothing, and every change of a cluster may end its rejections.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

from fleet.framework.policy.reads import PolicyConflict, PolicyRead
from fleet.framework.request import PlacementRequest
from fleet.framework.types import Details, RowExplainer
from fleet.model.views import MemberCluster, PlacementPolicy
from fleet.snapshot.columns.interned import InternedColumn
from fleet.snapshot.frame import Frame

MOST_TOGETHER: Final = 3
"""Clusters that one suggestion changes at most."""
MOST_SUGGESTIONS: Final = 4
"""Suggestions of one kind for one reason."""
MOST_CHANGES: Final = 64
"""Of one suggestion: more of them are none for a user, and each costs as much as the policy is long."""

LOWEST: Final = "lowest"
"""In details: the domains with the fewest clusters, of the label `key`, that keep this cluster's domain from growing
beyond `maxSkew`. Redaction leaves out those that only hidden clusters have."""
LOWEST_LEFT_OUT: Final = "lowestLeftOut"
"""In redacted details: how many were left out."""

OTHER_PLACEMENT: Final = "otherPlacement"
"""In details: the name of a placement that is in the way. Callers who may not read the whole fleet do not see it."""

Edit = Mapping[str, Any]
"""A change of the policy or of a cluster, as simulations take it: `{"op": "tolerate", "key": "gpu"}`."""


class ClusterEventKind(enum.Enum):
    UPDATE_HEALTH = "UpdateHealth"
    """A cluster became eligible."""
    UPDATE_TAINTS = "UpdateTaints"
    """A cluster lost a taint that the policy does not tolerate."""
    UPDATE_NAMESPACES = "UpdateNamespaces"
    UPDATE_LABELS = "UpdateLabels"
    UPDATE_PROPERTIES = "UpdateProperties"
    UPDATE_CAPACITY = "UpdateCapacity"
    """A cluster reports other quantities, or room there was given back."""
    UPDATE = "Update"
    """Any change of a cluster beyond its heartbeat."""


EVERY_LABEL: Final = "*"


class ClusterEvent(NamedTuple):
    """A change of a member cluster that may end a rejection."""

    kind: ClusterEventKind
    names: tuple[str, ...] = ()
    """Keys of labels, names of properties or namespaces: changes of others do not count. `*` stands for all labels."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Edits that may end a rejection together. Whether they do is tried before they are shown."""

    edits: Sequence[Edit]


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberSuggestion:
    """A number in the policy that may go from `start` to `limit`; the smallest change that helps is searched."""

    field: str
    """The name of the number, for users."""
    start: int
    limit: int
    edits: Callable[[int], Sequence[Edit]]
    """The edits that set the number."""
    guess: int | None = None
    """The first value that is likely to help."""
    find_least: Callable[[int], int] | None = None
    """The value that a placement in these rows needs; it saves most of the search."""
    bound: Sequence[Edit] = ()
    """Edits that help wherever the number does: where they do not, it is not tried."""


@dataclass(frozen=True, slots=True)
class ClusterTraits:
    """Labels and properties of a cluster, as far as a plugin reads them."""

    labels: Mapping[str, str]
    properties: Mapping[str, str]
    capacity: Mapping[str, str] = field(default_factory=dict)
    """Quantities by resource, all of them free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedClusters:
    """Clusters that the plugin rejects for one reason."""

    request: PlacementRequest
    frame: Frame
    reason: str
    """Its name; the name of the code for a plugin that declares no reasons."""
    rows: int
    """As a set: bit i is row i."""
    need: int
    """How many clusters are missing."""
    in_use: int
    """Rows that hold an active binding of the placement."""

    def suggest_per_cluster(
        self, edits_of: Callable[[int], Sequence[Edit]], rows: Iterable[int]
    ) -> Iterator[Suggestion]:
        """The first clusters, each alone, and before them as many together as are missing."""
        first = islice(rows, max(MOST_TOGETHER, MOST_SUGGESTIONS))
        cheapest = sorted((tuple(edits_of(row)) for row in first), key=len)
        if 1 < self.need <= min(MOST_TOGETHER, len(cheapest)):
            yield Suggestion(tuple(edit for edits in cheapest[: self.need] for edit in edits))
        yield from map(Suggestion, cheapest[:MOST_SUGGESTIONS])


@dataclass(frozen=True, slots=True, kw_only=True)
class OutrankedCluster:
    """A cluster that fits, and the last one picked before it."""

    request: PlacementRequest
    policy: PlacementPolicy
    frame: Frame
    row: int
    picked: int


def describe_expression(failed: Details) -> str:
    """An expression that a cluster fails, with the observed value: `tier In [prod] (is lab)`"""
    observed = failed.get("observed")
    return f"{failed['expected']} ({'not set' if observed is None else f'is {observed}'})"


class GroupingPlugin(Protocol):
    def explanation_columns(self, req: PlacementRequest, frame: Frame) -> Sequence[InternedColumn[Any]]:
        """The columns that the details of a row depend on: rows with equal values are explained once."""


class RowExplainingPlugin(Protocol):
    def build_row_explainer(self, req: PlacementRequest, frame: Frame) -> RowExplainer:
        """In place of `explain_row`, which is not called then: once for all rows of a decision."""


class MeasuringPlugin(Protocol):
    def split_by_distance(self, req: PlacementRequest, frame: Frame, rows: int) -> Sequence[int]:
        """Rejected rows by how much keeps them out, the closest first; together all of `rows`."""


class SuggestingPlugin(Protocol):
    def suggest(self, rejected: RejectedClusters) -> Iterable[Suggestion | NumberSuggestion | Edit]:
        """Changes that may end a rejection; an edit is short for a suggestion of that edit alone."""


class RankSuggestingPlugin(Protocol):
    def suggest_rank(self, outranked: OutrankedCluster) -> Iterable[NumberSuggestion]:
        """Numbers of the policy that may bring a cluster before the one picked instead."""


class NewcomerPlugin(Protocol):
    def list_newcomers(self, req: PlacementRequest, frame: Frame, in_use: int) -> Iterable[ClusterTraits]:
        """What a cluster that joins must be like to pass the plugin: each way the least there is to it, the easiest
        first. `in_use` are the rows that the placement is on."""


class ReadingPlugin(Protocol):
    def list_reads(self, req: PlacementRequest) -> Iterable[PolicyRead]:
        """The labels, properties, taints and namespaces of clusters that the request names."""


class ConflictPlugin(Protocol):
    def find_conflicts(self, req: PlacementRequest, frame: Frame) -> Iterable[PolicyConflict]:
        """Parts of the request that cannot be met together."""


class EventSource(Protocol):
    def events_to_register(self, policy: PlacementPolicy, namespace: str) -> Iterable[ClusterEvent]:
        """The events after which the plugin may judge a cluster differently. The policy may be invalid. Asked once for
        all placements of a namespace that have the same policy."""


class ClusterVersions(NamedTuple):
    """None for a cluster that is not there."""

    old: MemberCluster | None
    new: MemberCluster | None


class HintRegistration(NamedTuple):
    """An event that may end rejections by the plugin that registers it."""

    event: str
    """Of clusters: `Add`, `Delete`, a value of `ClusterEventKind`, `UpdateCapacity`, or `*` for all. `Binding/Delete`:
    another placement has given back what the plugin had reserved for it."""
    hint: Callable[[ClusterVersions, PlacementRequest], bool] | None = None
    """Whether the event may end the rejection of the request; without one every such event may."""


class HintingPlugin(Protocol):
    def queueing_hints(self) -> Iterable[HintRegistration]:
        """All events that may end a rejection by the plugin. For others its rejected placements are not requeued."""


class AnyUpdate:
    """The event source of a plugin that does not name its events: whatever changes may matter to it."""

    def events_to_register(self, policy: PlacementPolicy, namespace: str) -> Iterable[ClusterEvent]:
        del policy, namespace
        return (ClusterEvent(ClusterEventKind.UPDATE),)


class RegisteredSource(NamedTuple):
    name: str
    """Of the plugin."""
    source: EventSource
    judges_fixed: bool = False
    """Whether its events also count for PickFixed."""


EventSources = Sequence[RegisteredSource]
