"""The extension points that plugins implement.

A plugin is any object with `name()` and the methods of at least one hook. Decision hooks get all candidate clusters
at once, as columns; effect hooks run once per chosen target, because each write can fail on its own.
Each hook lists its legal codes in addition to Success and Error; any other becomes an error of the attempt.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from fleet.framework.status import Status
from fleet.framework.types import Candidates, Delta, Picks, PostFilterResult, Verdict
from fleet.snapshot.columns.bitset import Int64Array, Mask, Rows

if TYPE_CHECKING:
    from datetime import timedelta

    from fleet.framework.context import HookContext
    from fleet.framework.operations import Target
    from fleet.framework.request import PlacementRequest
    from fleet.framework.scores import ScoreTable
    from fleet.framework.state import CycleState
    from fleet.framework.verdicts import Verdicts
    from fleet.snapshot.frame import Frame


class Plugin(Protocol):
    def name(self) -> str: ...


class QueueSortPlugin(Plugin, Protocol):
    """Order of waiting placements; the smallest key is popped first."""

    def key(self, item: Any) -> tuple[Any, ...]: ...


class PreEnqueuePlugin(Plugin, Protocol):
    """Before a placement enters the queue. Legal: Unschedulable, UnschedulableAndUnresolvable, Pending."""

    def pre_enqueue(self, ctx: HookContext, req: PlacementRequest) -> Status | None: ...


class BatchPlugin(Plugin, Protocol):
    """How many clusters the attempt should find; 0 keeps things as they are, negative gives some up."""

    def batch(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame) -> int: ...


class PostBatchPlugin(Plugin, Protocol):
    """At most how many to pick per round. Legal: Skip (no limit)."""

    def post_batch(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, desired: int
    ) -> tuple[int, Status | None]: ...


class PreFilterPlugin(Plugin, Protocol):
    """Once per round, before Filter; may narrow the candidates. Legal: Skip (skips the plugin's Filter),
    Unschedulable (others still run), UnschedulableAndUnresolvable (stops at once), Pending."""

    def pre_filter(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame
    ) -> tuple[Mask | None, Status | None]: ...


class PreFilterExtensions(Protocol):
    """Corrects what PreFilter stored for hypothetical changes of bindings."""

    def add(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, deltas: Sequence[Delta]
    ) -> Status | None: ...

    def remove(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, deltas: Sequence[Delta]
    ) -> Status | None: ...


class FilterPlugin(Plugin, Protocol):
    """The rows that qualify. Legal per reason: Unschedulable, UnschedulableAndUnresolvable, Pending."""

    def filter(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int
    ) -> Verdict: ...


class PostFilterPlugin(Plugin, Protocol):
    """When too few rows qualify: plan evictions. Legal: Unschedulable, UnschedulableAndUnresolvable."""

    def post_filter(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, verdicts: Verdicts
    ) -> tuple[PostFilterResult | None, Status | None]: ...


class PreScorePlugin(Plugin, Protocol):
    """Once per round, before Score, with all verdicts at hand. Legal: Skip (skips the plugin's Score)."""

    def pre_score(
        self,
        ctx: HookContext,
        state: CycleState,
        req: PlacementRequest,
        frame: Frame,
        feasible: Rows,
        verdicts: Verdicts,
    ) -> Status | None: ...


class ScorePlugin(Plugin, Protocol):
    """One integer per feasible row. Raising, or a column of wrong shape, fails the attempt."""

    def score(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, rows: Rows
    ) -> Int64Array: ...


class NormalizePlugin(Plugin, Protocol):
    """Brings the plugin's own column into 0 … 100; used by weighted ranking only."""

    def normalize(self, ctx: HookContext, state: CycleState, req: PlacementRequest, raw: Int64Array) -> Int64Array: ...


class SortPlugin(Plugin, Protocol):
    """Best rows first: at least the `ctx.need` best, in order."""

    def sort(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, rows: Rows, scores: ScoreTable
    ) -> Rows: ...


class SigningPlugin(Plugin, Protocol):
    """What Batch, PostBatch, PreFilter, Filter, PreScore, Score and Sort of the plugin read of a request: requests that
    are signed alike share one ranking.

    Of the fleet they read clusters only, as `READS` says, and no signals; they read no time, and keep nothing in the
    state for hooks that act.
    """

    def sign(self, req: PlacementRequest) -> Hashable: ...


class StepPicker(Plugin, Protocol):
    """A PostBatch plugin that limits rounds to one pick may offer to make all picks in one pass.

    It is used when every other Filter and Score is row-local, its own Filter is the last one, and ranking is
    lexicographic, so that only its own results change between rounds. It must pick what the rounds would pick.
    """

    def pick(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, *, candidates: Candidates
    ) -> Picks: ...


class ReservePlugin(Plugin, Protocol):
    """Books and gives back; both are required. Legal for reserve: Unschedulable, UnschedulableAndUnresolvable,
    Pending. `unreserve` is idempotent and never raises outward."""

    def reserve(
        self, ctx: HookContext, state: CycleState, placement: PlacementRequest, target: Target
    ) -> Status | None: ...

    def unreserve(self, ctx: HookContext, state: CycleState, placement: PlacementRequest, target: Target) -> None: ...


class PermitPlugin(Plugin, Protocol):
    """Runs after all targets are reserved. Legal: Wait, Unschedulable, UnschedulableAndUnresolvable, Pending."""

    def permit(
        self, ctx: HookContext, state: CycleState, placement: PlacementRequest, target: Target
    ) -> tuple[Status | None, timedelta]: ...


class PreBindPlugin(Plugin, Protocol):
    """Prepares a target; `pre_bind_preflight`, where present, returns Skip if no preparation is needed.
    Legal: Unschedulable, UnschedulableAndUnresolvable."""

    def pre_bind(
        self, ctx: HookContext, state: CycleState, placement: PlacementRequest, target: Target
    ) -> Status | None: ...


class BindPlugin(Plugin, Protocol):
    """Writes a target to the hub. Legal: Skip (leave it to the next plugin)."""

    def bind(
        self, ctx: HookContext, state: CycleState, placement: PlacementRequest, target: Target
    ) -> Status | None: ...


class PostBindPlugin(Plugin, Protocol):
    """Called after a binding was written; its result is ignored."""

    def post_bind(self, ctx: HookContext, state: CycleState, placement: PlacementRequest, target: Target) -> None: ...
