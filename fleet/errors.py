"""The one error tree.

    FleetError
    ├── InputError            something a person or another program wrote is wrong
    │   ├── QuantityError     a text is no quantity
    │   ├── TimestampError    a text is no RFC 3339 time
    │   ├── DocumentError     a document does not describe the object it claims to be
    │   ├── SchemaError       the schema of a kind cannot be compiled
    │   ├── PatchError        a patch does not fit the document, or is none
    │   │   └── PatchTestFailed
    │   ├── ApplyError        an applied object does not fit its schema
    │   ├── EncodingError     bytes are no message of their kind
    │   └── UnsupportedKind   no table tells how messages of the kind are encoded
    ├── ConfigurationError    profiles, plugins or settings do not fit together
    │   ├── DuplicatePlugin
    │   └── UnknownPlugin
    ├── PluginError           a plugin broke its contract (the attempt fails, the process goes on)
    ├── StaleInputs           a decision met objects that changed meanwhile (retriable)
    ├── PurityError           a decision hook reached for the outside world
    ├── SnapshotUseError      an effect hook reached for the frame that was decided on
    ├── RequestRefused        the embedded hub answers a request with a Kubernetes Status other than success
    ├── ApiError              the Kubernetes API refused a request, or did not answer it
    │   ├── BadRequest, Unauthorized, Forbidden, NotFound, AlreadyExists, Conflict, Gone, Invalid
    │   ├── TooManyRequests, InternalError, Unavailable
    │   ├── ServerTimeout, ConnectionLost, DeadlineExceeded    nobody knows whether a write happened
    │   ├── Unreachable       the request was never sent
    │   └── UnreadableAnswer  what came back is not Kubernetes
    ├── NotLeading            a write was attempted without a lease that is certain to hold
    ├── LeadershipLost        the lease ended while the work that needs it went on
    ├── QueueClosed           a work queue hands out nothing any more
    ├── InvalidKey            a queue key that names no placement
    ├── HistoryUnavailable    the database of the decision history cannot be read right now
    ├── StateNotFound         a cycle-state key that nobody wrote
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
    """What a group of tasks failed with first, taken out of all groups around it."""
    error: BaseException = several
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class InputError(FleetError):
    """Wrong input: names the field, the value and what is expected instead."""

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
    """`causes` tell every rule and pattern that is wrong, with its place in the schema."""

    def __init__(self, message: str, *, causes: Sequence[Any] = ()) -> None:
        super().__init__("; ".join([message, *map(str, causes)]))
        self.causes = tuple(causes)


class PatchError(InputError):
    """`is_unprocessable` tells a well-formed patch that does not fit the document from one that is malformed."""

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


class PurityError(FleetError):
    pass


class SnapshotUseError(FleetError):
    pass


class StateNotFound(FleetError, LookupError):
    pass


class StateExpired(FleetError):
    pass


class StaleInputs(FleetError):
    """The inputs of a decision do not fit together any more; reading them again helps."""

    retriable: ClassVar[bool] = True


class RequestRefused(FleetError):
    """What a Kubernetes Status of a failure carries; `details` as on the wire."""

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
    """One of the reasons why the API server found an object invalid."""

    field: str
    reason: str
    message: str


class ApiError(FleetError):
    """The API refused a request, or did not answer it.

    `retriable` says that the same request may succeed later, `outcome_unknown` that a write may have happened although
    it failed. `retry_after` is the wait in seconds that the server asked for.
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
    """Any 4xx without a class of its own."""


class Unauthorized(ApiError):
    pass


class Forbidden(ApiError):
    pass


class NotFound(ApiError):
    pass


class AlreadyExists(ApiError):
    pass


class Conflict(ApiError):
    """The object changed since it was read: read it again and decide again."""


class Gone(ApiError):
    """The resourceVersion or the continue token is too old: list again."""


class Invalid(ApiError):
    """The object breaks a rule of its kind; `causes` says which."""


class TooManyRequests(ApiError):
    retriable: ClassVar[bool] = True


class InternalError(ApiError):
    """Any 5xx without a class of its own."""

    retriable: ClassVar[bool] = True
    outcome_unknown: ClassVar[bool] = True


class Unavailable(ApiError):
    """Nobody is there to serve the request. A proxy may say so after it passed the request on."""

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


class InvalidKey(FleetError):
    pass


class HistoryUnavailable(FleetError):
    retriable: ClassVar[bool] = True
