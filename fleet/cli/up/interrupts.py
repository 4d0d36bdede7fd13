"""SIGINT and SIGTERM as a wish to end in order, also while an HTTP server in this process wants them for itself."""

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

    uvicorn takes the signals when it starts, gives them back when it ends, and raises again what it caught. Everything
    that uses the server has to end before it does, so `take_back` takes them from it once it serves, and `end_server`
    tells it what it would have heard.
    """

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self._before: dict[signal.Signals, Handler] = {}
        self._of_server: Handler = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._before = {one: signal.signal(one, self._ask) for one in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)

    def take_back(self) -> None:
        for one in _SIGNALS:
            self._of_server = signal.signal(one, self._ask)

    def end_server(self) -> None:
        if callable(self._of_server):
            self._of_server(signal.SIGTERM, None)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.asked.set)
