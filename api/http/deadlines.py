"""The end of requests that take too long, or whose caller has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.problems import unavailable

ANSWER_TIMEOUT: Final = 30.0
"""Seconds until an answer has to begin."""

log = structlog.get_logger(__name__)


class Deadlines:
    """Middleware: a response has to start in time, and while its caller waits; one that has started may continue."""

    def __init__(self, app: ASGIApp, *, seconds: float = ANSWER_TIMEOUT) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False
        connection = _Connection(receive, has_body=_has_body(scope))
        try:
            async with asyncio.timeout(self._seconds) as deadline:

                async def send_in_time(message: Message) -> None:
                    nonlocal started
                    started = True
                    deadline.reschedule(None)
                    await send(message)

                def give_up() -> None:
                    if not started:
                        deadline.reschedule(0.0)

                connection.on_gone = give_up
                try:
                    await self._app(scope, connection.receive, send_in_time)
                finally:
                    connection.stop_watching()
        except TimeoutError:
            if started:
                raise
            if connection.is_gone:
                return
            log.warning("an answer took too long", path=scope["path"], seconds=self._seconds)
            late = unavailable(f"the answer was not ready after {self._seconds:g} s", "ask for less, or try again")
            await late.response()(scope, receive, send)


class _Connection:
    """Reads the body for the application, and then waits for the end of the connection on its own."""

    def __init__(self, receive: Receive, *, has_body: bool) -> None:
        self._receive = receive
        self._gone = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self.on_gone: Callable[[], None] | None = None
        self._owes_body = not has_body
        """Whether the application has yet to get the end of a body that there is not."""
        if not has_body:
            self._watch()

    @property
    def is_gone(self) -> bool:
        return self._gone.is_set()

    async def receive(self) -> Message:
        if self._watching is None:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._gone.set()
            elif not message.get("more_body", False):
                self._watch()
            return message
        if self._owes_body:
            self._owes_body = False
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    def _watch(self) -> None:
        self._watching = asyncio.create_task(self._wait_for_end(), name="waiting for a disconnect")

    async def _wait_for_end(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone.set()
        if self.on_gone is not None:
            self.on_gone()

    def stop_watching(self) -> None:
        if self._watching is not None:
            self._watching.cancel()


def _has_body(scope: Scope) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])
