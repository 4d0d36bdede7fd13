"""Simulations: the answer for an edited scenario, compared with the one for the scenario as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from fleet.explain.answer.answer import build_answer
from fleet.explain.answer.attempt import UNKNOWN, AnswerContext
from fleet.explain.answer.parts import Answer
from fleet.explain.facts.compact import CompactVerdicts, build_compact_verdicts
from fleet.explain.facts.redaction import Hidden, Redaction
from fleet.explain.fixes.fixes import Fixes
from fleet.explain.whatif.compare import DecisionComparison, compare
from fleet.explain.whatif.edits import Edit
from fleet.explain.whatif.scenario import Scenario
from fleet.framework.cycle.decision import Decision
from fleet.framework.runtime.effects import EFFECT_HOOKS

Fixing = Callable[[Scenario, Decision], Fixes]


class Simulated(msgspec.Struct, frozen=True, rename="camel"):
    answer: Answer
    compare: DecisionComparison | None
    """None where it was not requested."""
    would_run: tuple[str, ...] = ()
    """Hooks with plugins that would have acted on the decision. Empty for a profile without such plugins."""
    matrix: CompactVerdicts | None = None
    """None where it was not requested."""


def simulate(
    scenario: Scenario,
    edits: Sequence[Edit],
    *,
    with_comparison: bool = True,
    with_matrix: bool = False,
    before: Decision | None = None,
    redact: Hidden | None = None,
    fix: Fixing | None = None,
    describe: Callable[[Decision], AnswerContext] = lambda _: UNKNOWN,
    **options: Any,
) -> Simulated:
    """`before` is what to compare with, if not the scenario without the edits. `fix` searches fixes for the edited
    scenario, and `describe` tells what else is known of its decision; `options` are passed to `build_answer`."""
    after = scenario.apply(edits, hidden=redact)
    decision = after.decide()
    comparison = None
    if with_comparison:
        comparison = compare(scenario.decide() if before is None else before, decision, redact=redact)
    matrix = None
    if with_matrix:
        matrix = build_compact_verdicts(decision, after.question, Redaction(decision.frame, redact))
    fixes, context = fix and fix(after, decision), describe(decision)
    return Simulated(
        answer=build_answer(after.question, decision, redact=redact, fixes=fixes, context=context, **options),
        compare=comparison,
        matrix=matrix,
        would_run=_list_hooks_to_run(after, decision),
    )


def _list_hooks_to_run(scenario: Scenario, decision: Decision) -> tuple[str, ...]:
    profile = scenario.question.profile
    if not profile.has_effects or not decision.newly_chosen:
        return ()
    return tuple(hook for hook in EFFECT_HOOKS if profile.hooks[hook])
