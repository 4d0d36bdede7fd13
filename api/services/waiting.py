"""Placements that wait for approval, and the answers that callers give.

What waits stands in the status of companions, which the leader writes; an answer is an object that the leader reads. So
any replica can take it.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from api.auth.access import approval_access, placement_access
from api.auth.permissions import Permissions, Visibility
from api.http.problems import ProblemError, not_found, refusal
from api.live.backend import Backend
from api.waiting_models import (
    AllowAnswer,
    RejectAnswer,
    RemainingModel,
    WaitingList,
    WaitingModel,
    WaitingTargetModel,
)
from fleet.clock import SECOND
from fleet.errors import AlreadyExists, NotFound
from fleet.framework.approvals import DENIED, PLUGIN, Answers, ApprovalFacts, judge, may_answer
from fleet.informers.cache import PlacementKinds
from fleet.model.placement_key import PlacementKey
from fleet.model.timestamps import format_timestamp, parse_duration, parse_timestamp
from fleet.model.views import (
    ApprovalRule,
    Approver,
    Observed,
    PlacementApproval,
    PlacementOptions,
    WaitingTarget,
)

APPROVED: Final = "Approved"
REQUEST: Final = "scheduling.fleet.dev/request"
ANSWER: Final = "scheduling.fleet.dev/answer"
"""Annotations of an approval: a digest of the Idempotency-Key, and what the request was answered."""
_SHOWN_FOR: Final = 3600 * SECOND
"""For so long after it was decided a placement is known to have waited."""
_LONGEST_NAME: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a caller wants to be recorded."""

    plugin: str
    decision: str
    message: str
    target: str | None
    rule: str | None
    request: str = ""
    """The Idempotency-Key."""


@dataclass(frozen=True, slots=True)
class _Waiting:
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
    by_key = {str(item.key): item for item in _iter_waiting(backend)}
    readable = await permissions.filter_placements(by_key)
    visibility = await permissions.load_visibility(backend.live.caches.clusters)
    items = []
    for key in sorted(readable):
        item = by_key[key]
        model = _build_model(backend, item, visibility)
        chosen = [
            target for target in model.waiting if plugin in (None, target.plugin) and cluster in (None, target.cluster)
        ]
        if profile in (None, item.profile) and (chosen or (model.redacted and plugin is None and cluster is None)):
            items.append(msgspec.structs.replace(model, waiting=tuple(chosen)))
    return WaitingList(items=tuple(items))


async def load_waiting(backend: Backend, permissions: Permissions, uid: str) -> WaitingModel:
    item = await _find(backend, permissions, uid)
    return _build_model(backend, item, await permissions.load_visibility(backend.live.caches.clusters))


async def allow(backend: Backend, permissions: Permissions, uid: str, reply: Reply) -> AllowAnswer:
    answer = await _answer(backend, permissions, uid, reply)
    return msgspec.convert(answer, AllowAnswer)


async def reject(backend: Backend, permissions: Permissions, uid: str, reply: Reply) -> RejectAnswer:
    await _answer(backend, permissions, uid, reply)
    return RejectAnswer(delivered=True)


# --- reading ----------------------------------------------------------------------------------------------------------


def _iter_waiting(backend: Backend) -> Iterator[_Waiting]:
    caches = backend.live.caches
    for kinds in caches.kinds:
        for options in kinds.options.store.values():
            key = PlacementKey.of(options.view.metadata)
            placement = kinds.get_placement(key)
            status = options.view.status
            if placement is None or not status.waiting or placement.view.metadata.uid != status.placement_uid:
                continue
            name = backend.live.companions.scheduler_name_of(placement.view.metadata)
            profile = backend.live.frameworks.choose(name).scheduler_name
            yield _Waiting(kinds, key, status.placement_uid, profile, options)


async def _find(backend: Backend, permissions: Permissions, uid: str) -> _Waiting:
    """Refuses what does not wait, with the outcome if that was decided within the last hour."""
    for item in _iter_waiting(backend):
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
                raise _build_outcome(spec.placement, approval.view, await permissions.load_visibility([spec.cluster]))
    raise not_found(f"a waiting placement with UID {uid}", "GET /v1/waiting lists those that wait")


def _build_model(backend: Backend, item: _Waiting, visibility: Visibility) -> WaitingModel:
    facts = backend.live.read_approval_facts(item.key)
    rules = {rule.name: rule for rule in backend.live.list_approval_rules(item.key, facts)}
    now = backend.live.now()
    status = item.options.view.status
    shown = [entry for entry in item.entries if not visibility.hides(entry.cluster)]
    nominated = (target.cluster for target in status.nominated_targets)
    message = next((each.message for each in status.conditions if each.type == "Waiting"), "")
    return WaitingModel(
        uid=item.uid,
        key=str(item.key),
        profile=item.profile,
        message=message if len(shown) == len(item.entries) else "",
        targets=tuple(cluster for cluster in nominated if not visibility.hides(cluster)),
        waiting=tuple(_build_target(entry, rules.get(entry.rule), facts, now) for entry in shown),
        redacted=len(item.entries) - len(shown),
    )


def _build_target(
    entry: WaitingTarget, rule: ApprovalRule | None, facts: ApprovalFacts, now: int
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
    )


# --- answering --------------------------------------------------------------------------------------------------------


async def _answer(backend: Backend, permissions: Permissions, uid: str, reply: Reply) -> dict[str, Any]:
    request = _digest_request(permissions, reply)
    earlier = await _find_earlier(backend, permissions, uid, request)
    if earlier is not None:
        return earlier
    item = await _find(backend, permissions, uid)
    facts = backend.live.read_approval_facts(item.key)
    recorded = await _list_recorded(item.kinds, item.key)
    for approval in recorded:
        if request and approval.metadata.annotation(REQUEST) == request:  # another replica has taken it
            return _read_answer(approval)
    facts = replace(facts, approvals=recorded)
    rules = {rule.name: rule for rule in backend.live.list_approval_rules(item.key, facts)}
    visibility = await permissions.load_visibility(entry.cluster for entry in item.entries)
    entries = await _choose_entries(permissions, item, reply, rules, visibility)
    now = backend.live.now()
    for entry in entries:
        (answers,) = judge([_drop_selector(rules[entry.rule])], facts, entry.cluster, now=now)
        _require_open(item.key, answers, permissions.caller.name, visibility)
    answer = _foresee(item, entries, reply, rules, facts, permissions.caller.name, now, visibility)
    for entry in entries:
        document = _build_approval(item, entry, rules[entry.rule], reply, facts, permissions, now)
        if request:
            document["metadata"]["annotations"] = {REQUEST: request, ANSWER: msgspec.json.encode(answer).decode()}
            suffix = hashlib.blake2b(f"{request} {entry.cluster} {entry.rule}".encode(), digest_size=8).hexdigest()
        else:
            suffix = secrets.token_hex(8)
        document["metadata"]["name"] = f"{item.key.name[:_LONGEST_NAME]}-{suffix}"
        try:
            await backend.live.record_approval(item.kinds, document)
        except AlreadyExists:  # another replica took the same request
            present = await item.kinds.approvals.objects.get(
                str(PlacementKey(item.key.namespace, document["metadata"]["name"]))
            )
            return _read_answer(present.view)
    return answer


def _drop_selector(rule: ApprovalRule) -> ApprovalRule:
    """The leader has found that the rule applies to the cluster."""
    return msgspec.structs.replace(rule, clusters=None)


async def _find_earlier(backend: Backend, permissions: Permissions, uid: str, request: str) -> dict[str, Any] | None:
    """The answer to the same request."""
    if not request:
        return None
    for kinds in backend.live.caches.kinds:
        for approval in kinds.approvals.store.values():
            view = approval.view
            if view.spec.placement_uid == uid and view.metadata.annotation(REQUEST) == request:
                await permissions.require(placement_access("get", view.metadata.namespace, view.spec.placement))
                return _read_answer(view)
    return None


async def _list_recorded(kinds: PlacementKinds, key: PlacementKey) -> tuple[PlacementApproval, ...]:
    """Live: two replicas may be asked within the same moment."""
    try:
        recorded = await kinds.approvals.objects.list(namespace=key.namespace)
    except NotFound:
        return ()
    return tuple(approval.view for approval in recorded if approval.view.spec.placement == key.name)


async def _choose_entries(
    permissions: Permissions,
    item: _Waiting,
    reply: Reply,
    rules: dict[str, ApprovalRule],
    visibility: Visibility,
) -> list[WaitingTarget]:
    """Those that are meant and that the caller may answer."""
    pending = [entry for entry in item.entries if entry.plugin == reply.plugin and reply.plugin == PLUGIN]
    if not pending:
        plugins = ", ".join(sorted({entry.plugin for entry in item.entries}))
        raise refusal(
            409,
            f"placement {item.key} does not wait for {reply.plugin}, or that does not take answers here",
            object=str(item.key),
            field="plugin",
            value=reply.plugin,
            next=f"it waits for {plugins}; {PLUGIN} takes answers",
        )
    meant = [
        entry
        for entry in pending
        if reply.target in (None, entry.cluster) and reply.rule in (None, entry.rule) and entry.rule in rules
    ]
    if not meant:
        shown = [f"{entry.cluster} ({entry.rule})" for entry in pending if not visibility.hides(entry.cluster)]
        open_ones = ", ".join(shown) or "clusters that you may not read"
        field = "rule" if reply.rule is not None else "target"
        raise refusal(
            404,
            f"placement {item.key} does not wait for this cluster or rule",
            object=str(item.key),
            field=field,
            value=reply.rule if reply.rule is not None else reply.target,
            next=f"it waits for {open_ones}",
        )
    allowed, refused = [], []
    for entry in meant:
        problem = await _find_missing_right(permissions, item, rules[entry.rule])
        if problem is None:
            allowed.append(entry)
        else:
            refused.append(problem)
    if not allowed:
        raise refused[0]
    return allowed


async def _find_missing_right(permissions: Permissions, item: _Waiting, rule: ApprovalRule) -> ProblemError | None:
    try:
        await permissions.require(approval_access(item.key.namespace, rule.name))
    except ProblemError as problem:
        return problem
    caller = permissions.caller
    if may_answer(rule, Approver(user=caller.name, groups=caller.groups)):
        return None
    who = ", ".join([*rule.approvers.users, *(f"group {group}" for group in rule.approvers.groups)])
    return refusal(
        403,
        f"{caller.name} is not among the approvers of rule {rule.name}",
        object=str(item.key),
        field="rule",
        value=rule.name,
        next=f"ask one of them: {who}",
    )


def _require_open(key: PlacementKey, answers: Answers, user: str, visibility: Visibility) -> None:
    decided = answers.denied or (answers.approved[-1] if answers.suffice else None)
    own = next((given for given in answers.approved if given.spec.by.user == user), None)
    if decided is not None or own is not None:
        raise _build_outcome(str(key), decided or own, visibility)  # type: ignore[arg-type]  # one of them is there


def _build_outcome(placement: str, approval: PlacementApproval, visibility: Visibility) -> ProblemError:
    spec = approval.spec
    decided = "denied" if spec.decision == DENIED else "approved"
    message = f": {spec.message}" if spec.message else ""
    return refusal(
        410,
        f"{decided} already by {spec.by.user} at {approval.metadata.creation_timestamp}{message}",
        object=placement if visibility.hides(spec.cluster) else f"{placement} on {spec.cluster}",
        field="rule",
        value=spec.rule,
        next="GET /v1/waiting lists what is still open",
        title="Answered already",
    )


def _foresee(
    item: _Waiting,
    entries: list[WaitingTarget],
    reply: Reply,
    rules: dict[str, ApprovalRule],
    facts: ApprovalFacts,
    user: str,
    now: int,
    visibility: Visibility,
) -> dict[str, Any]:
    """What is left to answer after this."""
    remaining = []
    for entry in item.entries:
        rule = rules.get(entry.rule)
        if rule is not None:
            (answers,) = judge([_drop_selector(rule)], facts, entry.cluster, now=now)
            given = {approval.spec.by.user for approval in answers.approved}
            if entry in entries:
                given.add(user)
            if len(given) >= rule.count or (entry in entries and reply.decision == DENIED):
                continue
        remaining.append(RemainingModel(cluster=entry.cluster, plugin=entry.plugin, rule=entry.rule))
    shown = tuple(each for each in remaining if not visibility.hides(each.cluster))
    answer = AllowAnswer(dealt_with=not remaining, remaining=shown)
    built: dict[str, Any] = msgspec.to_builtins(answer)
    return built


def _build_approval(
    item: _Waiting,
    entry: WaitingTarget,
    rule: ApprovalRule,
    reply: Reply,
    facts: ApprovalFacts,
    permissions: Permissions,
    now: int,
) -> dict[str, Any]:
    caller = permissions.caller
    metadata: dict[str, Any] = {"namespace": item.key.namespace} if item.key.namespace else {}
    spec = {
        "placement": item.key.name,
        "placementUID": item.uid,
        "rule": entry.rule,
        "cluster": entry.cluster,
        "decision": reply.decision,
        "by": {"user": caller.name, "groups": list(caller.groups[:128])},
        "message": reply.message,
        "expiresAt": format_timestamp(now + parse_duration(rule.valid_for)),
        "selection": facts.selection,
    }
    return {"metadata": metadata, "spec": spec}


def _digest_request(permissions: Permissions, reply: Reply) -> str:
    if not reply.request:
        return ""
    content = msgspec.json.encode([permissions.caller.name, reply.request])
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _read_answer(approval: PlacementApproval) -> dict[str, Any]:
    answer: dict[str, Any] = msgspec.json.decode(approval.metadata.annotation(ANSWER) or "{}")
    return answer


def _read_creation(approval: PlacementApproval) -> int:
    created = approval.metadata.creation_timestamp
    return 0 if created is None else parse_timestamp(created)
