"""Answers of callers to placements that wait for approval: objects that the leader reads, so any replica takes them."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from api.auth.access import placement_access
from api.auth.permissions import Permissions, Visibility
from api.http.problems import refusal
from api.live.backend import Backend
from api.services.held.waiting import PlacementWait, build_outcome, find_missing_right, find_waiting
from api.waiting_models import AllowAnswer, RejectAnswer, RemainingModel
from fleet.errors import AlreadyExists, NotFound
from fleet.framework.approvals import DENIED, PLUGIN, Answers, ApprovalFacts, judge
from fleet.informers.cache import PlacementKinds
from fleet.model.placement_key import PlacementKey
from fleet.model.timestamps import format_timestamp, parse_duration
from fleet.model.views import ApprovalRule, PlacementApproval, WaitingTarget

APPROVED: Final = "Approved"
REQUEST: Final = "scheduling.fleet.dev/request"
ANSWER: Final = "scheduling.fleet.dev/answer"
"""Annotations of an approval: a digest of the Idempotency-Key, and what the request was answered."""
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


async def allow(backend: Backend, permissions: Permissions, uid: str, reply: Reply) -> AllowAnswer:
    answer = await _answer(backend, permissions, uid, reply)
    return msgspec.convert(answer, AllowAnswer)


async def reject(backend: Backend, permissions: Permissions, uid: str, reply: Reply) -> RejectAnswer:
    await _answer(backend, permissions, uid, reply)
    return RejectAnswer(delivered=True)


# --- answering --------------------------------------------------------------------------------------------------------


async def _answer(backend: Backend, permissions: Permissions, uid: str, reply: Reply) -> dict[str, Any]:
    request = _digest_request(permissions, reply)
    earlier = await _find_earlier(backend, permissions, uid, request)
    if earlier is not None:
        return earlier
    item = await find_waiting(backend, permissions, uid)
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
    item: PlacementWait,
    reply: Reply,
    rules: dict[str, ApprovalRule],
    visibility: Visibility,
) -> list[WaitingTarget]:
    """Those that are meant and that the caller may answer. A hidden cluster that is named is as one that does not
    wait."""
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
        if reply.target is None or (reply.target == entry.cluster and not visibility.hides(entry.cluster))
        if reply.rule in (None, entry.rule) and entry.rule in rules
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
        problem = await find_missing_right(permissions, item.key, rules[entry.rule])
        if problem is None:
            allowed.append(entry)
        else:
            refused.append(problem)
    if not allowed:
        raise refused[0]
    return allowed


def _require_open(key: PlacementKey, answers: Answers, user: str, visibility: Visibility) -> None:
    decided = answers.denied or (answers.approved[-1] if answers.suffice else None)
    own = next((given for given in answers.approved if given.spec.by.user == user), None)
    if decided is not None or own is not None:
        raise build_outcome(str(key), decided or own, visibility)  # type: ignore[arg-type]  # one of them is there


def _foresee(
    item: PlacementWait,
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
    item: PlacementWait,
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
