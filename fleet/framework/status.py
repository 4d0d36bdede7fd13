"""Statuses: the result codes of hooks, and functions to read them. `None` means success everywhere."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from fleet.errors import FleetError, PluginError

MIN_CLUSTER_SCORE: Final = 0
MAX_CLUSTER_SCORE: Final = 100
MAX_TOTAL_SCORE: Final = 2**63 - 1
NOT_FOUND: Final = "not found"

NO_DETAILS: Final[Mapping[str, Any]] = MappingProxyType({})


class Code(enum.IntEnum):
    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    """Rejected; evicting other work may help."""
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    """Rejected, and eviction cannot help."""
    WAIT = 4
    SKIP = 5
    PENDING = 6
    """Rejected, but progress was made: a requeued placement skips backoff."""

    def __str__(self) -> str:
        return _CODE_NAMES[self]


_CODE_NAMES: Final = {code: "".join(part.capitalize() for part in code.name.split("_")) for code in Code} | {
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable"
}

REJECTIONS: Final = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})

# How codes are spelled in the published status of a policy snapshot.
_PUBLISHED_NAMES: Final = {
    Code.ERROR: "InternalError",
    Code.UNSCHEDULABLE: "ClusterUnschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "ClusterUnschedulable",
    Code.PENDING: "ClusterUnschedulable",
}
ALREADY_SELECTED: Final = "alreadySelected"


@dataclass(frozen=True, slots=True)
class Status:
    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""
    error: BaseException | None = None
    details: Mapping[str, Any] = field(default_factory=lambda: NO_DETAILS)

    @staticmethod
    def new(code: Code, *reasons: str) -> Status:
        return Status(code, reasons) if reasons and code is not Code.SUCCESS else _WITHOUT_REASONS[code]


_WITHOUT_REASONS: Final = {code: Status(code) for code in Code}
SUCCESS: Final = _WITHOUT_REASONS[Code.SUCCESS]


def code_of(status: Status | None) -> Code:
    return Code.SUCCESS if status is None else status.code


def is_success(status: Status | None) -> bool:
    return code_of(status) is Code.SUCCESS


def is_unschedulable(status: Status | None) -> bool:
    return code_of(status) in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


def message_of(status: Status | None) -> str:
    return "" if status is None else ", ".join(status.reasons)


def as_error(status: Status | None) -> FleetError | None:
    if status is None or status.code is Code.SUCCESS:
        return None
    message = message_of(status)
    if isinstance(status.error, FleetError) and message in ("", str(status.error)):
        return status.error
    kind = type(status.error) if isinstance(status.error, PluginError) else PluginError
    error = kind(message, plugin=status.plugin)
    error.__cause__ = status.error
    return error


def published_text(status: Status) -> str:
    """The text form that other agents expect: the code's published name, an error text, the reasons."""
    name = _PUBLISHED_NAMES.get(status.code, str(status.code))
    if status.details.get(ALREADY_SELECTED):
        name = "ClusterAlreadySelected"
    error = () if status.error is None else (str(status.error),)
    return ", ".join((name, *error, *status.reasons))
