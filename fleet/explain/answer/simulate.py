"""Simulations: the answer for an edited scenario, compared with the one for the scenario as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from fleet.explain.answer.answer import build_answer
from fleet.explain.answer.parts import Answer
from fleet.explain.facts.redaction import Hidden
from fleet.explain.fixes.fixes import Fixes
from fleet.explain.whatif.compare import DecisionComparison, compare
from fleet.explain.whatif.edits import Edit
from fleet.explain.whatif.scenario import Scenario
from fleet.framework.cycle.decision import Decision

Fixing = Callable[[Scenario, Decision], Fixes]


class Simulated(msgspec.Struct, frozen=True, rename="camel"):
    answer: Answer
    compare: DecisionComparison | None
    """None where it was not requested."""
    would_run: tuple[str, ...] = ()
    """Effect hooks that would have run. Always empty: nothing runs these hooks yet."""


def simulate(
    scenario: Scenario,
    edits: Sequence[Edit],
    *,
    with_comparison: bool = True,
    before: Decision | None = None,
    redact: Hidden | None = None,
    fix: Fixing | None = None,
    **options: Any,
) -> Simulated:
    """`before` is what to compare with, if not the scenario without the edits. `fix` searches fixes for the edited
    scenario; `options` are passed to `build_answer`."""
    after = scenario.apply(edits, hidden=redact)
    decision = after.decide()
    comparison = None
    if with_comparison:
        comparison = compare(scenario.decide() if before is None else before, decision, redact=redact)
    return Simulated(
        answer=build_answer(after.question, decision, redact=redact, fixes=fix and fix(after, decision), **options),
        compare=comparison,
    )
