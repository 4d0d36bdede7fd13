"""Whatever the server, the network or the clocks do, at most one process leads, and it knows when it no longer does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from fleet.errors import ApiError, LeadershipLost, NotLeading
from fleet.kube.api import LEASE_CLASS, Api, Method, Request
from fleet.kube.leader_election import FencedApi, LeaderElector, Leadership, LeaseDurations, unique_identity
from fleet.kube.lease import LEASES
from tests.fake_hub import Answered, FakeHub, Fault, FaultyApi, Lost, Slow, fair, in_turn
from tests.faults.scripted import Down, Hang, Refuse
from tests.faults.virtual import VirtualClock, no_jitter, virtual

KEY = "fleet-system/leader"
PATH = LEASES.item(KEY)
TERMS = LeaseDurations(duration=60, renew_deadline=45, retry=5)


def now() -> float:
    return asyncio.get_running_loop().time()


class Candidate:
    def __init__(
        self, server: Api, name: str = "one", *, terms: LeaseDurations = TERMS, may_release: bool = True
    ) -> None:
        self.clock = VirtualClock()
        self.problems: list[ApiError] = []
        self.leadership: Leadership | None = None
        self.led_from: float | None = None
        self.led_until: float | None = None
        self.lost: LeadershipLost | None = None
        self.enough = asyncio.Event()
        self.election = LeaderElector(
            server,
            KEY,
            identity=name,
            clock=self.clock,
            jitter=no_jitter,
            terms=terms,
            on_problem=self.problems.append,
            may_release=lambda: may_release,
        )

    async def run(self) -> None:
        try:
            await self.election.lead(self._work)
        except LeadershipLost as lost:
            self.lost = lost

    async def _work(self, leadership: Leadership) -> str:
        self.leadership, self.led_from = leadership, now()
        try:
            await self.enough.wait()
            return "done"
        finally:
            self.led_until = now()

    @property
    def leads(self) -> bool:
        return self.leadership is not None and self.leadership.remaining > 0


@asynccontextmanager
async def running(*candidates: Candidate) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one.run(), name=one.election.identity) for one in candidates]
        yield
        for task in tasks:
            task.cancel()


def holder(server: FakeHub) -> str:
    identity: str = server.objects[PATH]["spec"]["holderIdentity"]
    return identity


# --- acquiring and giving back ----------------------------------------------------------------------------------------


@virtual
async def test_creates_the_lease_as_other_controllers_would() -> None:
    server = FakeHub()
    one = Candidate(server)
    async with running(one):
        await asyncio.sleep(1)
        assert one.leads
        assert server.objects[PATH]["apiVersion"] == "coordination.k8s.io/v1"
        assert server.objects[PATH]["spec"] == {
            "holderIdentity": "one",
            "leaseDurationSeconds": 60,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:00.000000Z",
            "leaseTransitions": 0,
        }


@virtual
async def test_renews_and_keeps_what_others_put_into_the_lease() -> None:
    server = FakeHub()
    server.put(PATH, {"metadata": {"namespace": "fleet-system", "name": "leader", "labels": {"a": "b"}}})
    one = Candidate(server)
    async with running(one):
        await asyncio.sleep(301)
        assert one.leads
        lease = server.objects[PATH]
        assert lease["metadata"]["labels"] == {"a": "b"}
        assert lease["spec"]["acquireTime"] == "2026-01-01T00:00:00.000000Z"
        assert lease["spec"]["renewTime"] == "2026-01-01T00:05:00.000000Z"


@virtual
async def test_gives_the_lease_back_when_the_work_is_done_and_a_standby_takes_it_at_once() -> None:
    server = FakeHub()
    one, two = Candidate(server), Candidate(server, "two")
    async with running(one):
        await asyncio.sleep(12)
        async with running(two):
            await asyncio.sleep(6)
            assert not two.leads
            one.enough.set()
            await asyncio.sleep(0.1)
            assert two.leads
            assert server.objects[PATH]["spec"]["leaseTransitions"] == 1


@virtual
async def test_gives_the_lease_back_when_cancelled() -> None:
    server = FakeHub()
    async with running(Candidate(server)):
        await asyncio.sleep(12)
    assert holder(server) == ""


@virtual
async def test_returns_what_the_work_returns() -> None:
    server = FakeHub()

    async def work(leadership: Leadership) -> int:
        return 42

    assert await Candidate(server).election.lead(work) == 42


@virtual
async def test_an_error_of_the_work_comes_out_as_it_is_and_frees_the_lease() -> None:
    server = FakeHub()

    async def work(leadership: Leadership) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await Candidate(server).election.lead(work)
    assert holder(server) == ""


@virtual
async def test_leadership_lasts_while_cancelled_work_winds_down() -> None:
    server = FakeHub()
    seen = []

    async def work(leadership: Leadership) -> None:
        try:
            await asyncio.sleep(1e6)
        finally:
            await asyncio.sleep(100)
            seen.append(leadership.remaining)

    task = asyncio.create_task(Candidate(server).election.lead(work), name="leader")
    await asyncio.sleep(10)
    task.cancel()
    await asyncio.wait([task])
    assert seen == [pytest.approx(40, abs=5)]
    assert holder(server) == ""


@virtual
async def test_waits_for_the_whole_duration_before_taking_the_lease_of_a_vanished_holder() -> None:
    server = FakeHub()
    spec = {"holderIdentity": "gone", "leaseDurationSeconds": 60, "renewTime": "1999-01-01T00:00:00.000000Z"}
    server.put(PATH, {"metadata": {}, "spec": spec})
    one = Candidate(server)
    async with running(one):
        await asyncio.sleep(60)
        assert not one.leads, "the time in the lease is by the holder's clock and says nothing"
        await asyncio.sleep(6)
        assert one.leads
        assert server.objects[PATH]["spec"]["leaseTransitions"] == 1


@virtual
async def test_a_renewal_by_the_holder_starts_the_wait_over() -> None:
    server = FakeHub()
    spec = {"holderIdentity": "other", "leaseDurationSeconds": 60, "renewTime": "a"}
    server.put(PATH, {"metadata": {}, "spec": spec})
    one = Candidate(server)
    async with running(one):
        await asyncio.sleep(58)
        server.put(PATH, {"metadata": {}, "spec": {**spec, "renewTime": "b"}})
        await asyncio.sleep(60)
        assert not one.leads
        await asyncio.sleep(10)
        assert one.leads


@virtual
async def test_only_one_of_two_that_find_the_lease_free_leads() -> None:
    server = FakeHub(lambda _: Slow(before=0.1, after=0.1))
    one, two = Candidate(server), Candidate(server, "two")
    async with running(one, two):
        for _ in range(100):
            await asyncio.sleep(0.7)
            assert one.leads + two.leads <= 1
        assert one.leads + two.leads == 1


@virtual
async def test_keeps_trying_while_the_server_is_away() -> None:
    server = FakeHub(lambda _: Down())
    one = Candidate(server)
    async with running(one):
        await asyncio.sleep(21)
        assert len(server.requests) == 5
        server.fault = fair
        await asyncio.sleep(5)
        assert one.leads


@virtual
async def test_an_acquisition_that_is_answered_too_late_is_none() -> None:
    late = LeaseDurations(duration=60, renew_deadline=6, retry=5)
    server = FakeHub(lambda request: Slow(after=100) if request.is_write else None)
    one = Candidate(server, terms=late)
    async with running(one):
        await asyncio.sleep(50)
        assert one.led_from is None
        server.fault = fair
        await asyncio.sleep(7)
        assert one.leads, "the lease names us since the first attempt"


@virtual
async def test_an_acquisition_counts_from_when_it_was_sent() -> None:
    server = FakeHub(lambda request: Slow(after=14) if request.is_write else None)
    one = Candidate(server)
    async with running(one):
        await asyncio.sleep(15)
        assert one.leadership is not None
        assert one.leadership.remaining == pytest.approx(45 - 15)


@virtual
async def test_gives_the_lease_back_although_the_answer_to_the_last_renewal_was_lost() -> None:
    server = FakeHub()
    async with running(Candidate(server)):
        await asyncio.sleep(12)
        server.fault = lambda request: Lost() if request.is_write else None
        await asyncio.sleep(5)
        server.fault = fair
    assert holder(server) == ""


@virtual
async def test_keeps_the_lease_to_itself_where_it_may_not_be_given_back() -> None:
    server = FakeHub()
    one = Candidate(server, may_release=False)
    async with running(one):
        await asyncio.sleep(12)
        one.enough.set()
        await asyncio.sleep(1)
        assert not one.leads
    assert holder(server) == "one"


@virtual
async def test_giving_back_takes_five_seconds_at_most() -> None:
    server = FakeHub()
    one = Candidate(server)
    async with running(one):
        await asyncio.sleep(12)
        server.fault = lambda _: Hang()
        one.enough.set()
        began_at = now()
    assert now() - began_at == pytest.approx(5.0)
    assert len(one.problems) == 1


# --- losing -----------------------------------------------------------------------------------------------------------

TROUBLE: list[Fault] = [
    Down(),
    Hang(),
    Refuse(500, "InternalError"),
    Refuse(403, "Forbidden"),
    Refuse(401, "Unauthorized"),
    Refuse(429, "TooManyRequests", retry_after=3600),
    Slow(before=1000),
    Slow(after=1000),
    Lost(),
]


@virtual
@pytest.mark.parametrize("trouble", TROUBLE, ids=repr)
async def test_stops_within_the_lease_whatever_the_server_does(trouble: Fault) -> None:
    server = FakeHub()
    one = Candidate(server)
    last_renewal_arrived = 0.0

    def weather(request: Request) -> Fault:
        return trouble if now() > 100 else None

    async with running(one):
        await asyncio.sleep(100.5)
        last_renewal_arrived = now()
        server.fault = weather
        await asyncio.sleep(44)
        assert one.leads
        await asyncio.sleep(60)
        assert one.led_until is not None
        assert one.led_until <= last_renewal_arrived + TERMS.renew_deadline
        assert not one.leads
        assert "could not be renewed" in str(one.lost)


@virtual
@pytest.mark.parametrize("trouble", TROUBLE, ids=repr)
async def test_a_successor_never_overlaps_a_holder_that_is_cut_off(trouble: Fault) -> None:
    server = FakeHub()
    line = FaultyApi(server)
    one, two = Candidate(line), Candidate(server, "two")
    async with running(one):
        await asyncio.sleep(1)
        async with running(two):
            await asyncio.sleep(99)
            line.fault = lambda _: trouble
            await asyncio.sleep(120)
            assert one.led_until is not None
            assert two.led_from is not None
            assert one.led_until < two.led_from


@virtual
async def test_a_renewal_counts_from_when_it_was_sent() -> None:
    server = FakeHub()
    one = Candidate(server)
    async with running(one):
        await asyncio.sleep(6)
        server.fault = lambda _: Slow(after=14)
        await asyncio.sleep(19)  # sent at 10, answered at 24
        assert one.leadership is not None
        assert one.leadership.remaining == pytest.approx(10 + 45 - 25)


@virtual
async def test_stops_at_once_when_another_holds_the_lease() -> None:
    server = FakeHub()
    one = Candidate(server)
    async with running(one):
        await asyncio.sleep(12)
        server.put(PATH, {"metadata": {}, "spec": {"holderIdentity": "thief", "leaseDurationSeconds": 60}})
        await asyncio.sleep(5)
        assert "thief" in str(one.lost)
        assert holder(server) == "thief"


@virtual
async def test_losing_the_lease_in_two_ways_at_once_is_still_one_loss() -> None:
    server = FakeHub()
    one = Candidate(server, terms=LeaseDurations(duration=15, renew_deadline=10, retry=2))
    async with running(one):
        await asyncio.sleep(5)  # renewed at 4, so it ends at 14
        server.fault = lambda request: Down() if now() < 13 else Refuse(404, "NotFound")
        await asyncio.sleep(10)
        assert one.lost is not None
        assert one.led_until == pytest.approx(14)


@virtual
async def test_an_error_of_work_that_is_being_stopped_is_not_hidden() -> None:
    server = FakeHub()

    async def work(leadership: Leadership) -> None:
        try:
            await asyncio.sleep(1e6)
        finally:
            raise KeyError("while stopping")

    server.before_write = [lambda: None, lambda: server.objects.pop(PATH)]
    with pytest.raises(KeyError, match="while stopping"):
        await Candidate(server).election.lead(work)


@virtual
async def test_stops_at_once_when_the_lease_is_deleted() -> None:
    server = FakeHub()
    one = Candidate(server)
    async with running(one):
        await asyncio.sleep(12)
        del server.objects[PATH]
        await asyncio.sleep(5)
        assert "deleted" in str(one.lost)


@virtual
async def test_a_renewal_that_arrived_although_it_seemed_to_fail_costs_nothing() -> None:
    server = FakeHub()
    one = Candidate(server)
    async with running(one):
        await asyncio.sleep(6)
        server.fault = in_turn(Lost())
        await asyncio.sleep(600)
        assert one.leads


@virtual
async def test_somebody_who_labels_the_lease_does_no_harm() -> None:
    server = FakeHub()
    one = Candidate(server)
    async with running(one):
        for _ in range(20):
            await asyncio.sleep(7)
            server.put(PATH, {**server.objects[PATH], "metadata": {"uid": "u", "labels": {"at": str(now())}}})
        assert one.leads


@virtual
async def test_the_fence_closes_before_the_work_is_told() -> None:
    server = FakeHub()
    fence_was_open = []

    async def work(leadership: Leadership) -> None:
        try:
            await asyncio.sleep(1e6)
        finally:
            fence_was_open.append(leadership.remaining > 0)

    election = Candidate(server).election
    server.before_write = [lambda: None, lambda: server.objects.pop(PATH)]
    with pytest.raises(LeadershipLost):
        await election.lead(work)
    assert fence_was_open == [False]


@virtual
async def test_a_vanished_server_does_not_hold_up_the_end() -> None:
    server = FakeHub()
    async with running(Candidate(server)):
        await asyncio.sleep(12)
        server.fault = lambda _: Hang()
        stopped_at = now()
    assert now() - stopped_at <= 5


# --- clocks -----------------------------------------------------------------------------------------------------------


@virtual
@pytest.mark.parametrize("jump", [timedelta(days=-400), timedelta(hours=-1), timedelta(hours=1), timedelta(days=4000)])
async def test_setting_the_time_of_day_changes_nothing(jump: timedelta) -> None:
    server = FakeHub()
    one, two = Candidate(server), Candidate(server, "two")
    async with running(one):
        await asyncio.sleep(1)
        async with running(two):
            await asyncio.sleep(99)
            one.clock.set_by = jump
            await asyncio.sleep(300)
            two.clock.set_by = -jump
            await asyncio.sleep(300)
            assert one.leads
            assert two.led_from is None


@virtual
async def test_a_machine_that_slept_through_its_lease_does_not_write_when_it_wakes() -> None:
    server = FakeHub()
    one = Candidate(server)
    async with running(one):
        await asyncio.sleep(12)
        fenced = FencedApi(server, one.leadership)  # type: ignore[arg-type]
        one.clock.slept += 3600
        with pytest.raises(NotLeading):
            await fenced.call(Request(Method.POST, "/anything", body=b"{}"))


# --- the fence --------------------------------------------------------------------------------------------------------


@virtual
async def test_a_fenced_write_can_be_asked_again_before_it_leaves() -> None:
    leadership = Leadership(VirtualClock(), TERMS)
    leadership.extend(VirtualClock().monotonic())
    server = FakeHub(lambda _: Answered(b""))
    await FencedApi(server, leadership).call(Request(Method.POST, "/anything", body=b"{}"))
    (request,) = server.requests
    assert request.guard is not None
    request.guard()
    leadership.end()
    with pytest.raises(NotLeading):
        request.guard()


@virtual
async def test_a_fenced_write_must_end_before_the_lease_may() -> None:
    server = FakeHub()
    one = Candidate(server)
    async with running(one):
        await asyncio.sleep(1)
        server.fault = lambda _: Down()
        await asyncio.sleep(39)
        fenced = FencedApi(server, one.leadership)  # type: ignore[arg-type]
        server.fault = fair
        with pytest.raises(ApiError):
            await fenced.call(Request(Method.DELETE, "/api/v1/nodes/nothing", body=b"{}", deadline=30))
        (deletion,) = (request for request in server.requests if request.method is Method.DELETE)
        assert deletion.deadline == pytest.approx(20)


@virtual
async def test_reading_needs_no_lease() -> None:
    server = FakeHub()
    server.put("/api/v1/nodes/thing", {"a": 1})
    fenced = FencedApi(server, Leadership(VirtualClock(), TERMS))
    assert b'"a":1' in await fenced.call(Request(Method.GET, "/api/v1/nodes/thing"))


@virtual
async def test_renewals_are_never_held_back_by_flow_control() -> None:
    server = FakeHub()
    async with running(Candidate(server)):
        await asyncio.sleep(60)
    assert {request.call_class for request in server.requests} == {LEASE_CLASS}


@pytest.mark.parametrize("terms", [(10, 10.0, 1.0), (10, 5.0, 5.0), (10, 5.0, 0.0), (0, -1.0, -2.0)])
def test_terms_that_cannot_be_kept_are_refused(terms: tuple[int, float, float]) -> None:
    duration, renew_deadline, retry = terms
    with pytest.raises(ValueError, match="a lease needs"):
        LeaseDurations(duration=duration, renew_deadline=renew_deadline, retry=retry)


def test_identities_are_unique() -> None:
    assert unique_identity() != unique_identity()


@virtual
@pytest.mark.parametrize("answer", [b"", b"[]", b'{"spec":5}', b'{"spec":{"leaseDurationSeconds":"x"}}', b"\xff"])
async def test_an_answer_that_is_no_lease_is_a_problem_and_no_crash(answer: bytes) -> None:
    one = Candidate(FakeHub(lambda _: Answered(answer)))
    async with running(one):
        await asyncio.sleep(12)
    assert len(one.problems) == 3
    assert one.led_from is None


def lease_document(**spec: Any) -> dict[str, Any]:
    return {"metadata": {}, "spec": spec}


@virtual
async def test_takes_a_lease_that_a_holder_gave_back() -> None:
    server = FakeHub()
    server.put(PATH, lease_document(holderIdentity="", leaseDurationSeconds=1, leaseTransitions=7))
    one = Candidate(server)
    async with running(one):
        await asyncio.sleep(0.1)
        assert one.leads
        assert server.objects[PATH]["spec"]["leaseTransitions"] == 8


@virtual
@pytest.mark.parametrize("ahead", ["2026-01-01T00:00:00.000000Z", "2031-05-05T05:05:05.000005Z"])
async def test_of_two_leaderships_the_later_one_has_the_greater_epoch_whatever_the_clocks(ahead: str) -> None:
    server = FakeHub()
    server.put(PATH, lease_document(holderIdentity="", leaseDurationSeconds=1, acquireTime=ahead))
    one, two = Candidate(server), Candidate(server, "two")
    async with running(one):
        await asyncio.sleep(0.1)
        assert one.leadership is not None
        assert server.objects[PATH]["spec"]["acquireTime"] > ahead
        one.enough.set()
    async with running(two):
        await asyncio.sleep(2)
        assert two.leadership is not None
        assert two.leadership.epoch > one.leadership.epoch > 1_767_225_600_000_000


@virtual
async def test_an_acquire_time_that_cannot_be_exceeded_is_kept() -> None:
    server, end = FakeHub(), "9999-12-31T23:59:59.999999Z"
    server.put(PATH, lease_document(holderIdentity="", leaseDurationSeconds=1, acquireTime=end))
    one = Candidate(server)
    async with running(one):
        await asyncio.sleep(0.1)
        assert one.leads
        assert server.objects[PATH]["spec"]["acquireTime"] == end


# --- hand-over --------------------------------------------------------------------------------------------------------

DEFAULTS = LeaseDurations()


class Mute(FaultyApi):
    """Its watches open and never say anything."""

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        async def pieces() -> AsyncIterator[bytes]:
            await asyncio.sleep(1e9)
            yield b""

        yield pieces()


class Deaf(FaultyApi):
    """It may not watch."""

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        raise Refuse(403, "Forbidden").error()
        yield


async def hand_over(standby: Api, server: FakeHub, *, killed_at: float) -> float:
    """Seconds from the death of a leader to the next one, with default settings."""
    line = FaultyApi(server)
    one, two = Candidate(line, terms=DEFAULTS), Candidate(standby, "two", terms=DEFAULTS)
    async with running(one):
        await asyncio.sleep(0.3)
        async with running(two):
            await asyncio.sleep(killed_at)
            line.fault = lambda _: Down()
            began_at = now()
            await asyncio.sleep(40)
            assert two.led_from is not None
            return two.led_from - began_at


@virtual
@pytest.mark.parametrize("killed_at", [20.0, 20.4, 20.9, 21.3, 21.8])
async def test_a_killed_leader_is_replaced_within_fifteen_seconds(killed_at: float) -> None:
    server = FakeHub()
    assert 12 < await hand_over(server, server, killed_at=killed_at) <= 15.1


@virtual
@pytest.mark.parametrize("standby", [Mute, Deaf])
async def test_a_standby_whose_watch_fails_takes_over_as_soon_as_reading_shows_it(standby: type[FaultyApi]) -> None:
    server = FakeHub()
    assert await hand_over(standby(server), server, killed_at=20.9) <= 15.1 + DEFAULTS.retry


@virtual
async def test_a_standby_takes_a_deleted_lease_at_once() -> None:
    server = FakeHub()
    one, two = Candidate(server), Candidate(server, "two")
    async with running(one):
        await asyncio.sleep(12)
        async with running(two):
            await asyncio.sleep(6.5)
            server.remove(PATH)
            await asyncio.sleep(0.1)
            assert two.leads
            await asyncio.sleep(5)
            assert one.lost is not None


@virtual
async def test_changes_of_other_leases_are_none_of_ours() -> None:
    server = FakeHub()
    one, two = Candidate(server), Candidate(server, "two")
    async with running(one):
        await asyncio.sleep(12)
        async with running(two):
            await asyncio.sleep(6)
            asked = len(server.requests)
            for _ in range(100):
                server.put(
                    LEASES.item("fleet-system/other"), {"metadata": {"name": "other"}, "spec": {"holderIdentity": ""}}
                )
                await asyncio.sleep(0.001)
            assert len(server.requests) == asked


@virtual
@pytest.mark.parametrize("named, lasts", [(60, 60), (3600, 3600), (None, DEFAULTS.duration), (0, DEFAULTS.duration)])
async def test_the_duration_that_another_program_gave_its_lease_is_honoured(named: int | None, lasts: int) -> None:
    server = FakeHub()
    spec = {"holderIdentity": "hub-agent", "leaseDurationSeconds": named, "renewTime": "0"}
    about = {"namespace": "fleet-system", "name": "leader"}
    server.put(PATH, {"metadata": about, "spec": spec})
    one = Candidate(server, terms=DEFAULTS)
    async with running(one):
        for renewal in range(5):
            await asyncio.sleep(10)
            server.put(PATH, {"metadata": about, "spec": {**spec, "renewTime": str(renewal + 1)}})
        await asyncio.sleep(lasts - 0.5)
        assert not one.leads
        await asyncio.sleep(0.6)
        assert one.leads
        assert server.objects[PATH]["spec"]["leaseDurationSeconds"] == DEFAULTS.duration


@virtual
@pytest.mark.parametrize("jump", [-(10**7), -60, 60, 10**7])
async def test_jumps_of_the_time_of_day_neither_prolong_nor_end_a_leadership(jump: int) -> None:
    server = FakeHub()
    line = FaultyApi(server)
    one, two = Candidate(line, terms=DEFAULTS), Candidate(server, "two", terms=DEFAULTS)
    async with running(one):
        await asyncio.sleep(0.5)
        async with running(two):
            await asyncio.sleep(20)
            one.clock.set_by = timedelta(seconds=jump)
            await asyncio.sleep(20)
            two.clock.set_by = timedelta(seconds=-jump)
            await asyncio.sleep(20)
            assert one.leads
            assert not two.leads
            line.fault = lambda _: Hang()
            one.clock.set_by = timedelta(0)
            await asyncio.sleep(16)
            assert one.led_until is not None
            assert two.led_from is not None
            assert one.led_until < two.led_from


@virtual
@pytest.mark.parametrize("frozen", [10.5, 16.0, 3600.0])
async def test_a_leader_that_was_frozen_writes_nothing_afterwards(frozen: float) -> None:
    server = FakeHub()
    one = Candidate(server, terms=DEFAULTS)
    async with running(one):
        await asyncio.sleep(21)
        assert one.leadership is not None
        fenced = FencedApi(server, one.leadership)
        one.clock.slept += frozen
        with pytest.raises(NotLeading):
            await fenced.call(Request(Method.POST, LEASES.collection("fleet-system"), body=b"{}"))
        await asyncio.sleep(2)
        assert not server.bodies() or all(body["metadata"]["name"] == "leader" for body in server.bodies())
