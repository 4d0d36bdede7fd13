"""Who waits for a connection may leave at any time; the opening goes on, and ends well in any case."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from fleet.kube.client.dialer import TIMEOUT, Dialer, NotConnected
from tests.faults.virtual import virtual


class Bench:
    """One opening, which ends as it is told."""

    def __init__(self) -> None:
        self.left_over: list[str] = []
        self.openings: Dialer[str] = Dialer(on_unclaimed=self.left_over.append)
        self.end: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def begun(self) -> asyncio.Task[str]:
        waiting = asyncio.create_task(self.openings.dial(self._open()))
        await asyncio.sleep(1)
        return waiting

    async def abandoned(self) -> None:
        waiting = await self.begun()
        waiting.cancel()
        await asyncio.wait((waiting,))
        assert waiting.cancelled()

    async def _open(self) -> str:
        return await self.end


@virtual
async def test_who_waits_gets_the_connection() -> None:
    bench = Bench()
    waiting = await bench.begun()
    bench.end.set_result("connection")
    assert await waiting == "connection"
    assert bench.left_over == []


@virtual
async def test_a_connection_that_nobody_waits_for_any_more_is_left_over() -> None:
    bench = Bench()
    await bench.abandoned()
    bench.end.set_result("connection")
    await asyncio.sleep(1)
    assert bench.left_over == ["connection"]


@virtual
async def test_nobody_complains_of_a_failure_that_nobody_waits_for_any_more() -> None:
    violations: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, complaint: violations.append(complaint))
    bench = Bench()
    await bench.abandoned()
    bench.end.set_exception(NotConnected("refused"))
    await asyncio.sleep(1)
    gc.collect()
    assert (bench.left_over, violations) == ([], [])


@virtual
async def test_an_opening_takes_no_longer_than_it_may() -> None:
    waiting = await Bench().begun()
    async with asyncio.timeout(TIMEOUT):
        with pytest.raises(NotConnected, match="no connection within 30 s"):
            await waiting


@virtual
async def test_closing_ends_an_opening_that_the_server_holds_up_and_tells_who_waits() -> None:
    bench = Bench()
    waiting = await bench.begun()
    async with asyncio.timeout(TIMEOUT / 2):
        await bench.openings.close()
    with pytest.raises(NotConnected, match="the transport was closed"):
        await waiting


@virtual
async def test_closing_lets_an_opening_finish_that_is_about_to() -> None:
    bench = Bench()
    waiting = await bench.begun()
    asyncio.get_running_loop().call_later(0.5, bench.end.set_result, "connection")
    await bench.openings.close()
    assert await waiting == "connection"
