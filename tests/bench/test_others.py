"""What becomes of the process of the other callers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing import active_children

import pytest
from aiohttp import web

from tests.bench.others import Asking, Beside, others


class Server:
    """Of one status after the other it answers the last for ever."""

    def __init__(self, *statuses: int) -> None:
        self.asked = 0
        self._statuses = statuses
        application = web.Application()
        application.router.add_get("/", self._answer)
        self._runner = web.AppRunner(application)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        try:
            yield f"http://127.0.0.1:{self._runner.addresses[0][1]}/"
        finally:
            await self._runner.cleanup()

    @property
    def is_left(self) -> bool:
        """By callers that were there."""
        assert self._runner.server is not None
        return self.asked > 0 and not self._runner.server.connections

    async def _answer(self, request: web.Request) -> web.Response:
        self.asked += 1
        return web.Response(status=self._statuses[min(self.asked, len(self._statuses)) - 1])


async def ask_for_a_while(*statuses: int, fails: bool = False) -> Beside:
    """Until they have asked some times, or have given up."""
    beside, server = Beside(), Server(*statuses)
    async with server.serving() as url:
        with others(Asking([url], [url], "token")) as callers:
            async with callers.asking(beside), asyncio.timeout(60):
                while server.asked < 10 and not server.is_left:
                    await asyncio.sleep(0.01)
                if fails:
                    raise LookupError
    return beside


def test_others_ask_as_long_as_they_are_told_and_end() -> None:
    beside = asyncio.run(ask_for_a_while(200))
    assert beside.probes
    assert beside.answers
    assert not active_children()


def test_they_end_with_what_is_measured() -> None:
    with pytest.raises(LookupError):
        asyncio.run(ask_for_a_while(200, fails=True))
    assert not active_children()


@pytest.mark.parametrize("statuses", [(500,), (200, 200, 200, 500)], ids=["at once", "later"])
def test_an_answer_that_is_none_ends_the_measurement(statuses: tuple[int, ...]) -> None:
    with pytest.raises(EOFError):
        asyncio.run(ask_for_a_while(*statuses))
    assert not active_children()
