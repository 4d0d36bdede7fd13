"""A PostgreSQL connection that gives up on a server that does not answer.

The server ends statements that take too long, as long as it runs. One that is stopped or unreachable behind an open
connection says nothing, and libpq waits for it without limit.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, Final, TypeVar

import psycopg

T = TypeVar("T")

_DEADLINE: Final = 35.0
"""Seconds for one exchange: longer than the server allows a statement to take."""


class DeadlineConnection(psycopg.Connection[Any]):
    def wait(self, gen: Generator[Any, Any, T], *arguments: Any, **options: Any) -> T:
        return super().wait(_limit(gen, seconds=_DEADLINE), *arguments, **options)


def _limit(exchange: Generator[Any, Any, T], *, seconds: float) -> Generator[Any, Any, T]:
    """psycopg resumes the exchange when the socket is ready, and several times a second while it is not."""
    deadline = time.monotonic() + seconds
    try:
        wanted = next(exchange)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > deadline:
                raise psycopg.OperationalError(f"the server did not answer for {seconds:g} s")
            wanted = exchange.send(ready)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        exchange.close()
