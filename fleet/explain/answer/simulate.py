"""What if: the answer for an edited world, beside the one for the world as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from fleet.explain.answer.answer import answer
from fleet.explain.answer.parts import Answer
from fleet.explain.facts.redaction import Hidden
from fleet.explain.fixes.fixes import Fixes
from fleet.explain.whatif.compare import Comparison, compare
from fleet.explain.whatif.edits import Edit
from fleet.explain.whatif.scenario import World
from fleet.framework.cycle.decision import Decision

Fixing = Callable[[World, Decision], Fixes]

EFFECT_HOOKS: Final = ("reserve", "permit", "preBind", "bind", "postBind")


class Simulated(msgspec.Struct, frozen=True, rename="camel"):
    answer: Answer
    compare: Comparison | None
    """None where nobody asked for it."""
    would_run: tuple[str, ...]
    """Effect hooks that would have run: a simulation stops before them."""


def simulate(
    world: World,
    edits: Sequence[Edit],
    *,
    with_comparison: bool = True,
    redact: Hidden | None = None,
    fix: Fixing | None = None,
    **asked: Any,
) -> Simulated:
    """`fix` looks for fixes of the edited world; `asked` are the options of `answer`."""
    after = world.apply(edits, hidden=redact)
    decision = after.decide()
    found = None
    if with_comparison:
        found = compare(world.decide(), decision, redact=redact)
    return Simulated(
        answer=answer(after.question, decision, redact=redact, fixes=fix and fix(after, decision), **asked),
        compare=found,
        would_run=would_run(after, decision),
    )


def would_run(world: World, decision: Decision) -> tuple[str, ...]:
    if not any(target.operation is not None for target in decision.targets):
        return ()
    return tuple(hook for hook in EFFECT_HOOKS if world.question.profile.hooks.get(hook))
