"""What a page may not do: show names its reader may not see, keep tokens, run what it was sent, or lean on a mouse."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any, Final

import pytest
from playwright.sync_api import Route

from fleet.errors import FleetError
from fleet.kube.scopes import MEMBER_CLUSTERS
from tests.api.stage import ADMIN, AUTHOR, HIDDEN, OVERSEER, READER, SEEN, Running
from tests.ui.browsing import READY, WITHIN, Explorer, Visit

pytestmark = pytest.mark.timeout(900)  # a browser on a busy machine takes its time

HOSTILE: Final = "<img src=x onerror=window.hit=1><script>window.hit=2</script>\"'><svg onload=window.hit=3>"
UNNAMED: Final = """() => [...document.querySelectorAll('a, button, input, select, [tabindex="0"]')].filter((one) => {
    if (one.offsetParent === null && !one.closest('svg')) return false;
    const label = one.labels?.length ? [...one.labels].map((label) => label.textContent).join('') : '';
    return !(one.getAttribute('aria-label') || one.getAttribute('aria-labelledby') || label || one.textContent).trim();
}).map((one) => one.outerHTML.slice(0, 200))"""

DOUBLES: Final = """() => {
    const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);
    return ids.filter((id, at) => ids.indexOf(id) !== at);
}"""


def test_no_hidden_name_reaches_the_page(explorer: Explorer, running: Running) -> None:
    """Neither what is shown, nor storage, nor an answer or an event of a stream has one that the address does not."""

    async def decide() -> int:
        for number in (3, 2):
            await running.stage.world.edit_policy("web", numberOfClusters=number)
            await running.stage.world.soon_scheduled("web")
        await running.stage.wait_until_recorded()
        return int((await running.stage.json("/v1/placements/-/web/history?limit=1"))["items"][0]["seq"])

    def look(visit: Visit) -> None:
        visit.keep_bodies()
        page = visit.open("/ui/placements/-/web")
        visit.wait_for("() => document.querySelector('#live .soft') !== null")
        newest = running.call(decide())
        page.wait_for_selector(f'#live li[data-seq="{newest}"]')
        assert [body for body in visit.bodies if f'"seq":{newest}' in body]
        for path in (
            "/ui/placements/-/web",
            "/ui/placements/-/web?attempt=1",
            "/ui/placements/-/web?cluster=ams-1",
            '/ui/placements/-/web?edits=[{"op":"setCount","value":4}]',
            "/ui/placements/-/big",
            "/ui/",
            "/ui/clusters/ams-1",
            "/ui/why?placement=web&cluster=ams-1",
            "/ui/why?placement=web&cluster=dub-2",
            "/ui/clusters/dub-1",
        ):
            visit.open(path)
            seen = visit.everything()
            for name in HIDDEN:
                assert name in path or name not in seen, (path, name)
            page.goto("about:blank")
            visit.bodies.clear()
            visit.requests.clear()

    for token in (READER, AUTHOR, OVERSEER):
        explorer.visit(token, look)


def test_a_reader_sees_the_clusters_that_may_be_read_and_how_many_may_not(explorer: Explorer) -> None:
    def look(visit: Visit) -> None:
        page = visit.open("/ui/placements/-/web")
        shown = page.evaluate(
            "() => [...document.querySelectorAll('.grid .name')].map((name) => name.dataset.cluster).sort()"
        )
        assert shown == sorted(SEEN)
        hidden = visit.get("/v1/matrix?placement=web")["redacted"]
        assert f"{hidden} clusters that you may not read" in (page.text_content("#grid") or "")

    explorer.visit(READER, look)


def test_signing_in_leaves_no_token_behind(explorer: Explorer) -> None:
    def look(visit: Visit) -> None:
        page = visit.page
        visit.keep_bodies()
        page.goto(f"{explorer.url}/ui/placements/-/web")
        page.wait_for_selector("#token")
        page.fill("#token", ADMIN)
        page.keyboard.press("Enter")
        page.wait_for_selector("#sentence")
        page.wait_for_selector(READY)
        assert page.url.startswith(f"{explorer.url}/ui/placements/-/web")
        assert ADMIN not in visit.everything()
        assert page.evaluate("() => [localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]
        cookies = page.context.cookies()
        assert [(one["httpOnly"], one["sameSite"]) for one in cookies] == [(True, "Strict")]
        page.get_by_role("button", name="sign out").click()
        page.wait_for_selector("#token")
        assert page.context.cookies() == []

    explorer.visit(None, look)


def test_a_wrong_token_is_refused_in_words(explorer: Explorer) -> None:
    def look(visit: Visit) -> None:
        page = visit.open("/ui/signin")
        page.fill("#token", "no-such-token")
        page.keyboard.press("Enter")
        page.wait_for_selector(".note.is-bad:not([hidden])")
        assert (page.text_content(".note.is-bad") or "").strip()

    explorer.visit(None, look)


def test_a_link_signs_in_once(explorer: Explorer) -> None:
    def look(visit: Visit) -> None:
        page = visit.page
        request = page.context.request
        headers = {"Authorization": f"Bearer {ADMIN}"}
        link = request.post(f"{explorer.url}/v1/session/link", headers=headers, timeout=WITHIN).json()
        code = link["path"].partition("#")[2]
        page.goto(f"{explorer.url}{link['path']}")
        page.get_by_role("button", name="Sign in as root").click()
        page.wait_for_url(f"{explorer.url}/ui/*")
        page.wait_for_selector(".strip-cell")
        assert code not in page.url
        assert all(code not in url.partition("#")[0] for url in visit.requests)

    explorer.visit(None, look)


def test_hostile_words_stay_words(explorer: Explorer, running: Running) -> None:
    """Those that the hub takes, in a taint and a property, and whatever else an answer could have."""
    history: dict[str, Any] = {}

    async def join() -> None:
        taint = {"key": "hostile", "value": HOSTILE, "effect": "NoSchedule"}
        await running.stage.world.join("hostile", labels={"region": "ams"}, properties={"x/y": HOSTILE})
        await running.stage.world.patch(MEMBER_CLUSTERS, "hostile", {"metadata": {"annotations": {"x/y": HOSTILE}}})
        with suppress(FleetError):
            await running.stage.world.taint("hostile", taint)

    def spoil(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: spoil(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [spoil(item, key) for item in value]
        kept = (
            *("verdicts", "op", "type"),
            *("at", "lastAt", "since", "lastHeartbeat", "created", "movesSince", "expires"),
            *("next", "nextCursor", "cursor", "id", "key", "topologyKey"),
        )
        return f"{value}{HOSTILE}" if isinstance(value, str) and key not in kept else value

    def answer(route: Route) -> None:
        if "/v1/decisions" in route.request.url and "follow" in route.request.url:
            decision = json.dumps({**spoil(history["items"][0]), "seq": 1 << 40, "key": HOSTILE})
            events = f"id: 1\nevent: decision\ndata: {decision}\n\n"
            return route.fulfill(body=events, headers={"Content-Type": "text/event-stream"})
        fetched = route.fetch()
        if "text/plain" in fetched.headers.get("content-type", ""):
            return route.fulfill(response=fetched, body=fetched.text() + HOSTILE)
        if "json" not in fetched.headers.get("content-type", "") or fetched.status != 200:
            return route.fulfill(response=fetched)
        return route.fulfill(response=fetched, body=json.dumps(spoil(fetched.json())))

    def look(visit: Visit) -> None:
        page = visit.page
        history.update(visit.get("/v1/placements/-/web/history?limit=1"))
        page.route(lambda url: "/v1/" in url, answer)
        edits = '[{"op":"setCount","value":3,"x":"<img src=x onerror=window.hit=4>"}]'
        for path in (
            "/ui/",
            "/ui/placements/-/web",
            "/ui/placements/-/big",
            "/ui/clusters/osl-1",
            "/ui/clusters/hostile",
            "/ui/why?placement=web&cluster=osl-1",
            f"/ui/placements/-/web?edits={edits}&group=<svg onload=window.hit=5>",
        ):
            visit.open(path)
            assert page.evaluate("() => window.hit") is None, path
            assert (
                page.evaluate(
                    "() => document.querySelectorAll('main img, main script, main [onerror], main [onload]').length"
                )
                == 0
            ), path
        visit.open("/ui/placements/-/web")
        page.wait_for_selector("#live li")
        assert page.evaluate("() => window.hit") is None
        assert "<script>" in (page.text_content("#live") or "")

    running.call(join())
    explorer.visit(ADMIN, look)


def test_everything_can_be_done_with_the_keyboard(explorer: Explorer) -> None:
    def look(visit: Visit) -> None:
        page = visit.open("/ui/")
        focus = "() => document.activeElement.getAttribute('data-placement')"
        press_until(visit, "Tab", f"({focus})() !== null")
        press_until(visit, "ArrowDown", f"({focus})() === 'web'")
        page.keyboard.press("End")
        page.keyboard.press("ArrowLeft")
        cluster = page.evaluate("() => document.activeElement.dataset.cluster")
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/ui/placements/**cluster={cluster}**")
        page.wait_for_selector(READY)
        assert (page.text_content("h1") or "").startswith("web ")
        page.wait_for_selector("#card pre")
        press_until(visit, "Tab", "document.activeElement.classList.contains('cell')")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        at = page.evaluate("() => [document.activeElement.dataset.line, document.activeElement.dataset.position]")
        assert at == ["1", "1"]
        assert page.is_visible(".tip")
        press_until(visit, "ArrowRight", f"document.activeElement.dataset.cluster !== '{cluster}'")
        pinned = page.evaluate("() => document.activeElement.dataset.cluster")
        page.keyboard.press("Enter")
        page.wait_for_function("(name) => location.search.includes(`cluster=${name}`)", arg=pinned)
        page.wait_for_function("(name) => document.querySelector('#card b')?.textContent === name", arg=pinned)
        assert page.evaluate("() => document.activeElement.dataset.cluster") == pinned
        press_until(visit, "Tab", "document.activeElement.id === 'scrub'")
        press_until(visit, "Tab", "document.activeElement.id === 'whatif-count'")
        page.keyboard.press("ArrowRight")
        page.wait_for_selector("#whatif-text")
        visit.check_calm()

    explorer.visit(ADMIN, look)


def press_until(visit: Visit, key: str, condition: str) -> None:
    for _ in range(150):
        visit.page.keyboard.press(key)
        if visit.page.evaluate(f"() => {condition}"):
            return
    raise AssertionError(f"{key} never leads to {condition}")


def test_controls_have_names_and_the_page_fits_narrow_and_dark(explorer: Explorer) -> None:
    def look(visit: Visit) -> None:
        for path in ("/ui/", "/ui/placements/-/big", "/ui/clusters/osl-1", "/ui/signin"):
            page = visit.open(path)
            assert page.evaluate(UNNAMED) == [], path
            assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth"), path
            assert len(page.query_selector_all("h1")) == 1, path
            assert page.evaluate(DOUBLES) == [], path
            visit.check_calm()

    for scheme in ("light", "dark"):
        explorer.visit(ADMIN, look, scheme=scheme, width=800)


def test_the_browser_leaves_no_event_loop_in_the_thread_of_tests(explorer: Explorer) -> None:
    async def answer() -> int:
        await asyncio.sleep(0)
        return 42

    assert explorer.visit(ADMIN, lambda visit: visit.page.evaluate("() => 42")) == asyncio.run(answer())
