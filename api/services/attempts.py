"""Models of recorded attempts, without the names of clusters that the caller may not read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from api.auth.permissions import Visibility
from api.models import DecisionModel, RejectionCount, TargetModel
from fleet.history import HistoryAttempt
from fleet.model.timestamps import format_timestamp


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
        triggers=attempt.triggers if visibility.is_whole else tuple(map(_strip_object, attempt.triggers)),
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
        triggers=tuple(map(_strip_object, decision.triggers)),
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


def _strip_object(trigger: str) -> str:
    """`MemberCluster/UpdateTaints ams-1` names a cluster, and the names of bindings contain one."""
    return trigger.partition(" ")[0]
