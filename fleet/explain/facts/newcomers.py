"""The fleet seen by one more cluster: for decisions that only confirmed or gave up clusters and evaluated no other.

The same decision function runs with one cluster more than are in use. Its verdicts, scores and ranks describe the
clusters behind those in use; what it would pick is the next cluster, and nothing is chosen by it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.cycle.decision import Decision, Outcome
from fleet.framework.operations import Action

_IDLE: Final = (Outcome.UNCHANGED, Outcome.SHRINK)


def consider_newcomers(decision: Decision, inp: DecisionInput) -> tuple[Decision, DecisionInput]:
    """The decision with the verdicts and ranks of such a round, and its inputs; any other decision as it is."""
    if decision.outcome not in _IDLE:
        return decision, inp
    leaving = {operation.name for operation in decision.operations if operation.action is Action.UNSCHEDULE}
    staying = [binding for binding in inp.bindings if binding.metadata.name not in leaving]
    request = replace(inp.request, wanted=(decision.active or 0) + 1, min_targets=None)
    question = replace(inp, request=request, bindings=staying)
    next_one = decide(question)
    if next_one.round is None:
        return decision, inp  # a profile with a batch of its own, or a plugin that failed
    considered = replace(decision, rounds=(replace(next_one.round, picked=()),), skipped=next_one.skipped)
    return considered, question
