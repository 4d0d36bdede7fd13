"""Recorder: attempts of the scheduler as entries of the history.

The scheduler's event loop only hands over a reference to the attempt. Digest, texts and bytes are computed by the
history's own thread, from values that never change.
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

from fleet.framework.context import encode_results
from fleet.framework.policy.placement_terms import build_concern
from fleet.framework.profiles.profile import BINDINGS
from fleet.framework.request import ANNOTATIONS_READ, annotation_field, write_annotations
from fleet.history import (
    Columns,
    History,
    HistoryAttempt,
    RecordedInputs,
    RetentionLimits,
)
from fleet.model.keys import REQUESTS, SCHEDULER_NAME, WORKLOAD_REQUESTS
from fleet.model.views import Metadata, PolicySnapshot
from fleet.recorder.attempt_summary import FINAL_RESULTS, summarize_attempt
from fleet.recorder.columns import columns_of
from fleet.recorder.fleet_changes import HeartbeatUse, RecordedFleet, Row, find_heartbeat_use, reads_sidedata
from fleet.scheduler.attempt_record import AttemptRecord, NoRecorder, Recorder
from fleet.snapshot.columns.bitset import each_row
from fleet.snapshot.recorded_sidedata import encode_sidedata
from fleet.snapshot.sidedata import NO_RESIDENTS, Residents

if TYPE_CHECKING:
    from fleet.clock import Clock
    from fleet.framework.cycle.cycle import DecisionInput
    from fleet.framework.cycle.decision import Decision
    from fleet.framework.profiles.profile import CompiledProfile
    from fleet.settings import Settings
    from fleet.snapshot.frame import Frame

# Estimated memory of a waiting attempt and its parts, in bytes.
_ATTEMPT: Final = 10_500
_TARGET: Final = 250
_WRITE: Final = 650
_BINDING: Final = 1_500
_PUBLISHED: Final = 400
_SCORE: Final = 24  # three columns of 64 bits
_CLUSTER_OF_A_FRAME: Final = 32
_CHANGED_CLUSTER: Final = 3_300  # a waiting frame keeps the old version

_SECONDS_TO_OPEN: Final = 0.5
"""A process does not wait longer for its history: first looks that take longer go on in the background."""

log = structlog.get_logger(__name__)


def open_history(
    settings: Settings, *, url: str | None = None, may_migrate: bool = False, clock: Clock | None = None
) -> History | None:
    """The history that the settings describe, ready for queries; None without one. See `History.open`."""
    location = url or settings.history.url
    if location is None:
        return None
    recorder, retention = settings.recorder, settings.recorder.history
    return History.open(
        location,
        may_migrate=may_migrate,
        limits=RetentionLimits(
            max_age_hours=retention.max_age_hours,
            max_mib=retention.max_mib,
            max_attempts=retention.max_attempts,
            per_placement=retention.attempts_per_placement,
            columns_per_placement=recorder.detail_per_placement,
        ),
        memory_mib=recorder.memory_mib,
        digests=recorder.digests_total,
        keeps_inputs=retention.inputs,
        clock=clock,
        patience=_SECONDS_TO_OPEN,
    )


@asynccontextmanager
async def run_history(
    settings: Settings, *, url: str | None = None, may_migrate: bool = False, clock: Clock | None = None
) -> AsyncIterator[History | None]:
    """The history with its writer running, if attempts are recorded; those that wait at the end are written first."""
    history = await asyncio.to_thread(open_history, settings, url=url, may_migrate=may_migrate, clock=clock)
    if history is not None:
        (history.start if settings.recorder.enabled else history.watch)()
    try:
        yield history
    finally:
        if history is not None:
            await asyncio.to_thread(history.close)


def build_recorder(history: History | None, settings: Settings) -> Recorder:
    if history is None or not settings.recorder.enabled:
        return NoRecorder()
    return HistoryRecorder(history, settings)


class HistoryRecorder:
    """Implements `fleet.scheduler.attempt_record.Recorder`. The history has to be started by its owner."""

    def __init__(self, history: History, settings: Settings) -> None:
        self._history = history
        self._fleet = RecordedFleet()
        self._sample = settings.recorder.sample_detail
        self._name = uuid.uuid4().hex[:8]
        self._numbers = itertools.count(1)
        self._frame: Frame | None = None
        self._heartbeat_use: tuple[CompiledProfile | None, HeartbeatUse] = (None, HeartbeatUse(exactly=False, recent=0))

    def record(self, attempt: AttemptRecord) -> None:
        try:
            self._history.offer(self._build_entry(attempt))
        except Exception:
            log.exception("an attempt could not be recorded", placement=str(attempt.key))

    def _build_entry(self, record: AttemptRecord) -> RecordedAttempt:
        number = next(self._numbers)
        inputs = record.inputs
        light = self._weigh_without_columns(record)
        sampled = number * self._sample // 100 != (number - 1) * self._sample // 100
        return RecordedAttempt(
            id=f"a-{self._name}-{number}",
            record=record,
            fleet=self._fleet,
            heartbeats=None if inputs is None else self._find_heartbeat_use(inputs.profile),
            light_weight=light,
            weight=light + (_weigh_columns(record.decision) if sampled else 0),
            wants_columns=sampled,
        )

    def _weigh_without_columns(self, record: AttemptRecord) -> int:
        """Of all but the columns."""
        inputs, decision = record.inputs, record.decision
        light = _ATTEMPT + len(record.writes) * _WRITE + (0 if decision is None else len(decision.targets) * _TARGET)
        if inputs is None:
            return light
        light += len(inputs.bindings) * _BINDING + len(inputs.previous.target_clusters) * _PUBLISHED
        return light + self._weigh_frame(inputs.frame)

    def _weigh_frame(self, frame: Frame) -> int:
        """Of what it does not share with the frame of the attempt before."""
        before, self._frame = self._frame, frame
        if before is frame:
            return 0
        changed = 0 if before is None else sum(1 for _ in frame.clusters.changed_since(before.clusters))
        return frame.size * _CLUSTER_OF_A_FRAME + changed * _CHANGED_CLUSTER

    def _find_heartbeat_use(self, profile: CompiledProfile) -> HeartbeatUse:
        if self._heartbeat_use[0] is not profile:
            self._heartbeat_use = (profile, find_heartbeat_use(profile))
        return self._heartbeat_use[1]


class CombinedRecorder:
    """Passes every attempt to several recorders."""

    def __init__(self, *recorders: Recorder) -> None:
        self._recorders = recorders

    def record(self, attempt: AttemptRecord) -> None:
        for recorder in self._recorders:
            recorder.record(attempt)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAttempt:
    """Implements `fleet.history.AttemptSource`."""

    id: str
    record: AttemptRecord
    fleet: RecordedFleet
    heartbeats: HeartbeatUse | None
    weight: int
    light_weight: int
    wants_columns: bool
    shed: frozenset[str] = field(default=frozenset())
    summary: HistoryAttempt | None = None

    @property
    def key(self) -> str:
        return str(self.record.key)

    @property
    def changed(self) -> bool:
        record = self.record
        return (
            bool(record.writes) or record.status_written or record.result.is_failure or record.result in FINAL_RESULTS
        )

    def attempt(self) -> HistoryAttempt:
        return self.summary or summarize_attempt(self.record, self.id)

    def columns(self, *, with_names: bool) -> Columns | None:
        decision = self.record.decision
        return columns_of(decision, with_names=with_names) if decision is not None and self.wants_columns else None

    def inputs(self) -> RecordedInputs | None:
        inputs, snapshot = self.record.inputs, self.record.snapshot
        if inputs is None or snapshot is None:
            return None
        policy = PolicySnapshot(metadata=_name_scheduler(snapshot.view.metadata, inputs), spec=snapshot.view.spec)
        return RecordedInputs(
            request=msgspec.json.encode(policy),
            placement_uid=inputs.request.uid,
            bindings=tuple(map(msgspec.json.encode, inputs.bindings)),
            previous=msgspec.json.encode(inputs.previous),
            now=inputs.now,
            cursor=inputs.cursor,
            nominated=inputs.nominated,
            set_aside=tuple(map(inputs.frame.name, each_row(inputs.frame.excluded))),
            results=encode_results(inputs.query_results),
            sidedata=encode_sidedata(
                inputs.frame,
                feeds=bool(inputs.frame.feeds) and reads_sidedata(inputs.profile, "feeds"),
                ledgers=bool(inputs.frame.ledgers or inputs.frame.nominations)
                and reads_sidedata(inputs.profile, "room"),
                residents=_list_residents(inputs),
                placed=reads_sidedata(inputs.profile, BINDINGS, has_searched=not self._is_fulfilled),
            ),
        )

    @property
    def _is_fulfilled(self) -> bool:
        """Known to be: no plugin had to look for bindings to evict."""
        return self.record.decision is not None and self.record.decision.fulfilled

    def profile(self) -> bytes:
        inputs = self.record.inputs
        return b"" if inputs is None else inputs.profile.document

    def clusters(self, *, anew: bool) -> Sequence[Row]:
        inputs = self.record.inputs
        assert inputs is not None
        assert self.heartbeats is not None
        return self.fleet.collect_changes(inputs.frame, now=inputs.now, anew=anew, heartbeats=self.heartbeats)

    # --- shedding -----------------------------------------------------------------------------------------------------

    def without_columns(self) -> RecordedAttempt:
        dropped = self.shed | {"columns"} if self.wants_columns and self.record.decision is not None else self.shed
        reduced = replace(self.record, decision=None)
        return replace(
            self, record=reduced, summary=self.attempt(), weight=self.light_weight, wants_columns=False, shed=dropped
        )

    def without_inputs(self) -> RecordedAttempt:
        lighter = self.without_columns()
        dropped = lighter.shed | {"inputs"} if self.record.inputs is not None else lighter.shed
        reduced = replace(lighter.record, inputs=None, snapshot=None)
        return replace(lighter, record=reduced, weight=_ATTEMPT, light_weight=_ATTEMPT, shed=dropped)


def _list_residents(inputs: DecisionInput) -> Residents:
    """Those that the decision has read."""
    request = inputs.request
    if not inputs.profile.reads_residents:
        return NO_RESIDENTS
    is_concerned = build_concern(request.resident_group, request.affinity)
    return {group: on for group, on in inputs.frame.residents.items() if is_concerned(group)}


def _name_scheduler(metadata: Metadata, inputs: DecisionInput) -> Metadata:
    """The metadata of a policy snapshot, with what its placement says beside the policy: profile, needs, mistakes."""
    request = inputs.request
    own = {SCHEDULER_NAME: request.scheduler_name} if request.scheduler_name else {}
    for problem in request.problems:
        own |= {key: str(problem.value) for key in ANNOTATIONS_READ if problem.field == annotation_field(key)}
    own |= write_annotations(request)
    if request.requested_by is None and metadata.annotation(WORKLOAD_REQUESTS):
        own.setdefault(REQUESTS, "")  # the placement says that it needs nothing
    return msgspec.structs.replace(metadata, annotations={**(metadata.annotations or {}), **own}) if own else metadata


def _weigh_columns(decision: Decision | None) -> int:
    """Of the columns that a decision holds."""
    if decision is None or decision.verdicts is None:
        return 0
    scores = 0 if decision.round is None else len(decision.round.scores.rows) * len(decision.round.scores.columns)
    return decision.frame.size * (4 + len(decision.verdicts.rejections) * 2) + scores * _SCORE
