"""Reviews that are renewed before they end: they hold no longer than others, and cost the hub and callers little."""

from __future__ import annotations

import asyncio

import pytest

from api.auth.access import AccessRequest, Caller, HubAuthorizer
from fleet.errors import Unreachable
from fleet.kube.api import Request
from tests.faults.virtual import VirtualClock, virtual

ROSA = Caller("rosa", fingerprint="rosa")
RULES = (
    b'{"status": {"incomplete": false, "resourceRules":'
    b' [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "resourceNames": ["ams"]}]}}'
)

NAMES = frozenset({"ams"})


class CountedHub:
    def __init__(self) -> None:
        self.is_well, self.allows = True, True
        self.answers = asyncio.Event()
        self.answers.set()
        self.reviews = 0

    async def call(self, request: Request) -> bytes:
        self.reviews += 1
        await self.answers.wait()
        if not self.is_well:
            raise Unreachable("down")
        if "rules" in request.path:
            return RULES
        return b'{"status": {"allowed": true}}' if self.allows else b'{"status": {}}'


def review_of(name: str) -> AccessRequest:
    return AccessRequest(verb="get", resource="memberclusters", name=name)


def in_front_of(hub: CountedHub, clock: VirtualClock) -> HubAuthorizer:
    return HubAuthorizer(hub, clock=clock)  # type: ignore[arg-type]  # has what is used


@virtual
async def test_a_right_in_use_goes_with_its_renewal() -> None:
    hub, clock = CountedHub(), VirtualClock()
    access = in_front_of(hub, clock)
    assert await access.is_allowed(ROSA, review_of("ams"))
    hub.allows = False
    await clock.sleep(6)
    assert await access.is_allowed(ROSA, review_of("ams"))
    await clock.sleep(1.9)
    assert hub.reviews == 1
    assert await access.is_allowed(ROSA, review_of("ams"))
    await clock.sleep(0.1)
    assert not await access.is_allowed(ROSA, review_of("ams"))


@virtual
async def test_a_renewed_right_holds_no_longer_than_a_new_one() -> None:
    hub, clock = CountedHub(), VirtualClock()
    access = in_front_of(hub, clock)
    for _ in range(3):
        assert await access.is_allowed(ROSA, review_of("ams"))
        await clock.sleep(8)
    hub.is_well = False
    await clock.sleep(2.5)
    with pytest.raises(Unreachable):
        await access.is_allowed(ROSA, review_of("ams"))


@virtual
async def test_a_review_is_renewed_once_at_a_time() -> None:
    hub, clock = CountedHub(), VirtualClock()
    access = in_front_of(hub, clock)
    assert await access.is_allowed(ROSA, review_of("ams"))
    await clock.sleep(8)
    hub.answers.clear()
    for _ in range(9):
        assert await access.is_allowed(ROSA, review_of("ams"))
        await clock.sleep(0.1)

    assert hub.reviews == 2
    hub.answers.set()


@virtual
async def test_a_denial_costs_a_review_every_two_seconds() -> None:
    hub, clock = CountedHub(), VirtualClock()
    access = in_front_of(hub, clock)
    hub.allows = False
    for _ in range(200):
        assert await access.authenticate("unknown") is None
        assert not await access.is_allowed(ROSA, review_of("ams"))
        await clock.sleep(0.1)

    assert hub.reviews <= 2 * 10


@virtual
async def test_a_hub_that_refuses_is_not_asked_by_every_question() -> None:
    hub, clock = CountedHub(), VirtualClock()
    access = in_front_of(hub, clock)
    assert await access.is_allowed(ROSA, review_of("ams"))
    await clock.sleep(8)
    hub.is_well = False
    for _ in range(50):
        assert await access.is_allowed(ROSA, review_of("ams"))
        await clock.sleep(0.01)

    assert hub.reviews <= 3


@virtual
async def test_rules_are_known_while_they_cannot_be_renewed() -> None:
    hub, clock = CountedHub(), VirtualClock()
    access = in_front_of(hub, clock)
    assert await access.list_granted_names(ROSA, "token", review_of("")) == NAMES
    await clock.sleep(1.5)
    hub.is_well = False
    assert await access.list_granted_names(ROSA, "token", review_of("")) == NAMES
    await clock.sleep(0.1)
    hub.is_well = True
    assert await access.list_granted_names(ROSA, "token", review_of("")) == NAMES


@virtual
async def test_a_new_question_does_not_wait_for_renewals() -> None:
    hub, clock = CountedHub(), VirtualClock()
    access = in_front_of(hub, clock)
    rights = [review_of(f"c{number}") for number in range(500)]
    for right in rights:
        assert await access.is_allowed(ROSA, right)
    await clock.sleep(8)
    hub.answers.clear()
    for right in rights:
        assert await access.is_allowed(ROSA, right)
    await clock.sleep(0.1)
    before = hub.reviews
    new = asyncio.create_task(access.is_allowed(ROSA, review_of("new")))
    await clock.sleep(0.1)

    assert hub.reviews == before + 1
    hub.answers.set()
    assert await new


@virtual
async def test_a_right_holds_until_its_end_while_it_cannot_be_renewed() -> None:
    hub, clock = CountedHub(), VirtualClock()
    access = in_front_of(hub, clock)
    assert await access.is_allowed(ROSA, review_of("ams"))
    hub.is_well = False
    for seconds in (8, 1.9):
        await clock.sleep(seconds)
        assert await access.is_allowed(ROSA, review_of("ams"))
    await clock.sleep(0.2)
    with pytest.raises(Unreachable):
        await access.is_allowed(ROSA, review_of("ams"))


@virtual
async def test_after_its_end_nobody_waits_for_a_renewal_that_hangs_and_nobody_minds_its_answer() -> None:
    hub, clock = CountedHub(), VirtualClock()
    access = in_front_of(hub, clock)
    assert await access.is_allowed(ROSA, review_of("ams"))
    await clock.sleep(8)
    hanging = hub.answers
    hanging.clear()
    assert await access.is_allowed(ROSA, review_of("ams"))
    await clock.sleep(2.5)
    hub.answers = asyncio.Event()
    hub.answers.set()
    hub.allows = False
    assert not await access.is_allowed(ROSA, review_of("ams"))

    hub.allows = True
    hanging.set()
    await clock.sleep(0.1)
    assert not await access.is_allowed(ROSA, review_of("ams"))
