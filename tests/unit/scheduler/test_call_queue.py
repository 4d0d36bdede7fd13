"""Whatever comes in whatever order: every caller is answered once, and no object has two calls under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fleet.scheduler.dispatch.call_queue import (
    Call,
    CallFuture,
    CallOutcome,
    CallQueue,
    CallResult,
    CallType,
    QueuedCall,
)
from tests.faults.virtual import run_virtually

KEYS = "abc"

adding = st.tuples(st.just("add"), st.sampled_from(KEYS), st.sampled_from(CallType))
popping = st.tuples(st.just("pop"), st.sampled_from(CallType))
finishing = st.tuples(st.just("done"), st.integers(0, 2))
seeing = st.tuples(st.just("saw"), st.sampled_from(KEYS))
withdrawing = st.tuples(st.just("cancel"), st.integers(0, 20))
steps = st.lists(st.one_of(adding, adding, popping, popping, finishing, seeing, withdrawing), max_size=60)


@dataclass(frozen=True)
class Wish(Call[None]):
    """Fulfilled by being seen."""

    about: str
    rank: CallType
    numbers: frozenset[int]
    fulfilled: bool = False

    @property
    def key(self) -> str:
        return self.about

    @property
    def type(self) -> CallType:
        return self.rank

    async def send(self) -> None: ...

    def merge(self, earlier: Call[Any]) -> Wish:
        assert isinstance(earlier, Wish)
        assert earlier.rank is self.rank
        return replace(self, numbers=self.numbers | earlier.numbers)

    def rebase(self, fresh: Any) -> Wish:
        return replace(self, fulfilled=True)

    def is_noop(self) -> bool:
        return self.fulfilled


@dataclass
class Bench:
    calls: CallQueue = field(default_factory=CallQueue)
    answers: list[CallFuture] = field(default_factory=list)
    under_way: list[QueuedCall] = field(default_factory=list)
    sent: list[Wish] = field(default_factory=list)

    def add(self, key: str, type: CallType) -> None:
        answer: CallFuture = asyncio.get_running_loop().create_future()
        self.calls.add(Wish(key, type, frozenset({len(self.answers)})), answer)
        self.answers.append(answer)

    def pop(self, type: CallType) -> None:
        entry = self.calls.pop(type)
        if entry is not None:
            assert entry.call.type is type
            assert entry.key not in {one.key for one in self.under_way}
            self.under_way.append(entry)
            self.sent.append(entry.call)  # type: ignore[arg-type]  # there are no others

    def done(self, position: int) -> None:
        if position < len(self.under_way):
            entry = self.under_way.pop(position)
            entry.resolve(CallOutcome(CallResult.DONE))
            self.calls.finish(entry)

    def saw(self, key: str) -> None:
        self.calls.rebase(key, None)

    def cancel(self, position: int) -> None:
        if position < len(self.answers):
            self.answers[position].cancel()

    def finish(self) -> None:
        while len(self.calls):
            for type in CallType:
                self.pop(type)
            self.done(0)


async def played(script: list[tuple[Any, ...]]) -> Bench:
    bench = Bench()
    for verb, *what in script:
        act: Callable[..., None] = getattr(bench, verb)
        act(*what)
    bench.finish()
    return bench


@given(steps)
def test_Q_32_every_caller_is_answered(script: list[tuple[Any, ...]]) -> None:
    bench = run_virtually(played(script))
    assert all(answer.done() for answer in bench.answers)


@given(steps)
def test_Q_31_every_call_is_sent_at_most_once_and_told_so(script: list[tuple[Any, ...]]) -> None:
    bench = run_virtually(played(script))
    sent = [number for wish in bench.sent for number in wish.numbers]
    answers = dict(enumerate(bench.answers))
    withdrawn = {number for number, answer in answers.items() if answer.cancelled()}
    told = {number for number in answers.keys() - withdrawn if answers[number].result().result is CallResult.DONE}
    assert len(sent) == len(set(sent))
    assert told <= set(sent) <= told | withdrawn


@given(steps)
def test_who_gives_way_gives_way_to_a_stronger_call(script: list[tuple[Any, ...]]) -> None:
    bench = run_virtually(played(script))
    types = [what[1] for verb, *what in script if verb == "add"]
    outcomes = [None if answer.cancelled() else answer.result() for answer in bench.answers]
    for type, outcome in zip(types, outcomes, strict=True):
        assert outcome is None or outcome.by is None or outcome.by > type
        assert outcome is None or outcome.result is not CallResult.OVERWRITTEN or outcome.by is not None
