"""Logging to standard error: one JSON object per line, or a console format.

Modules log through `structlog.get_logger(__name__)` with a short event and key-value pairs; `placement`, `cluster` and
`decision` come first, because operators search for them. Records of libraries that use `logging` have the same format.
A record below the level is not formatted. A record that cannot be written is lost, and is no error: a full disk, or a
reader that has gone or reads no more, must neither stop the work nor keep the process from ending.
"""

from __future__ import annotations

import logging
import select
import sys
import threading
from collections import deque
from contextlib import suppress
from typing import Any, Final, TextIO, cast

import msgspec
import structlog
from structlog.types import EventDict, Processor, WrappedLogger

_LEADING_KEYS: Final = ("timestamp", "level", "logger", "event", "placement", "cluster", "decision")
_QUIET_LIBRARIES: Final = ("aiohttp.access", "asyncio", "kubernetes", "uvicorn.access")
"""Libraries that log every request at the level at which we log decisions."""
_PIECE: Final = 1024
"""Characters that a pipe takes at once, whatever their encoding, if it takes any."""
_MOST_WAITING: Final = 4 * 1024 * 1024
"""Characters for a reader that is slow; then lines are lost."""


def configure(level: str = "info", style: str = "auto", *, stream: TextIO | None = None) -> None:
    """`style`: json, console, or auto, which is console on a terminal. Replaces the previous configuration."""
    out = _LossyStream(sys.stderr if stream is None else stream)
    for_people = style == "console" or (style == "auto" and out.isatty())
    numeric = logging.getLevelNamesMapping()[level.upper()]
    last = _build_console_processors(out) if for_people else _build_json_processors()
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, _add_logger_name, *_build_common_processors(), *last],
        wrapper_class=structlog.make_filtering_bound_logger(numeric),
        logger_factory=_Factory(out),
        cache_logger_on_first_use=False,
    )
    _route_libraries(numeric, out, last)


class _LossyStream:
    """A stream whose writes do not fail, also if it is closed or cannot encode them, and do not wait for its reader.
    What a full pipe does not take is written by a thread, as soon as it can be."""

    def __init__(self, out: TextIO | None) -> None:
        """None for a process that was started without standard error."""
        self._out = out
        self._lock = threading.RLock()
        self._waiting: deque[str] = deque()
        self._size = 0
        """Characters that wait."""
        self._lost = 0
        """Lines."""
        self._is_catching_up = False

    def isatty(self) -> bool:
        return self._out is not None and self._out.isatty()

    def write(self, text: str) -> None:
        if self._out is None:
            return
        with self._lock:
            if self._size + len(text) > _MOST_WAITING:
                self._lost += 1
                return
            self._size += len(text)
            self._waiting.extend(text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
            if not self._is_catching_up and not self._drain(self._out):
                self._is_catching_up = True
                threading.Thread(target=self._catch_up, args=(self._out,), name="fleet-log", daemon=True).start()

    def flush(self) -> None:
        """Every write has been."""

    def _drain(self, out: TextIO) -> bool:
        """Whether everything is written."""
        while self._waiting and _wait_until_writable(out, milliseconds=0):
            piece = self._waiting.popleft()
            self._size -= len(piece)
            with suppress(OSError, ValueError):
                out.write(piece)
                out.flush()
        return not self._waiting

    def _catch_up(self, out: TextIO) -> None:
        lost = 0
        while self._is_catching_up:
            _wait_until_writable(out, milliseconds=None)
            with self._lock:
                self._is_catching_up = not self._drain(out)
                lost, self._lost = lost + self._lost, 0
        if lost:
            structlog.get_logger(__name__).warning("log lines were lost: they were not read in time", lines=lost)


def _wait_until_writable(out: TextIO, *, milliseconds: int | None) -> bool:
    """Whether a piece can be written without waiting. What is no file of the system always can."""
    poll = select.poll()
    try:
        poll.register(out.fileno(), select.POLLOUT)
    except (OSError, ValueError):
        return True
    return bool(poll.poll(milliseconds))


class _Factory:
    """Creates loggers that keep their name."""

    def __init__(self, out: _LossyStream) -> None:
        self._out = out

    def __call__(self, *args: Any) -> _Logger:
        return _Logger(self._out, str(args[0]) if args else "")


class _Logger(structlog.WriteLogger):
    def __init__(self, out: _LossyStream, name: str) -> None:
        super().__init__(cast("TextIO", out))
        self.name = name


def _add_logger_name(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    del method
    if logger.name:
        event["logger"] = logger.name
    return event


def _build_common_processors() -> list[Processor]:
    return [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]


def _build_json_processors() -> list[Processor]:
    return [
        structlog.processors.format_exc_info,
        structlog.processors.UnicodeDecoder(),
        _order_keys,
        structlog.processors.JSONRenderer(serializer=_encode),
    ]


def _build_console_processors(out: _LossyStream) -> list[Processor]:
    traces = structlog.dev.plain_traceback
    return [
        _order_keys,
        structlog.dev.ConsoleRenderer(colors=out.isatty(), sort_keys=False, exception_formatter=traces),
    ]


def _order_keys(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    del logger, method
    return {name: event[name] for name in _LEADING_KEYS if name in event} | dict(event)


def _encode(event: EventDict, **_: Any) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()


def _route_libraries(level: int, out: _LossyStream, last: list[Processor]) -> None:
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *_build_common_processors()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(logging.NOTSET)
    for name in _QUIET_LIBRARIES:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
