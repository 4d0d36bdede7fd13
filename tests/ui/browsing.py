"""A browser in a thread of its own, which looks at the pages of one API.

Playwright leaves an event loop running in the thread that starts it, so no other thread may: tests hand it functions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Playwright,
    Request,
    Route,
    sync_playwright,
)

from tests.ui.chromium import require_chromium

T = TypeVar("T")
Json = dict[str, Any]

MINUS: Final = "\N{MINUS SIGN}"
DASH: Final = "\N{EN DASH}"
WITHIN: Final = 60_000
"""Milliseconds for anything to happen: a busy machine is not a failure."""
ASKED_AGAIN: Final = (429, 503)
"""A busy API answers so, and the page asks again; browsers put it on the console."""
READY: Final = "main[aria-busy=false]"
ARGUMENTS: Final = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--force-color-profile=srgb")


@dataclass
class Visit:
    """A page with a session, and what it did meanwhile."""

    page: Page
    url: str
    requests: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    """Of the API's answers, after `keep_bodies`."""
    complaints: list[str] = field(default_factory=list)
    """Errors and warnings on the console, and exceptions that nothing caught."""

    def open(self, path: str) -> Page:
        self.page.goto(f"{self.url}{path}", wait_until="commit")
        self.page.wait_for_selector(READY)
        return self.page

    def get(self, path: str) -> Json:
        """What REST has for the same session, asked outside the page."""
        answer = self.page.context.request.get(f"{self.url}{path}", timeout=WITHIN)
        assert answer.status == 200, answer.text()
        found: Json = answer.json()
        return found

    def post(self, path: str, body: Any) -> Json:
        answer = self.page.context.request.post(
            f"{self.url}{path}",
            data=json.dumps(body),
            headers={"Content-Type": "application/json", "Origin": self.url},
            timeout=WITHIN,
        )
        assert answer.status == 200, answer.text()
        found: Json = answer.json()
        return found

    def wait_for(self, condition: str, argument: Any = None) -> None:
        """Until an expression of the page is true."""
        self.page.wait_for_function(condition, arg=argument)

    def keep_bodies(self) -> None:
        """From now on. Of streams, which do not end, every event as it comes."""
        network = self.page.context.new_cdp_session(self.page)
        network.on("Network.eventSourceMessageReceived", lambda event: self.bodies.append(event["data"]))
        network.send("Network.enable")

        def fetch(route: Route) -> None:
            if "follow=" in route.request.url:
                return route.continue_()
            answer = route.fetch(timeout=WITHIN)
            self.bodies.append(answer.text())
            return route.fulfill(response=answer)

        self.page.route("**/v1/**", fetch)

    def everything(self) -> str:
        """The document, storage, the URL and everything received."""
        stored = self.page.evaluate(
            "() => JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"
        )
        return "\n".join([self.page.content(), str(stored), *self.bodies, *self.requests])

    def check_calm(self) -> None:
        """No error on the console, and no request to another origin."""
        assert self.complaints == []
        origin = urlsplit(self.url).netloc
        elsewhere = [url for url in self.requests if urlsplit(url).scheme != "data" and urlsplit(url).netloc != origin]
        assert elsewhere == []


class BrowserThread:
    """The only thread that may touch the browser."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="browser")
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None

    def start(self) -> None:
        self._pool.submit(self._start).result()

    def stop(self) -> None:
        self._pool.submit(self._stop).result()
        self._pool.shutdown()

    def call(self, work: Callable[[Browser], T]) -> T:
        def run() -> T:
            assert self._browser is not None
            return work(self._browser)

        return self._pool.submit(run).result()

    def _start(self) -> None:
        executable = require_chromium()
        self._playwright = sync_playwright().start()
        self._browser = self._playwright.chromium.launch(
            executable_path=executable, args=list(ARGUMENTS), timeout=2 * WITHIN
        )

    def _stop(self) -> None:
        if self._browser is not None:
            self._browser.close()
        if self._playwright is not None:
            self._playwright.stop()


@dataclass(frozen=True)
class Explorer:
    """The pages of one API, through one browser."""

    browser: BrowserThread
    url: str

    def visit(
        self,
        token: str | None,
        look: Callable[[Visit], T],
        *,
        scheme: Literal["light", "dark"] = "light",
        width: int = 1440,
    ) -> T:
        """Calls `look` with a signed-in page, in the browser's thread."""

        def work(browser: Browser) -> T:
            with _a_context(browser, scheme, width) as context:
                if token is not None:
                    sign_in(context, self.url, token)
                visit = Visit(context.new_page(), self.url)
                _listen(visit)
                try:
                    return look(visit)
                finally:
                    visit.page.unroute_all(behavior="ignoreErrors")

        return self.browser.call(work)


@contextmanager
def _a_context(browser: Browser, scheme: Literal["light", "dark"], width: int) -> Iterator[BrowserContext]:
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    context.set_default_timeout(WITHIN)
    context.set_default_navigation_timeout(WITHIN)
    try:
        yield context
    finally:
        context.close()


def sign_in(context: BrowserContext, url: str, token: str) -> None:
    answer = context.request.post(
        f"{url}/v1/session", headers={"Authorization": f"Bearer {token}", "Origin": url}, timeout=WITHIN
    )
    assert answer.status == 200, answer.text()


def _listen(visit: Visit) -> None:
    def note_request(request: Request) -> None:
        visit.requests.append(request.url)

    visit.page.on("request", note_request)
    visit.page.on("pageerror", lambda error: visit.complaints.append(str(error)))

    def note_message(message: ConsoleMessage) -> None:
        is_busy = any(f"status of {status} " in message.text for status in ASKED_AGAIN)
        if message.type in ("error", "warning") and not is_busy:
            visit.complaints.append(message.text)

    visit.page.on("console", note_message)
