"""Callers that ask little. They run in a process of their own, so that their times do not include the work of the other
caller."""

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
_SECONDS_TO_END: Final = 10.0


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
        """Their times are added to `beside` at the end."""
        self._connection.send(None)
        yield
        self._connection.send(None)
        times: Beside = await asyncio.to_thread(self._connection.recv)
        beside.probes += times.probes
        beside.answers += times.answers


@contextmanager
def others(asking: Asking) -> Iterator[Others]:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_ask_when_told, args=(theirs, asking), daemon=True)
    process.start()
    theirs.close()  # else the end of the process would not end the pipe
    try:
        yield Others(ours)
    finally:
        ours.close()
        process.join(_SECONDS_TO_END)
        process.kill()


def _ask_when_told(connection: Connection, asking: Asking) -> None:
    with asyncio.Runner() as runner:
        runner.run(_take_turns(connection, asking))


async def _take_turns(connection: Connection, asking: Asking) -> None:
    async with aiohttp.ClientSession() as session:
        while await asyncio.to_thread(_is_told, connection):
            beside = Beside()
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(_look(session, url, beside)) for url in asking.probes]
                tasks.append(group.create_task(_ask(session, asking, beside)))
                goes_on = await asyncio.to_thread(_is_told, connection)
                for task in tasks:
                    task.cancel()
            if goes_on:
                connection.send(beside)


def _is_told(connection: Connection) -> bool:
    """False at the end."""
    try:
        connection.recv()
    except EOFError:
        return False
    return True


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
