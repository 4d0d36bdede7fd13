"""Chosen clusters wait for the approval of named users or groups before anything is placed on them.

Rules come from the companion of a placement, and from the arguments of the plugin for all placements that they select.
People take hours: a cluster is reserved for `holdSeconds` at most, then the attempt ends as pending, and an answer
starts the next one, which picks the same clusters first.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import ClassVar, Final, NamedTuple

import msgspec

from fleet.errors import ConfigurationError
from fleet.framework.approvals import PLUGIN, Answers, ApprovalFacts, find_rule_problems, judge
from fleet.framework.arguments import RawArgs, decode_into
from fleet.framework.context import HookContext
from fleet.framework.explaining import ClusterEventKind, HintRegistration
from fleet.framework.handle import Handle
from fleet.framework.operations import Target
from fleet.framework.request import PlacementRequest
from fleet.framework.state import CycleState
from fleet.framework.status import Code, Status
from fleet.framework.types import PluginTraits
from fleet.model.selectors import find_selector_problems, matches
from fleet.model.views import ApprovalRule, LabelSelector


class HoldTime(NamedTuple):
    """Read as a timedelta, whose module has clocks, too."""

    seconds: int = 0
    days: int = 0
    microseconds: int = 0


_NO_WAIT: Final = HoldTime()


class PlatformRule(ApprovalRule, frozen=True):
    """A rule for all placements with these labels."""

    placements: LabelSelector | None = None


class PlacementApprovalArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    rules: tuple[PlatformRule, ...] = ()


class PlacementApprovalPlugin(PluginTraits):
    PERMIT_TIMEOUT_CODE: ClassVar[Code] = Code.PENDING
    DENIAL_IS_OF_CLUSTER: ClassVar[bool] = True

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        self._rules = decode_into(raw, PlacementApprovalArgs).rules
        self._handle = handle
        _check_rules(self._rules)

    def name(self) -> str:
        return PLUGIN

    def list_rules(self, facts: ApprovalFacts) -> list[ApprovalRule]:
        """Those of the platform come first; one of the placement with the same name does not replace them."""
        labels = facts.labels or {}
        own = [rule for rule in self._rules if rule.placements is None or matches(rule.placements, labels)]
        names = {rule.name for rule in own}
        return [*own, *(rule for rule in facts.rules if rule.name not in names)]

    def queueing_hints(self) -> tuple[HintRegistration, ...]:
        """A chosen cluster is gone, or has labels that no rule selects. Answers requeue their placements themselves."""
        return HintRegistration("Delete"), HintRegistration(ClusterEventKind.UPDATE_LABELS.value)

    def permit(
        self, ctx: HookContext, state: CycleState, placement: PlacementRequest, target: Target
    ) -> tuple[Status | None, HoldTime]:
        del state
        if self._handle is None:
            return None, _NO_WAIT
        facts = self._handle.find_approval_facts(placement.key)
        answers = judge(self.list_rules(facts), facts, target.cluster, now=ctx.now)
        denied = next((answer for answer in answers if answer.denied is not None), None)
        if denied is not None:
            return Status(Code.UNSCHEDULABLE, (_describe_denial(denied),), details={"rule": denied.rule.name}), _NO_WAIT
        missing = [answer for answer in answers if not answer.suffice]
        if not missing:
            return _describe_approvals(answers), _NO_WAIT
        reason = "; ".join(map(_describe_question, missing))
        rules = [answer.rule.name for answer in missing]
        hold = min(answer.rule.hold_seconds for answer in missing)
        code = Code.WAIT if hold else Code.PENDING
        return Status(code, (reason,), details={"rules": rules}), HoldTime(hold)


def _check_rules(rules: Iterable[PlatformRule]) -> None:
    names: set[str] = set()
    for position, rule in enumerate(rules):
        problems = list(find_rule_problems(rule))
        if rule.placements is not None:
            selector_problems = find_selector_problems(rule.placements)
            problems += [f"placements.{problem.field}: {problem.message}" for problem in selector_problems]
        if rule.name in names:
            problems.append(f"name: there is another rule named {rule.name!r}")
        if problems:
            raise ConfigurationError(f"{PLUGIN}: rules[{position}].{problems[0]}")
        names.add(rule.name)


def _describe_question(answers: Answers) -> str:
    rule = answers.rule
    who = [*rule.approvers.users, *(f"group {group}" for group in rule.approvers.groups)]
    named = f" of {' or '.join(who)}" if who else ""
    count = f"{rule.count} approvals" if rule.count > 1 else "an approval"
    given = [answer.spec.by.user for answer in answers.approved]
    so_far = f", so far of {', '.join(given)}" if given else ""
    return f"{rule.name}: waits for {count}{named}{so_far}"


def _describe_denial(answers: Answers) -> str:
    assert answers.denied is not None
    spec = answers.denied.spec
    return f"{spec.rule}: denied by {spec.by.user}" + (f": {spec.message}" if spec.message else "")


def _describe_approvals(answers: list[Answers]) -> Status | None:
    """For the record: who approved, when, and why."""
    given = list(chain.from_iterable(answer.approved for answer in answers))
    if not given:
        return None
    reasons = []
    for approval in given:
        spec, at = approval.spec, approval.metadata.creation_timestamp
        reasons.append(
            f"{spec.rule}: approved by {spec.by.user} at {at}" + (f": {spec.message}" if spec.message else "")
        )
    return Status(Code.SUCCESS, tuple(reasons))
