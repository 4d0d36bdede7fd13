"""Summary of an attempt for the history: everything but columns, inputs and clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from fleet.framework.status import message_of
from fleet.history import (
    HistoryAttempt,
    RecordedHook,
    RecordedRejection,
    RecordedTarget,
    RecordedWarning,
    RecordedWrite,
    SnapshotReference,
)
from fleet.scheduler.attempt_record import AttemptRecord, AttemptResult

if TYPE_CHECKING:
    from fleet.framework.cycle.decision import Decision
    from fleet.framework.runtime.effects import HookResult
    from fleet.scheduler.dispatch.binding_calls import WriteResult

FINAL_RESULTS: Final = (AttemptResult.GONE, AttemptResult.CLEANED_UP)
_LONGEST_ERROR: Final = 2000


def summarize_attempt(record: AttemptRecord, attempt_id: str) -> HistoryAttempt:
    summary = HistoryAttempt(
        id=attempt_id,
        key=str(record.key),
        epoch=record.epoch,
        started=record.started,
        ending=record.result.value,
        error=_error_of(record),
        triggers=record.triggers,
        phases=record.seconds,
        writes=tuple(map(_write, record.writes)),
        effects=tuple(map(_hook, record.effects)),
        status_written=record.status_written,
        process_number=record.number,
        is_end=record.result in FINAL_RESULTS,
    )
    return summary if record.decision is None else _add_decision(summary, record.decision)


def _add_decision(summary: HistoryAttempt, decision: Decision) -> HistoryAttempt:
    request, published = decision.request, decision.published
    return msgspec.structs.replace(
        summary,
        placement_uid=request.uid,
        outcome=decision.outcome.value,
        fulfilled=decision.fulfilled,
        wanted=request.wanted,
        active=decision.active,
        clusters=decision.frame.count,
        digest=decision.digest,
        config_hash=decision.config_hash,
        generation=request.generation,
        placement_type=request.placement_type,
        snapshot=SnapshotReference(
            name=request.snapshot, uid=request.snapshot_uid, generation=request.snapshot_generation
        ),
        targets=tuple(_targets(decision)),
        warnings=tuple(
            RecordedWarning(kind=warning.kind, subject=warning.subject, clusters=warning.rows.bit_count())
            for warning in decision.warnings
        ),
        groups=_groups(decision),
        invalid=decision.invalid,
        missing=decision.missing,
        notes=msgspec.json.encode(decision.notes, enc_hook=repr) if decision.notes else b"{}",
        published=b"" if published is None else msgspec.json.encode(published),
        rounds=decision.round_count,
    )


def _targets(decision: Decision) -> list[RecordedTarget]:
    return [
        RecordedTarget(
            cluster=target.cluster,
            action="" if target.action is None else target.action.value,
            binding="" if target.operation is None else target.operation.name,
            affinity=None if target.scores is None else target.scores.affinity,
            topology=None if target.scores is None else target.scores.topology,
            obsolete=target.obsolete,
            step=target.step,
            rank=rank,
        )
        for rank, target in enumerate(decision.targets, 1)
    ]


def _groups(decision: Decision) -> tuple[RecordedRejection, ...]:
    if decision.verdicts is None:
        return ()
    counts = decision.verdicts.counts()
    return tuple(
        RecordedRejection(plugin=plugin, reason=reason, count=count) for (plugin, reason), count in counts.items()
    )


def _write(result: WriteResult) -> RecordedWrite:
    operation = result.operation
    return RecordedWrite(
        action=operation.action.value,
        cluster=operation.cluster,
        binding=operation.name,
        result=result.result,
        error="" if result.error is None else _describe(result.error),
    )


def _hook(result: HookResult) -> RecordedHook:
    return RecordedHook(
        hook=result.hook,
        plugin=result.plugin,
        cluster=result.target,
        code=str(result.status.code),
        message=_cut(message_of(result.status)),
        deadline=result.deadline,
        details=msgspec.json.encode(result.status.details, enc_hook=repr) if result.status.details else b"",
    )


def _error_of(record: AttemptRecord) -> str:
    if record.error is not None:
        return _describe(record.error)
    problems = record.decision.request.problems if record.decision else ()
    return _cut("; ".join(str(problem) for problem in problems))


def _describe(error: BaseException) -> str:
    return _cut(f"{type(error).__name__}: {error}")


def _cut(text: str) -> str:
    """Any error text, made encodable and short enough to be stored."""
    clean = text.encode(errors="replace").decode()
    return clean if len(clean) <= _LONGEST_ERROR else f"{clean[:_LONGEST_ERROR]}…"
