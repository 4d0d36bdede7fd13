"""The reflector keeps its store equal to the server, whatever happens between them."""

from __future__ import annotations

import asyncio
import itertools
from datetime import timedelta

import pytest

from fleet.errors import DeadlineExceeded, Forbidden, Gone, InternalError, TooManyRequests, UnreadableAnswer
from fleet.kube.cache import reflector
from fleet.kube.cache.large_documents import LARGE
from fleet.kube.cache.reflector import UnreadableObject
from tests.faults.hub import Hub
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
from tests.faults.virtual import virtual
from tests.faults.watching import Watching, state_of, watching


def a_hub(*names: str) -> Hub:
    hub = Hub()
    for name in names:
        hub.put(name)
    return hub


def now() -> float:
    return asyncio.get_running_loop().time()


def want_the_servers_state(scene: Watching) -> None:
    assert state_of(scene.store) == scene.api.hub.state()
    assert scene.fold.state() == scene.api.hub.state()


# --- without faults ---------------------------------------------------------------------------------------------------


@virtual
async def test_lists_then_follows_the_watch() -> None:
    hub = a_hub("c1", "c2")
    async with watching(ScriptedApi(hub)) as scene:
        await scene.reflector.wait_for_sync()
        assert set(scene.store) == {"c1", "c2"}
        hub.put("c3")
        hub.put("c1", spec={"taints": [{"key": "gpu"}]})
        hub.delete("c2")
        await asyncio.sleep(1)
        want_the_servers_state(scene)
        assert scene.store.get("c1").view.spec.taints[0].key == "gpu"  # type: ignore[union-attr]


@virtual
async def test_lists_page_by_page() -> None:
    hub = a_hub(*(f"c{number:03}" for number in range(250)))
    api = ScriptedApi(hub, page=100)
    async with watching(api) as scene:
        await scene.reflector.wait_for_sync()
        want_the_servers_state(scene)
    assert len(api.list_times()) == 3


@virtual
async def test_others_take_turns_with_a_list_of_large_objects() -> None:
    hub, turns, seen = Hub(), 0, list[int]()
    for number in range(4):
        hub.put(f"c{number}", spec={"taints": [{"key": "x" * 300_000}]})

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with watching(ScriptedApi(hub)) as scene:
        scene.store.subscribe(lambda *_: seen.append(turns))
        others = asyncio.create_task(take_turns())
        await scene.reflector.wait_for_sync()
        others.cancel()
    assert len(seen) == 4
    assert len(set(seen)) == 4


@virtual
async def test_a_deleted_object_is_freed_bit_by_bit_if_it_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    hub, freed = a_hub("small"), list[object]()
    hub.put("large", spec={"taints": [{"key": "x" * LARGE}]})
    monkeypatch.setattr(reflector, "free_later", freed.append)

    async with watching(ScriptedApi(hub)) as scene:
        await scene.reflector.wait_for_sync()
        large = scene.store.get("large")
        hub.delete("small")
        hub.delete("large")
        await asyncio.sleep(1)
        want_the_servers_state(scene)
    assert freed == [large]
    assert large is not None


@virtual
async def test_what_changes_between_two_pages_is_told_once_and_in_order() -> None:
    hub = a_hub(*(f"c{number}" for number in range(9)))
    api = ScriptedApi(hub, page=3, changes_between_pages=["c0", "c8"])
    async with watching(api) as scene:
        await asyncio.sleep(1)
        want_the_servers_state(scene)
        changed = [(old is None, new.view.metadata.name) for old, new in scene.fold.told if new is not None]
        assert changed.count((True, "c0")) == changed.count((False, "c0")) == 1


@virtual
async def test_asks_for_bookmarks_and_resumes_from_them() -> None:
    api = ScriptedApi(a_hub("c1"))
    async with watching(api) as scene:
        await asyncio.sleep(70)
        api.hub.version += 1000  # other kinds are busy
        await asyncio.sleep(60)
        assert scene.store.version == str(api.hub.version)
        assert scene.reflector.counts.bookmarks == 2
    assert ("allowWatchBookmarks", "true") in api.requests[-1][1].query


@virtual
async def test_a_watch_that_ends_in_good_order_is_resumed_at_once() -> None:
    api = ScriptedApi(a_hub("c1"))
    async with watching(api) as scene:
        await asyncio.sleep(1000)
        api.hub.put("c2")
        await asyncio.sleep(1)
        want_the_servers_state(scene)
    first, second, third, fourth = api.watch_times()
    assert (second - first, third - second, fourth - third) == pytest.approx((300, 300, 300))
    assert len(api.list_times()) == 1


@virtual
async def test_an_event_may_arrive_in_any_pieces() -> None:
    hub = a_hub("c1")
    async with watching(ScriptedApi(hub, piece=7)) as scene:
        await scene.reflector.wait_for_sync()
        hub.put("c2", metadata_is="long enough for many pieces")
        hub.delete("c1")
        await asyncio.sleep(1)
        want_the_servers_state(scene)


# --- faults of the watch ----------------------------------------------------------------------------------------------

BREAKS: list[Fault] = [
    Down(),
    Refuse(500, "InternalError"),
    Refuse(403, "Forbidden"),
    Refuse(429, "TooManyRequests"),
    Reset(after=1),
    Reset(after=1, bytes_more=20),
    Close(after=1),
    Close(after=1, bytes_more=20),
    Close(after=0, bytes_more=1),
    Garbage(b"\x00\xff not json", after=1),
    Garbage(b"[]", after=1),
    Garbage(b'{"type":"ADDED"}', after=1),
    Garbage(b'{"type":"ADDED","object":{"metadata":{}}}', after=1),
    Garbage(b'{"type":"DELETED","object":{"metadata":{}}}', after=1),
    Garbage(b'{"type":"NOVELTY","object":{}}', after=1),
    Garbage(b'{"type":"ERROR","object":[]}', after=1),
    Garbage(b'{"type":"BOOKMARK","object":[]}', after=1),
    Garbage(b'{"type":"ADDED","object":' + b"[" * 5000, after=1),
    ErrorEvent(410, "Expired", after=1),
    ErrorEvent(410, "Gone", after=1),
    ErrorEvent(500, "InternalError", after=1),
    ErrorEvent(429, "TooManyRequests", after=1),
    Hang(after=1),
    Late(20),
    Trickle(),
]


@virtual
@pytest.mark.parametrize("fault", BREAKS, ids=repr)
async def test_nothing_is_lost_or_doubled_when_a_watch_breaks(fault: Fault) -> None:
    hub = a_hub("c1", "c2")
    async with watching(ScriptedApi(hub, watches=[fault])) as scene:
        await scene.reflector.wait_for_sync()
        hub.put("c3")
        hub.put("c1", spec={})
        hub.delete("c2")
        await asyncio.sleep(200)
        want_the_servers_state(scene)


@virtual
async def test_a_silent_watch_is_given_up() -> None:
    async with watching(ScriptedApi(a_hub("c1"), watches=[Hang()])) as scene:
        await asyncio.sleep(149)
        assert not scene.problems
        await asyncio.sleep(2)
        assert isinstance(scene.problems[0], DeadlineExceeded)


@virtual
async def test_trickling_bytes_are_no_sign_of_life() -> None:
    hub = a_hub("c1")
    async with watching(ScriptedApi(hub, watches=[Trickle()])) as scene:
        await scene.reflector.wait_for_sync()
        hub.put("c2")
        await asyncio.sleep(152)
        assert isinstance(scene.problems[0], DeadlineExceeded)
        want_the_servers_state(scene)


@virtual
async def test_a_line_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.kube.cache.watch.LONGEST_LINE", 1000)
    async with watching(ScriptedApi(a_hub("c1"), watches=[Trickle()])) as scene:
        await scene.reflector.wait_for_sync()
        scene.api.hub.put("c2")
        await asyncio.sleep(140)
        assert isinstance(scene.problems[0], UnreadableAnswer)
        want_the_servers_state(scene)


@virtual
async def test_three_failures_without_progress_lead_to_a_new_list() -> None:
    api = ScriptedApi(a_hub("c1"), watches=[Refuse(500), Refuse(500), Refuse(500)])
    async with watching(api):
        await asyncio.sleep(60)
    assert len(api.list_times()) == 2


@virtual
async def test_a_compacted_version_leads_to_a_new_list_that_tells_only_differences() -> None:
    hub = a_hub("c1", "c2", "c3")
    api = ScriptedApi(hub, watches=[Reset(after=0)])
    async with watching(api) as scene:
        await scene.reflector.wait_for_sync()
        scene.fold.told.clear()
        hub.put("c1")
        hub.delete("c2")
        hub.put("c2")
        hub.compact()
        await asyncio.sleep(10)
        want_the_servers_state(scene)
        assert [(old and old.view.metadata.name, new and new.view.metadata.name) for old, new in scene.fold.told] == [
            ("c1", "c1"),
            ("c2", None),
            (None, "c2"),
        ]
    assert len(api.list_times()) == 2


@virtual
async def test_a_server_that_was_set_back_is_believed() -> None:
    hub = a_hub("c1", "c2")
    backup = hub.backup()
    async with watching(ScriptedApi(hub)) as scene:
        await scene.reflector.wait_for_sync()
        hub.put("c2", spec={})
        hub.put("c3")
        await asyncio.sleep(1)
        hub.set_back(backup)
        await asyncio.sleep(180)
        want_the_servers_state(scene)
        assert any(isinstance(problem, Gone) for problem in scene.problems)


@virtual
@pytest.mark.parametrize("days", [-400, -0.01, 0.01, 400])
async def test_setting_the_time_of_day_changes_nothing(days: float) -> None:
    hub = a_hub("c1")
    api = ScriptedApi(hub, lists=[Down(), Down()], watches=[None, Refuse(500)])
    async with watching(api) as scene:
        for _ in range(400):
            scene.clock.set_by += timedelta(days=days)
            await asyncio.sleep(1)
        hub.put("c2")
        await asyncio.sleep(1)
        want_the_servers_state(scene)
    assert api.list_times() == pytest.approx([0, 0.8, 2.4])
    assert api.watch_times() == pytest.approx([2.4, 302.4, 303.2])


@virtual
async def test_a_machine_that_slept_goes_on_where_it_was() -> None:
    hub = a_hub("c1")
    async with watching(ScriptedApi(hub, watches=[Reset(after=0)])) as scene:
        await scene.reflector.wait_for_sync()
        scene.clock.slept += 36_000
        hub.put("c2")
        await asyncio.sleep(2)
        want_the_servers_state(scene)


# --- faults of the list -----------------------------------------------------------------------------------------------


@virtual
@pytest.mark.parametrize(
    "fault",
    [
        Down(),
        Hang(),
        Reset(),
        Refuse(500),
        Refuse(410, "Expired"),
        Refuse(429, "TooManyRequests"),
        Garbage(b"<html>"),
        Garbage(b'{"kind":"List","metadata":{},"items":[]}'),
    ],
    ids=repr,
)
async def test_a_failed_list_is_repeated(fault: Fault) -> None:
    api = ScriptedApi(a_hub("c1"), lists=[fault])
    async with watching(api) as scene:
        await scene.reflector.wait_for_sync()
        want_the_servers_state(scene)
        assert now() <= 32
    assert len(api.list_times()) == 2


@virtual
async def test_a_list_whose_pages_expire_is_repeated_in_one_piece() -> None:
    api = ScriptedApi(a_hub(*(f"c{number}" for number in range(9))), page=3, lists=[None, Refuse(410, "Expired")])
    async with watching(api) as scene:
        await scene.reflector.wait_for_sync()
        want_the_servers_state(scene)
    limits = [dict(request.query).get("limit") for _, request in api.requests[:3]]
    assert limits == ["500", "500", None]


@virtual
async def test_an_empty_list_empties_the_store() -> None:
    hub = a_hub("c1")
    async with watching(ScriptedApi(hub, watches=[Reset(after=0)])) as scene:
        await scene.reflector.wait_for_sync()
        hub.delete("c1")
        hub.compact()
        await asyncio.sleep(5)
        assert len(scene.store) == 0
        want_the_servers_state(scene)


# --- how often --------------------------------------------------------------------------------------------------------


def waits_between(times: list[float]) -> list[float]:
    return [later - earlier for earlier, later in itertools.pairwise(times)]


@virtual
async def test_a_server_that_is_down_is_asked_ever_more_rarely() -> None:
    api = ScriptedApi(Hub(), lists=[Down()] * 100)
    async with watching(api):
        await asyncio.sleep(200)
    assert waits_between(api.list_times())[:8] == pytest.approx([0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30])


@virtual
async def test_a_storm_of_410_backs_off_although_every_list_succeeds() -> None:
    api = ScriptedApi(a_hub("c1"), watches=[Refuse(410, "Expired")] * 100)
    async with watching(api):
        await asyncio.sleep(80)
    assert waits_between(api.list_times())[:6] == pytest.approx([0.8, 1.6, 3.2, 6.4, 12.8, 25.6])


@virtual
async def test_a_storm_of_410_events_backs_off_although_events_come_before_them() -> None:
    hub = a_hub("c1")
    api = ScriptedApi(hub, watches=[ErrorEvent(410, "Expired", after=1)] * 100)
    async with watching(api) as scene:
        for _ in range(400):
            await asyncio.sleep(0.2)
            hub.put("c1")
        assert len(api.list_times()) <= 8
        await asyncio.sleep(40)
        want_the_servers_state(scene)


@virtual
async def test_a_server_that_closes_every_watch_after_one_event_is_asked_at_most_every_800_ms() -> None:
    hub = a_hub("c1")
    api = ScriptedApi(hub, watches=[Close(after=1)] * 10)
    async with watching(api) as scene:
        for _ in range(100):
            await asyncio.sleep(0.1)
            hub.put("c1")
        await asyncio.sleep(2)
        want_the_servers_state(scene)
    assert min(waits_between(api.watch_times())) == pytest.approx(0.8)


@virtual
async def test_a_server_that_closes_every_watch_at_once_is_backed_off_from() -> None:
    api = ScriptedApi(a_hub("c1"), watches=[Close(after=0)] * 1000)
    async with watching(api):
        for _ in range(600):
            await asyncio.sleep(0.1)
            api.hub.put("c1")
    assert len(api.watch_times()) < 12


@virtual
@pytest.mark.parametrize(
    "fault", [Refuse(429, "TooManyRequests", retry_after=17), ErrorEvent(429, "", 0, 17)], ids=repr
)
async def test_waits_as_long_as_the_server_asks(fault: Fault) -> None:
    api = ScriptedApi(a_hub("c1"), watches=[fault])
    async with watching(api) as scene:
        await scene.reflector.wait_for_sync()
        api.hub.put("c2")
        await asyncio.sleep(30)
        assert isinstance(scene.problems[0], TooManyRequests)
    assert waits_between(api.watch_times())[0] == pytest.approx(17)


@virtual
async def test_progress_makes_the_waits_start_over() -> None:
    hub = a_hub("c1")
    api = ScriptedApi(hub, watches=[Refuse(500), Refuse(500), Reset(after=1), None])
    async with watching(api) as scene:
        await asyncio.sleep(3)
        hub.put("c1")
        hub.put("c1")
        await asyncio.sleep(2)
        want_the_servers_state(scene)
    assert waits_between(api.watch_times()) == pytest.approx([0.8, 1.6, 1.4])


# --- a list on demand -------------------------------------------------------------------------------------------------


@virtual
async def test_a_refresh_ends_the_watch_and_lists_at_once() -> None:
    api = ScriptedApi(a_hub("c1"), watches=[Hang()])
    async with watching(api) as scene:
        await asyncio.sleep(20)
        api.hub.put("c2")
        await scene.reflector.refresh()
        assert now() == pytest.approx(20)
        want_the_servers_state(scene)
        api.hub.put("c3")
        await asyncio.sleep(1)
        want_the_servers_state(scene)
        assert not scene.problems
    assert api.list_times() == pytest.approx([0, 20])
    assert api.watch_times() == pytest.approx([0, 20])


@virtual
async def test_a_refresh_does_not_wait_for_the_end_of_a_wait() -> None:
    api = ScriptedApi(a_hub("c1"), lists=[Down()] * 5)
    async with watching(api) as scene:
        await asyncio.sleep(20)
        await scene.reflector.refresh()
        assert now() == pytest.approx(20)
        want_the_servers_state(scene)


@virtual
async def test_a_refresh_before_the_first_list_is_answered_by_it() -> None:
    api = ScriptedApi(a_hub("c1"))
    async with watching(api) as scene:
        await scene.reflector.refresh()
        want_the_servers_state(scene)
    assert len(api.list_times()) == 1


@virtual
async def test_a_refresh_repeats_a_failing_list_with_the_usual_waits() -> None:
    api = ScriptedApi(a_hub("c1"), lists=[None, Down(), Refuse(500), Refuse(429, "TooManyRequests", retry_after=7)])
    async with watching(api) as scene:
        await asyncio.sleep(20)
        await scene.reflector.refresh()
        want_the_servers_state(scene)
    assert waits_between(api.list_times()) == pytest.approx([20, 0.8, 1.6, 7])


@virtual
async def test_a_list_that_was_under_way_is_no_answer_to_a_refresh_and_gives_way_to_one() -> None:
    """Such as the first of all, where this process gets the lease before it is through."""
    api = ScriptedApi(a_hub("c1"), lists=[Late(5)])
    async with watching(api) as scene:
        await asyncio.sleep(1)
        api.hub.put("c2")
        await scene.reflector.refresh()
        want_the_servers_state(scene)
    assert api.list_times() == pytest.approx([0, 1])


@virtual
async def test_a_list_that_somebody_waits_for_is_finished_before_the_next_begins() -> None:
    api = ScriptedApi(a_hub("c1"), lists=[None, Late(5)])
    async with watching(api) as scene:
        await asyncio.sleep(20)
        first = asyncio.create_task(scene.reflector.refresh(), name="first")
        await asyncio.sleep(1)
        await scene.reflector.refresh()
        await first
    assert api.list_times() == pytest.approx([0, 20, 25])


@virtual
async def test_who_asks_at_the_same_time_shares_a_list() -> None:
    api = ScriptedApi(a_hub("c1"))
    async with watching(api) as scene:
        await asyncio.sleep(20)
        await asyncio.gather(scene.reflector.refresh(), scene.reflector.refresh())
    assert api.list_times() == pytest.approx([0, 20])


@virtual
async def test_who_gives_up_a_refresh_harms_nobody() -> None:
    api = ScriptedApi(a_hub("c1"), lists=[None, Down()])
    async with watching(api) as scene:
        await asyncio.sleep(20)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await scene.reflector.refresh()
        api.hub.put("c2")
        await asyncio.sleep(2)
        want_the_servers_state(scene)


@virtual
async def test_refreshing_again_and_again_starves_nobody() -> None:
    hub = a_hub("c1")
    async with watching(ScriptedApi(hub, lists=[Late(1)] * 100)) as scene:

        async def ask(first: float) -> None:
            await asyncio.sleep(first)
            for _ in range(10):
                hub.put("c1")
                await scene.reflector.refresh()

        await asyncio.gather(ask(0), ask(0.3), ask(0.7))
        assert now() <= 25
        await asyncio.sleep(1)
        want_the_servers_state(scene)


# --- objects that cannot be read --------------------------------------------------------------------------------------


@virtual
async def test_an_unreadable_object_stops_nothing_and_is_reported() -> None:
    hub = a_hub("c1")
    async with watching(ScriptedApi(hub)) as scene:
        await scene.reflector.wait_for_sync()
        hub.put("bad", spec={"taints": "none"})
        hub.put("c2")
        await asyncio.sleep(1)
        assert set(scene.store) == {"c1", "c2"}
        (problem,) = scene.problems
        assert isinstance(problem, UnreadableObject)
        assert problem.key == "bad"
        assert "spec.taints" in str(problem.error)
        assert scene.reflector.counts.unreadable == 1
        assert set(scene.reflector.unreadable) == {"bad"}


@virtual
async def test_the_last_readable_state_of_an_unreadable_object_stays() -> None:
    hub = a_hub("c1")
    async with watching(ScriptedApi(hub, watches=[Reset(after=1)])) as scene:
        await scene.reflector.wait_for_sync()
        good = scene.store.get("c1")
        hub.put("c1", spec=5)
        await asyncio.sleep(1)
        assert scene.store.get("c1") is good
        hub.put("c2")
        hub.compact()
        await asyncio.sleep(5)
        assert scene.store.get("c1") is good, "a list that contains it is no deletion"


@virtual
async def test_an_object_that_can_be_read_again_is_no_longer_remembered() -> None:
    hub = a_hub("c1")
    async with watching(ScriptedApi(hub)) as scene:
        await scene.reflector.wait_for_sync()
        hub.put("c1", spec=5)
        await asyncio.sleep(1)
        hub.put("c1", spec={})
        await asyncio.sleep(1)
        assert not scene.reflector.unreadable
        want_the_servers_state(scene)


@virtual
async def test_an_unreadable_object_can_be_deleted() -> None:
    gone: list[str] = []
    hub = a_hub("c1")
    async with watching(ScriptedApi(hub)) as scene:
        scene.reflector.on_unreadable_gone = gone.append
        await scene.reflector.wait_for_sync()
        hub.put("c1", spec=5)
        hub.put("bad", spec=5)
        hub.delete("c1")
        hub.delete("bad")
        await asyncio.sleep(1)
        assert "c1" not in scene.store
        assert not scene.reflector.unreadable
        assert gone[-1:] == ["bad"]


@virtual
async def test_unreadable_objects_of_a_list_are_remembered_until_a_list_lacks_them() -> None:
    hub = a_hub("c1")
    hub.put("bad", spec=5)
    gone: list[str] = []
    async with watching(ScriptedApi(hub, watches=[Reset(after=0)])) as scene:
        scene.reflector.on_unreadable_gone = gone.append
        await scene.reflector.wait_for_sync()
        assert set(scene.store) == {"c1"}
        assert set(scene.reflector.unreadable) == {"bad"}
        hub.delete("bad")
        hub.compact()
        await asyncio.sleep(5)
        assert not scene.reflector.unreadable
        assert gone == ["bad"]


# --- stopping ---------------------------------------------------------------------------------------------------------


@virtual
@pytest.mark.parametrize("after", [0.0, 0.5, 29.0, 400.0])
async def test_stops_at_once_when_cancelled(after: float) -> None:
    async with watching(ScriptedApi(a_hub("c1"), lists=[Refuse(403), Hang()])):
        await asyncio.sleep(after)
    assert now() == pytest.approx(after)


@virtual
async def test_refusals_are_reported_with_what_the_server_said() -> None:
    async with watching(ScriptedApi(a_hub("c1"), lists=[Refuse(403, "Forbidden")], watches=[Refuse(500)])) as scene:
        await asyncio.sleep(5)
        assert [type(problem) for problem in scene.problems] == [Forbidden, InternalError]
