"""The end of requests whose caller has gone, and of those that take too long."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from api.http.middleware import Deadlines
from fleet.eventloop import pause_collection
from tests.faults.virtual import virtual

GET: Scope = {"type": "http", "path": "/slow", "headers": []}
POST: Scope = {"type": "http", "path": "/slow", "headers": [(b"content-length", b"4")]}


class Caller:
    """Sends its request, and goes when it is told to."""

    def __init__(self, *parts: bytes) -> None:
        self._parts = [*parts] or [b""]
        self.goes = asyncio.Event()
        self.received: list[Message] = []

    async def receive(self) -> Message:
        if self._parts:
            part = self._parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(self._parts)}
        await self.goes.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.received.append(message)


class App:
    """Reads the body, and then never ends."""

    def __init__(self, *, reads: bool = True, starts: bool = False) -> None:
        self.reads, self.starts = reads, starts
        self.body = b""
        self.is_computing = asyncio.Event()
        self.ending: str | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while self.reads:
            message = await receive()
            self.body += message["body"]
            if not message["more_body"]:
                break
        if self.starts:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        self.is_computing.set()
        try:
            if not self.starts:
                await asyncio.Event().wait()
            self.ending = (await receive())["type"]
        except asyncio.CancelledError:
            self.ending = "cancelled"
            raise


@pytest.mark.parametrize("scope, parts", [(GET, ()), (POST, (b"ab", b"cd"))], ids=["without a body", "with a body"])
@virtual
async def test_the_work_for_a_caller_who_has_gone_is_ended(scope: Scope, parts: tuple[bytes, ...]) -> None:
    caller, app = Caller(*parts), App()
    serving = asyncio.create_task(Deadlines(app)(scope, caller.receive, caller.send))
    await app.is_computing.wait()
    caller.goes.set()
    await serving

    assert (app.body, app.ending, caller.received) == (b"".join(parts), "cancelled", [])
    assert asyncio.get_running_loop().time() == 0


@virtual
async def test_a_caller_who_waits_in_vain_is_refused() -> None:
    caller, app = Caller(), App(reads=False)
    await Deadlines(app, seconds=30)(GET, caller.receive, caller.send)

    assert (app.ending, caller.received[0]["status"]) == ("cancelled", 503)
    assert asyncio.get_running_loop().time() == 30


@virtual
async def test_a_response_that_has_started_learns_of_the_end_by_itself() -> None:
    caller, app = Caller(), App(starts=True)
    serving = asyncio.create_task(Deadlines(app, seconds=30)(GET, caller.receive, caller.send))
    await app.is_computing.wait()
    await asyncio.sleep(3600)
    caller.goes.set()
    await serving

    assert app.ending == "http.disconnect"


@virtual
async def test_nothing_waits_for_the_end_of_a_request_that_was_answered() -> None:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    caller = Caller()
    await Deadlines(answer)(GET, caller.receive, caller.send)
    await asyncio.sleep(0)

    assert asyncio.all_tasks() == {asyncio.current_task()}


@virtual
async def test_an_answer_for_a_caller_who_has_gone_is_no_error() -> None:
    app: Callable[..., Any] = App()
    caller = Caller()
    caller.goes.set()

    await Deadlines(app)(GET, caller.receive, caller.send)

    assert caller.received == []


@pytest.mark.parametrize("scope, parts", [(GET, ()), (POST, (b"ab", b"cd"))], ids=["without a body", "with a body"])
def test_what_an_answered_request_held_is_freed_without_garbage_collection(
    scope: Scope, parts: tuple[bytes, ...]
) -> None:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["more_body"]:
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def story() -> Caller | None:
        caller = Caller(*parts)
        freed = weakref.ref(caller)
        await asyncio.create_task(Deadlines(answer)(scope, caller.receive, caller.send))
        assert len(caller.received) == 1
        del caller
        await asyncio.sleep(0.01)
        return freed()

    with pause_collection():
        assert asyncio.run(story()) is None
