"""What happened in one attempt, for whoever keeps a history of it."""

from __future__ import annotations

import enum
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from fleet.framework.cycle.cycle import DecisionInput
    from fleet.framework.cycle.decision import Decision
    from fleet.model.views import Observed, PolicySnapshot
    from fleet.scheduler.dispatch.binding_writes import WriteResult


class Ending(enum.Enum):
    """How an attempt ended."""

    DECIDED = "Decided"
    """Carried out and published: as many clusters as wanted."""
    SHORT = "Short"
    """The same, with fewer clusters than wanted: events wake it."""
    NO_SNAPSHOT = "NoSnapshot"
    """The placement controller is at work: its next write wakes the placement."""
    CLEANED_UP = "CleanedUp"
    """The placement is being deleted, and our part of it is done."""
    GONE = "Gone"
    BAD_INPUT = "BadInput"
    """The policy cannot be evaluated; said so where its owner looks, nothing else was touched."""
    TRANSIENT = "Transient"
    INTERNAL = "Internal"

    @property
    def is_failure(self) -> bool:
        return self in (Ending.BAD_INPUT, Ending.TRANSIENT, Ending.INTERNAL)


@dataclass(slots=True, kw_only=True)
class AttemptRecord:
    """Filled in on the way."""

    key: str
    triggers: tuple[str, ...] = ()
    """What woke the placement since its last attempt."""
    number: int = 0
    """Which attempt of this process it was."""
    started: int = 0
    """Nanoseconds since the epoch: also the moment of the decision."""
    ending: Ending = Ending.DECIDED
    error: BaseException | None = None
    snapshot: Observed[PolicySnapshot] | None = None
    asked: DecisionInput | None = None
    decision: Decision | None = None
    writes: Sequence[WriteResult] = ()
    status_written: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    """By phase: read, decide, write, publish."""

    @property
    def failure(self) -> str:
        """What went wrong; empty where nothing did."""
        if self.error is not None:
            return str(self.error)
        problems = self.decision.request.problems if self.decision else ()
        return "; ".join(str(problem) for problem in problems)

    @property
    def bindings(self) -> Set[str]:
        """The names of all that the attempt knows of: it read them or wrote them."""
        read = () if self.asked is None else self.asked.bindings
        written = (one.written.view for one in self.writes if one.written is not None)
        return {one.metadata.name for one in (*read, *written)}


class Recorder(Protocol):
    def record(self, attempt: AttemptRecord) -> None:
        """Never blocks and never raises."""


class NoRecorder:
    def record(self, attempt: AttemptRecord) -> None:
        del attempt
