"""Signals while a server in the same process wants them for itself."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

from fleet.cli.up.interrupts import Interrupts


class Server:
    """Takes the signals as uvicorn does."""

    def __init__(self) -> None:
        self.heard: list[int] = []

    def start(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.handle)

    def handle(self, number: int, frame: Any) -> None:
        self.heard.append(number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_for_the_end_and_does_not_reach_the_server(number: signal.Signals) -> None:
    async def run() -> None:
        server = Server()
        with Interrupts() as interrupts:
            server.start()
            interrupts.reclaim()
            signal.raise_signal(number)
            await interrupts.stop_requested.wait()
            assert server.heard == []
            interrupts.stop_server()
            assert server.heard == [signal.SIGTERM]

    asyncio.run(run())


def test_handlers_are_as_before_at_the_end() -> None:
    async def run() -> None:
        with Interrupts() as interrupts:
            Server().start()
            interrupts.reclaim()

    before = signal.getsignal(signal.SIGTERM)
    asyncio.run(run())

    assert signal.getsignal(signal.SIGTERM) == before


def test_without_a_server_there_is_nobody_to_end() -> None:
    async def run() -> None:
        with Interrupts() as interrupts:
            interrupts.stop_server()
            assert not interrupts.stop_requested.is_set()

    asyncio.run(run())
