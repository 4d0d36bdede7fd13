"""Placements that wait for approval, for room that is being made, or at a gate.

What waits stands in the status of companions, which the leader writes: any replica can tell it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, cast

import msgspec

from api.auth.access import approval_access, options_access, placement_access
from api.auth.permissions import Permissions, Visibility
from api.http.problems import ProblemError, not_there, refusal
from api.live.backend import Backend
from api.live.live import LivePlacement, LiveState
from api.live.queue_status import redact_message
from api.waiting_models import (
    DenialModel,
    GateModel,
    MakingRoomModel,
    Phase,
    PreemptingModel,
    VictimBudgetModel,
    WaitingList,
    WaitingModel,
    WaitingTargetModel,
)
from api.why_models import QueueModel
from fleet.clock import SECOND
from fleet.framework.approvals import DENIED, PLUGIN, ApprovalFacts, find_expiry, judge, may_answer
from fleet.informers.cache import PlacementKinds
from fleet.model.placement_key import PlacementKey
from fleet.model.timestamps import format_timestamp, parse_timestamp
from fleet.model.views import (
    ApprovalRule,
    Approver,
    Condition,
    Observed,
    Placement,
    PlacementApproval,
    PlacementOptions,
    PreemptionStatus,
    WaitingTarget,
)
from fleet.scheduler.binding.companion_status import GATED, WAITING
from fleet.scheduler.binding.waiting_store import PREEMPTION
from fleet.scheduler.companions import merge_gates
from plugins.acting.placement_gates import PlacementGates

_SHOWN_FOR: Final = 3600 * SECOND
"""For so long after it was decided a placement is known to have waited."""


@dataclass(frozen=True, slots=True)
class PlacementWait:
    kinds: PlacementKinds
    key: PlacementKey
    uid: str
    profile: str
    options: Observed[PlacementOptions]

    @property
    def entries(self) -> tuple[WaitingTarget, ...]:
        return self.options.view.status.waiting


async def list_waiting(
    backend: Backend, permissions: Permissions, *, profile: str | None, plugin: str | None, cluster: str | None
) -> WaitingList:
    """Of the placements that the caller may read, by key."""
    by_key = {str(item.key): item for item in iter_waiting(backend)}
    readable = await permissions.filter_placements(by_key)
    visibility = await permissions.load_visibility(backend.live.caches.clusters)
    items = []
    for key in sorted(readable):
        item = by_key[key]
        model = _build_model(backend, item, visibility, await _list_answerable(backend, permissions, item))
        chosen = [
            target for target in model.waiting if plugin in (None, target.plugin) and cluster in (None, target.cluster)
        ]
        if profile in (None, item.profile) and (chosen or (model.redacted and plugin is None and cluster is None)):
            items.append(msgspec.structs.replace(model, waiting=tuple(chosen)))
    return WaitingList(items=tuple(items))


async def load_waiting(backend: Backend, permissions: Permissions, uid: str) -> WaitingModel:
    item = await find_waiting(backend, permissions, uid)
    answerable = await _list_answerable(backend, permissions, item)
    return _build_model(backend, item, await permissions.load_visibility(backend.live.caches.clusters), answerable)


async def list_answerable(backend: Backend, permissions: Permissions, placement: LivePlacement) -> Collection[str]:
    """The rules that the caller may answer."""
    item = _read_item(backend, placement.placement, placement.options)
    return () if item is None else await _list_answerable(backend, permissions, item)


def describe_waiting(
    backend: Backend, placement: LivePlacement, visibility: Visibility, answerable: Collection[str]
) -> WaitingModel | None:
    """None, if no attempt on the placement has chosen clusters that are not bound yet."""
    item = _read_item(backend, placement.placement, placement.options)
    return None if item is None else _build_model(backend, item, visibility, answerable)


def list_denials(backend: Backend, placement: LivePlacement, visibility: Visibility) -> Iterator[DenialModel]:
    """Those that count now. Words about one cluster may name others: only who sees all of them gets them."""
    key, now = PlacementKey.parse(placement.key), backend.live.now()
    if not backend.live.caches.approvals(key):
        return
    facts = backend.live.read_approval_facts(key)
    rules = backend.live.list_approval_rules(key, facts)
    for cluster in sorted({approval.spec.cluster for approval in facts.approvals}):
        if visibility.hides(cluster):
            continue
        for answers in judge(rules, facts, cluster, now=now):
            if answers.denied is not None:
                spec = answers.denied.spec
                yield DenialModel(
                    cluster=cluster,
                    rule=spec.rule,
                    by=spec.by.user,
                    at=answers.denied.metadata.creation_timestamp or "",
                    message=spec.message if visibility.is_whole else "",
                    until=format_timestamp(find_expiry(answers.rule, answers.denied)),
                )


async def list_clearable(permissions: Permissions, placement: LivePlacement) -> tuple[str, ...]:
    """The gates that the caller may clear: those of the annotation are cleared there."""
    gates = () if placement.options is None else placement.options.view.spec.gates
    key = PlacementKey.parse(placement.key)
    if not gates or not await permissions.allow(options_access("update", key.namespace, key.name)):
        return ()
    return tuple(gate.name for gate in gates)


def describe_gate(
    backend: Backend,
    placement: LivePlacement,
    queue: QueueModel | None,
    visibility: Visibility,
    clearable: tuple[str, ...],
) -> GateModel | None:
    """As the queue of this process has it, else as the hub has it; None without a gate."""
    key, own = PlacementKey.parse(placement.key), placement.placement.view.metadata
    left = tuple(gate.name for gate in merge_gates(own, backend.live.companions.find(key)))
    told = None if placement.options is None else _find_condition(placement.options, GATED)
    if queue is not None and queue.space == "gated":
        by, message, since = queue.gated_by or "", queue.gate_message, queue.since or ""
    elif queue is not None and queue.space != "unknown":
        return None
    elif told is not None and told.status == "True":
        by, since = told.reason, told.last_transition_time or ""
        message = redact_message(backend.live, told.message, visibility.redact)
    elif left:
        by, message, since = PlacementGates().name(), ", ".join(left), ""
    else:
        return None
    options = backend.live.caches.kinds_of(key).scope.options
    who = f"everybody who may update {options.plural}.{options.group}" if left else ""
    return GateModel(by=by, message=message, since=since, gates=left, cleared_by=who, clearable=clearable)


# --- room -------------------------------------------------------------------------------------------------------------


def list_preemptions(placement: LivePlacement) -> tuple[PreemptionStatus, ...]:
    """Of this placement, not of an earlier one of its name."""
    if placement.options is None:
        return ()
    status = placement.options.view.status
    return status.preemptions if status.placement_uid == placement.placement.view.metadata.uid else ()


def describe_preempting(
    live: LiveState, placement: LivePlacement, visibility: Visibility, readable: Collection[str]
) -> PreemptingModel | None:
    preemptions = list_preemptions(placement)
    if not preemptions:
        return None
    shown = [each for each in preemptions if not visibility.hides(each.cluster)]
    return PreemptingModel(
        clusters=tuple(_build_room(live, each, readable) for each in shown),
        redacted=len(preemptions) - len(shown),
    )


def _build_room(live: LiveState, preemption: PreemptionStatus, readable: Collection[str]) -> MakingRoomModel:
    victims = tuple(victim for victim in preemption.victims if victim in readable)
    return MakingRoomModel(
        cluster=preemption.cluster,
        phase=cast(Phase, preemption.phase),
        since=preemption.since,
        victims=victims,
        hidden=len(preemption.victims) - len(victims),
        budgets=tuple(_list_budgets(live, victims)),
    )


def _list_budgets(live: LiveState, victims: Iterable[str]) -> Iterator[VictimBudgetModel]:
    for victim in victims:
        budget = live.find_budget(victim)
        if budget is not None:
            yield VictimBudgetModel(placement=victim, rule=budget.rule, disruptions=budget.disruptions)


# --- reading ----------------------------------------------------------------------------------------------------------


def iter_waiting(backend: Backend) -> Iterator[PlacementWait]:
    caches = backend.live.caches
    for kinds in caches.kinds:
        for options in kinds.options.store.values():
            placement = kinds.get_placement(PlacementKey.of(options.view.metadata))
            item = None if placement is None else _read_item(backend, placement, options)
            if item is not None and item.entries:
                yield item


def _read_item(
    backend: Backend, placement: Observed[Placement], options: Observed[PlacementOptions] | None
) -> PlacementWait | None:
    metadata = placement.view.metadata
    if options is None or options.view.status.placement_uid != metadata.uid:
        return None
    is_chosen = any(target.cause != PREEMPTION for target in options.view.status.nominated_targets)
    if not options.view.status.waiting and not is_chosen:
        return None
    key = PlacementKey.of(metadata)
    profile = backend.live.frameworks.choose(backend.live.companions.scheduler_name_of(metadata)).scheduler_name
    return PlacementWait(backend.live.caches.kinds_of(key), key, metadata.uid, profile, options)


async def find_waiting(backend: Backend, permissions: Permissions, uid: str) -> PlacementWait:
    """Refuses what does not wait, with the outcome if that was decided within the last hour."""
    for item in iter_waiting(backend):
        if item.uid == uid:
            await permissions.require(placement_access("get", item.key.namespace, item.key.name))
            return item
    now = backend.live.now()
    for kinds in backend.live.caches.kinds:
        for approval in kinds.approvals.store.values():
            spec = approval.view.spec
            if spec.placement_uid == uid and now - _read_creation(approval.view) < _SHOWN_FOR:
                namespace = approval.view.metadata.namespace
                await permissions.require(placement_access("get", namespace, spec.placement))
                raise build_outcome(spec.placement, approval.view, await permissions.load_visibility([spec.cluster]))
    next = "GET /v1/waiting lists those that wait"
    raise not_there(f"{uid} does not wait for approval", next, object=uid)


async def _list_answerable(backend: Backend, permissions: Permissions, item: PlacementWait) -> Collection[str]:
    rules, _ = _read_rules(backend, item)
    asked = {entry.rule for entry in item.entries if entry.plugin == PLUGIN}
    return [
        name
        for name, rule in rules.items()
        if name in asked and await find_missing_right(permissions, item.key, rule) is None
    ]


def _read_rules(backend: Backend, item: PlacementWait) -> tuple[dict[str, ApprovalRule], ApprovalFacts]:
    facts = backend.live.read_approval_facts(item.key)
    return {rule.name: rule for rule in backend.live.list_approval_rules(item.key, facts)}, facts


def _build_model(
    backend: Backend, item: PlacementWait, visibility: Visibility, answerable: Collection[str]
) -> WaitingModel:
    rules, facts = _read_rules(backend, item)
    now = backend.live.now()
    status = item.options.view.status
    shown = [entry for entry in item.entries if not visibility.hides(entry.cluster)]
    nominated = [target.cluster for target in status.nominated_targets if target.cause != PREEMPTION]
    targets = tuple(cluster for cluster in nominated if not visibility.hides(cluster))
    told = _find_condition(item.options, WAITING)
    message = told.message if told is not None and told.status == "True" else ""
    return WaitingModel(
        uid=item.uid,
        key=str(item.key),
        profile=item.profile,
        message=message if len(shown) == len(item.entries) else "",
        targets=targets,
        redacted_targets=len(nominated) - len(targets),
        waiting=tuple(_build_target(entry, rules.get(entry.rule), facts, answerable, now) for entry in shown),
        redacted=len(item.entries) - len(shown),
    )


def _build_target(
    entry: WaitingTarget, rule: ApprovalRule | None, facts: ApprovalFacts, answerable: Collection[str], now: int
) -> WaitingTargetModel:
    deadline = None if entry.deadline is None else parse_timestamp(entry.deadline)
    answers = [] if rule is None else judge([rule], facts, entry.cluster, now=now)
    return WaitingTargetModel(
        cluster=entry.cluster,
        plugin=entry.plugin,
        rule=entry.rule,
        since=entry.since,
        deadline=entry.deadline,
        remaining_seconds=None if deadline is None else max(deadline - now, 0) / SECOND,
        users=() if rule is None else rule.approvers.users,
        groups=() if rule is None else rule.approvers.groups,
        count=1 if rule is None else rule.count,
        approved_by=tuple(given.spec.by.user for answer in answers for given in answer.approved),
        may_answer=entry.plugin == PLUGIN and entry.rule in answerable,
    )


def build_outcome(placement: str, approval: PlacementApproval, visibility: Visibility) -> ProblemError:
    spec = approval.spec
    decided = "denied" if spec.decision == DENIED else "approved"
    message = f": {spec.message}" if spec.message and visibility.is_whole else ""
    return refusal(
        410,
        f"{decided} already by {spec.by.user} at {approval.metadata.creation_timestamp}{message}",
        object=placement if visibility.hides(spec.cluster) else f"{placement} on {spec.cluster}",
        field="rule",
        value=spec.rule,
        next="GET /v1/waiting lists what is still open",
        title="Answered already",
    )


async def find_missing_right(permissions: Permissions, key: PlacementKey, rule: ApprovalRule) -> ProblemError | None:
    """Why the caller may not answer for the rule."""
    try:
        await permissions.require(approval_access(key.namespace, rule.name))
    except ProblemError as problem:
        return problem
    caller = permissions.caller
    if may_answer(rule, Approver(user=caller.name, groups=caller.groups)):
        return None
    who = ", ".join([*rule.approvers.users, *(f"group {group}" for group in rule.approvers.groups)])
    return refusal(
        403,
        f"{caller.name} is not among the approvers of rule {rule.name}",
        object=str(key),
        field="rule",
        value=rule.name,
        next=f"ask one of them: {who}",
    )


def _find_condition(options: Observed[PlacementOptions], type: str) -> Condition | None:
    return next((condition for condition in options.view.status.conditions if condition.type == type), None)


def _read_creation(approval: PlacementApproval) -> int:
    created = approval.metadata.creation_timestamp
    return 0 if created is None else parse_timestamp(created)
