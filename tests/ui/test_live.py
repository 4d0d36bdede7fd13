"""What changes on the hub shows without a reload, and every decision once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from tests.api.stage import ADMIN, Running
from tests.api.test_sealed_sessions import a_replica, renew
from tests.ui.browsing import MINUS, WITHIN, BrowserThread, Explorer, Json, Visit
from tests.ui.conftest import Server

pytestmark = pytest.mark.timeout(900)  # a browser on a busy machine takes its time

TAINT: Final = {"key": "maintenance", "value": "now", "effect": "NoSchedule"}
PAUSE: Final = 250
"""Milliseconds between two looks."""
SEEN: Final = "() => [...document.querySelectorAll('#live li')].map((line) => Number(line.dataset.seq))"


@pytest.fixture
def helper() -> Iterator[ThreadPoolExecutor]:
    """Acts on the hub while the browser's thread waits."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def test_a_taint_on_the_hub_shows_without_a_reload(explorer: Explorer, running: Running) -> None:
    world = running.stage.world

    def look(visit: Visit) -> None:
        page = visit.open("/ui/placements/-/web")
        page.evaluate("() => { window.stayed = true; }")
        cell = '.cell[data-cluster="dub-1"][data-plugin="TaintToleration"]'
        before = page.get_attribute(cell, "data-kind")
        assert before in ("pass", "use")
        running.call(world.taint("dub-1", TAINT))
        try:
            page.wait_for_function(
                "([cell, before]) => document.querySelector(cell)?.dataset.kind !== before", arg=[cell, before]
            )
            assert "maintenance" in (page.get_attribute(cell, "aria-label") or "")
        finally:
            running.call(world.taint("dub-1"))
        page.wait_for_function(
            "([cell, before]) => ['pass', 'use'].includes(document.querySelector(cell)?.dataset.kind)",
            arg=[cell, before],
        )
        assert page.evaluate("() => window.stayed") is True
        visit.check_calm()

    explorer.visit(ADMIN, look)


def test_every_decision_is_listed_once_however_often_the_stream_ends(explorer: Explorer, running: Running) -> None:
    """Streams of the stage end after a third of a second, so the page resumes all the time."""
    world = running.stage.world

    def look(visit: Visit) -> None:
        page = visit.open("/ui/placements/-/web")
        known = visit.get("/v1/placements/-/web/history?limit=1")["items"][0]["seq"]
        for number in (3, 2, 3, 2):
            running.call(world.edit_policy("web", numberOfClusters=number))
            running.call(world.soon_scheduled("web"))
        running.call(running.stage.wait_until_recorded())
        items = visit.get("/v1/placements/-/web/history?limit=50")["items"]
        expected = [item["seq"] for item in items if item["seq"] > known]
        page.wait_for_selector(f'#live li[data-seq="{expected[0]}"]')
        seen = page.evaluate(SEEN)
        assert seen == sorted(set(seen), reverse=True)
        assert [seq for seq in seen if known < seq <= expected[0]] == expected
        visit.check_calm()

    explorer.visit(ADMIN, look)


@pytest.mark.parametrize("path", ["/ui/", "/ui/placements/-/web"])
def test_a_restart_of_the_api_loses_and_doubles_no_decision(
    browser: BrowserThread, running: Running, tmp_path: Path, path: str
) -> None:
    """Nothing was decided between the opening of the page and the restart: it still knows where to go on, and is signed
    in."""
    server = Server(running)
    key = renew(tmp_path / "tls.key")

    async def decide(*numbers: int) -> None:
        for number in numbers:
            await running.stage.world.edit_policy("web", numberOfClusters=number)
            await running.stage.world.soon_scheduled("web")
        await running.stage.wait_until_recorded()

    def look(visit: Visit) -> None:
        page = visit.open(path)
        visit.wait_for("() => document.querySelector('#clock.is-live') !== null")
        page.evaluate("() => { window.stayed = true; }")
        server.stop()
        running.call(decide(3, 2))
        visit.wait_for("() => document.querySelector('#clock.is-waiting') !== null")
        server.start(a_replica(running.stage, key).app)
        running.call(decide(3, 2))
        items = visit.get("/v1/placements/-/web/history?limit=100")["items"]
        expected = [item["seq"] for item in items if item["seq"] > newest]
        page.wait_for_selector(f'#live li[data-seq="{expected[0]}"]')
        seen = [seq for seq in page.evaluate(SEEN) if seq in {item["seq"] for item in items}]
        assert seen == expected
        assert page.evaluate("() => window.stayed") is True

    running.call(decide(2))
    newest = running.call(newest_seq(running))
    server.start(a_replica(running.stage, key).app)
    try:
        Explorer(browser, server.url).visit(ADMIN, look)
    finally:
        server.stop()


async def newest_seq(running: Running) -> int:
    items = (await running.stage.json("/v1/placements/-/web/history?limit=1"))["items"]
    return int(items[0]["seq"])


def test_the_history_can_be_gone_through_and_compared(explorer: Explorer, running: Running) -> None:
    world = running.stage.world

    async def change() -> None:
        for number in (4, 2):
            await world.edit_policy("web", numberOfClusters=number)
            await world.soon_scheduled("web")
        await running.stage.wait_until_recorded()

    def look(visit: Visit) -> None:
        page = visit.open("/ui/placements/-/web")
        dots: list[str] = []
        items: list[Json] = []
        for _ in range(WITHIN // PAUSE):
            items = visit.get("/v1/placements/-/web/history?limit=200")["items"]
            dots = page.evaluate("() => [...document.querySelectorAll('.dot')].map((dot) => dot.dataset.attempt)")
            if dots == [item["id"] for item in reversed(items)]:
                break
            page.wait_for_timeout(PAUSE)
        assert dots == [item["id"] for item in reversed(items)]
        first = items[-1]
        page.focus("#scrub")
        page.keyboard.press("Home")
        why = visit.get(f"/v1/placements/-/web/why?attempt={first['id']}")
        page.wait_for_function(
            "(words) => document.querySelector('#sentence').textContent === words", arg=why["verdict"]["summary"]
        )
        assert f"attempt={first['id']}" in page.url
        page.select_option("#diff-from", str(items[-1]["n"]))
        page.select_option("#diff-to", str(items[0]["n"]))
        page.click("#diff-show")
        page.wait_for_selector("#diff .card")
        diff = visit.get(f"/v1/placements/-/web/history?diff={items[-1]['n']}..{items[0]['n']}")["comparison"]
        chips = page.evaluate("() => [...document.querySelectorAll('#diff .chip')].map((chip) => chip.textContent)")
        assert chips == [f"+ {name}" for name in diff["gained"]] + [f"{MINUS} {name}" for name in diff["lost"]]
        visit.check_calm()

    running.call(change())
    explorer.visit(ADMIN, look)
