"""Recorded operations of clients on one hub: the input of the checkers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

NEVER: Final = math.inf


class Action(StrEnum):
    CREATE = "create"
    PUT = "put"
    """Replaces the value, whatever the revision."""
    REPLACE = "replace"
    """Replaces the value if the object still has the expected revision."""
    DELETE = "delete"
    GET = "get"


class Result(StrEnum):
    OK = "ok"
    MISSING = "missing"
    EXISTS = "exists"
    STALE = "stale"
    UNKNOWN = "unknown"
    """No answer, or one that leaves open whether the operation took effect: it may still do so at any later time."""


@dataclass(slots=True)
class Operation:
    client: str
    key: str
    action: Action
    called: int
    value: str = ""
    """That a write stores, or that a GET returned."""
    expected: int = 0
    """Revision that a REPLACE requires."""
    returned: float = NEVER
    result: Result = Result.UNKNOWN
    revision: int = 0
    """In the answer; 0 if it has none."""

    @property
    def is_write(self) -> bool:
        return self.action is not Action.GET

    @property
    def is_acknowledged_write(self) -> bool:
        return self.is_write and self.result is Result.OK


@dataclass
class History:
    """Times are the order of calls and answers, as the one event loop of all clients sees them."""

    operations: list[Operation] = field(default_factory=list)
    _clock: itertools.count[int] = field(default_factory=itertools.count)

    def call(self, client: str, key: str, action: Action, *, value: str = "", expected: int = 0) -> Operation:
        operation = Operation(client, key, action, next(self._clock), value, expected)
        self.operations.append(operation)
        return operation

    def answer(self, operation: Operation, result: Result, *, value: str | None = None, revision: int = 0) -> None:
        operation.result, operation.revision = result, revision
        if value is not None:
            operation.value = value
        if result is not Result.UNKNOWN:
            operation.returned = next(self._clock)

    def by_key(self) -> dict[str, list[Operation]]:
        """What can be checked: reads without an answer say nothing."""
        keys: dict[str, list[Operation]] = {}
        for operation in self.operations:
            if operation.is_write or operation.result is not Result.UNKNOWN:
                keys.setdefault(operation.key, []).append(operation)
        return keys


def acknowledged(operations: Iterable[Operation]) -> list[Operation]:
    return [operation for operation in operations if operation.is_acknowledged_write]
