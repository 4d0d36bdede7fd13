"""Members of placement groups: what each waits for, and where it was tried together with the others."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from api.auth.permissions import Permissions, Visibility
from api.group_models import GroupMemberModel, GroupRejection, GroupTrial, MemberState
from api.live.backend import Backend
from api.live.live import LivePlacement
from api.live.live_groups import LiveGroup
from api.live.queue_status import build_queue_model, find_queue_place
from api.services.decisions.attempts import format_path, group_effects
from api.services.held.waiting import (
    describe_gate,
    describe_preempting,
    describe_waiting,
    list_answerable,
    list_clearable,
    list_preemptions,
)
from api.waiting_models import GateModel, PreemptingModel, WaitingModel
from fleet.explain.answer.parts import HookStatus
from fleet.framework.status import REJECTIONS, Code
from fleet.history import HistoryAttempt
from fleet.model.timestamps import format_timestamp
from fleet.scheduler.attempt_record import AttemptResult
from fleet.scheduler.companions import GANG
from fleet.scheduler.groups.group_evidence import MemberEvidence, TrialEvidence

_REFUSING: Final = frozenset(map(str, (*REJECTIONS, Code.ERROR)))
_FAILED: Final[Mapping[str, MemberState]] = {
    AttemptResult.BIND_FAILED.value: "BindFailed",
    AttemptResult.TRANSIENT.value: "SchedulerError",
    AttemptResult.INTERNAL.value: "SchedulerError",
    AttemptResult.BAD_INPUT.value: "InputError",
}


async def explain_member(
    backend: Backend,
    permissions: Permissions,
    group: LiveGroup,
    placement: LivePlacement,
    newest: HistoryAttempt | None,
    visibility: Visibility,
) -> GroupMemberModel:
    """What was tried counts until it is bound."""
    bound, planned = list_bound(placement), _list_planned(group, placement)
    attempt = None if bound else newest
    evidence = read_evidence(attempt)
    place = find_queue_place(backend.live, placement.key)
    queue = build_queue_model(backend.live, place, backend.effective.settings.queue, (), hides=visibility.redact)
    gate = describe_gate(backend, placement, queue, visibility, await list_clearable(permissions, placement))
    waiting = describe_waiting(backend, placement, visibility, await list_answerable(backend, permissions, placement))
    victims = {victim for each in list_preemptions(placement) for victim in each.victims}
    readable = await permissions.filter_placements(victims) if victims else ()
    preempting = describe_preempting(backend.live, placement, visibility, readable)
    shown, to_be = (tuple(sorted(name for name in on if not visibility.hides(name))) for on in (bound, planned - bound))
    return GroupMemberModel(
        key=placement.key,
        state=_find_state(_Signs(bound, planned, gate, waiting, preempting, queue.space, attempt, evidence)),
        clusters=shown,
        planned=to_be,
        redacted=len(bound | planned) - len(shown) - len(to_be),
        gate=gate,
        waiting=waiting,
        preempting=preempting,
        at=format_timestamp(attempt.started) if attempt else "",
        trials=tuple(_build_trials(backend, group, evidence, visibility)),
        more_trials=evidence.more if evidence else 0,
        answers=tuple(_list_refusals(attempt, visibility)),
        error=_read_error(attempt) if visibility.is_whole else "",
        why=f"/v1/placements/{format_path(placement.key)}/why",
    )


class _Signs(NamedTuple):
    """What the state of a member follows from."""

    bound: Collection[str]
    planned: Collection[str]
    gate: GateModel | None
    waiting: WaitingModel | None
    preempting: PreemptingModel | None
    space: str
    attempt: HistoryAttempt | None
    evidence: MemberEvidence | None


def _find_state(signs: _Signs) -> MemberState:
    if signs.planned and not set(signs.planned) <= set(signs.bound):
        return "Binding"
    if signs.bound:
        return "Bound"
    if signs.gate is not None:
        return "Gated"
    if signs.waiting is not None:
        return "Waiting" if signs.waiting.waiting or signs.waiting.redacted else "Binding"
    if signs.preempting is not None:
        return "Preempting"
    if signs.space == "in_flight":
        return "InFlight"
    if signs.attempt is None:
        return "Queued"
    if signs.evidence is not None:
        return "Unschedulable" if find_best_trial(signs.evidence).fits is False else "WaitingForGroup"
    return _FAILED.get(signs.attempt.ending, "Unschedulable")


def list_bound(placement: LivePlacement | None) -> frozenset[str]:
    bindings = [] if placement is None else placement.list_live_bindings()
    return frozenset(binding.spec.target_cluster for binding in bindings)


def _list_planned(group: LiveGroup, placement: LivePlacement) -> frozenset[str]:
    own = placement.placement.view.metadata
    targets = (target for target in group.status.targets if target.placement_uid == own.uid)
    return frozenset(cluster for target in targets for cluster in target.clusters)


def _build_trials(
    backend: Backend, group: LiveGroup, evidence: MemberEvidence | None, visibility: Visibility
) -> Iterator[GroupTrial]:
    for trial in () if evidence is None else evidence.trials:
        yield GroupTrial(
            domain=show_domain(backend, group, trial.domain, visibility),
            clusters=trial.clusters,
            fitting=trial.fitting,
            fits=trial.fits,
            rejections=tuple(
                GroupRejection(
                    plugin=each.plugin,
                    reason=each.reason,
                    count=each.count,
                    clusters=tuple(name for name in each.clusters if not visibility.hides(name)),
                    message=each.message if visibility.is_whole else "",
                )
                for each in trial.rejections
            ),
        )


def _list_refusals(attempt: HistoryAttempt | None, visibility: Visibility) -> Iterator[HookStatus]:
    effects = {} if attempt is None else group_effects(attempt, visibility)
    for answers in effects.values():
        yield from (each for each in answers if each.code in _REFUSING and each.plugin != GANG)


def _read_error(attempt: HistoryAttempt | None) -> str:
    """Of an attempt that failed: a refusal stands in `answers`."""
    return attempt.error if attempt is not None and attempt.ending in _FAILED else ""


def read_evidence(attempt: HistoryAttempt | None) -> MemberEvidence | None:
    effects = () if attempt is None else attempt.effects
    details = [effect.details for effect in effects if effect.plugin == GANG and effect.details]
    return msgspec.json.decode(details[-1], type=MemberEvidence) if details else None


def find_best_trial(evidence: MemberEvidence) -> TrialEvidence:
    return max(evidence.trials, key=lambda trial: trial.fitting)


def show_domain(backend: Backend, group: LiveGroup, domain: str, visibility: Visibility) -> str:
    """Values that only clusters have which the caller may not read tell of these."""
    if not domain or visibility.is_whole:
        return domain
    visible = (
        cluster for cluster in backend.live.caches.clusters.values() if not visibility.hides(cluster.metadata.name)
    )
    values = ((cluster.metadata.labels or {}).get(group.spec.topology_key) for cluster in visible)
    return domain if domain in values else ""
