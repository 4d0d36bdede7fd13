"""Evaluations at a time, deadlines, pages, and answers while the history or the caches are missing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import httpx
import pytest
from fastapi import FastAPI

from api.app import create_app, create_bare_app
from api.auth.access import HubAuthorizer
from api.http.limits import EvaluationLimiter
from api.http.middleware import Deadlines
from api.http.paging import make_cursor, read_cursor, take_page
from api.http.problems import ProblemError
from api.http.server import ListenOptions
from api.live import history_reader
from api.live.history_reader import HistoryReader
from api.live.live import LiveState
from api.routers.request_context import negotiate_media_type
from fleet.clock import SystemClock
from fleet.errors import ConfigurationError, HistoryUnavailable
from fleet.history import History, ReplayInputs
from fleet.history.monitor import HistoryMonitor
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.queue.item import QueueCounts
from fleet.settings import Address, load_settings
from fleet.settings.secrets import HIDDEN, redact
from tests.api.stage import ADMIN, CLUSTERS, Stage, alone, live_beside, staged
from tests.databases import SOON, recording
from tests.faults.virtual import VirtualClock, no_jitter, virtual

# --- evaluations ------------------------------------------------------------------------------------------------------


@virtual
async def test_W_19_the_ninth_evaluation_at_a_time_is_told_to_come_again() -> None:
    evaluations, leave = EvaluationLimiter(VirtualClock()), asyncio.Event()

    async def ask() -> None:
        async with evaluations.admit():
            await leave.wait()

    asking = [asyncio.create_task(ask()) for _ in range(8)]
    await asyncio.sleep(0)
    with pytest.raises(ProblemError) as refused:
        await ask()
    leave.set()
    await asyncio.gather(*asking)

    assert refused.value.problem.status == 429
    assert evaluations.in_flight == 0


async def beginnings(evaluations: EvaluationLimiter, clock: VirtualClock, *, seconds: float) -> list[float]:
    """When each of three questions that came at once had its turn."""
    began = []

    async def ask() -> None:
        async with evaluations.admit(), evaluations.turn():
            began.append(clock.monotonic())
            await clock.sleep(seconds)

    await asyncio.gather(ask(), ask(), ask())
    return began


@virtual
async def test_evaluations_take_turns_and_half_of_the_time_of_an_idle_scheduler() -> None:
    clock = VirtualClock()
    evaluations = EvaluationLimiter(clock, yields_to=lambda: False)

    assert await beginnings(evaluations, clock, seconds=2) == [0, 4, 8]


@virtual
async def test_W_19_while_placements_wait_evaluations_take_three_hundredths_of_the_time() -> None:
    clock = VirtualClock()
    evaluations = EvaluationLimiter(clock, yields_to=lambda: True)

    assert await beginnings(evaluations, clock, seconds=0.02) == pytest.approx([0, 0.66, 1.32])


@virtual
async def test_a_rest_is_cut_short_when_the_scheduler_has_had_nothing_to_do_for_a_while() -> None:
    clock = VirtualClock()
    evaluations = EvaluationLimiter(clock, yields_to=lambda: clock.monotonic() < 3)
    began = await beginnings(evaluations, clock, seconds=2)

    assert began[1] == pytest.approx(4, abs=0.05)
    assert began[2] == pytest.approx(8, abs=0.05)


@virtual
async def test_after_a_long_evaluation_the_next_one_begins_while_its_caller_still_waits() -> None:
    clock = VirtualClock()
    evaluations = EvaluationLimiter(clock, yields_to=lambda: True)

    assert await beginnings(evaluations, clock, seconds=5) == pytest.approx([0, 10, 20])


@virtual
async def test_W_19_a_queue_that_is_empty_for_a_moment_is_no_idle_scheduler() -> None:
    clock = VirtualClock()
    evaluations = EvaluationLimiter(clock, yields_to=lambda: clock.monotonic() % 0.2 < 0.1)

    assert await beginnings(evaluations, clock, seconds=0.02) == pytest.approx([0, 0.66, 1.32])


@virtual
async def test_alone_evaluations_follow_each_other_at_once() -> None:
    clock = VirtualClock()
    evaluations, began = EvaluationLimiter(clock), []

    async def ask() -> None:
        async with evaluations.admit(), evaluations.turn():
            began.append(clock.monotonic())
            await clock.sleep(2)

    await asyncio.gather(ask(), ask())

    assert began == [0, 2]


@virtual
async def test_an_answer_of_several_turns_is_finished_before_those_that_came_later() -> None:
    """In rotation all of them would be answered at the end, when callers have gone."""
    clock = VirtualClock()
    evaluations, ended = EvaluationLimiter(clock, yields_to=lambda: True), []

    async def ask() -> None:
        async with evaluations.admit():
            for _ in range(3):
                async with evaluations.turn():
                    await clock.sleep(0.1)
                await clock.sleep(0.5)  # asks the hub
        ended.append(clock.monotonic())

    await asyncio.gather(ask(), ask(), ask())

    assert ended == pytest.approx([7.2, 17.1, 27])


@virtual
async def test_who_needs_many_turns_lets_others_ahead_between_them() -> None:
    clock = VirtualClock()
    evaluations, order = EvaluationLimiter(clock), []

    async def ask(who: str, *, turns: int) -> None:
        async with evaluations.admit():
            for _ in range(turns):
                async with evaluations.turn(requeue=turns > 2):
                    order.append(who)
                    await clock.sleep(1)

    await asyncio.gather(ask("replay", turns=3), ask("first", turns=2), ask("second", turns=2))

    assert order == ["replay", "first", "first", "second", "second", "replay", "replay"]


@pytest.mark.parametrize("gone", ["while it rests", "in the line", "as it is called"])
@virtual
async def test_a_caller_who_goes_leaves_the_turn_to_the_others(gone: str) -> None:
    clock = VirtualClock()
    evaluations, began = EvaluationLimiter(clock, yields_to=lambda: False), []

    async def ask(name: str) -> None:
        async with evaluations.admit(), evaluations.turn():
            began.append(name)
            await clock.sleep(1)

    tasks = {name: asyncio.create_task(ask(name)) for name in "abcd"}
    await clock.sleep(0.5 if gone == "in the line" else 1.5)
    if gone == "as it is called":
        tasks["b"].cancel()  # c is called, and
        await asyncio.sleep(0)
        tasks["c"].cancel()
    else:
        tasks["b"].cancel()
    await asyncio.wait(tasks.values())

    assert began == (["a", "d"] if gone == "as it is called" else ["a", "c", "d"])
    assert evaluations.in_flight == 0


@virtual
async def test_an_answer_that_is_not_ready_in_time_is_given_up() -> None:
    app = FastAPI()

    @app.get("/slow")
    async def slow() -> None:
        await asyncio.sleep(3600)

    transport = httpx.ASGITransport(app=Deadlines(app, seconds=30))
    async with httpx.AsyncClient(transport=transport, base_url="http://fleet") as client:
        answer = await client.get("/slow")

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["detail"] == "the answer was not ready after 30 s"


# --- parts that are missing -------------------------------------------------------------------------------------------


class _Lost(History):
    def __getattribute__(self, name: str) -> object:
        if name in ("attempts", "attempt", "since", "inputs", "last_seq", "find_by_number", "latest", "started_since"):
            raise HistoryUnavailable("the history cannot be read: the disk is gone")
        return super().__getattribute__(name)


@alone
async def test_without_its_history_it_still_tells_what_is(stage: Stage) -> None:
    history = stage.history
    assert history is not None
    history.__class__ = _Lost
    why = await stage.get("/v1/placements/-/big/why")
    text = await stage.get("/v1/placements/-/big/why", accept="text/plain")
    past = await stage.get("/v1/placements/-/big/history")
    stream = await stage.get("/v1/decisions?since=0")
    ready = await stage.get("/readyz", None)
    history.__class__ = History

    assert (why.status_code, why.json()["attempt"]["evaluatedOn"]) == (200, "current")
    assert why.json()["verdict"]["state"] == "Partial"
    assert why.json()["historyUnavailableSince"]
    assert "the history is unavailable since " in text.text
    assert (past.status_code, stream.status_code, ready.status_code) == (503, 503, 200)
    assert past.json()["detail"] == "the history cannot be read: the disk is gone"


class _Away:
    """A history that cannot be reached, and counts who tries."""

    known_since: int | None = None
    revision = ()

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        def ask(*_: object, **__: object) -> None:
            self.asked.append(name)
            raise HistoryUnavailable("the history cannot be read: no connection")

        return ask


@staged
async def test_a_history_that_is_away_is_asked_once_for_an_answer(stage: Stage) -> None:
    """Each time it may take as long as the database's driver has patience."""
    away, access = _Away(), HubAuthorizer(stage.hub, clock=SystemClock())
    app = create_app(live_beside(stage), cast("History", away), access, load_settings(None, {}, []))
    asking = Stage(stage.hub, stage.world, app, None, stage.controller)

    first, second = [await asking.json("/v1/placements/-/big/why?fixes=none") for _ in range(2)]

    assert away.asked == ["attempts", "attempts"]
    assert first["historyUnavailableSince"] == second["historyUnavailableSince"] != ""

    away.known_since = 1_700_000_000 * 10**9
    third = await asking.json("/v1/placements/-/big/why?fixes=none")
    assert third["historyUnavailableSince"] == "2023-11-14T22:13:20Z", "an outage is as old as the history says"


@staged
async def test_an_outage_is_over_when_the_history_answers_anything(stage: Stage) -> None:
    """Else the next outage would seem to have begun with this one."""
    access = HubAuthorizer(stage.hub, clock=SystemClock())
    app = create_app(live_beside(stage), stage.history, access, load_settings(None, {}, []))
    asking = Stage(stage.hub, stage.world, app, stage.history, stage.controller)
    history = app.state.shared.backend.history
    history.begin_outage(1)
    await asking.json("/v1/placements/-/big/history")

    assert history.begin_outage(2) == 2


def test_an_outage_began_when_it_was_noticed_first() -> None:
    history = HistoryReader(cast("History", _Away()))
    during = [history.begin_outage(1), history.begin_outage(2)]
    history.end_outage()

    assert (during, history.begin_outage(3)) == ([1, 1], 3)


def test_after_a_query_that_took_too_long_the_next_ones_are_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    async def scene(history: History) -> None:
        reader = HistoryReader(history)
        try:
            with pytest.raises(HistoryUnavailable, match="has not answered"):
                await reader.call(go_on.wait)
            monkeypatch.setattr(history_reader, "_PATIENCE", SOON)
            with pytest.raises(HistoryUnavailable, match="has not answered"):
                await reader.call(history.latest, "web")
        finally:
            go_on.set()
            reader.close()

    monkeypatch.setattr(history_reader, "_PATIENCE", 0.01)
    with recording(f"sqlite:///{tmp_path / 'history.sqlite'}") as history:
        monkeypatch.setattr(HistoryMonitor, "_try_database", lambda _: go_on.wait() and (None, None))
        asyncio.run(scene(history))


def test_a_history_that_hangs_takes_no_thread_that_others_use(tmp_path: Path) -> None:
    go_on = threading.Event()

    async def scene(history: History) -> str:
        reader = HistoryReader(history)
        asked = [asyncio.create_task(reader.call(go_on.wait)) for _ in range(64)]
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(SOON):
                return await asyncio.to_thread(lambda: "free")
        finally:
            go_on.set()
            await asyncio.gather(*asked)
            reader.close()

    with recording(f"sqlite:///{tmp_path / 'history.sqlite'}") as history:
        assert asyncio.run(scene(history)) == "free"


@pytest.mark.parametrize(
    "method, path", [("GET", "/v1/placements/-/big/why?attempt=1"), ("POST", "/v1/replay")], ids=["why", "replay"]
)
def test_a_history_that_hangs_keeps_no_evaluation_waiting(method: str, path: str, tmp_path: Path) -> None:
    """Neither the turn nor the thread of evaluations is taken while a record is read."""

    @alone
    async def hang(stage: Stage) -> None:
        history, begun, go_on = stage.history, threading.Event(), threading.Event()
        assert history is not None
        read = history.inputs

        def hanging(attempt_id: str) -> ReplayInputs | None:
            begun.set()
            assert go_on.wait(SOON)
            return read(attempt_id)

        history.inputs = hanging  # type: ignore[method-assign]
        asking = asyncio.create_task(stage.get(path) if method == "GET" else stage.post(path, {}))
        try:
            assert await asyncio.to_thread(begun.wait, SOON)
            async with asyncio.timeout(SOON):
                other = await stage.post("/v1/simulate", {"placement": {"ref": "big"}})
        finally:
            go_on.set()
            await asking

        assert other.status_code == 200, other.text

    hang(tmp_path)


# --- beside a scheduler -----------------------------------------------------------------------------------------------


class _Queue:
    """With so many placements that wait, or are being decided."""

    def __init__(self, *, active: int = 0, in_flight: int = 0) -> None:
        self._counts = QueueCounts(active, backoff=3, unschedulable=3, gated=3, in_flight=in_flight, batched=3)

    def peek(self, key: PlacementKey) -> None:
        return None

    def count_active(self) -> int:
        return self.count_items().active

    def count_items(self) -> QueueCounts:
        return self._counts


class _Restless(SystemClock):
    """Advances with every reading and sleep."""

    def __init__(self) -> None:
        self.seconds, self.slept = 0.0, 0.0

    def monotonic(self) -> float:
        self.seconds += 0.001
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        self.slept += seconds


@staged
async def test_W_19_answers_give_way_to_a_scheduler_on_the_same_loop_that_has_work(stage: Stage) -> None:
    async def rested(queue: _Queue) -> float:
        clock, access = _Restless(), HubAuthorizer(stage.hub, clock=SystemClock())
        live = live_beside(stage, clock=clock, queue=queue)
        app = create_app(live, None, access, load_settings(None, {}, []), shares_loop=True)
        asking = Stage(stage.hub, stage.world, app, None, stage.controller)
        await asking.json("/v1/placements/-/big/why?explain=all")
        await asking.json("/v1/placements/-/big/why?explain=all")
        return clock.slept

    idle = await rested(_Queue())

    assert await rested(_Queue(active=1)) > 10 * idle
    assert await rested(_Queue(in_flight=1)) > 10 * idle


# --- alone ------------------------------------------------------------------------------------------------------------


@staged
async def test_alone_it_watches_for_itself_and_answers_from_the_present(stage: Stage) -> None:
    live = LiveState.standalone(stage.hub, load_settings(None, {}, []).settings, clock=SystemClock(), jitter=no_jitter)
    app = create_app(live, None, HubAuthorizer(stage.hub, clock=SystemClock()), load_settings(None, {}, []))
    own = Stage(stage.hub, stage.world, app, None, stage.controller)
    early = await own.get("/v1/placements/-/big/why"), await own.get("/readyz", None)
    watching = asyncio.create_task(live.caches.run())
    await live.caches.wait_until_synced()
    found = await own.json("/v1/placements/-/big/why")
    past, ready = await own.get("/v1/decisions"), await own.get("/readyz", None)
    watching.cancel()

    assert [one.status_code for one in early] == [503, 503]
    assert found["attempt"]["evaluatedOn"] == "current"
    assert found["verdict"]["counts"]["total"] == len(CLUSTERS)
    assert (past.status_code, past.json()["field"]) == (503, "history.url")
    assert ready.json() == {"status": "ok", "checks": {"caches": "", "history": ""}}


@staged
async def test_O_17_alone_it_answers_about_the_clusters_of_its_scheduler(stage: Stage) -> None:
    effective = load_settings(None, {}, ["capacity.clusterSelector=region=ams"])
    live = LiveState.standalone(stage.hub, effective.settings, clock=SystemClock(), jitter=no_jitter)
    app = create_app(live, None, HubAuthorizer(stage.hub, clock=SystemClock()), effective)
    own = Stage(stage.hub, stage.world, app, None, stage.controller)
    watching = asyncio.create_task(live.caches.run())
    await live.caches.wait_until_synced()
    why = await own.json("/v1/placements/-/big/why")
    watching.cancel()

    assert why["verdict"]["counts"]["total"] == 2


@staged
async def test_W_12_alone_it_says_that_it_cannot_see_the_queue_and_what_wakes_the_placement(stage: Stage) -> None:
    live = LiveState.standalone(stage.hub, load_settings(None, {}, []).settings, clock=SystemClock(), jitter=no_jitter)
    app = create_app(live, None, HubAuthorizer(stage.hub, clock=SystemClock()), load_settings(None, {}, []))
    own = Stage(stage.hub, stage.world, app, None, stage.controller)
    watching = asyncio.create_task(live.caches.run())
    await live.caches.wait_until_synced()
    alone = (await own.json("/v1/placements/-/big/why?fixes=none"))["queue"]
    text = (await own.get("/v1/placements/-/big/why?fixes=none", Accept="text/plain")).text
    watching.cancel()
    beside = (await stage.json("/v1/placements/-/big/why?fixes=none"))["queue"]

    assert alone["space"] == "unknown"
    assert "cannot see the queue" in alone["note"]
    assert "cannot see the queue: ask" in " ".join(text.split())
    assert alone["wakesOn"] == beside["wakesOn"] != []


class RunawayClock(SystemClock):
    """Advances by seconds with every reading."""

    seconds = 0.0

    def monotonic(self) -> float:
        self.seconds += 5.0
        return self.seconds


@staged
async def test_W_03_the_same_fixes_are_found_however_slow_the_machine_is(stage: Stage) -> None:
    slow = live_beside(stage, clock=RunawayClock())
    app = create_app(slow, stage.history, HubAuthorizer(stage.hub, clock=SystemClock()), load_settings(None, {}, []))
    found = await Stage(stage.hub, stage.world, app, stage.history, stage.controller).json("/v1/placements/-/big/why")
    usual = await stage.json("/v1/placements/-/big/why")

    assert found["fixes"] == usual["fixes"] != []
    assert found["fixesTruncated"] is usual["fixesTruncated"] is False


@staged
async def test_figures_of_requests_are_kept(stage: Stage) -> None:
    await stage.get("/v1/placements/-/web")
    text = (await stage.get("/metrics", ADMIN)).text

    assert 'fleet_api_requests_total{code="200",method="GET",route="/v1/placements/{ns}/{name}"}' in text


# --- small things -----------------------------------------------------------------------------------------------------


def test_pages_go_on_after_a_key_that_is_gone() -> None:
    page = take_page(["a", "c", "d"], limit=2, cursor=make_cursor("x", "b"), list_name="x")

    assert (page.keys, page.next) == (["c", "d"], None)
    assert read_cursor(make_cursor("x", "ä b"), "x") == "ä b"


def test_a_cursor_of_another_list_is_refused() -> None:
    with pytest.raises(ProblemError, match="this is not a cursor of this list"):
        read_cursor(make_cursor("x", "b"), "y")


@pytest.mark.parametrize(
    "accept,want",
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("text/plain", "text/plain"),
        ("text/*", "text/plain"),
        ("text/plain;q=0.5, application/json;q=0.9", "application/json"),
        ("image/png", "application/json"),
        ("text/plain;q=x", "application/json"),
    ],
)
def test_the_best_offer_is_taken(accept: str, want: str) -> None:
    assert negotiate_media_type(accept, "application/json", "text/plain") == want


@pytest.mark.parametrize(
    "name,value,want",
    [
        ("history.url", "postgresql://fleet:s3cret@db/fleet", f"postgresql://fleet:{HIDDEN}@db/fleet"),
        ("history.url", "postgresql://db/fleet?password=s3cret&x=1", f"postgresql://db/fleet?password={HIDDEN}&x=1"),
        ("history.url", "sqlite:////var/lib/fleet.sqlite", "sqlite:////var/lib/fleet.sqlite"),
        ("some.token", "abc", HIDDEN),
        ("workers", 3, 3),
    ],
)
def test_secrets_in_settings_are_hidden(name: str, value: object, want: object) -> None:
    assert redact(name, value) == want


@pytest.mark.parametrize("text", [":8090", "0.0.0.0:8090", "10.0.0.1:1", "fleet.example:80"])
def test_it_is_reached_from_other_machines_with_tls_only(text: str) -> None:
    with pytest.raises(ConfigurationError, match="tokens would travel in the clear"):
        ListenOptions(address=Address(text)).check()


@pytest.mark.parametrize("text", ["127.0.0.1:0", "[::1]:0", "localhost:0"])
def test_on_this_machine_it_may_do_without(text: str) -> None:
    ListenOptions(address=Address(text)).check()


def test_nothing_but_reading_and_asking_is_offered() -> None:
    paths = create_bare_app().openapi()["paths"].items()
    changing = {(method, path) for path, operations in paths for method in operations if method not in ("get", "post")}

    assert changing == {("delete", "/v1/session")}, "signing out changes nothing on the hub"
