"""Reserve and Permit: all targets of a decision are reserved and permitted, or none.

This is the last serial step of an attempt. A target that cannot be reserved fails the attempt, or, where the profile
says so, is left out and the same attempt decides again: the whole decision, so that spread and limits still hold. So
is a target that a plugin denies for good, or that any plugin refuses where the profile is content with the others.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field, replace

from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.cycle.decision import Decision
from fleet.framework.cycle.inspection import excluding
from fleet.framework.handle import Deadlines
from fleet.framework.operations import Target
from fleet.framework.runtime.effects import Effects, Failure
from fleet.snapshot.columns.bitset import each_row

Decide = Callable[[DecisionInput], Decision]


@dataclass(frozen=True, slots=True)
class PermitResult:
    """The result of Reserve and Permit. After a failure no reservation and no waiting placement is left."""

    inputs: DecisionInput
    decision: Decision
    """The last decision, and its inputs: others than the first when targets were left out."""
    targets: tuple[Target, ...] = ()
    pending: Deadlines = field(default_factory=dict)
    failure: Failure | None = None


async def reserve(inp: DecisionInput, decision: Decision, effects: Effects, *, decide: Decide) -> PermitResult:
    """Reserve all new targets. Errors are never worked around: only a plugin's refusal sets a cluster aside."""
    while True:
        targets = decision.newly_chosen
        failure = await effects.run_reserve(targets)
        if failure is None:
            return PermitResult(inp, decision, targets)
        if failure.internal or not inp.profile.reserve_fallback:
            return PermitResult(inp, decision, failure=failure)
        inp = excluding(inp, [failure.target.row])
        decision = decide(inp)
        if not decision.newly_chosen:
            return PermitResult(inp, decision, failure=failure)


async def reserve_and_permit(
    inp: DecisionInput, decision: Decision, effects: Effects, *, decide: Decide
) -> PermitResult:
    """Run Reserve, then Permit; a denial undoes all reservations. Where it is about one cluster, the whole decision is
    made again without it."""
    while True:
        reserved = await reserve(inp, decision, effects, decide=decide)
        if reserved.failure is not None:
            return reserved
        permission = await effects.run_permit(reserved.targets)
        denial = permission.denial
        if denial is None:
            return replace(reserved, pending=permission.pending)
        await effects.run_unreserve(reserved.targets)
        denied = replace(reserved, targets=(), failure=denial)
        if not effects.leaves_others(denial.status):
            return denied
        inp = excluding(reserved.inputs, [denial.target.row])
        decision = decide(inp)
        if decision.newly_chosen:
            continue
        return PermitResult(inp, decision) if effects.is_partial and decision.targets else denied


def decide_without(permitted: PermitResult, refused: Container[str], *, decide: Decide) -> PermitResult:
    """What is left of a decision when clusters are refused after it. None takes their place: no plugin has permitted
    any other one. Where one would, everything that was not chosen before is set aside, too."""
    before, frame = permitted.inputs, permitted.inputs.frame
    kept = tuple(target.cluster for target in permitted.targets if target.cluster not in refused)
    rows = [target.row for target in permitted.targets if target.cluster in refused]
    inp = replace(excluding(before, rows), nominated=kept)
    decision = decide(inp)
    if not {target.cluster for target in decision.newly_chosen}.issubset(kept):
        known = {target.cluster for target in permitted.decision.targets}
        known |= {binding.spec.target_cluster for binding in before.bindings}
        inp = excluding(inp, (row for row in each_row(frame.valid) if frame.name(row) not in known))
        decision = decide(inp)
    return PermitResult(inp, decision, decision.newly_chosen)
