"""Attempt record: the result of one attempt, and the interface of recorders."""

from __future__ import annotations

import enum
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from fleet.framework.cycle.cycle import DecisionInput
    from fleet.framework.cycle.decision import Decision
    from fleet.framework.runtime.effects import Failure, HookResult
    from fleet.model.placement_key import PlacementKey
    from fleet.model.views import Observed, PolicySnapshot
    from fleet.scheduler.dispatch.binding_calls import WriteResult


class AttemptResult(enum.Enum):
    DECIDED = "Decided"
    """Written and published, with as many clusters as desired."""
    SHORT = "Short"
    """The same with fewer clusters than desired: events requeue the placement."""
    NO_SNAPSHOT = "NoSnapshot"
    """The placement controller has not written one yet: its next write enqueues the placement."""
    CLEANED_UP = "CleanedUp"
    """The placement is being deleted, and the scheduler has removed its finalizer."""
    FOREIGN = "Foreign"
    """The placement names a profile that this process does not have: it is left alone."""
    GONE = "Gone"
    WAITING = "Waiting"
    """Reserved, and waiting for Permit plugins. The same attempt is recorded again when it ends."""
    REJECTED = "Rejected"
    """Reserve or Permit refused a cluster: no binding was written."""
    BIND_FAILED = "BindFailed"
    """A PreBind or Bind plugin failed: what was not bound is unreserved."""
    BAD_INPUT = "BadInput"
    """The policy cannot be evaluated. Only its status was written, with the error."""
    TRANSIENT = "Transient"
    INTERNAL = "Internal"

    @property
    def is_failure(self) -> bool:
        return self in _FAILURES


_FAILURES: Final = frozenset(
    (AttemptResult.BIND_FAILED, AttemptResult.BAD_INPUT, AttemptResult.TRANSIENT, AttemptResult.INTERNAL)
)


@dataclass(slots=True, kw_only=True)
class AttemptRecord:
    """Filled in during the attempt, unchanged after it."""

    key: PlacementKey
    triggers: tuple[str, ...] = ()
    """The events that enqueued the placement since its last attempt."""
    number: int = 0
    """Counts the attempts of this process."""
    epoch: int = 0
    """Of the leadership, see `Leadership.epoch`."""
    started: int = 0
    """Nanoseconds since the epoch: also the moment of the decision."""
    result: AttemptResult = AttemptResult.DECIDED
    error: BaseException | None = None
    snapshot: Observed[PolicySnapshot] | None = None
    inputs: DecisionInput | None = None
    decision: Decision | None = None
    effects: Sequence[HookResult] = ()
    """The answers of Reserve, Permit, PreBind and Bind plugins, in the order in which they came."""
    failed: Failure | None = None
    """The answer that ended the attempt."""
    rejectors: Set[str] = frozenset()
    """Of a member of a group that is refused: who refuses it there."""
    writes: Sequence[WriteResult] = ()
    status_written: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    """By phase: read, decide, ask, write, publish."""

    @property
    def failure(self) -> str:
        """The error as text; empty without one."""
        if self.error is not None:
            return str(self.error)
        problems = self.decision.request.problems if self.decision else ()
        return "; ".join(str(problem) for problem in problems)

    @property
    def bindings(self) -> Set[str]:
        """The names of all bindings that the attempt read or wrote."""
        read = () if self.inputs is None else self.inputs.bindings
        written = (write.written.view for write in self.writes if write.written is not None)
        return {binding.metadata.name for binding in (*read, *written)}


class Recorder(Protocol):
    def record(self, attempt: AttemptRecord) -> None:
        """Never blocks and never raises."""


class NoRecorder:
    def record(self, attempt: AttemptRecord) -> None:
        del attempt
