"""The event loop of the processes: what is left of it when it is closed."""

from __future__ import annotations

import asyncio
import signal

from fleet.eventloop import loop_factory


def test_a_closed_loop_handles_no_signals() -> None:
    numbers = (signal.SIGTERM, signal.SIGINT)

    async def handle() -> None:
        for number in numbers:
            asyncio.get_running_loop().add_signal_handler(number, lambda: None)

    before = [signal.getsignal(number) for number in numbers]
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(handle())

    assert [signal.getsignal(number) for number in numbers] == before
