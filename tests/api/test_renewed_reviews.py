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
