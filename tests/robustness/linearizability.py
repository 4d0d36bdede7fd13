"""A checker of linearizability: whether all answers of a key can be explained by one order of its operations.

Keys are independent objects, so each is checked on its own. The search takes one operation after the other out of those
that may be next (called before any remaining one has returned) and backtracks, after Wing and Gong; states that were
reached before are not searched again, after Lowe. Operations without an answer may take effect at any time after their
call, or never; they are tried last, and of those with the same effect only the first. Revisions never go back: a state
beyond a revision that a remaining answer shows is a dead end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tests.robustness.history import NEVER, Action, Operation, Result

MOST_STEPS: Final = 300_000
"""Beyond these a key is undecided, which counts as a violation: it has to be looked at."""


@dataclass(frozen=True, slots=True)
class State:
    """One object. An operation without an answer leaves its revision unknown: greater than `floor`."""

    value: str | None = None
    """None: the object does not exist."""
    revision: int | None = None
    floor: int = 0
    """The greatest revision that is known to be past."""


ABSENT: Final = State()
_NOT_SHOWN: Final = "\0"


@dataclass(frozen=True, slots=True)
class Violation:
    key: str
    text: str


def check(key: str, operations: Sequence[Operation], start: State = ABSENT) -> Violation | None:
    search = _Search(operations)
    if search.run(start):
        return None
    if search.steps > MOST_STEPS:
        return Violation(key, f"undecided after {MOST_STEPS} steps over {len(operations)} operations")
    return Violation(key, f"no order explains {search.describe_obstacle()}")


class _Search:
    def __init__(self, operations: Sequence[Operation]) -> None:
        self._operations = sorted(operations, key=lambda operation: operation.called)
        self._answered = sum(1 << i for i, each in enumerate(self._operations) if each.returned != NEVER)
        self._by_return = sorted(range(len(self._operations)), key=lambda i: self._operations[i].returned)
        self._bounds = sorted((_least(each), i) for i, each in enumerate(self._operations) if _least(each))
        self._effects = self._group_effects()
        self._most_done = -1
        self._obstacle: Operation | None = None
        self.steps = 0

    def run(self, start: State) -> bool:
        seen: set[tuple[int, State]] = set()
        stack = [(0, start, self._candidates(0))]
        while stack:
            done, state, candidates = stack[-1]
            if done & self._answered == self._answered:
                return True
            index = next(candidates, None)
            if index is None:
                stack.pop()
                continue
            self.steps += 1
            if self.steps > MOST_STEPS:
                return False
            after = self._step(state, index)
            reached = (done | 1 << index, after)
            if after is None or reached in seen or _known(after) > self._bound(reached[0]):
                continue
            seen.add((reached[0], after))
            stack.append((reached[0], after, self._candidates(reached[0])))
        return False

    def _candidates(self, done: int) -> Iterator[int]:
        """Operations that may be next: answered ones first, in the order of their answers."""
        remaining = [i for i in self._by_return if not done >> i & 1]
        if not remaining:
            return
        first = self._operations[remaining[0]]
        if done.bit_count() > self._most_done:
            self._most_done, self._obstacle = done.bit_count(), first
        tried: set[object] = set()
        for index in remaining:
            effect = self._effects.get(index)
            if self._operations[index].called <= first.returned and effect not in tried:
                yield index
                if effect is not None:
                    tried.add(effect)

    def _bound(self, done: int) -> float:
        """The least revision that a remaining answer shows."""
        return next((revision for revision, i in self._bounds if not done >> i & 1), NEVER)

    def _group_effects(self) -> dict[int, tuple[Action, str, int]]:
        """Operations without an answer, by their effect: values that no answer shows are all alike."""
        shown = {each.value for each in self._operations if each.result is Result.OK}
        return {
            i: (each.action, each.value if each.value in shown else _NOT_SHOWN, each.expected)
            for i, each in enumerate(self._operations)
            if each.result is Result.UNKNOWN
        }

    def _step(self, state: State, index: int) -> State | None:
        after = step(state, self._operations[index])
        if after is None or after is state or index not in self._effects or after.value is None:
            return after
        _, value, _ = self._effects[index]
        return replace(after, value=value)

    def describe_obstacle(self) -> str:
        """The operation that was first to return of those that remained when the search came furthest."""
        obstacle = self._obstacle
        assert obstacle is not None, "an empty history is linearizable"
        asked = f"{obstacle.action} {obstacle.key} by {obstacle.client} (called at {obstacle.called})"
        return f"{asked}: {obstacle.result}, value {obstacle.value!r}, revision {obstacle.revision}"


def _least(operation: Operation) -> int:
    """The revision that the object had at most before a successful operation."""
    if operation.result is not Result.OK:
        return 0
    return operation.expected if operation.action is Action.REPLACE else operation.revision


def step(state: State, operation: Operation) -> State | None:
    """The state after an operation, or None if its answer is impossible in this state."""
    if operation.result is Result.UNKNOWN:
        return _take_effect(state, operation)
    if operation.result is Result.MISSING:
        return state if state.value is None and operation.action is not Action.CREATE else None
    if operation.result is Result.EXISTS:
        return state if state.value is not None and operation.action is Action.CREATE else None
    if operation.result is Result.STALE:
        return _stay_stale(state, operation)
    return _succeed(state, operation)


def _take_effect(state: State, operation: Operation) -> State | None:
    """The effect of an operation without an answer; without effect it need not be tried."""
    exists = state.value is not None
    if operation.action is Action.DELETE:
        return State(None, None, _known(state)) if exists else None
    if exists == (operation.action is Action.CREATE):
        return None
    if operation.action is Action.REPLACE and state.revision not in (None, operation.expected):
        return None
    return State(operation.value, None, max(_known(state), operation.expected))


def _stay_stale(state: State, operation: Operation) -> State | None:
    is_possible = state.value is not None and operation.action is Action.REPLACE
    return state if is_possible and state.revision != operation.expected else None


def _succeed(state: State, operation: Operation) -> State | None:
    exists, is_same = state.value is not None, _is_at(state, operation.revision)
    match operation.action:
        case Action.GET:
            return _at(operation) if exists and is_same and state.value == operation.value else None
        case Action.CREATE:
            return _at(operation) if not exists and operation.revision > state.floor else None
        case Action.DELETE:
            return State(None, None, _known(state)) if exists else None
        case Action.REPLACE if state.revision not in (None, operation.expected):
            return None
    if not exists:
        return None
    if state.value == operation.value and is_same:
        return _at(operation)  # the same content is no change
    return _at(operation) if operation.revision > _known(state) else None


def _is_at(state: State, revision: int) -> bool:
    return revision > state.floor if state.revision is None else revision == state.revision


def _known(state: State) -> int:
    return max(state.floor, state.revision or 0)


def _at(operation: Operation) -> State:
    return State(operation.value, operation.revision, operation.revision)
