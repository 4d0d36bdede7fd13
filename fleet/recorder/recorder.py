"""Attempts of the scheduler as entries of the history.

What happens where decisions are made is next to nothing: an attempt is handed over as it is. Its digest, texts and
bytes are made by the history's own thread, from values that never change.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from fleet.history import (
    Attempt,
    Columns,
    History,
    Inputs,
    Limits,
)
from fleet.model.views import PolicySnapshot
from fleet.recorder.attempt_summary import OUR_END, described
from fleet.recorder.columns import columns_of
from fleet.recorder.fleet_changes import RecordedFleet, Row, looks_at_heartbeats
from fleet.scheduler.attempt_record import AttemptRecord, NoRecorder, Recorder

if TYPE_CHECKING:
    from fleet.clock import Clock
    from fleet.framework.cycle.decision import Decision
    from fleet.framework.profiles.profile import CompiledProfile
    from fleet.settings import Settings
    from fleet.snapshot.frame import Frame

# What things keep in memory while they wait, roughly, in bytes.
_ATTEMPT: Final = 10_500
_TARGET: Final = 250
_WRITE: Final = 650
_BINDING: Final = 1_500
_PUBLISHED: Final = 400
_SCORE: Final = 24  # three columns of 64 bits
_CLUSTER_OF_A_FRAME: Final = 32
_CHANGED_CLUSTER: Final = 3_300  # as it was: a frame that waits keeps it

log = structlog.get_logger(__name__)


def open_history(
    settings: Settings, *, url: str | None = None, may_migrate: bool = False, clock: Clock | None = None
) -> History | None:
    """The history as settings want it, ready to be asked; None if they want none. See `History.open`."""
    where = url or settings.history.url
    if where is None:
        return None
    recorder, kept = settings.recorder, settings.recorder.history
    return History.open(
        where,
        may_migrate=may_migrate,
        limits=Limits(
            max_age_hours=kept.max_age_hours,
            max_mib=kept.max_mib,
            max_attempts=kept.max_attempts,
            per_placement=kept.attempts_per_placement,
            columns_per_placement=recorder.detail_per_placement,
        ),
        memory_mib=recorder.memory_mib,
        digests=recorder.digests_total,
        keeps_inputs=kept.inputs,
        clock=clock,
    )


@asynccontextmanager
async def kept_history(
    settings: Settings, *, url: str | None = None, may_migrate: bool = False, clock: Clock | None = None
) -> AsyncIterator[History | None]:
    """The history while it is written to: what is on its way when this ends is written first."""
    history = await asyncio.to_thread(open_history, settings, url=url, may_migrate=may_migrate, clock=clock)
    if history is not None and settings.recorder.enabled:
        history.start()
    try:
        yield history
    finally:
        if history is not None:
            await asyncio.to_thread(history.close)


def recorder_of(history: History | None, settings: Settings) -> Recorder:
    if history is None or not settings.recorder.enabled:
        return NoRecorder()
    return HistoryRecorder(history, settings)


class HistoryRecorder:
    """Implements `fleet.scheduler.attempt_record.Recorder`. The history has to be started by its owner."""

    def __init__(self, history: History, settings: Settings) -> None:
        self._history = history
        self._fleet = RecordedFleet.judged_by(settings.eligibility)
        self._sample = settings.recorder.sample_detail
        self._name = uuid.uuid4().hex[:8]
        self._numbers = itertools.count(1)
        self._frame: Frame | None = None
        self._exact: tuple[CompiledProfile | None, bool] = (None, False)

    def record(self, attempt: AttemptRecord) -> None:
        try:
            self._history.offer(self._taken(attempt))
        except Exception:
            log.exception("an attempt could not be recorded", placement=attempt.key)

    def _taken(self, record: AttemptRecord) -> Taken:
        number = next(self._numbers)
        asked = record.asked
        light = self._light_weight(record)
        sampled = number * self._sample // 100 != (number - 1) * self._sample // 100
        return Taken(
            id=f"a-{self._name}-{number}",
            record=record,
            fleet=self._fleet,
            exactly=asked is not None and self._is_exact(asked.profile),
            light_weight=light,
            weight=light + (_weight_of(record.decision) if sampled else 0),
            wants_columns=sampled,
        )

    def _light_weight(self, record: AttemptRecord) -> int:
        """Of all but the columns."""
        asked, decision = record.asked, record.decision
        light = _ATTEMPT + len(record.writes) * _WRITE + (0 if decision is None else len(decision.targets) * _TARGET)
        if asked is None:
            return light
        light += len(asked.bindings) * _BINDING + len(asked.previous.target_clusters) * _PUBLISHED
        return light + self._weight_of_frame(asked.frame)

    def _weight_of_frame(self, frame: Frame) -> int:
        """Of what it does not share with the frame of the attempt before."""
        before, self._frame = self._frame, frame
        if before is frame:
            return 0
        changed = 0 if before is None else sum(1 for _ in frame.clusters.changed_since(before.clusters))
        return frame.size * _CLUSTER_OF_A_FRAME + changed * _CHANGED_CLUSTER

    def _is_exact(self, profile: CompiledProfile) -> bool:
        if self._exact[0] is not profile:
            self._exact = (profile, looks_at_heartbeats(profile))
        return self._exact[1]


class Recorders:
    """Several, as one."""

    def __init__(self, *several: Recorder) -> None:
        self._several = several

    def record(self, attempt: AttemptRecord) -> None:
        for one in self._several:
            one.record(attempt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Implements `fleet.history.Source`."""

    id: str
    record: AttemptRecord
    """Nobody changes it any more."""
    fleet: RecordedFleet
    exactly: bool
    weight: int
    light_weight: int
    wants_columns: bool
    shed: frozenset[str] = field(default=frozenset())
    described: Attempt | None = None

    @property
    def key(self) -> str:
        return self.record.key

    @property
    def changed(self) -> bool:
        record = self.record
        return bool(record.writes) or record.status_written or record.ending.is_failure or record.ending in OUR_END

    def attempt(self) -> Attempt:
        return self.described or described(self.record, self.id)

    def columns(self, *, with_names: bool) -> Columns | None:
        decision = self.record.decision
        return columns_of(decision, with_names=with_names) if decision is not None and self.wants_columns else None

    def inputs(self) -> Inputs | None:
        asked, snapshot = self.record.asked, self.record.snapshot
        if asked is None or snapshot is None or asked.answers or not self.fleet.is_told_by_clusters(asked.frame):
            return None
        policy = PolicySnapshot(metadata=snapshot.view.metadata, spec=snapshot.view.spec)
        return Inputs(
            request=msgspec.json.encode(policy),
            placement_uid=asked.request.uid,
            bindings=tuple(map(msgspec.json.encode, asked.bindings)),
            previous=msgspec.json.encode(asked.previous),
            now=asked.now,
            cursor=asked.cursor,
        )

    def clusters(self, *, anew: bool) -> Sequence[Row]:
        asked = self.record.asked
        assert asked is not None
        return self.fleet.changes(asked.frame, now=asked.now, anew=anew, exactly=self.exactly)

    # --- letting go ---------------------------------------------------------------------------------------------------

    def without_columns(self) -> Taken:
        given_up = self.shed | {"columns"} if self.wants_columns and self.record.decision is not None else self.shed
        bare = replace(self.record, decision=None)
        return replace(
            self, record=bare, described=self.attempt(), weight=self.light_weight, wants_columns=False, shed=given_up
        )

    def without_inputs(self) -> Taken:
        lighter = self.without_columns()
        given_up = lighter.shed | {"inputs"} if self.record.asked is not None else lighter.shed
        bare = replace(lighter.record, asked=None, snapshot=None)
        return replace(lighter, record=bare, weight=_ATTEMPT, light_weight=_ATTEMPT, shed=given_up)


def _weight_of(decision: Decision | None) -> int:
    """Of the columns that a decision holds."""
    if decision is None or decision.verdicts is None:
        return 0
    scores = 0 if decision.round is None else len(decision.round.scores.rows) * len(decision.round.scores.columns)
    return decision.frame.size * (4 + len(decision.verdicts.rejections) * 2) + scores * _SCORE
