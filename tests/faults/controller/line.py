"""The line between one controller and the hub: every request is numbered, takes its time, and may meet a fault.

A request is carried out by the hub whether or not somebody still waits for the answer, as on a real network. When the
process at the other end is killed, what it had on the way is either lost or arrives, possibly much later.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Final

from fleet.errors import ApiError, ConnectionLost, DeadlineExceeded, Gone
from fleet.kube.api import Request
from tests.fake_hub import Lost, Refused
from tests.faults.hub_api import HubApi

_SLOWEST: Final = 0.02
"""Seconds, each way."""


# --- faults -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Garbled:
    """Carried out, and the answer makes no sense."""

    body: bytes = b"<html>a proxy's opinion"


@dataclass(frozen=True)
class Late:
    """The client's deadline passes first; the request is carried out so many seconds after that."""

    seconds: float


@dataclass(frozen=True)
class Broken:
    """A watch that opens, and after some pieces fails in one of many ways."""

    how: str
    after: int = 0


@dataclass(frozen=True)
class Killed:
    """The process ends with this request on its way: lost, or carried out after so many seconds."""

    arrives: float | None = None


Fault = Refused | Lost | Garbled | Late | Broken | Killed | None
Faults = Callable[[int, Request], Fault]


def fair(_: int, __: Request) -> Fault:
    return None


def at(number: int, fault: Fault) -> Faults:
    """One fault, for the request of that number."""
    return lambda asked, _: fault if asked == number else None


# --- the line ---------------------------------------------------------------------------------------------------------


class Line:
    def __init__(
        self,
        hub: HubApi,
        *,
        faults: Faults = fair,
        rng: Random,
        on_kill: Callable[[], None] = lambda: None,
        slowest: float = _SLOWEST,
    ) -> None:
        """Every request, answer and watch event takes up to `slowest` seconds, and events come one after another."""
        self.requests: list[Request] = []
        self.met: list[tuple[Request, Fault]] = []
        """Requests and the faults they met."""
        self._hub = hub
        self._faults = faults
        self._rng = rng
        self._on_kill = on_kill
        self._slowest = slowest
        self._arrives: float | None = None
        self.is_cut = False
        self.on_the_way: set[asyncio.Task[bytes]] = set()

    def cut(self, arrives: float | None) -> None:
        """The process is gone. What it has on the way arrives after so many seconds, or never."""
        self.is_cut, self._arrives = True, arrives

    async def call(self, request: Request) -> bytes:
        fault = self._numbered(request)
        match fault:
            case Refused():
                await asyncio.sleep(min(fault.after, request.deadline))
                raise fault.error
            case Late():
                self._send(request, delay=request.deadline + fault.seconds)
                await asyncio.sleep(request.deadline)
                raise DeadlineExceeded("scripted: no answer yet")
            case Killed():
                await self._die(request, fault)
        answer = await self._in_time(request)
        match fault:
            case Lost():
                await asyncio.sleep(min(fault.after, request.deadline))
                raise fault.error
            case Garbled():
                return fault.body
        return answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        fault = self._numbered(request)
        if isinstance(fault, Refused):
            await asyncio.sleep(min(fault.after, request.deadline))
            raise fault.error
        if isinstance(fault, Killed):
            await self._die(None, fault)
        await asyncio.sleep(self._pause())
        async with self._hub.stream(request) as pieces:
            yield self._received(pieces, fault if isinstance(fault, Broken) else None)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _numbered(self, request: Request) -> Fault:
        if self.is_cut:
            raise ConnectionLost("the process is gone")
        fault = self._faults(len(self.requests), request)
        self.requests.append(request)
        if fault is not None:
            self.met.append((request, fault))
        return fault

    async def _die(self, request: Request | None, fault: Killed) -> None:
        if request is not None and fault.arrives is not None:
            self._send(request, delay=fault.arrives)
        self.cut(fault.arrives)
        self._on_kill()
        await asyncio.Event().wait()

    async def _in_time(self, request: Request) -> bytes:
        try:
            async with asyncio.timeout(request.deadline):
                return await asyncio.shield(self._send(request, delay=self._pause()))
        except TimeoutError as error:
            raise DeadlineExceeded("scripted: too slow") from error

    def _send(self, request: Request, *, delay: float) -> asyncio.Task[bytes]:
        task = asyncio.create_task(self._delivered(request, delay), name=f"{request.method} {request.path}")
        self.on_the_way.add(task)
        task.add_done_callback(self._settled)
        return task

    def _settled(self, task: asyncio.Task[bytes]) -> None:
        self.on_the_way.discard(task)
        if not task.cancelled():
            task.exception()  # it may be that nobody waits any more

    async def _delivered(self, request: Request, delay: float) -> bytes:
        was_cut = self.is_cut
        await asyncio.sleep(delay)
        if self.is_cut and not was_cut:
            if self._arrives is None:
                raise ConnectionLost("the process is gone")
            await asyncio.sleep(self._arrives)
        answer = await self._hub.call(request)
        await asyncio.sleep(self._pause())
        return answer

    async def _received(self, pieces: AsyncIterator[bytes], fault: Broken | None) -> AsyncIterator[bytes]:
        count = 0
        while fault is None or count < fault.after:
            try:
                piece = await anext(pieces)
            except StopAsyncIteration:
                return
            await asyncio.sleep(self._pause())
            count += 1
            yield piece
        async for piece in _spoilt(pieces, fault.how):
            yield piece

    def _pause(self) -> float:
        return self._rng.uniform(0.0, self._slowest)


async def _spoilt(pieces: AsyncIterator[bytes], how: str) -> AsyncIterator[bytes]:
    match how:
        case "reset":
            raise ConnectionLost("scripted: reset")
        case "cut short":
            async for piece in pieces:
                yield piece[: len(piece) // 2]
                raise ConnectionLost("scripted: reset in the middle of an event")
        case "silent":
            await asyncio.sleep(1e9)
        case "garbage":
            yield b'{"type":"MODIFIED","object":42}\n'
        case "expired":
            yield b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n'


def expired() -> ApiError:
    return Gone("scripted: too old", status=410, reason="Expired")
