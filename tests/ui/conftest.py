"""One browser and one served stage for the tests of a module. The stage changes, so tests do not rely on its past."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

import pytest
from fastapi import FastAPI

from api.http.server import ListenOptions, serve_app
from fleet.settings import Address
from tests.api.stage import Running, a_running_stage
from tests.ui.browsing import BrowserThread, Explorer


@pytest.fixture(scope="module")
def browser() -> Iterator[BrowserThread]:
    found = BrowserThread()
    try:
        found.start()
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with a_running_stage(tmp_path_factory.mktemp("ui")) as found:
        yield found


@pytest.fixture(scope="module")
def explorer(browser: BrowserThread, running: Running) -> Iterator[Explorer]:
    with served(running) as url:
        yield Explorer(browser, url)


@contextmanager
def served(running: Running) -> Iterator[str]:
    """The API of the stage on a free port."""
    server = Server(running)
    server.start(running.stage.app)
    try:
        yield server.url
    finally:
        server.stop()


class Server:
    """Starts again on the port that it had."""

    def __init__(self, running: Running) -> None:
        self.url = "http://127.0.0.1:0"
        self._running = running
        self._open = AsyncExitStack()

    def start(self, app: FastAPI) -> None:
        listening = ListenOptions(address=Address(self.url.removeprefix("http://")))

        async def start() -> str:
            return await self._open.enter_async_context(serve_app(app, listening))

        self.url = self._running.call(start())

    def stop(self) -> None:
        self._running.call(self._open.aclose())
