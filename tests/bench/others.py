"""Callers that ask little, as a process of their own, so that what they wait for is not the work of the other client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Final

import aiohttp

_ASK_EVERY: Final = 0.01


@dataclass(slots=True)
class Beside:
    """Seconds in which what others asked was answered."""

    probes: list[float] = field(default_factory=list)
    answers: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Asking:
    """What others ask again and again."""

    probes: Sequence[str]
    """URLs of `/livez`."""
    questions: Sequence[str]
    token: str


class Others:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @asynccontextmanager
    async def asking(self, beside: Beside) -> AsyncIterator[None]:
        """Their times are added at the end."""
        self._connection.send(True)
        await asyncio.to_thread(self._connection.recv)
        try:
            yield
        finally:
            self._connection.send(True)
            times: Beside = await asyncio.to_thread(self._connection.recv)
            beside.probes += times.probes
            beside.answers += times.answers


@contextmanager
def others(asking: Asking) -> Iterator[Others]:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_ask_when_told, args=(theirs, asking), daemon=True)
    process.start()
    try:
        yield Others(ours)
    finally:
        ours.send(False)
        process.join()


def _ask_when_told(connection: Connection, asking: Asking) -> None:
    with asyncio.Runner() as runner:
        runner.run(_take_turns(connection, asking))


async def _take_turns(connection: Connection, asking: Asking) -> None:
    async with aiohttp.ClientSession() as session:
        while await asyncio.to_thread(connection.recv):
            beside = Beside()
            tasks = [asyncio.create_task(_look(session, url, beside)) for url in asking.probes]
            tasks.append(asyncio.create_task(_ask(session, asking, beside)))
            connection.send(True)
            await asyncio.to_thread(connection.recv)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            for task in tasks:
                if not task.cancelled():
                    task.result()
            connection.send(beside)


async def _look(session: aiohttp.ClientSession, url: str, beside: Beside) -> None:
    while True:
        await _time(session, url, {}, beside.probes)
        await asyncio.sleep(_ASK_EVERY)


async def _ask(session: aiohttp.ClientSession, asking: Asking, beside: Beside) -> None:
    while True:
        for url in asking.questions:
            await _time(session, url, {"Authorization": f"Bearer {asking.token}"}, beside.answers)
            await asyncio.sleep(_ASK_EVERY)


async def _time(session: aiohttp.ClientSession, url: str, headers: dict[str, str], seconds: list[float]) -> None:
    begun = time.perf_counter()
    async with session.get(url, headers=headers) as answer:
        content = await answer.read()
    assert answer.status == 200, f"{url}: {answer.status} {content[:300]!r}"
    seconds += list_waits(time.perf_counter() - begun)


def list_waits(seconds: float) -> Iterator[float]:
    """Of a request, and of those that would have been sent meanwhile: else a long wait would count once."""
    while seconds > 0:
        yield seconds
        seconds -= _ASK_EVERY
