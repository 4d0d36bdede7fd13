"""History, differences and streams of decisions."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial

from api.app import create_app
from api.auth.access import AccessRequest, Caller, CallerAuthorizer, HubAuthorizer
from api.http.limits import StreamTiming
from fleet.clock import SystemClock
from fleet.errors import Unreachable
from fleet.model.placement_key import PlacementKey
from fleet.settings import load_settings
from tests.api.stage import ADMIN, OPERATOR, OVERSEER, QUICK, READER, Json, Stage, alone, live_beside, staged
from tests.e2e.hub import soon

EVENTS = "text/event-stream"
UNHURRIED = StreamTiming(poll_interval=0.02)
"""Streams that do not end while a test follows them."""


def lines(text: str) -> list[Json]:
    return [json.loads(line) for line in text.splitlines() if line]


def events(text: str) -> list[tuple[int, Json]]:
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            assert fields["event"] == "decision"
            found.append((int(fields["id"]), json.loads(fields["data"])))
    return found


@staged
async def test_the_history_lists_attempts_newest_first_in_pages(stage: Stage) -> None:
    whole = (await stage.json("/v1/placements/-/big/history"))["items"]
    first = await stage.json("/v1/placements/-/big/history?limit=1")

    numbers = [one["n"] for one in whole]
    assert numbers == sorted(numbers, reverse=True)
    assert first["items"] == whole[:1]
    if first["next"]:
        second = await stage.json(f"/v1/placements/-/big/history?limit=1&cursor={first['next']}")
        assert second["items"] == whole[1:2]


@staged
async def test_every_decision_is_streamed_in_the_order_it_was_made(stage: Stage) -> None:
    found = lines((await stage.get("/v1/decisions", OPERATOR)).text)

    numbers = [one["seq"] for one in found]
    assert numbers == sorted(set(numbers))
    assert {one["key"] for one in found} == {"web", "big", "shop/cache"}


@staged
async def test_W_10_decisions_about_a_placement_that_may_not_be_read_are_told_without_its_name(stage: Stage) -> None:
    """Otto may ask what concerns the whole fleet, and read cluster-scoped placements."""
    whole = lines((await stage.get("/v1/decisions?since=0", ADMIN)).text)
    part = lines((await stage.get("/v1/decisions?since=0", OVERSEER)).text)
    forms = [
        (await stage.get("/v1/decisions?since=0", OVERSEER, Accept=accept)).text
        for accept in ("application/x-ndjson", EVENTS, "text/plain")
    ]

    hidden = [one for one in part if not one["key"]]
    assert [one["seq"] for one in part] == [one["seq"] for one in whole]
    assert {one["seq"] for one in hidden} == {one["seq"] for one in whole if one["key"] == "shop/cache"}
    assert {one["outcome"] for one in hidden} == {one["outcome"] for one in whole if one["key"] == "shop/cache"}
    assert {one["key"] for one in part} == {"web", "big", ""}
    assert not [form for form in forms if "cache" in form]
    assert "  a placement you may not read: " in forms[-1]


@staged
async def test_a_stream_is_resumed_after_the_last_line_read(stage: Stage) -> None:
    whole = lines((await stage.get("/v1/decisions?since=0")).text)

    rest = lines((await stage.get(f"/v1/decisions?since={whole[0]['seq']}")).text)
    few = lines((await stage.get("/v1/decisions?since=0&limit=2")).text)

    assert rest == whole[1:]
    assert few == whole[:2]


@staged
async def test_a_stream_can_be_narrowed_to_a_placement_and_an_outcome(stage: Stage) -> None:
    of_one = lines((await stage.get("/v1/decisions?placement=web", READER)).text)
    short = lines((await stage.get("/v1/decisions?outcome=Partial")).text)

    assert {one["key"] for one in of_one} == {"web"}
    assert {one["outcome"] for one in short} == {"Partial"}


@staged
async def test_decisions_about_a_placement_nobody_has_seen_are_refused_unless_one_waits_for_it(stage: Stage) -> None:
    at_once = await stage.get("/v1/decisions?placement=wbe", OPERATOR)
    waiting = await stage.get("/v1/decisions?placement=wbe&follow=true", OPERATOR)

    assert (at_once.status_code, waiting.status_code) == (404, 200)
    assert at_once.json()["detail"] == "placement wbe was never seen here"


class _PollingClock(SystemClock):
    """Time passes between two polls of a stream, and not while it reads."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@staged
async def test_events_carry_the_number_to_resume_from(stage: Stage) -> None:
    live, access = live_beside(stage, clock=_PollingClock()), HubAuthorizer(stage.hub, clock=SystemClock())
    app = create_app(live, stage.history, access, load_settings(None, {}, []), stream_timing=QUICK)
    asking = Stage(stage.hub, stage.world, app, stage.history, stage.controller)

    whole = events((await asking.get("/v1/decisions?since=0", Accept=EVENTS)).text)
    resumed = await asking.get("/v1/decisions", Accept=EVENTS, **{"Last-Event-ID": str(whole[0][0])})

    assert [number for number, _ in whole] == [one["seq"] for _, one in whole]
    assert events(resumed.text) == whole[1:]
    assert ": \n\n" in resumed.text


@staged
async def test_events_that_begin_with_the_next_decision_say_where_to_resume(stage: Stage) -> None:
    newest = lines((await stage.get("/v1/decisions")).text)[-1]["seq"]
    opening = f'id: {newest}\nevent: start\ndata: {{"seq": {newest}}}\n\n'

    assert (await stage.get("/v1/decisions", Accept=EVENTS)).text.startswith(opening)
    assert "event: start" not in (await stage.get(f"/v1/decisions?since={newest}", Accept=EVENTS)).text
    assert "start" not in (await stage.get("/v1/decisions?follow=true")).text


@alone
async def test_decisions_are_told_as_they_are_made(stage: Stage) -> None:
    async with stage.client() as client:
        before = lines((await client.get("/v1/decisions?since=0")).text)[-1]["seq"]
        await stage.world.place("later", {"placementType": "PickN", "numberOfClusters": 1})
        await stage.world.soon_scheduled("later")
        await stage.wait_until_recorded()
        found = lines((await client.get(f"/v1/decisions?since={before}&follow=true&limit=1")).text)

    assert [one["key"] for one in found] == ["later"]


class _Hiccup(CallerAuthorizer):
    """Fails to review one access request."""

    def __init__(self, access: CallerAuthorizer) -> None:
        self._access = access
        self.failed = False

    async def authenticate(self, token: str) -> Caller | None:
        return await self._access.authenticate(token)

    async def is_allowed(self, caller: Caller, request: AccessRequest) -> bool:
        if request.resource and not self.failed:
            self.failed = True
            raise Unreachable("scripted: connection refused")
        return await self._access.is_allowed(caller, request)


@staged
async def test_who_follows_loses_nothing_while_the_hub_does_not_say_what_may_be_shown(stage: Stage) -> None:
    access = _Hiccup(HubAuthorizer(stage.hub, clock=SystemClock()))
    app = create_app(live_beside(stage), stage.history, access, load_settings(None, {}, []), stream_timing=UNHURRIED)
    asking = Stage(stage.hub, stage.world, app, stage.history, stage.controller)

    whole = lines((await stage.get("/v1/decisions?since=0")).text)
    followed = lines((await asking.get(f"/v1/decisions?since=0&follow=true&limit={len(whole)}")).text)

    assert (access.failed, followed) == (True, whole)


@staged
async def test_two_attempts_are_compared(stage: Stage) -> None:
    (newest, *_) = (await stage.json("/v1/placements/-/web/history"))["items"]
    found = await stage.json(f"/v1/placements/-/web/history?diff={newest['n']}..{newest['n']}")

    assert found["comparison"]["same"] is True
    assert found["before"]["id"] == found["after"]["id"] == newest["id"]


@staged
async def test_attempts_that_are_not_on_record_are_named(stage: Stage) -> None:
    answer = await stage.get("/v1/placements/-/web/history?diff=1..9999")

    assert answer.status_code == 422
    assert answer.json()["field"] == "diff"
    assert answer.json()["object"] == "attempt 9999 of placement web"


@alone
async def test_W_15_attempts_that_changed_nothing_are_one_line_with_a_count(stage: Stage) -> None:
    path = "/v1/placements/-/big/history"
    scheduler = stage.controller.scheduler
    assert scheduler is not None

    async def attempts() -> int:
        await stage.wait_until_recorded()
        return sum(1 + one["repeats"] for one in (await stage.json(path))["items"])

    for _ in range(3):
        before = await attempts()
        scheduler.queue.add(PlacementKey.parse("big"), trigger="Test/Again")
        await soon(partial(_is_more, attempts, before))
    (newest, *_others) = (await stage.json(path))["items"]
    text = (await stage.get(path, Accept="text/plain")).text

    assert newest["repeats"] >= 2
    assert f"\n{newest['n']}-{newest['n'] + newest['repeats']} " in text


async def _is_more(count: Callable[[], Awaitable[int]], before: int) -> bool:
    return await count() > before


@alone
async def test_an_attempt_that_chose_nothing_new_is_not_told_as_one_that_is_nowhere(stage: Stage) -> None:
    await stage.world.edit_policy("big", numberOfClusters=4)
    await stage.world.soon_scheduled("big")
    await stage.wait_until_recorded()

    found = await stage.get("/v1/placements/-/big/history?limit=1", Accept="text/plain")

    assert "  Unchanged  none new, 4 in use  " in found.text
