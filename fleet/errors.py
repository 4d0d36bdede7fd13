"""Errors: the tree of all exceptions that Fleet raises on purpose.

    FleetError
    ├── InputError            input of a user or another program is wrong
    │   ├── QuantityError     not a quantity
    │   ├── TimestampError    not an RFC 3339 time
    │   ├── DocumentError     a document does not fit its kind
    │   ├── SchemaError       the schema of a kind cannot be compiled
    │   ├── PatchError        a patch does not fit the document, or is none
    │   │   └── PatchTestFailed
    │   ├── ApplyError        an applied object does not fit its schema
    │   ├── EncodingError     malformed bytes of a message
    │   └── UnsupportedKind   no table describes the messages of the kind
    ├── ConfigurationError    profiles, plugins or settings do not fit together
    │   ├── DuplicatePlugin
    │   └── UnknownPlugin
    ├── PluginError           a plugin broke its contract (the attempt fails, the process continues)
    │   └── ExtenderUnavailable    an extender that must not be ignored gave no answer (retriable)
    ├── StaleInputs           objects changed while a decision was made from them (retriable)
    ├── PurityError           a decision hook used a clock, a file or the network
    ├── SnapshotUseError      an effect hook used the frame of the decision
    ├── RequestRefused        the embedded hub answers a request with a Kubernetes Status other than success
    ├── ApiError              the Kubernetes API refused a request, or did not answer it
    │   ├── BadRequest, Unauthorized, Forbidden, NotFound, AlreadyExists, Conflict, Gone, Invalid
    │   ├── TooManyRequests, InternalError, Unavailable
    │   ├── ServerTimeout, ConnectionLost, DeadlineExceeded    a write may have been applied
    │   ├── Unreachable       the request was never sent
    │   └── UnreadableAnswer  the response is not Kubernetes
    ├── NotLeading            a write was attempted without a lease that is certain to hold
    ├── LeadershipLost        the lease ended during the work that needs it
    ├── QueueClosed           a work queue was closed
    ├── InvalidKey            a queue key that names no placement
    ├── HistoryUnavailable    the database of the decision history cannot be read right now
    ├── StateNotFound         a cycle-state key without a value
    └── StateExpired          a cycle state used after its attempt ended

A plugin's refusal of a cluster is a value (`framework.status.Status`), never an exception.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


class FleetError(Exception):
    """Root of everything Fleet raises on purpose."""

    retriable: ClassVar[bool] = False


def find_first_error(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of a task group, out of all nested groups."""
    error: BaseException = several
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class InputError(FleetError):
    """Names the field, the value and what is expected instead."""

    def __init__(self, message: str, *, field: str = "", value: object = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.value = value

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class QuantityError(InputError):
    pass


class TimestampError(InputError):
    pass


class DocumentError(InputError):
    pass


class SchemaError(InputError):
    """`causes` has every invalid rule and pattern, with its path in the schema."""

    def __init__(self, message: str, *, causes: Sequence[Any] = ()) -> None:
        super().__init__("; ".join([message, *map(str, causes)]))
        self.causes = tuple(causes)


class PatchError(InputError):
    """`is_unprocessable`: the patch is well-formed but does not fit the document."""

    def __init__(self, message: str, *, is_unprocessable: bool = False) -> None:
        super().__init__(message)
        self.is_unprocessable = is_unprocessable


class PatchTestFailed(PatchError):
    pass


class ApplyError(InputError):
    pass


class EncodingError(InputError):
    pass


class UnsupportedKind(InputError):
    pass


class ConfigurationError(FleetError):
    pass


class DuplicatePlugin(ConfigurationError):
    def __init__(self, name: str) -> None:
        super().__init__(f"a plugin named {name} already exists")


class UnknownPlugin(ConfigurationError):
    def __init__(self, name: str) -> None:
        super().__init__(f"no plugin named {name} exists")


class PluginError(FleetError):
    def __init__(self, message: str, *, plugin: str = "", hook: str = "") -> None:
        super().__init__(message)
        self.plugin = plugin
        self.hook = hook


class ExtenderUnavailable(PluginError):
    """An extender that must not be ignored gave no answer; asking again may help."""

    retriable = True


class PurityError(FleetError):
    pass


class SnapshotUseError(FleetError):
    pass


class StateNotFound(FleetError, LookupError):
    pass


class StateExpired(FleetError):
    pass


class StaleInputs(FleetError):
    """The inputs of a decision no longer fit together; reading them again helps."""

    retriable: ClassVar[bool] = True


class RequestRefused(FleetError):
    """The content of a Kubernetes Status of a failure; `details` as on the wire."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        metadata: Mapping[str, str] | None = None,
        retry_after: int = 0,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.metadata = metadata or {}
        self.retry_after = retry_after


# --- the Kubernetes API -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cause:
    """One of the reasons why the API server considers an object invalid."""

    field: str
    reason: str
    message: str


class ApiError(FleetError):
    """The API refused a request, or did not answer it.

    `retriable`: the same request may succeed later. `outcome_unknown`: a failed write may have been applied.
    `retry_after` is the delay in seconds that the server requested.
    """

    outcome_unknown: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        causes: tuple[Cause, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.causes = causes
        self.retry_after = retry_after


class BadRequest(ApiError):
    """Any other 4xx."""


class Unauthorized(ApiError):
    pass


class Forbidden(ApiError):
    pass


class NotFound(ApiError):
    pass


class AlreadyExists(ApiError):
    pass


class Conflict(ApiError):
    """The object has changed since it was read: read it and decide again."""


class Gone(ApiError):
    """The resourceVersion or the continue token is too old: list again."""


class Invalid(ApiError):
    """The object breaks a rule of its kind; `causes` lists the violations."""


class TooManyRequests(ApiError):
    retriable: ClassVar[bool] = True


class InternalError(ApiError):
    """Any other 5xx."""

    retriable: ClassVar[bool] = True
    outcome_unknown: ClassVar[bool] = True


class Unavailable(ApiError):
    """The server is unavailable. A proxy may answer this after it has forwarded the request."""

    retriable: ClassVar[bool] = True
    outcome_unknown: ClassVar[bool] = True


class ServerTimeout(ApiError):
    retriable: ClassVar[bool] = True
    outcome_unknown: ClassVar[bool] = True


class Unreachable(ApiError):
    retriable: ClassVar[bool] = True


class ConnectionLost(ApiError):
    retriable: ClassVar[bool] = True
    outcome_unknown: ClassVar[bool] = True


class DeadlineExceeded(ApiError):
    retriable: ClassVar[bool] = True
    outcome_unknown: ClassVar[bool] = True


class UnreadableAnswer(ApiError):
    retriable: ClassVar[bool] = True
    outcome_unknown: ClassVar[bool] = True


class NotLeading(FleetError):
    pass


class LeadershipLost(FleetError):
    pass


class QueueClosed(FleetError):
    pass


class InvalidKey(FleetError, ValueError):
    """A text that is not the name of an object, with its namespace where it has one."""


class HistoryUnavailable(FleetError):
    retriable: ClassVar[bool] = True
