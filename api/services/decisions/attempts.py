"""The recorded attempts of a placement, the one that explains its present state, and their models.

Models lack the names of clusters that the caller may not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from api.auth.permissions import Visibility
from api.http.problems import not_found, refusal
from api.live.backend import Backend
from api.live.live import LivePlacement
from api.live.warnings import WarningEvent
from api.models import DecisionModel, RejectionCount, TargetModel
from api.why_models import PastAttempt
from fleet.errors import HistoryUnavailable
from fleet.explain.answer.parts import HookStatus, WritePart
from fleet.framework.cycle.decision import Published
from fleet.history import History, HistoryAttempt, PartState
from fleet.model.keys import NUMBER_OF_CLUSTERS, PICK_N
from fleet.model.timestamps import format_timestamp
from fleet.model.views import PolicySnapshotStatus

_RECENT: Final = 5
_SEARCHED: Final = 50
_FLUSH_SECONDS: Final = 0.5
_LONGEST_NUMBER: Final = 18
"""Digits of an attempt's number: what databases can hold."""
_IDLE: Final = frozenset({"Unchanged", "Shrink"})
"""Outcomes of decisions that evaluated no cluster."""
_UNDECIDED: Final = frozenset({"NeedsAnswer", "Error", ""})


# --- models -----------------------------------------------------------------------------------------------------------


def build_decision_model(attempt: HistoryAttempt, visibility: Visibility) -> DecisionModel:
    targets = tuple(_build_targets(attempt, visibility))
    return DecisionModel(
        seq=attempt.seq,
        id=attempt.id,
        key=attempt.key,
        placement_uid=attempt.placement_uid,
        n=attempt.number,
        at=format_timestamp(attempt.started),
        last_at=format_timestamp(attempt.last_at or attempt.started),
        repeats=attempt.repeats,
        ending=attempt.ending,
        outcome=attempt.outcome,
        result=attempt.result,
        fulfilled=attempt.fulfilled,
        error=attempt.error if visibility.is_whole else "",
        type=attempt.placement_type,
        wanted=attempt.wanted,
        active=attempt.active,
        clusters=attempt.clusters,
        targets=targets,
        redacted=len(attempt.targets) - len(targets),
        groups=tuple(
            RejectionCount(plugin=group.plugin, reason=group.reason, count=group.count) for group in attempt.groups
        ),
        triggers=attempt.triggers if visibility.is_whole else tuple(map(strip_object, attempt.triggers)),
        generation=attempt.generation,
        snapshot=attempt.snapshot.name if attempt.snapshot else "",
        digest=attempt.digest,
        config_hash=attempt.config_hash,
        duration_ms=round(sum(attempt.phases.values()) * 1000, 3),
        inputs=str(attempt.inputs),
    )


def redact_placement(decision: DecisionModel) -> DecisionModel:
    """For callers who may not read the placement: the names of its snapshots and bindings contain its own."""
    return msgspec.structs.replace(
        decision,
        key="",
        placement_uid="",
        snapshot="",
        error="",
        targets=tuple(msgspec.structs.replace(target, binding="") for target in decision.targets),
        triggers=tuple(map(strip_object, decision.triggers)),
    )


def collect_cluster_names(attempts: Iterable[HistoryAttempt]) -> set[str]:
    return {target.cluster for attempt in attempts for target in attempt.targets}


def _build_targets(attempt: HistoryAttempt, visibility: Visibility) -> Iterator[TargetModel]:
    for target in attempt.targets:
        if not visibility.hides(target.cluster):
            yield TargetModel(
                cluster=target.cluster,
                rank=target.rank,
                action=target.action,
                binding=target.binding,
                topology=target.topology,
                affinity=target.affinity,
                step=target.step,
            )


def strip_object(trigger: str) -> str:
    """`MemberCluster/UpdateTaints ams-1` names a cluster, and the names of bindings contain one."""
    return trigger.partition(" ")[0]


def group_effects(attempt: HistoryAttempt, visibility: Visibility) -> dict[str, tuple[HookStatus, ...]]:
    """By hook. Messages may name any cluster."""
    groups: dict[str, list[HookStatus]] = {}
    for effect in attempt.effects:
        if not visibility.hides(effect.cluster):
            status = HookStatus(
                plugin=effect.plugin,
                code=effect.code,
                message=effect.message if visibility.is_whole else "",
                target=effect.cluster,
                deadline=format_timestamp(effect.deadline) if effect.deadline else "",
                details=msgspec.json.decode(effect.details) if effect.details and visibility.is_whole else {},
            )
            groups.setdefault(effect.hook, []).append(status)
    return {hook: tuple(statuses) for hook, statuses in groups.items()}


def list_writes(attempt: HistoryAttempt, visibility: Visibility) -> Iterator[WritePart]:
    """Their errors may name any cluster."""
    for write in attempt.writes:
        if not visibility.hides(write.cluster):
            error = write.error if visibility.is_whole else ""
            yield WritePart(cluster=write.cluster, action=write.action, result=write.result, error=error)


def build_past_attempt(attempt: HistoryAttempt) -> PastAttempt:
    return PastAttempt(
        n=attempt.number,
        id=attempt.id,
        at=format_timestamp(attempt.started),
        outcome=attempt.result,
        repeats=attempt.repeats,
    )


# --- loading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlacementRecord:
    """The placement in the hub and in the history."""

    placement: LivePlacement | None
    """None if it is deleted."""
    explaining: HistoryAttempt | None = None
    """The attempt that the answer is about."""
    recent: Sequence[HistoryAttempt] = ()
    """The newest attempts, newest first."""
    searched: Sequence[HistoryAttempt] = ()
    """The same, and more of them."""
    is_current: bool = False
    """The explaining attempt is about the placement as it is."""
    unavailable_since: str = ""
    """Since when the history is incomplete or does not answer."""
    warnings: tuple[WarningEvent, ...] = ()
    """Events about the placement as it is, the newest first."""

    @property
    def newest(self) -> HistoryAttempt | None:
        return self.recent[0] if self.recent else self.explaining

    @property
    def was_decided(self) -> bool:
        return self.explaining is not None or (self.placement is not None and self.placement.has_decision)


async def load_attempt(backend: Backend, key: str, attempt: str) -> PlacementRecord:
    """With the attempt of that number or id."""
    placement = backend.live.find_placement(key)
    explaining, recent = await backend.history.call(_read_attempt, backend.history.require(), key, attempt)
    return PlacementRecord(placement, explaining, recent, recent)


async def load_record(backend: Backend, key: str) -> PlacementRecord:
    """With the attempt that explains the present state."""
    placement = backend.live.find_placement(key)
    record = PlacementRecord(placement)
    if backend.history.history is not None:
        try:
            record = await backend.history.call(_read_record, backend.history.history, key, placement)
        except HistoryUnavailable:
            since = backend.history.begin_outage(backend.live.now())
            if placement is None:
                raise
            record = replace(record, unavailable_since=format_timestamp(since))
    if placement is None and record.explaining is None:
        raise not_found(f"placement {key}", "GET /v1/placements lists those that are there")
    return record if placement is None else replace(record, warnings=await backend.warnings.list_latest(placement))


def _read_record(history: History, key: str, placement: LivePlacement | None) -> PlacementRecord:
    record = _find_record(history, key, placement)
    if not record.is_current and placement is not None and placement.has_decision:
        history.flush(seconds=_FLUSH_SECONDS)  # the newest decisions may still be in the write buffer
        record = _find_record(history, key, placement)
    since = None if record.is_current else history.known_since
    return record if since is None else replace(record, unavailable_since=format_timestamp(since))


def _find_record(history: History, key: str, placement: LivePlacement | None) -> PlacementRecord:
    attempts = history.attempts(key, limit=_SEARCHED)
    recent, explaining = attempts[:_RECENT], find_explaining_attempt(attempts)
    is_current = placement is None or (explaining is not None and _describes(explaining, recent, placement))
    return PlacementRecord(placement, explaining, recent, attempts, is_current)


def _read_attempt(history: History, key: str, text: str) -> tuple[HistoryAttempt, list[HistoryAttempt]]:
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER else None
    attempt = history.attempt(text) if number is None else history.find_by_number(key, number)
    if attempt is None or attempt.key != key:
        raise refusal(
            404,
            f"attempt {text} of placement {key} is not on record",
            object=f"attempt {text}",
            field="attempt",
            value=text,
            next=f"GET /v1/placements/{format_path(key)}/history lists those that are",
        )
    return attempt, history.attempts(key, limit=_RECENT)


# --- the explaining attempt -------------------------------------------------------------------------------------------


def find_explaining_attempt(attempts: Sequence[HistoryAttempt]) -> HistoryAttempt | None:
    """Of attempts, the newest first, the first that decided. If it only confirmed earlier targets: the last attempt
    before it that selected clusters, as long as that selection is still what is in use."""
    newest = next((attempt for attempt in attempts if attempt.outcome), None)
    if newest is None or newest.outcome not in _IDLE:
        return newest
    decided = (attempt for attempt in attempts if attempt.outcome not in _UNDECIDED and attempt.outcome != "Unchanged")
    selecting = next(decided, newest)
    return selecting if _still_holds(selecting, newest) else newest


def _still_holds(selecting: HistoryAttempt, newest: HistoryAttempt) -> bool:
    """No binding was given up since, and as many clusters are desired and in use as then."""
    then, now = (
        (attempt.snapshot, attempt.wanted, attempt.active, attempt.fulfilled) for attempt in (selecting, newest)
    )
    return selecting.outcome not in _IDLE and then == now and selecting.inputs is PartState.KEPT


def _describes(attempt: HistoryAttempt, recent: Sequence[HistoryAttempt], placement: LivePlacement) -> bool:
    """Whether the attempt is about the present policy, and no later decision is still to be recorded."""
    if placement.snapshot is None:
        return False
    metadata = placement.snapshot.view.metadata
    recorded = attempt.snapshot
    if recorded is None or (recorded.uid, recorded.generation) != (metadata.uid, metadata.generation):
        return False
    # The number of clusters is not part of the policy, and changes without a new generation.
    if attempt.placement_type == PICK_N and str(attempt.wanted) != metadata.annotation(NUMBER_OF_CLUSTERS):
        return False
    return not _is_behind(attempt, recent, placement.snapshot.view.status)


def _is_behind(attempt: HistoryAttempt, recent: Sequence[HistoryAttempt], status: PolicySnapshotStatus) -> bool:
    """Whether the hub shows another status than the last recorded one: the newest decisions may not be written yet."""
    same_policy = (
        other for other in recent if other.snapshot == attempt.snapshot and other.status_written and other.published
    )
    last = next(same_policy, None)
    return last is not None and msgspec.json.decode(last.published, type=Published).differs_from(status)


def format_path(key: str) -> str:
    """The key in paths of the API, where a dash means no namespace."""
    return key if "/" in key else f"-/{key}"
