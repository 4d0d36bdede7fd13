"""What becomes of the process of the other callers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing import active_children

import pytest
from aiohttp import web

from tests.bench.others import Asking, Beside, others


@asynccontextmanager
async def a_server(*statuses: int) -> AsyncIterator[str]:
    """Of one after the other it answers the last for ever."""
    left = [*statuses]

    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=left.pop(0) if len(left) > 1 else left[0])

    application = web.Application()
    application.router.add_get("/", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


async def ask_for_a_while(*statuses: int, fails: bool = False) -> Beside:
    beside = Beside()
    async with a_server(*statuses) as url:
        with others(Asking([url], [url], "token")) as callers:
            async with callers.asking(beside):
                await asyncio.sleep(1)
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
