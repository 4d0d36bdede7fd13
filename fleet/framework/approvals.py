"""Approvals: which chosen clusters need one, and whether the answers so far suffice.

Pure, for the plugin that asks, the scheduler that watches for answers, and the API that takes them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from fleet.cached import cached_property
from fleet.errors import InputError
from fleet.model.labels import is_label
from fleet.model.selectors import find_selector_problems, matches
from fleet.model.timestamps import parse_duration, parse_timestamp
from fleet.model.views import ApprovalRule, Approver, PlacementApproval

PLUGIN: Final = "PlacementApproval"
DENIED: Final = "Denied"

Labels = Mapping[str, str]


@dataclass(frozen=True)
class ApprovalFacts:
    """What the hub has about one placement and its approvals."""

    uid: str = ""
    labels: Labels | None = None
    """Of the placement."""
    rules: tuple[ApprovalRule, ...] = ()
    """Of its companion."""
    approvals: tuple[PlacementApproval, ...] = ()
    """Also those of an earlier placement of the same name."""
    spec: bytes | msgspec.Raw = b"{}"
    """Of the placement."""
    labels_of: Callable[[str], Labels | None] = lambda _: None
    """The labels of a cluster."""

    @cached_property
    def selection(self) -> str:
        """Read for answers that name one: to decode a large policy takes long."""
        return digest_selection(self.spec)


@dataclass(frozen=True, slots=True)
class Answers:
    """The valid answers to one rule about one cluster."""

    rule: ApprovalRule
    approved: tuple[PlacementApproval, ...]
    """One of each approver."""
    denied: PlacementApproval | None

    @property
    def suffice(self) -> bool:
        return self.denied is None and len(self.approved) >= self.rule.count


def digest_selection(spec: bytes | msgspec.Raw) -> str:
    """Of what a placement's spec selects, and of its policy: an approval is about both."""
    read = msgspec.json.decode(spec, type=_Selection)
    document = msgspec.json.encode(read, order="sorted")
    return hashlib.blake2b(document, digest_size=16).hexdigest()


class _Selection(msgspec.Struct, frozen=True, rename="camel"):
    resource_selectors: object = ()
    policy: object = None


def find_rule_problems(rule: ApprovalRule) -> Iterator[str]:
    """Each begins with the field."""
    if not is_label(rule.name):
        yield f"name: {rule.name!r} is no name of a rule: use lower-case letters, digits and dashes"
    if rule.clusters is not None:
        for problem in find_selector_problems(rule.clusters):
            yield f"clusters.{problem.field}: {problem.message}"
    if rule.count < 1:
        yield f"count: {rule.count} is too small: at least one approver is needed"
    if rule.hold_seconds < 0:
        yield f"holdSeconds: {rule.hold_seconds} is negative: use 0 or more"
    try:
        parse_duration(rule.valid_for)
    except InputError as error:
        yield f"validFor: {error}"


def judge(rules: Iterable[ApprovalRule], facts: ApprovalFacts, cluster: str, *, now: int) -> list[Answers]:
    """For each rule that applies to the cluster, what was answered."""
    labels = facts.labels_of(cluster) or {}
    applying = (rule for rule in rules if rule.clusters is None or matches(rule.clusters, labels))
    return [_collect(rule, facts, cluster, now) for rule in applying]


def may_answer(rule: ApprovalRule, by: Approver) -> bool:
    """Whether the rule counts answers of this user."""
    users, groups = rule.approvers.users, rule.approvers.groups
    return (not users and not groups) or by.user in users or not set(groups).isdisjoint(by.groups)


def _collect(rule: ApprovalRule, facts: ApprovalFacts, cluster: str, now: int) -> Answers:
    valid = list(_list_valid(rule, facts, cluster, now))
    denied = next((answer for answer in valid if answer.spec.decision == DENIED), None)
    by_user = {answer.spec.by.user: answer for answer in reversed(valid) if answer.spec.decision != DENIED}
    return Answers(rule, tuple(by_user[user] for user in sorted(by_user)), denied)


def _list_valid(rule: ApprovalRule, facts: ApprovalFacts, cluster: str, now: int) -> Iterator[PlacementApproval]:
    for approval in facts.approvals:
        spec = approval.spec
        if (spec.placement_uid, spec.rule, spec.cluster) != (facts.uid, rule.name, cluster):
            continue
        is_about_this = rule.sticky or not spec.selection or spec.selection == facts.selection
        if is_about_this and may_answer(rule, spec.by) and now < find_expiry(rule, approval):
            yield approval


def find_expiry(rule: ApprovalRule, approval: PlacementApproval) -> int:
    """In nanoseconds since the epoch. An approval may expire earlier than its rule says, not later."""
    created = parse_timestamp(approval.metadata.creation_timestamp or "1970-01-01T00:00:00Z")
    latest = created + parse_duration(rule.valid_for)
    expires = approval.spec.expires_at
    return latest if expires is None else min(latest, parse_timestamp(expires))
