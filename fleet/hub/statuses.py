"""The refusals of the API server, word for word, so that clients and people read what they know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from fleet.errors import RequestRefused
from fleet.hub.kinds.kind import Kind

NO_SUCH_RESOURCE: Final = "the server could not find the requested resource"


@dataclass(frozen=True, slots=True)
class Fault:
    """One wrong field: reason, path and text as in a Status' causes."""

    field: str
    reason: str
    message: str


def required(field: str, text: str = "") -> Fault:
    return Fault(field, "FieldValueRequired", f"Required value: {text}" if text else "Required value")


def invalid_value(field: str, value: Any, text: str) -> Fault:
    return Fault(field, "FieldValueInvalid", f"Invalid value: {shown(value)}: {text}")


def not_supported(field: str, value: Any, supported: Sequence[str]) -> Fault:
    choices = ", ".join(f'"{choice}"' for choice in supported)
    return Fault(field, "FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {choices}")


def forbidden_field(field: str, text: str) -> Fault:
    return Fault(field, "FieldValueForbidden", f"Forbidden: {text}")


def shown(value: Any) -> str:
    """A value as Go's API machinery prints it in a message."""
    match value:
        case str():
            return f'"{value}"'
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case list():
            return "[" + ",".join(shown(item) for item in value) + "]"
        case dict():
            return "{" + ",".join(f'"{key}":{shown(item)}' for key, item in value.items()) + "}"
    return str(value)


def not_found(kind: Kind, name: str) -> RequestRefused:
    return RequestRefused(404, "NotFound", f'{kind.resource} "{name}" not found', details=_named(kind, name))


def no_such_resource() -> RequestRefused:
    return RequestRefused(404, "NotFound", NO_SUCH_RESOURCE, details={})


def method_not_allowed() -> RequestRefused:
    text = "the server does not allow this method on the requested resource"
    return RequestRefused(405, "MethodNotAllowed", text, details={})


def already_exists(kind: Kind, name: str) -> RequestRefused:
    text = f'{kind.resource} "{name}" already exists'
    return RequestRefused(409, "AlreadyExists", text, details=_named(kind, name))


def conflict(kind: Kind, name: str, text: str, *, causes: Sequence[dict[str, str]] = ()) -> RequestRefused:
    details = _named(kind, name) | ({"causes": list(causes)} if causes else {})
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {text}'
    return RequestRefused(409, "Conflict", message, details=details)


def modified(kind: Kind, name: str) -> RequestRefused:
    text = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(kind, name, text)


def precondition_failed(kind: Kind, name: str, text: str) -> RequestRefused:
    message = f'Operation cannot be fulfilled on {kind.qualified} "{name}": {text}'
    return RequestRefused(409, "Conflict", message, details=_named(kind, name) | {"kind": kind.kind})


def bad_request(message: str) -> RequestRefused:
    return RequestRefused(400, "BadRequest", message)


def forbidden(kind: Kind, name: str, text: str, *, causes: Sequence[dict[str, str]] = ()) -> RequestRefused:
    what = f'{kind.resource} "{name}" is forbidden' if name else f"{kind.resource} is forbidden"
    details = _named(kind, name) | ({"causes": list(causes)} if causes else {})
    return RequestRefused(403, "Forbidden", f"{what}: {text}", details=details)


def expired(message: str) -> RequestRefused:
    return RequestRefused(410, "Expired", message)


def invalid(kind: Kind, name: str, faults: Sequence[Fault]) -> RequestRefused:
    return _invalid(kind.qualified, kind.group, kind.kind, name, faults)


def invalid_resource(kind: Kind, name: str, faults: Sequence[Fault]) -> RequestRefused:
    """The same where the API server names the resource instead of the kind."""
    return _invalid(kind.resource, kind.group, kind.plural, name, faults)


def invalid_options(what: str, fault: Fault) -> RequestRefused:
    return _invalid(f"{what}.meta.k8s.io", "meta.k8s.io", what, "", [fault])


def _invalid(qualified: str, group: str, kind: str, name: str, faults: Sequence[Fault]) -> RequestRefused:
    texts = list(dict.fromkeys(f"{fault.field}: {fault.message}" for fault in faults))
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    causes = [{"reason": fault.reason, "message": fault.message, "field": fault.field} for fault in faults]
    given = {"name": name, "group": group, "kind": kind}
    details = {key: value for key, value in given.items() if value} | {"causes": causes}
    return RequestRefused(422, "Invalid", f'{qualified} "{name}" is invalid: {listed}', details=details)


def document(refused: RequestRefused) -> dict[str, Any]:
    """The Status a client gets."""
    status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {**refused.metadata}}
    status |= {"status": "Failure", "message": refused.message}
    status["reason"] = refused.reason or HTTPStatus(refused.code).phrase
    if refused.details is not None or refused.retry_after:
        after = {"retryAfterSeconds": refused.retry_after} if refused.retry_after else {}
        status["details"] = {**(refused.details or {}), **after}
    status["code"] = refused.code
    return status


def success(kind: Kind, name: str, uid: str) -> dict[str, Any]:
    details = _named(kind, name) | {"uid": uid}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _named(kind: Kind, name: str) -> dict[str, Any]:
    given = {"name": name, "group": kind.group, "kind": kind.plural}
    return {key: value for key, value in given.items() if value}
