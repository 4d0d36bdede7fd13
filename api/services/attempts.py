"""Recorded attempts, as they are shown: without the names of clusters that the caller may not read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from api.auth.access import Sight
from api.models import DecisionModel, RejectionCount, TargetModel
from api.text.tables import render_table
from fleet.history import HistoryAttempt
from fleet.model.timestamps import format_timestamp

UNNAMED: Final = "a placement you may not read"


def decision_model(attempt: HistoryAttempt, sight: Sight) -> DecisionModel:
    targets = tuple(_targets(attempt, sight))
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
        fulfilled=attempt.fulfilled,
        error=attempt.error if sight.is_whole else "",
        type=attempt.placement_type,
        wanted=attempt.wanted,
        active=attempt.active,
        clusters=attempt.clusters,
        targets=targets,
        redacted=len(attempt.targets) - len(targets),
        groups=tuple(RejectionCount(plugin=one.plugin, reason=one.reason, count=one.count) for one in attempt.groups),
        triggers=tuple(one if sight.is_whole else _without_object(one) for one in attempt.triggers),
        generation=attempt.generation,
        snapshot=attempt.snapshot.name if attempt.snapshot else "",
        digest=attempt.digest,
        config_hash=attempt.config_hash,
        duration_ms=round(sum(attempt.phases.values()) * 1000, 3),
        inputs=str(attempt.inputs),
    )


def without_placement(one: DecisionModel) -> DecisionModel:
    """For who may not read the placement: the names of its snapshots and bindings contain its own."""
    return msgspec.structs.replace(
        one,
        key="",
        placement_uid="",
        snapshot="",
        error="",
        targets=tuple(msgspec.structs.replace(target, binding="") for target in one.targets),
        triggers=tuple(map(_without_object, one.triggers)),
    )


def clusters_named(attempts: Iterable[HistoryAttempt]) -> set[str]:
    return {target.cluster for one in attempts for target in one.targets}


def _targets(attempt: HistoryAttempt, sight: Sight) -> Iterator[TargetModel]:
    for one in attempt.targets:
        if not sight.hides(one.cluster):
            yield TargetModel(
                cluster=one.cluster,
                rank=one.rank,
                action=one.action,
                binding=one.binding,
                topology=one.topology,
                affinity=one.affinity,
                step=one.step,
            )


def _without_object(trigger: str) -> str:
    """`MemberCluster/UpdateTaints ams-1` names a cluster, and the names of bindings contain one."""
    return trigger.partition(" ")[0]


# --- text -------------------------------------------------------------------------------------------------------------


def history_text(decisions: Iterable[DecisionModel]) -> str:
    rows = (
        (_number(one), one.at, one.outcome or one.ending, _clusters(one), ", ".join(one.triggers)) for one in decisions
    )
    return render_table(("ATTEMPT", "AT", "OUTCOME", "CHOSE", "BECAUSE OF"), rows)


def decision_line(one: DecisionModel) -> str:
    because = f" [{', '.join(one.triggers)}]" if one.triggers else ""
    return f"{one.at}  {one.key or UNNAMED}: {one.outcome or one.ending}, {_clusters(one)}{because}\n"


def _number(one: DecisionModel) -> str:
    return f"{one.n}-{one.n + one.repeats}" if one.repeats else str(one.n)


def _clusters(one: DecisionModel) -> str:
    names = ", ".join(target.cluster for target in one.targets)
    if one.redacted:
        return f"{names} and {one.redacted} more" if names else f"{one.redacted} clusters"
    return names or (f"none new, {one.active} in use" if one.active else "none")
