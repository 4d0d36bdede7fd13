"""Whatever goes wrong between server and client, and whenever: in the end the client has what the server has.

Random scripts of faults meet random changes of the server and own writes, all at random moments. Throughout, what the
store tells must fit together (`Fold` objects to what is lost or doubled).
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fleet.kube.cache.reflector import ReflectorTimings
from fleet.model.decoding import decode
from fleet.model.views import MemberCluster
from tests.faults.hub import Document, Hub
from tests.faults.scripted import (
    Close,
    Down,
    ErrorEvent,
    Fault,
    Garbage,
    Hang,
    Late,
    Refuse,
    Reset,
    ScriptedApi,
    Trickle,
)
from tests.faults.virtual import run_virtually
from tests.faults.watching import Cluster, Watching, state_of, watching

NAMES = ("a", "b", "c", "d", "e")

counts = st.integers(0, 4)
refusals = st.sampled_from(
    [Refuse(410, "Expired"), Refuse(429, "TooManyRequests", retry_after=3), Refuse(500), Refuse(403, "Forbidden")]
)
list_faults: st.SearchStrategy[Fault] = st.one_of(
    st.none(), st.just(Down()), st.just(Hang()), st.just(Late(12)), st.just(Reset()), refusals, st.just(Garbage(b"{"))
)
watch_faults: st.SearchStrategy[Fault] = st.one_of(
    st.none(),
    st.just(Down()),
    st.just(Trickle()),
    st.just(Late(12)),
    refusals,
    st.builds(Hang, after=counts),
    st.builds(Reset, after=counts, bytes_more=st.integers(0, 120)),
    st.builds(Close, after=counts, bytes_more=st.integers(0, 120)),
    st.builds(Garbage, line=st.sampled_from([b"\xff", b"{}", b'{"type":"ADDED","object":{}}']), after=counts),
    st.builds(ErrorEvent, code=st.sampled_from([410, 429, 500]), after=counts, retry_after=st.sampled_from([0, 0, 5])),
)


@dataclass(frozen=True)
class Step:
    """Something that happens to the server, and how long it is quiet before."""

    wait: float
    what: str
    name: str = "a"


waits = st.sampled_from([0.0, 0.0, 0.1, 0.9, 5.0, 40.0])
steps = st.one_of(
    st.builds(
        Step,
        wait=waits,
        what=st.sampled_from(["put", "put", "put", "delete", "recreate", "own put", "own put late", "own delete"]),
        name=st.sampled_from(NAMES),
    ),
    st.builds(Step, wait=waits, what=st.sampled_from(["compact", "spoil"]), name=st.sampled_from(NAMES)),
)


@dataclass
class Play:
    """Performs steps. Own writes are told to the store at once, or only after the watch had time to bring them."""

    hub: Hub
    scene: Watching

    async def perform(self, step: Step) -> None:
        await asyncio.sleep(step.wait)
        name = step.name
        match step.what:
            case "put":
                self.hub.put(name)
            case "spoil":
                self.hub.put(name, spec=5)
            case "delete" if name in self.hub.objects:
                self.hub.delete(name)
            case "recreate" if name in self.hub.objects:
                self.hub.delete(name)
                self.hub.put(name)
            case "own put":
                self.scene.store.apply_write(_observed(self.hub.put(name)))
            case "own put late":
                written = _observed(self.hub.put(name))
                await asyncio.sleep(0.05)
                self.scene.store.apply_write(written)
            case "own delete" if name in self.hub.objects:
                document = self.hub.delete(name)
                self.scene.store.apply_delete(name, document["metadata"]["uid"])
            case "compact":
                self.hub.compact()


def _observed(document: Document) -> Cluster:
    return decode(msgspec.json.encode(document), MemberCluster)


@given(
    lists=st.lists(list_faults, max_size=5),
    watches=st.lists(watch_faults, max_size=8),
    script=st.lists(steps, max_size=25),
    page=st.integers(1, 6),
    piece=st.sampled_from([0, 1, 11, 64]),
)
def test_the_client_ends_with_the_servers_state(
    lists: list[Fault], watches: list[Fault], script: list[Step], page: int, piece: int
) -> None:
    async def scenario() -> None:
        hub = Hub()
        hub.put("a")
        hub.put("b")
        api = ScriptedApi(hub, lists=lists, watches=watches, page=page, piece=piece)
        async with watching(api, timings=ReflectorTimings(silence=90)) as scene:
            play = Play(hub, scene)
            for step in script:
                await play.perform(step)
            for name in [name for name, document in hub.objects.items() if document.get("spec") == 5]:
                hub.put(name)
            await asyncio.sleep(3600)
            assert state_of(scene.store) == hub.state()
            assert scene.fold.state() == hub.state()
            assert not scene.reflector.unreadable
            _want_bounded(api)

    run_virtually(scenario())


def _want_bounded(api: ScriptedApi) -> None:
    """No two watches, and no two attempts to list, in less than the shortest wait; pages of one list follow at once."""
    for times in (api.watch_times(), api.first_page_times()):
        assert all(later - earlier > 0.79 for earlier, later in itertools.pairwise(times))


@given(script=st.lists(steps, max_size=25), lost_after=st.lists(counts, max_size=10))
def test_a_list_equals_the_fold_of_its_watch(script: list[Step], lost_after: list[int]) -> None:
    async def scenario() -> None:
        hub = Hub()
        watches: list[Fault] = [Reset(after=count) for count in lost_after]
        async with watching(ScriptedApi(hub, watches=watches)) as follower:
            play = Play(hub, follower)
            for step in script:
                await play.perform(step)
            await asyncio.sleep(600)
            async with watching(ScriptedApi(hub)) as newcomer:
                await newcomer.reflector.wait_for_sync()
                readable = state_of(newcomer.store)
                assert {name: state_of(follower.store)[name] for name in readable} == readable
                assert set(follower.reflector.unreadable) == set(newcomer.reflector.unreadable)

    run_virtually(scenario())


@given(
    lists=st.lists(list_faults, max_size=8),
    watches=st.lists(watch_faults, max_size=8),
    script=st.lists(steps.filter(lambda step: step.what != "spoil"), max_size=12),
)
def test_a_refresh_ends_with_the_servers_state(lists: list[Fault], watches: list[Fault], script: list[Step]) -> None:
    async def scenario() -> None:
        hub = Hub()
        async with watching(ScriptedApi(hub, lists=lists, watches=watches)) as scene:
            play = Play(hub, scene)
            for step in script:
                await play.perform(step)
                await scene.reflector.refresh()
                assert state_of(scene.store) == scene.fold.state() == hub.state()

    run_virtually(scenario())
