"""The result of an attempt: targets, operations, and the columns they were decided on.

Messages, published status and digest are rendered on first use, from the same columns.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fleet.cached import cached_property
from fleet.framework.bindings import PlacementBindings
from fleet.framework.context import Warning
from fleet.framework.operations import Operation, Target, TargetScores
from fleet.framework.profiles.profile import StatusLimits
from fleet.framework.request import PlacementRequest
from fleet.framework.scores import ScoreTable
from fleet.framework.status import Code, Status
from fleet.framework.types import EvictionPlan, ExternalQuery, TieBreak
from fleet.framework.verdicts import Verdicts
from fleet.model.keys import SCHEDULED_CONDITION
from fleet.model.views import ClusterDecision, Condition, PolicySnapshotStatus
from fleet.snapshot.columns.bitset import Rows
from fleet.snapshot.frame import Frame


class Outcome(enum.Enum):
    SELECTED = "Selected"
    """As many clusters as desired."""
    PARTIAL = "Partial"
    UNSCHEDULABLE = "Unschedulable"
    UNCHANGED = "Unchanged"
    """As many as desired were selected already; no plugin ran."""
    SHRINK = "Shrink"
    NEEDS_ANSWER = "NeedsAnswer"
    ERROR = "Error"


@dataclass(frozen=True, slots=True)
class Round:
    """One Filter-to-Sort pass: which rows qualified, their scores, their order, and the rows picked."""

    verdicts: Verdicts
    scores: ScoreTable
    order: Rows
    """Ranked rows, best first; at least as many as are picked and published."""
    picked: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Published:
    observed_generation: int
    condition: Condition
    """Without a transition time: it is set when the status is written."""
    decisions: tuple[ClusterDecision, ...]

    def differs_from(self, stored: PolicySnapshotStatus) -> bool:
        """Whether writing this would change anything but times."""
        before = next((condition for condition in stored.conditions if condition.type == SCHEDULED_CONDITION), None)
        return (
            stored.observed_crp_generation != self.observed_generation
            or before is None
            or (before.status, before.reason, before.message) != self._condition_values
            or before.observed_generation < self.condition.observed_generation
            or _by_cluster(stored.target_clusters) != _by_cluster(self.decisions)
        )

    @property
    def _condition_values(self) -> tuple[str, str, str]:
        return (self.condition.status, self.condition.reason, self.condition.message)


@dataclass(frozen=True, kw_only=True)
class Decision:
    request: PlacementRequest
    frame: Frame
    outcome: Outcome
    bindings: PlacementBindings
    previous: PolicySnapshotStatus
    """The published status as it was before."""
    now: int
    config_hash: str
    tie_break: TieBreak
    limits: StatusLimits
    targets: tuple[Target, ...] = ()
    operations: tuple[Operation, ...] = ()
    """In the order of their groups."""
    active: int | None = None
    """Clusters in use once the operations are carried out (PickFixed: valid targets)."""
    fulfilled: bool = False
    rounds: tuple[Round, ...] = ()
    """The first and the last, if several; picks of all of them are in `targets`."""
    round_count: int = 0
    invalid: tuple[str, ...] = ()
    """PickFixed: known clusters that are not eligible."""
    missing: tuple[str, ...] = ()
    """PickFixed: names of unknown clusters."""
    fixed_verdicts: Verdicts | None = None
    skipped: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    warnings: tuple[Warning, ...] = ()
    nomination: tuple[str, ...] = ()
    evictions: EvictionPlan | None = None
    pending_query: ExternalQuery | None = None
    error: Status | None = None
    next_cursor: int = 0
    build_status: Callable[[Decision], Published | None]
    """Renders what is published. Called once, when it is first read."""

    @property
    def round(self) -> Round | None:
        """The last round: the one that published explanations describe."""
        return self.rounds[-1] if self.rounds else None

    @property
    def verdicts(self) -> Verdicts | None:
        return self.rounds[-1].verdicts if self.rounds else self.fixed_verdicts

    @property
    def newly_chosen(self) -> tuple[Target, ...]:
        """The targets there is something to do for, in rank order; others are in place since earlier attempts."""
        return tuple(target for target in self.targets if target.operation is not None)

    @property
    def rejectors(self) -> tuple[str, ...]:
        return () if self.verdicts is None else self.verdicts.rejectors()

    @property
    def pending(self) -> tuple[str, ...]:
        return () if self.verdicts is None else self.verdicts.pending()

    @cached_property
    def published(self) -> Published | None:
        """The policy snapshot's next status; None if this attempt publishes no status."""
        return self.build_status(self)

    @cached_property
    def digest(self) -> str:
        """16 bytes that are equal exactly for equal decisions. Texts do not count."""
        content = hashlib.blake2b(digest_size=16)
        content.update(msgspec.json.encode(self._outline()))
        if self.verdicts is not None:
            order = self.frame.names.order
            content.update(self.verdicts.first[order].astype("<i2").tobytes())
            content.update(self.verdicts.codes()[order].tobytes())
        return content.hexdigest()

    def _outline(self) -> list[Any]:
        return [
            self.outcome.value,
            [
                (target.cluster, target.action and target.action.value, _pair(target.scores), target.obsolete)
                for target in self.targets
            ],
            [(operation.action.value, operation.cluster, operation.name) for operation in self.operations],
            self.nomination,
            self.evictions.victims if self.evictions else (),
            [int(self.error.code)] if self.error else [int(Code.SUCCESS)],
        ]


def _pair(scores: TargetScores | None) -> tuple[int, int] | None:
    return None if scores is None else (scores.affinity, scores.topology)


def _by_cluster(decisions: tuple[ClusterDecision, ...]) -> dict[str, ClusterDecision]:
    return {decision.cluster_name: _with_plain_score(decision) for decision in decisions}


def _with_plain_score(decision: ClusterDecision) -> ClusterDecision:
    """An absent score and a null one read the same; a zero score differs from both."""
    absent = decision.cluster_score is None or decision.cluster_score is msgspec.UNSET
    return msgspec.structs.replace(decision, cluster_score=None) if absent else decision
