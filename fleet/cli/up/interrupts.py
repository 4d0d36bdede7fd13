"""SIGINT and SIGTERM as a request to shut down, shared with an HTTP server in the same process."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final, Self

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

Handler = Callable[[int, FrameType | None], Any] | int | None


class Interrupts:
    """A context manager for the main thread.

    uvicorn installs its own handlers when it starts, restores ours when it stops, and then raises caught signals again.
    Clients of the server must stop before the server does. So `reclaim` installs our handlers again once it serves, and
    `stop_server` calls its handler.
    """

    def __init__(self) -> None:
        self.stop_requested = asyncio.Event()
        self._before: dict[signal.Signals, Handler] = {}
        self._of_server: Handler = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._before = {number: signal.signal(number, self._request_stop) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def reclaim(self) -> None:
        for number in _SIGNALS:
            self._of_server = signal.signal(number, self._request_stop)

    def stop_server(self) -> None:
        if callable(self._of_server):
            self._of_server(signal.SIGTERM, None)

    def _request_stop(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.stop_requested.set)
