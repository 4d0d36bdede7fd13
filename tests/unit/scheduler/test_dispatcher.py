"""The dispatcher's rules, one by one. Calls are names here; what they send is written down."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fleet.errors import Conflict, QueueClosed
from fleet.kube.client.rate_limiter import RateLimit, RateLimiter
from fleet.scheduler.dispatch.call_queue import QUANTUM, Call, CallOutcome, CallResult, CallType
from fleet.scheduler.dispatch.dispatcher import Dispatcher
from tests.faults.virtual import VirtualClock, virtual, within

STATUS, BIND, EVICT = CallType


@dataclass
class Wire:
    """Where calls go."""

    sent: list[str] = field(default_factory=list)
    times: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    under_way: dict[str, int] = field(default_factory=dict)
    most: int = 0
    admit: Callable[[str], Awaitable[None]] | None = None

    async def send(self, call: Saying) -> str:
        self.under_way[call.key] = self.under_way.get(call.key, 0) + 1
        assert self.under_way[call.key] == 1, f"two calls about {call.key} at the same time"
        self.most = max(self.most, sum(self.under_way.values()))
        try:
            if self.admit is not None:
                await self.admit(call.type.call_class)
            self.sent.append(call.text)
            self.times[call.text] = asyncio.get_running_loop().time()
            await asyncio.sleep(self.seconds)
        finally:
            self.under_way[call.key] -= 1
        return call.text


@dataclass(frozen=True)
class Saying(Call[str]):
    """Says something to an object; says nothing to one that has been told before."""

    wire: Wire
    about: str
    rank: CallType
    words: tuple[str, ...]
    heard: frozenset[str] = frozenset()
    of: str = ""

    @property
    def key(self) -> str:
        return self.about

    @property
    def owner(self) -> str:
        return self.of

    @property
    def type(self) -> CallType:
        return self.rank

    @property
    def text(self) -> str:
        return " ".join(self.words)

    async def send(self) -> str:
        return await self.wire.send(self)

    def merge(self, earlier: Call[Any]) -> Saying:
        assert isinstance(earlier, Saying)
        return replace(self, words=(*(one for one in earlier.words if one not in self.words), *self.words))

    def rebase(self, fresh: frozenset[str]) -> Saying:
        return replace(self, heard=fresh)

    def is_noop(self) -> bool:
        return self.heard.issuperset(self.words)


@dataclass
class Office:
    wire: Wire
    dispatcher: Dispatcher

    def call(self, text: str, *, about: str = "o1", type: CallType = STATUS, heard: str = "", of: str = "") -> Saying:
        return Saying(self.wire, about, type, tuple(text.split()), frozenset(heard.split()), of)

    def submit(self, text: str, **more: Any) -> asyncio.Future[CallOutcome[str]]:
        return self.dispatcher.submit(self.call(text, **more))


@asynccontextmanager
async def an_office(*, concurrency: int = 1, seconds: float = 1.0, busy: bool = False) -> AsyncIterator[Office]:
    """A busy one has no free slot during the first second."""
    wire = Wire(seconds=seconds)
    dispatcher = Dispatcher(clock=VirtualClock(), concurrency=concurrency)
    office = Office(wire, dispatcher)
    async with asyncio.TaskGroup() as group:
        group.create_task(dispatcher.run(), name="dispatcher")
        await asyncio.sleep(0)
        if busy:
            for type in CallType:
                office.submit("busy", about=f"busy {type}", type=type)
            await asyncio.sleep(0)
            wire.sent.clear()
        yield office
        dispatcher.close()


# --- ranks ------------------------------------------------------------------------------------------------------------


@virtual
async def test_Q_26_a_bind_over_a_pending_status_is_all_that_is_sent() -> None:
    async with an_office(busy=True) as office:
        status = office.submit("status")
        bind = office.submit("bind", type=BIND)
        assert await status == CallOutcome(CallResult.OVERWRITTEN, by=BIND)
        assert await bind == CallOutcome(CallResult.DONE, "bind")
    assert office.wire.sent == ["bind"]


@virtual
async def test_Q_27_a_status_after_a_pending_bind_is_skipped() -> None:
    async with an_office(busy=True) as office:
        bind = office.submit("bind", type=BIND)
        assert await office.submit("status") == CallOutcome(CallResult.SKIPPED, by=BIND)
        assert (await bind).result is CallResult.DONE
    assert office.wire.sent == ["bind"]


@within(an_office)
async def test_Q_27_a_status_while_a_bind_is_under_way_is_skipped(office: Office) -> None:
    office.submit("bind", type=BIND)
    await asyncio.sleep(0.5)
    assert await office.submit("status") == CallOutcome(CallResult.SKIPPED, by=BIND)


@within(lambda: an_office(busy=True))
async def test_an_eviction_is_the_strongest(office: Office) -> None:
    bind = office.submit("bind", type=BIND)
    evict = office.submit("evict", type=EVICT)
    assert await bind == CallOutcome(CallResult.OVERWRITTEN, by=EVICT)
    assert (await evict).result is CallResult.DONE
    assert await office.submit("status") != CallOutcome(CallResult.SKIPPED, by=BIND)


@within(an_office)
async def test_a_stronger_call_does_not_disturb_a_weaker_one_under_way_and_follows_it(office: Office) -> None:
    status = office.submit("status")
    await asyncio.sleep(0.5)
    bind = office.submit("bind", type=BIND)
    assert [await status, await bind] == [
        CallOutcome(CallResult.DONE, "status"),
        CallOutcome(CallResult.DONE, "bind"),
    ]
    assert office.wire.times == {"status": 0.0, "bind": 1.0}


# --- the line ---------------------------------------------------------------------------------------------------------


@virtual
async def test_objects_are_served_in_the_order_they_came() -> None:
    async with an_office(busy=True) as office:
        answers = [office.submit(text, about=text) for text in ("b", "a", "c")]
        await asyncio.gather(*answers)
    assert office.wire.sent == ["b", "a", "c"]


@virtual
async def test_a_call_that_takes_the_place_of_a_weaker_one_inherits_its_place_in_line() -> None:
    async with an_office(busy=True) as office:
        office.submit("status", about="first")
        later = office.submit("later", about="second", type=BIND)
        office.submit("bind", about="first", type=BIND)
        await later
    assert office.wire.sent == ["bind", "later"]


@virtual
async def test_a_call_that_was_merged_keeps_its_place_in_line() -> None:
    async with an_office(busy=True) as office:
        office.submit("a", about="first")
        later = office.submit("later", about="second")
        office.submit("b", about="first")
        await later
    assert office.wire.sent == ["a b", "later"]


@virtual
async def test_ten_bindings_wait_for_one_turn_of_ten_thousand_others() -> None:
    """Beside those that have a slot already."""
    slots = 32
    flow = RateLimiter(VirtualClock(), default=RateLimit(rate=250, burst=1))
    async with an_office(concurrency=slots, seconds=0.004) as office:
        office.wire.admit = flow.acquire
        for number in range(10_000):
            office.submit(f"all{number}", about=f"all{number}", type=BIND, of="everywhere")
        await asyncio.sleep(1.0)
        sent_before = len(office.wire.sent)
        few = [office.submit(f"few{number}", about=f"few{number}", type=BIND, of="few") for number in range(10)]
        await asyncio.gather(*few)
        assert len(office.wire.sent) - sent_before <= slots + QUANTUM + len(few)


@virtual
async def test_a_call_that_takes_the_place_of_another_inherits_it_among_those_of_its_placement() -> None:
    async with an_office(busy=True) as office:
        office.submit("status", about="a1", of="a")
        for text in ("a2", "a3"):
            office.submit(text, about=text, type=BIND, of="a")
        last = office.submit("b1", about="b1", type=BIND, of="b")
        office.submit("a1", about="a1", type=BIND, of="a")
        await last
    assert office.wire.sent == ["a1", "a2", "a3", "b1"]


@virtual
async def test_at_most_so_many_calls_of_one_type_are_under_way() -> None:
    async with an_office(concurrency=3) as office:
        await asyncio.gather(*(office.submit(str(n), about=str(n), type=BIND) for n in range(10)))
        assert office.wire.most == 3
        assert asyncio.get_running_loop().time() == 4.0


# --- merging ----------------------------------------------------------------------------------------------------------


@virtual
async def test_Q_28_two_calls_of_one_type_become_one_and_both_callers_are_told() -> None:
    async with an_office(busy=True) as office:
        answers = [office.submit("ready"), office.submit("scheduled")]
        assert [await one for one in answers] == [CallOutcome(CallResult.DONE, "ready scheduled")] * 2
    assert office.wire.sent == ["ready scheduled"]


@virtual
async def test_what_is_under_way_is_not_merged_with_but_followed_by_one_call() -> None:
    async with an_office() as office:
        office.submit("a")
        await asyncio.sleep(0.5)
        answers = [office.submit("b"), office.submit("c")]
        await asyncio.gather(*answers)
    assert office.wire.sent == ["a", "b c"]


# --- nothing left to change -------------------------------------------------------------------------------------------


@virtual
async def test_Q_29_a_call_that_changes_nothing_is_not_sent() -> None:
    async with an_office() as office:
        assert await office.submit("a", heard="a b") == CallOutcome(CallResult.SKIPPED)
    assert office.wire.sent == []


@virtual
async def test_Q_29_a_waiting_call_is_dropped_when_the_object_turns_out_to_be_so_already() -> None:
    async with an_office(busy=True) as office:
        answer = office.submit("a")
        office.dispatcher.rebase("o1", frozenset("a"))
        assert answer.result() == CallOutcome(CallResult.SKIPPED)
        await asyncio.sleep(5)
    assert office.wire.sent == []


@within(lambda: an_office(busy=True))
async def test_a_waiting_call_is_rebased_on_every_fresh_object(office: Office) -> None:
    answer = office.submit("a", heard="b")
    office.dispatcher.rebase("o1", frozenset("c"))
    office.dispatcher.rebase("o1", frozenset("d"))
    merged = office.submit("d", heard="d")
    assert await answer == await merged == CallOutcome(CallResult.DONE, "a d")


@virtual
async def test_whether_something_is_left_is_not_judged_while_another_call_changes_the_object() -> None:
    async with an_office() as office:
        office.submit("a")
        await asyncio.sleep(0.5)
        back = office.submit("b", heard="b")
        await asyncio.sleep(0)
        assert not back.done()
        office.dispatcher.rebase("o1", frozenset("a"))
        assert (await back).result is CallResult.DONE
    assert office.wire.sent == ["a", "b"]


@virtual
async def test_a_call_whose_predecessor_did_its_work_is_dropped() -> None:
    async with an_office() as office:
        office.submit("a")
        await asyncio.sleep(0.5)
        again = office.submit("a")
        office.dispatcher.rebase("o1", frozenset("a"))
        assert await again == CallOutcome(CallResult.SKIPPED)
    assert office.wire.sent == ["a"]


# --- budgets ----------------------------------------------------------------------------------------------------------


@virtual
async def test_Q_30_ten_thousand_status_writes_delay_a_bind_by_no_more_than_its_own_budget() -> None:
    slow = RateLimit(rate=10, burst=1)
    flow = RateLimiter(VirtualClock(), limits={"status": slow, "bind": slow})
    async with an_office(concurrency=32, seconds=0.0) as office:
        office.wire.admit = flow.acquire
        for number in range(10_000):
            office.submit(f"s{number}", about=f"o{number}")
        await office.submit("b0", about="another", type=BIND)
        await asyncio.sleep(3)
        asked_at = asyncio.get_running_loop().time()
        await office.submit("b1", about="x", type=BIND)
        assert asyncio.get_running_loop().time() - asked_at <= 0.1
        assert 1 < office.dispatcher.count_waiting()[STATUS] < 10_000


# --- one at a time ----------------------------------------------------------------------------------------------------


@virtual
async def test_Q_31_one_object_never_has_two_calls_under_way() -> None:
    chance = random.Random(31)
    async with an_office(concurrency=8, seconds=0.3) as office:
        answers = []
        for step in range(300):
            about, type = f"o{chance.randrange(3)}", chance.choice(list(CallType))
            answers.append(office.submit(f"w{step}", about=about, type=type))
            await asyncio.sleep(chance.choice([0.0, 0.05, 0.4]))
        outcomes = await asyncio.gather(*answers)
    assert {one.result for one in outcomes} == {CallResult.DONE, CallResult.SKIPPED, CallResult.OVERWRITTEN}
    assert office.wire.most == 3


@virtual
async def test_a_failure_is_told_and_the_next_call_about_the_object_is_sent() -> None:
    class Refused(Saying):
        async def send(self) -> str:
            await asyncio.sleep(1)
            raise Conflict("changed")

    async with an_office() as office:
        bad = office.dispatcher.submit(Refused(office.wire, "o1", STATUS, ("bad",)))
        await asyncio.sleep(0.5)
        good = office.submit("good")
        assert isinstance((await bad).error, Conflict)
        assert await good == CallOutcome(CallResult.DONE, "good")


@virtual
async def test_a_withdrawn_call_is_not_sent() -> None:
    async with an_office(busy=True) as office:
        office.submit("withdrawn", about="o1", type=BIND).cancel()
        await office.submit("wanted", about="o2", type=BIND)
    assert office.wire.sent == ["wanted"]


@within(lambda: an_office(busy=True))
async def test_a_merged_call_goes_on_for_those_who_did_not_withdraw(office: Office) -> None:
    first = office.submit("a")
    second = office.submit("b")
    first.cancel()
    assert (await second).value == "a b"


# --- the end ----------------------------------------------------------------------------------------------------------


@virtual
async def test_Q_32_closing_answers_every_pending_caller() -> None:
    async with an_office(busy=True) as office:
        waiting = [office.submit("a", about=str(n), type=BIND) for n in range(100)]
        office.dispatcher.close()
        outcomes = await asyncio.gather(*waiting)
        assert all(isinstance(one.error, QueueClosed) for one in outcomes)
        assert isinstance((await office.submit("too late")).error, QueueClosed)
    assert office.wire.sent == []


@within(an_office)
async def test_Q_32_what_is_under_way_when_closing_is_finished_and_answered(office: Office) -> None:
    under_way = office.submit("a")
    await asyncio.sleep(0.5)
    follower = office.submit("b")
    office.dispatcher.close()
    assert await under_way == CallOutcome(CallResult.DONE, "a")
    assert isinstance((await follower).error, QueueClosed)


@virtual
async def test_Q_32_a_cancelled_dispatcher_answers_everybody() -> None:
    wire = Wire(seconds=1)
    dispatcher = Dispatcher(clock=VirtualClock(), concurrency=1)
    office = Office(wire, dispatcher)
    running = asyncio.create_task(dispatcher.run(), name="dispatcher")
    answers = [office.submit("a", about=str(n)) for n in range(3)]
    await asyncio.sleep(0.5)
    running.cancel()
    outcomes = await asyncio.gather(*answers)
    assert all(isinstance(one.error, QueueClosed) for one in outcomes)
    with pytest.raises(asyncio.CancelledError):
        await running


@virtual
async def test_calls_submitted_before_the_dispatcher_runs_are_sent_when_it_does() -> None:
    dispatcher = Dispatcher(clock=VirtualClock())
    office = Office(Wire(), dispatcher)
    early = office.submit("early")
    async with asyncio.TaskGroup() as group:
        group.create_task(dispatcher.run(), name="dispatcher")
        assert (await early).value == "early"
        dispatcher.close()


@virtual
async def test_every_call_that_was_sent_is_reported_with_its_duration() -> None:
    told = []
    dispatcher = Dispatcher(clock=VirtualClock(), on_executed=lambda *what: told.append(what))
    office = Office(Wire(seconds=2), dispatcher)
    async with asyncio.TaskGroup() as group:
        group.create_task(dispatcher.run(), name="dispatcher")
        await office.submit("a", type=BIND)
        await office.submit("b", type=EVICT, heard="b")
        dispatcher.close()
    assert told == [(BIND, CallResult.DONE, 2.0)]
