"""The checkers find bad histories, and accept good ones."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.robustness import linearizability
from tests.robustness.history import NEVER, Action, History, Operation, Result
from tests.robustness.linearizability import ABSENT, State, check
from tests.robustness.watch_checks import Segment, WatchEvent, check_watches, find_lost_writes


def an_operation(action: str, called: int, returned: float, **fields: Any) -> Operation:
    result = Result(fields.pop("result", "ok" if returned != NEVER else "unknown"))
    return Operation("c", "k", Action(action), called, returned=returned, result=result, **fields)


GOOD: dict[str, list[Operation]] = {
    "one after the other": [
        an_operation("create", 0, 1, value="a", revision=5),
        an_operation("put", 2, 3, value="b", revision=6),
        an_operation("get", 4, 5, value="b", revision=6),
        an_operation("delete", 6, 7),
        an_operation("get", 8, 9, result="missing"),
        an_operation("delete", 10, 11, result="missing"),
    ],
    "a read during a write sees the old state or the new one": [
        an_operation("create", 0, 1, value="a", revision=5),
        an_operation("put", 2, 9, value="b", revision=6),
        an_operation("get", 3, 4, value="a", revision=5),
        an_operation("get", 5, 6, value="b", revision=6),
    ],
    "a write without an answer took effect": [
        an_operation("create", 0, 1, value="a", revision=5),
        an_operation("put", 2, NEVER, value="b"),
        an_operation("get", 4, 5, value="b", revision=9),
        an_operation("replace", 6, 7, value="c", expected=9, revision=10),
    ],
    "a write without an answer took effect later": [
        an_operation("create", 0, 1, value="a", revision=5),
        an_operation("delete", 2, NEVER),
        an_operation("get", 4, 5, value="a", revision=5),
        an_operation("get", 6, 7, result="missing"),
    ],
    "a write without an answer never took effect": [
        an_operation("create", 0, 1, value="a", revision=5),
        an_operation("put", 2, NEVER, value="b"),
        an_operation("get", 4, 5, value="a", revision=5),
    ],
    "the same content is no change": [
        an_operation("create", 0, 1, value="a", revision=5),
        an_operation("put", 2, 3, value="a", revision=5),
        an_operation("get", 4, 5, value="a", revision=5),
    ],
    "of two at the same revision one is stale": [
        an_operation("create", 0, 1, value="a", revision=5),
        an_operation("replace", 2, 6, value="b", expected=5, revision=6),
        an_operation("replace", 3, 7, value="c", expected=5, result="stale"),
    ],
}

BAD: dict[str, list[Operation]] = {
    "an acknowledged write is lost": [
        an_operation("create", 0, 1, value="a", revision=5),
        an_operation("put", 2, 3, value="b", revision=6),
        an_operation("get", 4, 5, value="a", revision=5),
    ],
    "an acknowledged write never took effect": [
        an_operation("create", 0, 1, value="a", revision=5),
        an_operation("put", 2, NEVER, value="b"),
        an_operation("put", 3, 4, value="b", revision=6),
        an_operation("get", 5, 6, value="a", revision=5),
    ],
    "a deleted object comes back": [
        an_operation("create", 0, 1, value="a", revision=5),
        an_operation("delete", 2, 3),
        an_operation("get", 4, 5, value="a", revision=5),
    ],
    "a deleted object is changed": [
        an_operation("create", 0, 1, value="a", revision=5),
        an_operation("delete", 2, 3),
        an_operation("put", 4, 5, value="b", revision=8),
    ],
    "a read goes back": [
        an_operation("create", 0, 1, value="a", revision=5),
        an_operation("put", 2, 9, value="b", revision=6),
        an_operation("get", 3, 4, value="b", revision=6),
        an_operation("get", 5, 6, value="a", revision=5),
    ],
    "both replacements of one revision succeed": [
        an_operation("create", 0, 1, value="a", revision=5),
        an_operation("replace", 2, 6, value="b", expected=5, revision=6),
        an_operation("replace", 3, 7, value="c", expected=5, revision=7),
    ],
    "a revision goes back": [
        an_operation("create", 0, 1, value="a", revision=5),
        an_operation("put", 2, 3, value="b", revision=4),
    ],
    "a value that was not written": [
        an_operation("create", 0, 1, value="a", revision=5),
        an_operation("put", 2, NEVER, value="b"),
        an_operation("get", 4, 5, value="c", revision=6),
    ],
    "refused as stale at the expected revision": [
        an_operation("create", 0, 1, value="a", revision=5),
        an_operation("replace", 2, 3, value="b", expected=5, result="stale"),
    ],
    "not found although it was there all the time": [
        an_operation("create", 0, 1, value="a", revision=5),
        an_operation("put", 2, 3, value="b", result="missing"),
    ],
    "created twice": [
        an_operation("create", 0, 1, value="a", revision=5),
        an_operation("create", 2, 3, value="b", revision=6),
    ],
    "exists although it was never created": [an_operation("create", 0, 1, value="a", result="exists")],
}


@pytest.mark.parametrize("name", GOOD)
def test_good_histories_are_accepted(name: str) -> None:
    assert check("k", GOOD[name]) is None


@pytest.mark.parametrize("name", BAD)
def test_bad_histories_are_found(name: str) -> None:
    violation = check("k", BAD[name])
    assert violation is not None
    assert "no order explains" in violation.text


def test_a_search_that_is_too_long_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linearizability, "MOST_STEPS", 2)
    violation = check("k", GOOD["one after the other"])
    assert violation is not None
    assert "undecided" in violation.text


class Register:
    """A correct object, and clients that overlap; some of their answers are lost."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.history = History()
        self.state: State = ABSENT
        self.revision = 10
        self.open: list[Operation] = []

    def run(self, count: int) -> list[Operation]:
        for number in range(count):
            action = self.rng.choice(list(Action))
            expected = self.revision - self.rng.choice((0, 0, 1)) if action is Action.REPLACE else 0
            self.open.append(self.history.call("c", "k", action, value=str(number), expected=expected))
            while len(self.open) > self.rng.randrange(5):
                self.perform(self.open.pop(self.rng.randrange(len(self.open))))
        return self.history.by_key()["k"]

    def perform(self, operation: Operation) -> None:
        is_lost = self.rng.random() < 0.15
        if is_lost and self.rng.random() < 0.5:
            return
        result = self.apply(operation)
        if not is_lost:
            is_read = operation.action is Action.GET and result is Result.OK
            value = self.state.value if is_read else None
            revision = self.state.revision or 0
            self.history.answer(operation, result, value=value, revision=revision if result is Result.OK else 0)

    def apply(self, operation: Operation) -> Result:
        exists = self.state.value is not None
        if operation.action is Action.CREATE and exists:
            return Result.EXISTS
        if operation.action is not Action.CREATE and not exists:
            return Result.MISSING
        if operation.action is Action.REPLACE and operation.expected != self.state.revision:
            return Result.STALE
        if operation.action is Action.DELETE:
            self.state = ABSENT
        elif operation.action is not Action.GET:
            self.revision += 1
            self.state = State(operation.value, self.revision)
        return Result.OK


@pytest.mark.parametrize("seed", range(30))
def test_histories_of_a_correct_object_are_accepted(seed: int) -> None:
    assert check("k", Register(seed).run(150)) is None


@pytest.mark.parametrize("seed", range(30))
def test_a_read_of_the_future_is_found(seed: int) -> None:
    """One changed answer in a long history."""
    operations = Register(seed).run(150)
    read = next(each for each in operations[20:] if each.action is Action.GET and each.result is Result.OK)
    read.value, read.revision = "never written", read.revision + 1
    assert check("k", operations) is not None


# --- watches ----------------------------------------------------------------------------------------------------------


def written(value: str, revision: int, *, key: str = "k", action: str = "put") -> Operation:
    return Operation("c", key, Action(action), 0, value, returned=1, result=Result.OK, revision=revision)


WRITES = [written("a", 5, action="create"), written("b", 6), written("c", 8, key="l", action="create")]
EVENTS = [WatchEvent(5, "ADDED", "k", "a"), WatchEvent(6, "MODIFIED", "k", "b"), WatchEvent(8, "ADDED", "l", "c")]


def test_a_complete_watch_is_accepted() -> None:
    later = Segment("w2", 5, {"k": "a"}, EVENTS[1:])
    assert check_watches([Segment("w1", 4, {}, EVENTS), later], WRITES) == []


@pytest.mark.parametrize(
    "segments, text",
    [
        ([Segment("w", 4, {}, [EVENTS[0], EVENTS[2]])], "w: the write of k at 6 is missing"),
        ([Segment("w", 4, {}, [EVENTS[1], EVENTS[0]])], "w: revision 5 of k came after 6"),
        ([Segment("w", 4, {}, [EVENTS[0], EVENTS[0]])], "w: ADDED at 5 does not fit what is known of k"),
        ([Segment("w", 5, {}, [EVENTS[1]])], "w: MODIFIED at 6 does not fit what is known of k"),
        ([Segment("w", 4, {}, [WatchEvent(5, "ADDED", "k", "z")])], "w: k has the value 'z', which was never written"),
        (
            [Segment("v", 4, {}, EVENTS), Segment("w", 4, {}, [WatchEvent(5, "ADDED", "l", "c")])],
            "w and v saw different changes at revision 5",
        ),
    ],
    ids=["gap", "order", "twice", "unknown object", "unknown value", "disagreement"],
)
def test_bad_watches_are_found(segments: list[Segment], text: str) -> None:
    assert text in check_watches(segments, WRITES)


def test_lost_writes_are_found() -> None:
    assert find_lost_writes(WRITES, {"k": ("b", 6), "l": ("c", 8)}) == []
    assert find_lost_writes(WRITES, {"k": ("a", 5), "l": ("c", 8)}) == ["k is at 5, although 6 was acknowledged"]
    assert find_lost_writes(WRITES, {"k": ("b", 6)}) == ["l at 8 is gone"]
    deletion = Operation("c", "l", Action.DELETE, 2)
    assert find_lost_writes([*WRITES, deletion], {"k": ("b", 6)}) == []
