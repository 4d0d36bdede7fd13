"""Lines on standard error: one JSON object each, or something for people.

Everybody logs through `structlog.get_logger(__name__)` with a short event and named values; `placement`, `cluster` and
`decision` are the names that operators look for, and stand first. What libraries say through `logging` takes the same
way out. A line below the level formats nothing.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, Final, TextIO

import msgspec
import structlog
from structlog.types import EventDict, Processor, WrappedLogger

_FIRST: Final = ("timestamp", "level", "logger", "event", "placement", "cluster", "decision")
_QUIET: Final = ("aiohttp.access", "asyncio", "kubernetes", "uvicorn.access")
"""Libraries that tell every request at the level at which we tell decisions."""


def configure(level: str = "info", style: str = "auto", *, stream: TextIO | None = None) -> None:
    """`style`: json, console, or auto, which is console on a terminal. Replaces what was configured before."""
    out = sys.stderr if stream is None else stream
    for_people = style == "console" or (style == "auto" and out.isatty())
    numeric = logging.getLevelNamesMapping()[level.upper()]
    last = _for_people(out) if for_people else _for_machines()
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, _name, *_common(), *last],
        wrapper_class=structlog.make_filtering_bound_logger(numeric),
        logger_factory=_Factory(out),
        cache_logger_on_first_use=False,
    )
    _route_libraries(numeric, out, last)


class _Factory:
    """Loggers that know the name they were asked for with."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def __call__(self, *args: Any) -> _Logger:
        return _Logger(self._out, str(args[0]) if args else "")


class _Logger(structlog.WriteLogger):
    def __init__(self, out: TextIO, name: str) -> None:
        super().__init__(out)
        self.name = name


def _name(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    del method
    if logger.name:
        event["logger"] = logger.name
    return event


def _common() -> list[Processor]:
    return [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]


def _for_machines() -> list[Processor]:
    return [
        structlog.processors.format_exc_info,
        structlog.processors.UnicodeDecoder(),
        _in_order,
        structlog.processors.JSONRenderer(serializer=_encoded),
    ]


def _for_people(out: TextIO) -> list[Processor]:
    traces = structlog.dev.plain_traceback
    return [
        _in_order,
        structlog.dev.ConsoleRenderer(colors=out.isatty(), sort_keys=False, exception_formatter=traces),
    ]


def _in_order(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    del logger, method
    return {name: event[name] for name in _FIRST if name in event} | dict(event)


def _encoded(event: EventDict, **_: Any) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()


def _route_libraries(level: int, out: TextIO, last: list[Processor]) -> None:
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *_common()],
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
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
