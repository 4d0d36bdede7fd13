"""Trying edits out: each trial decides the edited world once, and what all of them may cost is bounded.

The bound counts work and not time, so that the same question has the same answer on a busy machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from fleet.errors import InputError
from fleet.explain.facts.cluster_outcome import Standings
from fleet.explain.facts.placement_outcome import SELECTED, UNDECIDED, fitting, level, level_name
from fleet.explain.fixes.candidates import Candidate, Dial, Edits, key_of
from fleet.explain.whatif.scenario import World
from fleet.framework.cycle.decision import Decision

Measure = tuple[int, int]
"""What counts first, and what counts among equals."""

NOTHING: Measure = (-1, -1)

_CHOSEN: Final = 2
_STANDING_NAMES: Final = ("rejected", "fit-not-selected", "selected")


@dataclass(frozen=True, slots=True)
class Budget:
    evaluations: int
    work: int
    """Clusters looked at, once for every round of picks: what the time of a decision grows with."""


FAST = Budget(20, work=6_000_000)
"""At 5,000 clusters some 30 ms."""
DEEP = Budget(200, work=200_000_000)


class Exhausted(Exception):
    """The budget is used up; never leaves the room."""


class Goal(Protocol):
    """What a fix is after."""

    @property
    def best(self) -> int:
        """What the first part of a measure cannot exceed."""

    def measure(self, decision: Decision) -> Measure: ...
    def name(self, decision: Decision) -> str: ...


class BetterOutcome:
    """More of what the policy asks for; failing that, more clusters that qualify."""

    best = SELECTED

    def measure(self, decision: Decision) -> Measure:
        return level(decision), fitting(Standings(decision))

    def name(self, decision: Decision) -> str:
        return level_name(decision)


@dataclass(frozen=True, slots=True)
class ClusterChosen:
    """One cluster in use; failing that, one that qualifies."""

    cluster: str
    qualifies: bool = False
    """Where nobody looks at it, as once all wanted clusters are bound."""

    @property
    def best(self) -> int:
        return _CHOSEN

    def measure(self, decision: Decision) -> Measure:
        row = decision.frame.row_of(self.cluster)
        if row is None or level(decision) == UNDECIDED:
            return (0, 0)
        standings = Standings(decision)
        if standings.in_use >> row & 1:
            return (_CHOSEN, 0)
        if standings.idle >> row & 1:
            return (int(self.qualifies), 0)
        return (1 if standings.fit >> row & 1 else 0, 0)

    def name(self, decision: Decision) -> str:
        return _STANDING_NAMES[self.measure(decision)[0]]


class Trials:
    def __init__(self, world: World, decision: Decision, goal: Goal, budget: Budget) -> None:
        self.goal, self._world, self._budget = goal, world, budget
        self.before = goal.measure(decision)
        self.before_name = goal.name(decision)
        self.spent = 0
        """Evaluations."""
        self._work = 0
        self._known: dict[bytes, Decision | None] = {key_of(()): decision}

    def decision(self, edits: Edits) -> Decision | None:
        """None where the edits make no sense in this world."""
        key = key_of(edits)
        if key not in self._known:
            self._pay()
            self._known[key] = self._decided(edits)
        return self._known[key]

    def measure(self, edits: Edits) -> Measure:
        found = self.decision(edits)
        return NOTHING if found is None or found.request.problems else self.goal.measure(found)

    def improves(self, edits: Edits) -> bool:
        return self.measure(edits) > self.before

    def _pay(self) -> None:
        if self.spent >= self._budget.evaluations or self._work >= self._budget.work:
            raise Exhausted
        self.spent += 1

    def _decided(self, edits: Edits) -> Decision | None:
        try:
            found = self._world.apply(edits).decide()
        except InputError:
            return None
        self._work += found.frame.count * max(found.round_count, 1)
        return found

    # --- as little as possible --------------------------------------------------------------------------------------

    def reached(self, edits: Edits, wanted: Measure) -> bool:
        """Whether edits do as well as `wanted`. Where the outcome gets better, how many others qualify is no matter."""
        found = self.measure(edits)
        return found[0] >= wanted[0] if wanted[0] > self.before[0] else found >= wanted

    def smallest(self, candidate: Candidate) -> Candidate | None:
        """Without the edits that change nothing; None where all of them together do not help."""
        if not self.improves(candidate.edits):
            return None
        wanted = self.measure(candidate.edits)
        edits, position = candidate.edits, 0
        while len(edits) > 1 and position < len(edits):
            fewer = (*edits[:position], *edits[position + 1 :])
            if self.reached(fewer, wanted):
                edits, position = fewer, 0
            else:
                position += 1
        return candidate if edits == candidate.edits else Candidate(edits, candidate.plugin, candidate.size)

    def turned(self, dial: Dial) -> tuple[Candidate, int] | None:
        """The dial at the first value with the effect it has when turned all the way."""
        if dial.start == dial.limit:
            return None
        wanted = self._reachable(dial)
        if wanted <= self.before:
            return None
        value = self._first(dial, wanted)
        return dial.at(value), value

    def _reachable(self, dial: Dial) -> Measure:
        if dial.guess is not None:
            found = self.measure(dial.turned(dial.guess))
            if found[0] == self.goal.best:
                return found
        return self.measure(dial.turned(dial.limit))

    def _first(self, dial: Dial, wanted: Measure) -> int:
        """Between a value without the effect and one with it."""
        without, within = dial.start, dial.limit
        for guess in () if dial.guess is None else (dial.guess, dial.guess - dial.step):
            if min(without, within) < guess < max(without, within):
                without, within = self._narrowed(dial, wanted, guess, without=without, within=within)
        while abs(within - without) > 1:
            middle = (without + within) // 2
            without, within = self._narrowed(dial, wanted, middle, without=without, within=within)
        return within

    def _narrowed(self, dial: Dial, wanted: Measure, value: int, *, without: int, within: int) -> tuple[int, int]:
        return (without, value) if self.reached(dial.turned(value), wanted) else (value, within)
