"""Types of plugins: reasons and verdicts, and the arguments and results of hooks."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from string import Formatter
from typing import Any, ClassVar, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from fleet.framework.status import Code, Status
from fleet.snapshot.columns.bitset import Int64Array, Mask, Rows
from fleet.snapshot.sidedata import PlacedBinding

TieBreak = Literal["nameDescending", "nameAscending", "hashed"]
Ranking = Literal["lexicographic", "weighted"]
DownscaleOrder = Literal["StoredScore", "SpreadAware"]
Details = Mapping[str, Any]
"""Of a rejected row, as plugins explain it."""
RowExplainer = Callable[[int, int], Details]
"""From a rejected row and the number of its reason to the details."""
ReasonArray = npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a plugin rejects clusters: declared once, referred to by number."""

    name: str
    code: Code
    form: str
    """Message with `{fields}` filled from its details."""
    already_selected: bool = False
    short: str | Callable[[Details], str] = ""
    """The rejection in a few words, for summaries; by default the name in words. Callable if it depends on details."""
    lacks: Callable[[Details], str] | None = None
    """What the cluster lacks, with values from its details; by default `short`."""
    lines: Callable[[Details, int], Iterable[str]] | None = None
    """The values behind the rejection, line by line, from the details and the moment of the decision; by default the
    details that `form` does not contain."""
    about_cluster_only: bool = False
    """Message and details mention no other cluster: they need no redaction."""

    @property
    def mentions_details(self) -> bool:
        """In its message."""
        return _has_more_than_plugin(self.form)


@cache
def _has_more_than_plugin(form: str) -> bool:
    fields = [(name, format_spec) for _, name, format_spec, _ in Formatter().parse(form) if name is not None]
    return any(name != "plugin" or "{" in (format_spec or "") for name, format_spec in fields)


class ReasonTable:
    """A plugin's reasons. Number 0 means pass; the first reason is 1."""

    def __init__(self, *reasons: Reason) -> None:
        self.reasons: Final = reasons
        self.already_selected: Final = frozenset(
            number for number, reason in enumerate(reasons, 1) if reason.already_selected
        )

    def __len__(self) -> int:
        return len(self.reasons)

    def __getitem__(self, number: int) -> Reason:
        if not 1 <= number <= len(self.reasons):
            raise IndexError(number)
        return self.reasons[number - 1]

    def find(self, name: str) -> Reason | None:
        return next((reason for reason in self.reasons if reason.name == name), None)


class Verdict(NamedTuple):
    """A Filter's answer for all rows."""

    ok: Mask
    reason: int | ReasonArray = 1
    """One reason for every rejected row, or one per row."""
    retained: int = 0
    """Rows whose existing binding is kept although the cluster would not qualify for a new one."""
    explain: Callable[[int], Mapping[str, Any]] | None = None
    """Details of a rejected row that exist only during the attempt; takes precedence over what the plugin explains."""
    statuses: Sequence[Status] | None = None
    """Reasons made up during the attempt (per-cluster plugins); beats the plugin's table."""


class Component(enum.Enum):
    """Where a Score plugin's numbers count under lexicographic ranking, most significant first."""

    TOPOLOGY = "topology"
    AFFINITY = "affinity"
    OBSOLETE = "obsolete"


@dataclass(frozen=True, slots=True)
class Delta:
    """A binding added to a row (+1) or taken from it (-1) for the sake of argument."""

    row: int
    placement: str
    sign: int
    binding: PlacedBinding | None = None
    """With what it takes, where that is known."""


@dataclass(frozen=True, slots=True)
class ExternalQuery:
    """External data that a plugin needs before the attempt can continue."""

    key: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ExternalResult:
    value: Any
    error: str = ""


@dataclass(frozen=True, slots=True)
class EvictionPlan:
    """Bindings that would have to go: a cluster and a placement each."""

    victims: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    nomination: tuple[str, ...] = ()
    evictions: EvictionPlan | None = None


@dataclass(frozen=True, slots=True)
class Candidates:
    rows: Rows
    """Rows that passed every other filter."""
    keys: Int64Array
    """Their rank by everything but the picker's own component; no two are equal, greater is better."""
    desired: int


@dataclass(frozen=True, slots=True)
class Picks:
    rows: list[int]
    """In the order of picking."""
    scores: list[int]
    """The picker's own component at the moment of each pick."""
    last: Int64Array
    """Its component for every candidate, as of the last step."""
    verdict: Verdict
    """Its Filter's answer as of the last step."""


class GroupState(NamedTuple):
    """How far the decision about a group is."""

    fitting: int
    """Members that fit together so far, with those that are bound already."""
    remaining: int
    """Members that were not looked at."""
    needed: int


class PluginTraits:
    """Optional declarations, with the defaults for a plugin without them."""

    READS: ClassVar[tuple[str, ...]] = ("*",)
    """Columns the plugin reads: `labels:<key>`, `taints`, `signals`, …"""
    ROW_LOCAL: bool = False
    """A row's answer depends on that row only, not on other rows and not on what else was picked."""
    READS_POLICY_ONLY: ClassVar[bool] = False
    """Of the request, its PreFilter, Filter and PostFilter read only the policy, the namespace, the requests, the terms
    about other placements, the labels, the priority, the preemption policy and the least number of clusters: where
    these are equal, placements get equal answers. Quotas, room that is kept for a placement, and its own bindings on a
    cluster are looked at apart."""
    READS_REQUESTS: ClassVar[bool] = False
    """It reads what the placement requests. Where a profile has such a plugin, requests are computed from the selected
    workloads of placements that say nothing."""
    READS_LIMITS: ClassVar[bool] = False
    """It reads the limits of the selected workloads, too; beside READS_REQUESTS."""
    ONLY_EXPIRES: ClassVar[bool] = False
    """As time passes it may reject a cluster that it accepted, and never accepts one that it rejected."""
    APPLIES_TO_FIXED: ClassVar[bool] = False
    """Its Filter also judges the clusters a PickFixed policy names."""
    REASONS: ClassVar[ReasonTable] = ReasonTable()
    SCORE_COMPONENT: ClassVar[Component] = Component.AFFINITY
    RESERVE_REJECTS: ClassVar[bool] = True
    """Its Reserve may refuse a cluster. One that only books declares False, so that hints can foresee decisions."""
    IS_WRITE_PATH: ClassVar[bool] = False
    """Its Bind writes each target's operation and does nothing else, so that all of a decision may be sent together."""
    ACTS_ON_HUB_ONLY: ClassVar[bool] = False
    """What its hooks that act change is on the hub of its handle, or in its own memory: they run in scenarios, too,
    whose hub is not the real one."""
    FEEDS_OPTIONAL: ClassVar[bool] = False
    """Its `list_feeds` may be empty: it has other numbers then."""
    PERMIT_TIMEOUT_CODE: ClassVar[Code] = Code.UNSCHEDULABLE
    """The code of its refusal when a wait that its Permit asked for is over: Unschedulable or Pending."""
    DENIAL_IS_OF_CLUSTER: ClassVar[bool] = False
    """A refusal of its Permit is about the cluster alone: the attempt decides again without it."""
