"""What is told of an attempt of the scheduler: all that fits into a few lines.

Columns, inputs and clusters are told elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from fleet.history import Attempt, Group, Snapshot, Target, Warned, Write
from fleet.scheduler.attempt_record import AttemptRecord, Ending

if TYPE_CHECKING:
    from fleet.framework.cycle.decision import Decision
    from fleet.scheduler.dispatch.binding_writes import WriteResult

OUR_END: Final = (Ending.GONE, Ending.CLEANED_UP)
_LONGEST_ERROR: Final = 2000


def described(record: AttemptRecord, attempt_id: str) -> Attempt:
    known = Attempt(
        id=attempt_id,
        key=record.key,
        started=record.started,
        ending=record.ending.value,
        error=_error_of(record),
        triggers=record.triggers,
        phases=record.seconds,
        writes=tuple(map(_write, record.writes)),
        status_written=record.status_written,
        process_number=record.number,
        is_end=record.ending in OUR_END,
    )
    return known if record.decision is None else _decided(known, record.decision)


def _decided(known: Attempt, decision: Decision) -> Attempt:
    request, published = decision.request, decision.published
    return msgspec.structs.replace(
        known,
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
        snapshot=Snapshot(name=request.snapshot, uid=request.snapshot_uid, generation=request.snapshot_generation),
        targets=tuple(_targets(decision)),
        warnings=tuple(
            Warned(kind=one.kind, subject=one.subject, clusters=one.rows.bit_count()) for one in decision.warnings
        ),
        groups=_groups(decision),
        invalid=decision.invalid,
        missing=decision.missing,
        notes=msgspec.json.encode(decision.notes, enc_hook=repr) if decision.notes else b"{}",
        published=b"" if published is None else msgspec.json.encode(published),
        rounds=decision.round_count,
    )


def _targets(decision: Decision) -> list[Target]:
    return [
        Target(
            cluster=one.cluster,
            action="" if one.action is None else one.action.value,
            binding="" if one.operation is None else one.operation.name,
            affinity=None if one.scores is None else one.scores.affinity,
            topology=None if one.scores is None else one.scores.topology,
            obsolete=one.obsolete,
            step=one.step,
            rank=rank,
        )
        for rank, one in enumerate(decision.targets, 1)
    ]


def _groups(decision: Decision) -> tuple[Group, ...]:
    if decision.verdicts is None:
        return ()
    counts = decision.verdicts.counts()
    return tuple(Group(plugin=plugin, reason=reason, count=count) for (plugin, reason), count in counts.items())


def _write(result: WriteResult) -> Write:
    operation = result.operation
    return Write(
        action=operation.action.value,
        cluster=operation.cluster,
        binding=operation.name,
        result=result.result,
        error="" if result.error is None else _told(result.error),
    )


def _error_of(record: AttemptRecord) -> str:
    if record.error is not None:
        return _told(record.error)
    problems = record.decision.request.problems if record.decision else ()
    return _cut("; ".join(str(problem) for problem in problems))


def _told(error: BaseException) -> str:
    return _cut(f"{type(error).__name__}: {error}")


def _cut(text: str) -> str:
    """Whatever an error says, it can be written."""
    clean = text.encode(errors="replace").decode()
    return clean if len(clean) <= _LONGEST_ERROR else f"{clean[:_LONGEST_ERROR]}…"
