"""One browser and one served stage for the tests of a module. The stage changes, so tests do not rely on its past."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Final

import pytest

from api.http.server import ListenOptions, serve_app
from fleet.settings import Address
from tests.api.stage import Running, a_running_stage
from tests.ui.browsing import BrowserThread, Explorer

LISTENING: Final = ListenOptions(address=Address("127.0.0.1:0"))


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
    server = AsyncExitStack()

    async def start() -> str:
        return await server.enter_async_context(serve_app(running.stage.app, LISTENING))

    url = running.call(start())
    try:
        yield url
    finally:
        running.call(server.aclose())
