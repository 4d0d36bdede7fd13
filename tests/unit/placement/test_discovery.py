"""What the API server serves, asked as rarely as possible and never guessed."""

from __future__ import annotations

import asyncio

import pytest

from fleet.errors import Unavailable, UnreadableAnswer
from fleet.kube.api import Request
from fleet.kube.resource import Resource
from fleet.placement.selection.discovery import (
    SECONDS_BETWEEN_REFRESHES,
    DiscoveredKinds,
    Discovery,
    KindName,
    KindsUnreadable,
)
from tests.fake_hub import Answered, FakeHub
from tests.faults.virtual import virtual
from tests.unit.placement.content_hub import DEPLOYMENTS, PODS, USUAL, WIDGETS, ContentHub

WIDGET = KindName("example.com", "v1", "Widget")
OLD_WIDGETS = Resource("example.com", "v1alpha1", "widgets", "Widget", namespaced=True)
OLD_GEARS = Resource("example.com", "v1alpha1", "gears", "Gear", namespaced=True)


def discovery_of(hub: ContentHub) -> Discovery:
    return Discovery(hub, hub.clock)


def everything(group: str, version: str) -> bool:
    return True


@virtual
async def test_kinds_are_found_with_their_path_and_scope() -> None:
    hub = ContentHub()
    kinds = await discovery_of(hub).resolve_kinds([])
    assert kinds.resources() == frozenset(USUAL)
    assert kinds.find(KindName("apps", "v1", "Deployment")) == DEPLOYMENTS
    assert kinds.find(KindName("apps", "v2", "Deployment")) is None


@virtual
async def test_a_kind_that_cannot_be_watched_is_known_and_not_found() -> None:
    hub = ContentHub(verbs={"pods": ("get", "list")})
    kinds = await discovery_of(hub).resolve_kinds([])
    pod = KindName("", "v1", PODS.kind)
    assert kinds.knows(pod)
    assert kinds.find(pod) is None


@virtual
async def test_each_kind_is_preferred_at_one_version() -> None:
    kinds = [*USUAL, OLD_WIDGETS, OLD_GEARS, WIDGETS]
    hub = ContentHub(kinds=kinds, preferred={"example.com": "v1"})
    found = await discovery_of(hub).resolve_kinds([])
    mine = {one for one in found.iter_preferred() if one.group == "example.com"}
    assert mine == {WIDGETS, OLD_GEARS}
    assert found.find(KindName("example.com", "v1alpha1", "Widget")) == OLD_WIDGETS


@virtual
async def test_what_is_known_is_not_asked_again() -> None:
    hub = ContentHub()
    discovery = discovery_of(hub)
    await discovery.resolve_kinds([])
    hub.requests.clear()
    await asyncio.sleep(1000)
    await discovery.resolve_kinds([KindName("apps", "v1", "Deployment")])
    assert hub.requests == []


@virtual
async def test_a_missing_kind_is_looked_for_again_but_not_all_the_time() -> None:
    hub = ContentHub()
    discovery = discovery_of(hub)
    assert not (await discovery.resolve_kinds([WIDGET])).knows(WIDGET)
    hub.kinds.append(WIDGETS)
    await asyncio.sleep(SECONDS_BETWEEN_REFRESHES / 2)
    assert not (await discovery.resolve_kinds([WIDGET])).knows(WIDGET)
    await asyncio.sleep(SECONDS_BETWEEN_REFRESHES / 2)
    assert (await discovery.resolve_kinds([WIDGET])).find(WIDGET) == WIDGETS


@virtual
async def test_those_who_ask_at_once_share_one_look() -> None:
    hub = ContentHub()
    discovery = discovery_of(hub)
    await asyncio.gather(*(discovery.resolve_kinds([]) for _ in range(20)))
    assert [request.path for request in hub.requests].count("/apis") == 1


@virtual
async def test_when_the_first_of_them_fails_the_next_one_looks() -> None:
    hub = ContentHub(down={"/apis"})
    discovery = discovery_of(hub)
    answers = await asyncio.gather(*(discovery.resolve_kinds([]) for _ in range(3)), return_exceptions=True)
    assert [type(one) for one in answers] == [Unavailable] * 3
    hub.down.clear()
    assert (await discovery.resolve_kinds([])).resources()


@virtual
async def test_an_api_that_is_down_keeps_what_was_known_of_it() -> None:
    hub = ContentHub()
    discovery = discovery_of(hub)
    before = (await discovery.resolve_kinds([])).resources()
    hub.down.add("/apis/apps/v1")
    await discovery.refresh()
    assert discovery.kinds.resources() == before


@virtual
async def test_nobody_says_that_a_kind_does_not_exist_while_its_api_is_down() -> None:
    hub = ContentHub(kinds=[*USUAL, WIDGETS], down={"/apis/example.com/v1"})
    discovery = discovery_of(hub)
    with pytest.raises(KindsUnreadable, match=r"the kinds of example\.com/v1"):
        await discovery.resolve_kinds([WIDGET])
    hub.down.clear()
    await asyncio.sleep(SECONDS_BETWEEN_REFRESHES)
    assert (await discovery.resolve_kinds([WIDGET])).find(WIDGET) == WIDGETS


@virtual
async def test_an_api_of_our_own_that_is_down_stops_no_placement() -> None:
    """It has questions and no objects, so nothing of it can be placed."""
    asking = Resource("explain.fleet", "v1", "answers", "Answer", namespaced=False)
    hub = ContentHub(kinds=[*USUAL, asking], down={"/apis/explain.fleet/v1"})
    kinds = await discovery_of(hub).resolve_kinds([], completely=everything)

    assert kinds.resources() == frozenset(USUAL)
    assert "/apis/explain.fleet/v1" not in {request.path for request in hub.requests}


@virtual
async def test_whoever_needs_every_kind_gets_no_half_of_them() -> None:
    hub = ContentHub(kinds=[*USUAL, WIDGETS], down={"/apis/example.com/v1"})
    discovery = discovery_of(hub)
    assert (await discovery.resolve_kinds([])).find(WIDGET) is None
    with pytest.raises(KindsUnreadable):
        await discovery.resolve_kinds([], completely=everything)
    await discovery.resolve_kinds([], completely=lambda group, version: group != "example.com")


@virtual
async def test_a_group_that_goes_while_it_is_read_is_gone() -> None:
    hub = ContentHub(kinds=[*USUAL, WIDGETS])

    def vanish(request: Request) -> None:
        if request.path == "/apis/example.com/v1":
            hub.kinds.remove(WIDGETS)

    hub.fault = vanish
    kinds = await discovery_of(hub).resolve_kinds([WIDGET])
    assert not kinds.knows(WIDGET)
    assert kinds.unreadable == frozenset()


@virtual
async def test_changes_of_the_kinds_are_told() -> None:
    hub, told = ContentHub(), list[tuple[DiscoveredKinds, DiscoveredKinds]]()
    discovery = Discovery(hub, hub.clock, on_change=lambda before, after: told.append((before, after)))
    await discovery.refresh()
    await discovery.refresh()
    hub.kinds.append(WIDGETS)
    await discovery.refresh()
    assert len(told) == 2
    assert told[1][1].resources() - told[1][0].resources() == {WIDGETS}


@virtual
async def test_an_answer_that_is_no_discovery_is_refused() -> None:
    with pytest.raises(UnreadableAnswer, match="/api is not a discovery document"):
        await Discovery(FakeHub(lambda _: Answered(b"<html>")), ContentHub().clock).resolve_kinds([])
