"""The selection of a placement as the hub changes, and who is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from fleet.model.views import Metadata
from fleet.placement.selection.discovery import KindsUnreadable
from fleet.placement.selection.dynamic_informers import NotSyncedYet
from fleet.placement.selection.resolution import SelectionResult
from fleet.placement.selection.resource_filter import ResourceFilter
from fleet.placement.selection.resource_selection import ResourceSelection
from fleet.placement.selection.selectors import SelectorTerm
from tests.faults.scripted import Hang
from tests.faults.virtual import virtual, within
from tests.unit.placement.content_hub import (
    CONFIG_MAPS,
    DEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    ROLES,
    SECRETS,
    WIDGETS,
    ContentHub,
)
from tests.unit.placement.test_resolution import namespace, of


def placement(
    *terms: dict[str, Any], name: str = "p", namespace: str = ""
) -> tuple[Metadata, tuple[SelectorTerm, ...]]:
    return Metadata(name=name, namespace=namespace), msgspec.convert(terms, tuple[SelectorTerm, ...])


def names(selected: SelectionResult) -> list[str]:
    assert selected.user_error is None, selected.user_error
    return [one.name for one in selected.objects]


@dataclass
class Bench:
    hub: ContentHub
    content: ResourceSelection
    woken: list[str]

    async def selects(self, *terms: dict[str, Any], **named: str) -> list[str]:
        return names(await self.content.resolve(*placement(*terms, **named)))

    async def wakes(self) -> list[str]:
        """Who was woken since the last question."""
        await asyncio.sleep(0.1)
        told, self.woken[:] = list(self.woken), []
        return told


@asynccontextmanager
async def working(hub: ContentHub, rules: ResourceFilter | None = None) -> AsyncIterator[Bench]:
    content, woken = ResourceSelection(hub.access(), rules), list[str]()
    content.subscribe(woken.append)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(content.run(), name="content")
        yield Bench(hub, content, woken)
        task.cancel()


def shop() -> ContentHub:
    hub = ContentHub()
    hub.add(NAMESPACES, "shop")
    hub.add(CONFIG_MAPS, "shop/a", data={"x": "1"})
    hub.add(ROLES, "admin", metadata={"labels": {"tier": "front"}})
    return hub


@within(lambda: working(shop()))
async def test_what_is_there_is_selected_at_once(bench: Bench) -> None:
    assert await bench.selects(namespace("shop")) == ["shop", "a"]
    assert await bench.selects(of(ROLES), name="q") == ["admin"]
    assert await bench.wakes() == []


@within(lambda: working(shop()))
async def test_only_selected_kinds_are_watched(bench: Bench) -> None:
    await bench.selects(of(ROLES))
    assert bench.hub.asked("clusterroles") > 0
    assert bench.hub.asked("/configmaps") == bench.hub.asked("/secrets") == 0


@within(lambda: working(shop(), ResourceFilter(secrets=False)))
async def test_secrets_that_cannot_be_selected_are_not_read(bench: Bench) -> None:
    bench.hub.add(SECRETS, "shop/s")
    assert await bench.selects(namespace("shop")) == ["shop", "a"]
    refused = await bench.content.resolve(*placement(of(SECRETS), name="q", namespace="shop"))
    assert refused.user_error
    assert bench.hub.asked("/configmaps") > bench.hub.asked("/secrets") == 0


@within(lambda: working(shop()))
async def test_a_new_object_wakes_whoever_could_select_it_and_nobody_else(bench: Bench) -> None:
    await bench.selects(namespace("shop"), name="whole")
    await bench.selects(of(CONFIG_MAPS, "b"), name="named", namespace="shop")
    await bench.selects(of(CONFIG_MAPS), name="elsewhere", namespace="bank")
    bench.hub.add(CONFIG_MAPS, "shop/b")
    assert await bench.wakes() == ["shop/named", "whole"]
    assert await bench.selects(namespace("shop"), name="whole") == ["shop", "a", "b"]


@within(lambda: working(shop()))
async def test_changes_and_deletions_wake(bench: Bench) -> None:
    await bench.selects(namespace("shop"))
    bench.hub.add(CONFIG_MAPS, "shop/a", data={"x": "2"})
    assert await bench.wakes() == ["p"]
    bench.hub.drop(CONFIG_MAPS, "shop/a")
    assert await bench.wakes() == ["p"]
    assert await bench.selects(namespace("shop")) == ["shop"]


@virtual
async def test_a_change_of_what_stays_on_the_hub_wakes_nobody() -> None:
    hub = shop()
    hub.add(DEPLOYMENTS, "shop/web", spec={"replicas": 1})
    async with working(hub) as bench:
        await bench.selects(namespace("shop"))
        hub.add(DEPLOYMENTS, "shop/web", spec={"replicas": 1}, status={"readyReplicas": 1})
        assert await bench.wakes() == []
        hub.add(DEPLOYMENTS, "shop/web", spec={"replicas": 2}, status={"readyReplicas": 1})
        assert await bench.wakes() == ["p"]


@within(lambda: working(shop()))
async def test_the_beginning_of_the_end_of_a_namespace_wakes(bench: Bench) -> None:
    await bench.selects(namespace("shop"))
    bench.hub.add(NAMESPACES, "shop", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert await bench.wakes() == ["p"]
    assert await bench.selects(namespace("shop")) == []


@within(lambda: working(shop()))
async def test_a_namespace_that_comes_to_match_wakes_and_so_does_what_is_in_it(bench: Bench) -> None:
    front: dict[str, Any] = {"labelSelector": {"matchLabels": {"tier": "front"}}}
    assert await bench.selects(namespace(**front)) == []
    bench.hub.add(NAMESPACES, "shop", metadata={"labels": {"tier": "front"}})
    assert await bench.wakes() == ["p"]
    bench.hub.add(SECRETS, "shop/s")
    assert await bench.wakes() == ["p"]
    assert await bench.selects(namespace(**front)) == ["shop", "s", "a"]


@within(lambda: working(shop()))
async def test_nobody_is_woken_for_a_placement_that_is_gone(bench: Bench) -> None:
    await bench.selects(of(ROLES))
    bench.content.forget("p")
    bench.hub.add(ROLES, "viewer")
    assert await bench.wakes() == []


@virtual
async def test_a_cache_that_does_not_fill_is_a_passing_failure() -> None:
    hub = ContentHub(lambda request: Hang() if request.path.endswith("/clusterroles") else None)
    hub.add(ROLES, "admin")
    async with working(hub) as bench:
        with pytest.raises(
            NotSyncedYet, match=r"^cache of kind rbac.authorization.k8s.io/v1 ClusterRole is not synced yet$"
        ):
            await bench.selects(of(ROLES))


@virtual
async def test_no_half_of_a_namespace_is_selected_while_an_api_is_down() -> None:
    hub = shop()
    hub.down.add("/apis/apps/v1")
    async with working(hub) as bench:
        with pytest.raises(KindsUnreadable, match=r"the kinds of apps/v1"):
            await bench.selects(namespace("shop"))
        assert await bench.selects(of(ROLES), name="q") == ["admin"]


@within(lambda: working(shop()))
async def test_a_custom_kind_that_appears_wakes_whoever_waits_for_it(bench: Bench) -> None:
    selected = await bench.content.resolve(*placement(of(WIDGETS), namespace="shop"))
    assert selected.user_error is not None
    await asyncio.sleep(30)
    bench.woken.clear()
    bench.hub.kinds.append(WIDGETS)
    bench.hub.add(DEFINITIONS, "widgets.example.com")
    await asyncio.sleep(3)
    assert bench.woken == ["shop/p"]
    bench.hub.add(WIDGETS, "shop/w")
    assert await bench.selects(of(WIDGETS), namespace="shop") == ["w"]


@within(lambda: working(shop()))
async def test_what_is_of_a_new_kind_comes_along_with_its_namespace(bench: Bench) -> None:
    await bench.selects(namespace("shop"))
    await asyncio.sleep(30)
    bench.hub.kinds.append(WIDGETS)
    bench.hub.add(DEFINITIONS, "widgets.example.com")
    await asyncio.sleep(3)
    bench.hub.add(WIDGETS, "shop/w")
    assert "p" in await bench.wakes()
    assert await bench.selects(namespace("shop")) == ["shop", "a", "w"]


@virtual
async def test_a_kind_that_is_gone_is_neither_selected_nor_asked_for() -> None:
    hub = shop()
    hub.kinds.append(WIDGETS)
    hub.add(WIDGETS, "shop/w")
    hub.add(DEFINITIONS, "widgets.example.com")
    async with working(hub) as bench:
        assert await bench.selects(namespace("shop")) == ["shop", "a", "w"]
        await asyncio.sleep(30)
        bench.woken.clear()
        hub.kinds.remove(WIDGETS)
        hub.drop(DEFINITIONS, "widgets.example.com")
        await asyncio.sleep(15)
        assert set(bench.woken) == {"p"}
        assert await bench.selects(namespace("shop")) == ["shop", "a"]
        hub.requests.clear()
        await asyncio.sleep(3600)
        assert hub.asked("widgets") == 0


@within(lambda: working(shop()))
async def test_a_quiet_hub_is_asked_nothing_but_its_watches(bench: Bench) -> None:
    await bench.selects(namespace("shop"))
    await asyncio.sleep(60)
    bench.hub.requests.clear()
    for _ in range(10):
        await bench.selects(namespace("shop"))
        await asyncio.sleep(10)
    assert bench.hub.requests == []
