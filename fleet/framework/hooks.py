"""The extension points: what a plugin may implement, what it is given, and what it may answer.

A plugin is any object with `name()` and the methods of at least one hook. Decision hooks see all candidate clusters
at once, as columns; effect hooks run once per chosen target, because each can fail alone in the outside world.
The legal codes beside Success and Error stand with each hook; any other becomes an error of the attempt.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from fleet.framework.status import Code, Status
from fleet.snapshot.columns.bitset import Int64Array, Mask, Rows

if TYPE_CHECKING:
    from datetime import timedelta

    from fleet.framework.context import Attempt
    from fleet.framework.cycle.decision import EvictionPlan, Target
    from fleet.framework.request import PlacementRequest
    from fleet.framework.scores import ScoreTable
    from fleet.framework.state import CycleState
    from fleet.framework.verdicts import Verdicts
    from fleet.snapshot.frame import Frame

ReasonArray = npt.NDArray[np.uint16]


# --- what hooks say -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a plugin rejects clusters: declared once, referred to by number."""

    name: str
    code: Code
    form: str
    """Message with `{fields}` filled from `explain_row`."""
    already_selected: bool = False


class ReasonTable:
    """A plugin's reasons. Number 0 means pass; the first reason is 1."""

    def __init__(self, *reasons: Reason) -> None:
        self.reasons: Final = reasons

    def __len__(self) -> int:
        return len(self.reasons)

    def __getitem__(self, number: int) -> Reason:
        if not 1 <= number <= len(self.reasons):
            raise IndexError(number)
        return self.reasons[number - 1]


class Verdict(NamedTuple):
    """A Filter's answer for all rows."""

    ok: Mask
    reason: int | ReasonArray = 1
    """One reason for every rejected row, or one per row."""
    retained: int = 0
    """Rows whose existing binding stays although the cluster would not qualify as a newcomer."""
    explain: Callable[[int], Mapping[str, Any]] | None = None
    """Details of a rejected row that only this attempt knows; beats the plugin's `explain_row`."""
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


@dataclass(frozen=True, slots=True)
class Question:
    """What a plugin needs to know from the outside before the attempt can go on."""

    key: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    value: Any
    error: str = ""


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    nomination: tuple[str, ...] = ()
    evictions: EvictionPlan | None = None


# --- the hooks ------------------------------------------------------------------------------------------------------


class Plugin(Protocol):
    def name(self) -> str: ...


class PluginTraits:
    """Optional declarations, with what is assumed of a plugin that says nothing."""

    READS: ClassVar[tuple[str, ...]] = ("*",)
    """Columns the plugin looks at: `labels:<key>`, `taints`, `signals`, …"""
    ROW_LOCAL: bool = False
    """A row's answer depends on that row only, not on other rows and not on what else was picked."""
    APPLIES_TO_FIXED: ClassVar[bool] = False
    """Its Filter also judges the clusters a PickFixed policy names."""
    REASONS: ClassVar[ReasonTable] = ReasonTable()
    SCORE_COMPONENT: ClassVar[Component] = Component.AFFINITY


class QueueSortPlugin(Plugin, Protocol):
    """Order of waiting placements; the smaller key goes first."""

    def key(self, item: Any) -> tuple[Any, ...]: ...


class PreEnqueuePlugin(Plugin, Protocol):
    """Before a placement enters the queue. Legal: Unschedulable, UnschedulableAndUnresolvable, Pending."""

    def pre_enqueue(self, ctx: Attempt, req: PlacementRequest) -> Status | None: ...


class BatchPlugin(Plugin, Protocol):
    """How many clusters the attempt should find; 0 keeps things as they are, negative gives some up."""

    def batch(self, ctx: Attempt, state: CycleState, req: PlacementRequest, frame: Frame) -> int: ...


class PostBatchPlugin(Plugin, Protocol):
    """At most how many to pick per round. Legal: Skip (no limit)."""

    def post_batch(
        self, ctx: Attempt, state: CycleState, req: PlacementRequest, frame: Frame, desired: int
    ) -> tuple[int, Status | None]: ...


class PreFilterPlugin(Plugin, Protocol):
    """Once per round, before Filter; may narrow the candidates. Legal: Skip (switches the plugin's Filter off),
    Unschedulable (others still run), UnschedulableAndUnresolvable (stops at once), Pending."""

    def pre_filter(
        self, ctx: Attempt, state: CycleState, req: PlacementRequest, frame: Frame
    ) -> tuple[Mask | None, Status | None]: ...


class PreFilterExtensions(Protocol):
    """Corrects what PreFilter stored when bindings come or go for the sake of argument."""

    def add(
        self, ctx: Attempt, state: CycleState, req: PlacementRequest, frame: Frame, deltas: Sequence[Delta]
    ) -> Status | None: ...

    def remove(
        self, ctx: Attempt, state: CycleState, req: PlacementRequest, frame: Frame, deltas: Sequence[Delta]
    ) -> Status | None: ...


class FilterPlugin(Plugin, Protocol):
    """Which rows qualify. Legal per reason: Unschedulable, UnschedulableAndUnresolvable, Pending."""

    def filter(self, ctx: Attempt, state: CycleState, req: PlacementRequest, frame: Frame, alive: int) -> Verdict: ...


class PostFilterPlugin(Plugin, Protocol):
    """When too few rows qualify: plan evictions. Legal: Unschedulable, UnschedulableAndUnresolvable."""

    def post_filter(
        self, ctx: Attempt, state: CycleState, req: PlacementRequest, frame: Frame, verdicts: Verdicts
    ) -> tuple[PostFilterResult | None, Status | None]: ...


class PreScorePlugin(Plugin, Protocol):
    """Once per round, before Score, with all verdicts at hand. Legal: Skip (switches the plugin's Score off)."""

    def pre_score(
        self,
        ctx: Attempt,
        state: CycleState,
        req: PlacementRequest,
        frame: Frame,
        feasible: Rows,
        verdicts: Verdicts,
    ) -> Status | None: ...


class ScorePlugin(Plugin, Protocol):
    """One integer per feasible row. Raising, or a column of wrong shape, fails the attempt."""

    def score(self, ctx: Attempt, state: CycleState, req: PlacementRequest, frame: Frame, rows: Rows) -> Int64Array: ...


class NormalizePlugin(Plugin, Protocol):
    """Brings the plugin's own column into 0 … 100; used by weighted ranking only."""

    def normalize(self, ctx: Attempt, state: CycleState, req: PlacementRequest, raw: Int64Array) -> Int64Array: ...


class SortPlugin(Plugin, Protocol):
    """Best rows first: at least the `ctx.need` best, in order."""

    def sort(
        self, ctx: Attempt, state: CycleState, req: PlacementRequest, frame: Frame, rows: Rows, scores: ScoreTable
    ) -> Rows: ...


class StepPicker(Plugin, Protocol):
    """A PostBatch plugin that limits rounds to one pick may offer to make all picks in one pass.

    It is used when every other Filter and Score is row-local, its own Filter stands last, and ranking is
    lexicographic, so that only its own answers change between rounds. It must pick what the rounds would pick.
    """

    def pick(
        self, ctx: Attempt, state: CycleState, req: PlacementRequest, frame: Frame, *, candidates: Candidates
    ) -> Picks: ...


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


class ReservePlugin(Plugin, Protocol):
    """Books and gives back; both are required. Legal for reserve: Unschedulable, UnschedulableAndUnresolvable,
    Pending. `unreserve` is idempotent and never raises outward."""

    def reserve(
        self, ctx: Attempt, state: CycleState, placement: PlacementRequest, target: Target
    ) -> Status | None: ...

    def unreserve(self, ctx: Attempt, state: CycleState, placement: PlacementRequest, target: Target) -> None: ...


class PermitPlugin(Plugin, Protocol):
    """Asked after all targets are reserved. Legal: Wait, Unschedulable, UnschedulableAndUnresolvable, Pending."""

    def permit(
        self, ctx: Attempt, state: CycleState, placement: PlacementRequest, target: Target
    ) -> tuple[Status | None, timedelta]: ...


class PreBindPlugin(Plugin, Protocol):
    """Prepares a target; `pre_bind_preflight`, where present, answers Skip when there is nothing to prepare.
    Legal: Unschedulable, UnschedulableAndUnresolvable."""

    def pre_bind(
        self, ctx: Attempt, state: CycleState, placement: PlacementRequest, target: Target
    ) -> Status | None: ...


class BindPlugin(Plugin, Protocol):
    """Writes a target to the hub. Legal: Skip (leave it to the next one)."""

    def bind(self, ctx: Attempt, state: CycleState, placement: PlacementRequest, target: Target) -> Status | None: ...


class PostBindPlugin(Plugin, Protocol):
    """Told of what was bound; may not object."""

    def post_bind(self, ctx: Attempt, state: CycleState, placement: PlacementRequest, target: Target) -> None: ...
