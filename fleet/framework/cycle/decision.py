"""The result of an attempt: what to do, what to publish, and everything needed to say why, without having said it.

Texts, published status and digest are made when first asked for, from the same columns the decision was made on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from fleet.framework.bindings import PlacementBindings
from fleet.framework.context import Warning
from fleet.framework.cycle.operations import Action, Operation, Scores
from fleet.framework.cycle.outcome import Outcome
from fleet.framework.cycle.publish import Published, publish
from fleet.framework.cycle.ranking import TieBreak
from fleet.framework.hooks import Question
from fleet.framework.request import PlacementRequest
from fleet.framework.runtime.profile import Limits
from fleet.framework.scores import ScoreTable
from fleet.framework.status import Code, Status
from fleet.framework.verdicts import Verdicts
from fleet.model.views import PolicySnapshotStatus
from fleet.snapshot.columns.bitset import Rows
from fleet.snapshot.frame import Frame


class Target(msgspec.Struct, frozen=True, gc=False):
    """A cluster chosen in this attempt."""

    cluster: str
    row: int
    operation: Operation | None
    """What it takes to use the cluster; None where a binding is in place already."""
    scores: Scores | None
    obsolete: int = 0
    step: int = 0
    """In which round the cluster was picked, from 1; 0 where nothing is ranked."""

    @property
    def action(self) -> Action | None:
        return None if self.operation is None else self.operation.action


@dataclass(frozen=True, slots=True)
class EvictionPlan:
    """Bindings that would have to go, by cluster."""

    victims: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Round:
    """One Filter-to-Sort pass: who qualified, with which scores, in which order, and who was taken."""

    verdicts: Verdicts
    scores: ScoreTable
    order: Rows
    """Ranked rows, best first; at least as many as are picked and published."""
    picked: tuple[int, ...]


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
    limits: Limits
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
    """PickFixed: names nobody knows."""
    fixed_verdicts: Verdicts | None = None
    skipped: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    warnings: tuple[Warning, ...] = ()
    nomination: tuple[str, ...] = ()
    evictions: EvictionPlan | None = None
    question: Question | None = None
    error: Status | None = None
    next_cursor: int = 0

    @property
    def round(self) -> Round | None:
        """The last round: the one that published explanations describe."""
        return self.rounds[-1] if self.rounds else None

    @property
    def verdicts(self) -> Verdicts | None:
        return self.fixed_verdicts if self.round is None else self.round.verdicts

    @property
    def rejectors(self) -> tuple[str, ...]:
        return () if self.verdicts is None else self.verdicts.rejectors()

    @property
    def pending(self) -> tuple[str, ...]:
        return () if self.verdicts is None else self.verdicts.pending()

    @cached_property
    def published(self) -> Published | None:
        """The policy snapshot's next status; None when this attempt has nothing to publish."""
        return publish(self)

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
            [(one.cluster, one.action and one.action.value, _pair(one.scores), one.obsolete) for one in self.targets],
            [(one.action.value, one.cluster, one.name) for one in self.operations],
            self.nomination,
            self.evictions.victims if self.evictions else (),
            [int(self.error.code)] if self.error else [int(Code.SUCCESS)],
        ]


def _pair(scores: Scores | None) -> tuple[int, int] | None:
    return None if scores is None else (scores.affinity, scores.topology)
