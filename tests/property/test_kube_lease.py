"""Three candidates, each with a network of its own and a clock that is set at random: one leader at most."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from fleet.errors import LeadershipLost
from fleet.kube.leader_election import LeaderElector, Leadership, LeaseDurations
from fleet.kube.lease import LEASES
from tests.fake_hub import FakeHub, Fault, FaultyApi, Lost, Slow
from tests.faults.scripted import Down, Hang, Refuse
from tests.faults.virtual import VirtualClock, run_virtually

KEY = "fleet-system/leader"
TERMS = LeaseDurations(duration=15, renew_deadline=10, retry=2)

delays = st.sampled_from([0.0, 0.5, 2.0, 3.0, 5.0, 9.0])
weathers: st.SearchStrategy[Fault] = st.one_of(
    st.none(),
    st.none(),
    st.just(Down()),
    st.just(Hang()),
    st.just(Lost()),
    st.sampled_from([Refuse(500), Refuse(403, "Forbidden"), Refuse(409, "Conflict"), Refuse(404, "NotFound")]),
    st.builds(Slow, before=delays, after=delays),
)


@dataclass(frozen=True)
class Turn:
    """The weather of one candidate changes, and perhaps its time of day."""

    wait: float
    candidate: int
    weather: Fault
    set_by: int


turns = st.builds(
    Turn,
    wait=st.sampled_from([0.0, 1.0, 4.0, 11.0, 16.0, 40.0]),
    candidate=st.integers(0, 2),
    weather=weathers,
    set_by=st.sampled_from([0, 0, -(10**6), 10**6]),
)


class Candidate:
    def __init__(self, number: int, server: FakeHub, jitter: float) -> None:
        self.weather: Fault = None
        self.clock = VirtualClock()
        self.leadership: Leadership | None = None
        self._election = LeaderElector(
            FaultyApi(server, lambda _: self.weather),
            KEY,
            identity=f"candidate-{number}",
            clock=self.clock,
            jitter=lambda: jitter,
            terms=TERMS,
        )

    @property
    def leads(self) -> bool:
        return self.leadership is not None and self.leadership.remaining > 0

    async def run(self) -> None:
        while True:
            try:
                await self._election.lead(self._work)
            except LeadershipLost:
                continue

    async def _work(self, leadership: Leadership) -> None:
        self.leadership = leadership
        await asyncio.sleep(1e9)


@given(script=st.lists(turns, max_size=20), jitters=st.tuples(*[st.floats(0, 1)] * 3))
def test_there_is_never_more_than_one_leader_and_in_good_weather_there_is_one(
    script: list[Turn], jitters: tuple[float, float, float]
) -> None:
    async def scenario() -> None:
        server = FakeHub()
        candidates = [Candidate(number, server, jitter) for number, jitter in enumerate(jitters)]

        async def watch_over() -> None:
            while True:
                assert sum(one.leads for one in candidates) <= 1
                await asyncio.sleep(0.25)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one.run(), name="candidate") for one in candidates]
            tasks.append(group.create_task(watch_over(), name="observer"))
            for turn in script:
                await asyncio.sleep(turn.wait)
                candidates[turn.candidate].weather = turn.weather
                candidates[turn.candidate].clock.set_by = timedelta(seconds=turn.set_by)
            for one in candidates:
                one.weather = None
            await asyncio.sleep(60)
            assert sum(one.leads for one in candidates) == 1
            for task in tasks:
                task.cancel()
        assert server.objects[LEASES.item(KEY)]["spec"]["holderIdentity"] == ""

    run_virtually(scenario())
