"""Reviews by the hub: unknown tokens and busy callers keep others from nothing."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from api.auth.access import AccessRequest, Caller, HubAuthorizer
from api.http.limits import REVIEWS_OF_A_CALLER, UNKNOWN_TOKENS, UNKNOWN_TOKENS_WAITING, KeyedLimit, TokenLanes
from api.http.problems import ProblemError
from fleet.kube.api import Request
from tests.faults.virtual import VirtualClock, virtual


class SlowHub:
    """Answers a review when it is told to, and counts those under way."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.under_way = self.most = 0

    async def call(self, request: Request) -> bytes:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self.answers.wait()
        finally:
            self.under_way -= 1
        if b"known" in (request.body or b""):
            return b'{"status": {"authenticated": true, "allowed": true, "user": {"username": "rosa"}}}'
        return b'{"status": {"allowed": true}}'


@virtual
async def test_a_flood_of_unknown_tokens_does_not_delay_a_known_one() -> None:
    hub, clock = SlowHub(), VirtualClock()
    access = HubAuthorizer(hub, clock=clock)  # type: ignore[arg-type]  # has what is used
    hub.answers.set()
    assert await access.authenticate("known") is not None
    await clock.sleep(60)  # its review is not cached any more
    hub.answers.clear()
    flood = [asyncio.create_task(access.authenticate(f"random-{number}")) for number in range(100)]
    await clock.sleep(1)
    under_way = hub.under_way
    known = asyncio.create_task(access.authenticate("known"))
    await clock.sleep(1)

    assert (under_way, hub.under_way) == (UNKNOWN_TOKENS, UNKNOWN_TOKENS + 1)
    hub.answers.set()
    assert await known is not None
    assert await asyncio.gather(*flood) == [None] * 100
    assert hub.most == UNKNOWN_TOKENS + 1


@virtual
async def test_of_a_greater_flood_of_unknown_tokens_some_are_told_to_come_again() -> None:
    hub, clock = SlowHub(), VirtualClock()
    access = HubAuthorizer(hub, clock=clock)  # type: ignore[arg-type]  # has what is used
    most = UNKNOWN_TOKENS + UNKNOWN_TOKENS_WAITING
    flood = [asyncio.create_task(access.authenticate(f"random-{number}")) for number in range(most)]
    await clock.sleep(1)
    with pytest.raises(ProblemError) as refused:
        await access.authenticate("one more")
    hub.answers.set()
    await asyncio.gather(*flood)

    assert (refused.value.problem.status, refused.value.problem.next) == (429, "try again in 1 s")
    assert await access.authenticate("afterwards") is None


@virtual
async def test_the_reviews_of_one_caller_leave_room_for_those_of_another() -> None:
    hub, clock = SlowHub(), VirtualClock()
    access = HubAuthorizer(hub, clock=clock)  # type: ignore[arg-type]  # has what is used

    async def review(caller: str, number: int) -> bool:
        request = AccessRequest(verb="get", resource="memberclusters", name=f"c{number}")
        return await access.is_allowed(Caller(caller, fingerprint=caller), request)

    greedy = [asyncio.create_task(review("greedy", number)) for number in range(500)]
    await clock.sleep(1)
    modest = asyncio.create_task(review("modest", 1))
    await clock.sleep(1)

    assert hub.under_way == REVIEWS_OF_A_CALLER + 1
    hub.answers.set()
    assert await modest
    assert all(await asyncio.gather(*greedy))


@virtual
async def test_a_token_that_was_revoked_is_unknown_again() -> None:
    lanes = TokenLanes(limit=1, most_waiting=0)
    lanes.note_result(b"token", is_accepted=True)
    async with lanes.slot(b"token"), lanes.slot(b"token"):
        pass
    lanes.note_result(b"token", is_accepted=False)

    async with lanes.slot(b"token"):
        with pytest.raises(ProblemError):
            await contextlib.AsyncExitStack().enter_async_context(lanes.slot(b"another"))


@virtual
async def test_a_share_that_is_not_used_takes_no_memory() -> None:
    limit: KeyedLimit[str] = KeyedLimit(2)
    async with limit.slot("rosa"):
        held = len(limit._shares)

    assert (held, len(limit._shares)) == (1, 0)
