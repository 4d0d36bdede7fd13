"""Evaluates edits: each evaluation decides the edited scenario once, within a common budget.

The bound counts work and not time, so that the same question has the same answer on a busy machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Protocol

from fleet.errors import InputError
from fleet.explain.facts.outcomes import SELECTED, UNDECIDED, ClusterOutcomes, count_fitting, name_outcome, rate_outcome
from fleet.explain.fixes.candidates import Candidate, Dial, Edits, encode_key
from fleet.explain.whatif.edits import AddCluster
from fleet.explain.whatif.scenario import Scenario
from fleet.framework.cycle.decision import Decision
from fleet.framework.explaining import MOST_CHANGES
from fleet.framework.policy.size import count_parts

Measure = tuple[int, int]
"""What counts first, and what counts among equals."""

NOTHING: Measure = (-1, -1)

_CHOSEN: Final = 2
_OUTCOME_NAMES: Final = ("rejected", "fit-not-selected", "selected")


@dataclass(frozen=True, slots=True)
class EvaluationBudget:
    evaluations: int
    work: int
    """Clusters evaluated, once for every round of picks: the time of a decision grows with it."""
    parts: int = 6_000
    """Parts of the policy evaluated and changes applied: so does it with these, a thousand times as much for each."""


FAST = EvaluationBudget(20, work=6_000_000)
"""At 5,000 clusters some 30 ms."""
DEEP = EvaluationBudget(200, work=200_000_000, parts=200_000)


class Exhausted(Exception):
    """The budget is used up; caught by `fixes`."""


class Goal(Protocol):
    """The aim of a fix."""

    @property
    def best(self) -> int:
        """What the first part of a measure cannot exceed."""

    def measure(self, decision: Decision) -> Measure: ...
    def is_partial(self, before: Decision, after: Decision) -> bool:
        """Whether it is closer to the aim, though no better by name."""

    def name(self, decision: Decision) -> str: ...


class BetterOutcome:
    """More of the requested clusters; failing that, more clusters that qualify."""

    best = SELECTED

    def measure(self, decision: Decision) -> Measure:
        return rate_outcome(decision), count_fitting(ClusterOutcomes(decision))

    def is_partial(self, before: Decision, after: Decision) -> bool:
        return (after.active or 0) > (before.active or 0)

    def name(self, decision: Decision) -> str:
        return name_outcome(decision)


@dataclass(frozen=True, slots=True)
class ClusterChosen:
    """One cluster in use; failing that, one that qualifies."""

    cluster: str
    qualifies: bool = False
    """Not evaluated, for example because all desired clusters are bound already."""

    @property
    def best(self) -> int:
        return _CHOSEN

    def measure(self, decision: Decision) -> Measure:
        row = decision.frame.row_of(self.cluster)
        if row is None or rate_outcome(decision) == UNDECIDED:
            return (0, 0)
        outcomes = ClusterOutcomes(decision)
        if outcomes.in_use >> row & 1:
            return (_CHOSEN, 0)
        if outcomes.idle >> row & 1:
            return (int(self.qualifies), 0)
        return (1 if outcomes.fit >> row & 1 else 0, 0)

    def is_partial(self, before: Decision, after: Decision) -> bool:
        del before, after
        return False

    def name(self, decision: Decision) -> str:
        return _OUTCOME_NAMES[self.measure(decision)[0]]


class FixEvaluator:
    def __init__(self, scenario: Scenario, decision: Decision, goal: Goal, budget: EvaluationBudget) -> None:
        self.goal, self._scenario, self._budget = goal, scenario, budget
        self.before = goal.measure(decision)
        self.before_name = goal.name(decision)
        self.spent = 0
        """Evaluations."""
        self.has_skipped = False
        """Whether a candidate had too many changes to be tried."""
        self._work = self._parts_read = 0
        self._parts = count_parts(scenario.snapshot.spec.policy)
        self._known: dict[bytes, Decision | None] = {encode_key(()): decision}

    def decide(self, edits: Edits) -> Decision | None:
        """None where the edits do not apply to this scenario."""
        if _count_changes(edits) > MOST_CHANGES:
            self.has_skipped = True
            return None
        key = encode_key(edits)
        if key not in self._known:
            self._spend()
            self._known[key] = self._decide(edits)
        return self._known[key]

    def measure(self, edits: Edits) -> Measure:
        decision = self.decide(edits)
        return NOTHING if decision is None or decision.request.problems else self.goal.measure(decision)

    def is_partial(self, edits: Edits) -> bool:
        before, after = self.decide(()), self.decide(edits)
        return before is not None and after is not None and self.goal.is_partial(before, after)

    def improves(self, edits: Edits) -> bool:
        return self.measure(edits) > self.before

    def _spend(self) -> None:
        budget = self._budget
        if self.spent >= budget.evaluations or self._work >= budget.work or self._parts_read >= budget.parts:
            raise Exhausted
        self.spent += 1

    def _decide(self, edits: Edits) -> Decision | None:
        self._parts_read += self._parts + _count_changes(edits)
        try:
            decision = self._scenario.apply(edits).decide()
        except InputError:
            return None
        self._work += decision.frame.count * max(decision.round_count, 1)
        return decision

    # --- as little as possible --------------------------------------------------------------------------------------

    def reaches(self, edits: Edits, wanted: Measure) -> bool:
        """Whether edits reach at least `wanted`. If the outcome improves, other qualifying clusters are not counted."""
        measure = self.measure(edits)
        return measure[0] >= wanted[0] if wanted[0] > self.before[0] else measure >= wanted

    def shrink(self, candidate: Candidate) -> Candidate | None:
        """Without redundant edits; None if all of them together do not help."""
        if not self.improves(candidate.edits):
            return None
        wanted = self.measure(candidate.edits)
        edits, position = candidate.edits, 0
        while len(edits) > 1 and position < len(edits):
            fewer = (*edits[:position], *edits[position + 1 :])
            if self.reaches(fewer, wanted):
                edits, position = fewer, 0
            else:
                position += 1
        return candidate if edits == candidate.edits else replace(candidate, edits=edits, title="")

    def turn(self, dial: Dial) -> tuple[Candidate, int] | None:
        """The dial at the first value with the effect it has when turned all the way."""
        if dial.start == dial.limit or (dial.bound and not self.improves(dial.bound)):
            return None
        wanted = self._measure_reachable(dial)
        if wanted <= self.before:
            return None
        value = self._find_first(dial, wanted)
        return dial.build_candidate(value), value

    def _measure_reachable(self, dial: Dial) -> Measure:
        if dial.guess is not None:
            measure = self.measure(dial.build_edits(dial.guess))
            if measure[0] == self.goal.best:
                return measure
        return self.measure(dial.build_edits(dial.limit))

    def _find_first(self, dial: Dial, wanted: Measure) -> int:
        """Between a value without the effect and one with it."""
        without, within = dial.start, dial.limit
        for guess in self._list_guesses(dial):
            if min(without, within) < guess < max(without, within):
                without, within = self._narrow(dial, wanted, guess, without=without, within=within)
        while abs(within - without) > 1:
            middle = (without + within) // 2
            without, within = self._narrow(dial, wanted, middle, without=without, within=within)
        return within

    def _list_guesses(self, dial: Dial) -> Iterator[int]:
        """Each with the value before it, which should not have the effect."""
        if dial.guess is not None:
            yield from (dial.guess, dial.guess - dial.step)
        if dial.find_least is None:
            return
        at_limit = self.decide(dial.build_edits(dial.limit))
        if at_limit is not None:
            least = dial.find_least(ClusterOutcomes(at_limit).in_use)
            yield from (least, least - dial.step)

    def _narrow(self, dial: Dial, wanted: Measure, value: int, *, without: int, within: int) -> tuple[int, int]:
        return (without, value) if self.reaches(dial.build_edits(value), wanted) else (value, within)


def _count_changes(edits: Edits) -> int:
    """Edits, and what a new cluster is described with."""
    further = (
        len(edit.labels) + len(edit.properties) + len(edit.taints) for edit in edits if isinstance(edit, AddCluster)
    )
    return len(edits) + sum(further)
