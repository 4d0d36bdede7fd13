"""The event loop of the processes: what is left of it when it is closed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from typing import Final

import pytest

from fleet.eventloop import loop_factory

NUMBERS: Final = (signal.SIGTERM, signal.SIGINT)


@pytest.fixture(params=[signal.default_int_handler, signal.SIG_IGN], ids=["told", "ignoring"])
def handlers(request: pytest.FixtureRequest) -> Iterator[list[object]]:
    """An ignored SIGINT is what `nohup` and jobs in the background begin with."""
    before = signal.signal(signal.SIGINT, request.param)
    yield [signal.getsignal(number) for number in NUMBERS]
    signal.signal(signal.SIGINT, before)


def test_a_closed_loop_gives_the_signals_back(handlers: list[object]) -> None:
    async def handle() -> None:
        for number in NUMBERS:
            asyncio.get_running_loop().add_signal_handler(number, lambda: None)

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(handle())

    assert [signal.getsignal(number) for number in NUMBERS] == handlers
