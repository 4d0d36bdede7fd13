"""Status errors with the exact reasons and messages of the API server."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

from fleet.errors import RequestRefused
from fleet.hub.kinds.kind import Kind
from fleet.hub.schema.field_errors import FORBIDDEN, INVALID, NOT_SUPPORTED, REQUIRED, FieldError

NO_SUCH_RESOURCE: Final = "the server could not find the requested resource"


def required_value(field: str, text: str = "") -> FieldError:
    return FieldError(field, REQUIRED, f"Required value: {text}" if text else "Required value")


def invalid_value(field: str, value: Any, text: str) -> FieldError:
    return FieldError(field, INVALID, f"Invalid value: {format_value(value)}: {text}")


def not_supported(field: str, value: Any, supported: Sequence[str]) -> FieldError:
    choices = ", ".join(f'"{choice}"' for choice in supported)
    return FieldError(field, NOT_SUPPORTED, f"Unsupported value: {format_value(value)}: supported values: {choices}")


def forbidden_field(field: str, text: str) -> FieldError:
    return FieldError(field, FORBIDDEN, f"Forbidden: {text}")


def format_value(value: Any) -> str:
    """A value as apimachinery formats it in messages."""
    match value:
        case str():
            return f'"{value}"'
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case list():
            return "[" + ",".join(format_value(item) for item in value) + "]"
        case dict():
            return "{" + ",".join(f'"{key}":{format_value(item)}' for key, item in value.items()) + "}"
    return str(value)


def not_found(kind: Kind, name: str) -> RequestRefused:
    return RequestRefused(404, "NotFound", f'{kind.resource} "{name}" not found', details=_build_details(kind, name))


def no_such_resource() -> RequestRefused:
    return RequestRefused(404, "NotFound", NO_SUCH_RESOURCE, details={})


def method_not_allowed() -> RequestRefused:
    text = "the server does not allow this method on the requested resource"
    return RequestRefused(405, "MethodNotAllowed", text, details={})


def already_exists(kind: Kind, name: str) -> RequestRefused:
    text = f'{kind.resource} "{name}" already exists'
    return RequestRefused(409, "AlreadyExists", text, details=_build_details(kind, name))


def conflict(kind: Kind, name: str, text: str, *, causes: Sequence[dict[str, str]] = ()) -> RequestRefused:
    details = _build_details(kind, name) | ({"causes": list(causes)} if causes else {})
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {text}'
    return RequestRefused(409, "Conflict", message, details=details)


def stale_revision(kind: Kind, name: str) -> RequestRefused:
    text = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(kind, name, text)


def precondition_failed(kind: Kind, name: str, text: str) -> RequestRefused:
    message = f'Operation cannot be fulfilled on {kind.qualified} "{name}": {text}'
    return RequestRefused(409, "Conflict", message, details=_build_details(kind, name) | {"kind": kind.kind})


def bad_request(message: str) -> RequestRefused:
    return RequestRefused(400, "BadRequest", message)


def forbidden(kind: Kind, name: str, text: str, *, causes: Sequence[dict[str, str]] = ()) -> RequestRefused:
    what = f'{kind.resource} "{name}" is forbidden' if name else f"{kind.resource} is forbidden"
    details = _build_details(kind, name) | ({"causes": list(causes)} if causes else {})
    return RequestRefused(403, "Forbidden", f"{what}: {text}", details=details)


def resource_expired(message: str) -> RequestRefused:
    return RequestRefused(410, "Expired", message)


def invalid(kind: Kind, name: str, errors: Sequence[FieldError]) -> RequestRefused:
    return _invalid_status(kind.qualified, kind.group, kind.kind, name, errors)


def invalid_resource(kind: Kind, name: str, errors: Sequence[FieldError]) -> RequestRefused:
    """An invalid object, where the API server names the resource instead of the kind."""
    return _invalid_status(kind.resource, kind.group, kind.plural, name, errors)


def invalid_options(what: str, error: FieldError) -> RequestRefused:
    return _invalid_status(f"{what}.meta.k8s.io", "meta.k8s.io", what, "", [error])


def _invalid_status(qualified: str, group: str, kind: str, name: str, errors: Sequence[FieldError]) -> RequestRefused:
    texts = list(dict.fromkeys(f"{error.field}: {error.message}" for error in errors))
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    causes = [{"reason": error.reason, "message": error.message, "field": error.field} for error in errors]
    given = {"name": name, "group": group, "kind": kind}
    details = {key: value for key, value in given.items() if value} | {"causes": causes}
    return RequestRefused(422, "Invalid", f'{qualified} "{name}" is invalid: {listed}', details=details)


def build_status(error: RequestRefused) -> dict[str, Any]:
    """The Status document of an error."""
    status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {**error.metadata}}
    status |= {"status": "Failure", "message": error.message}
    status["reason"] = error.reason or HTTPStatus(error.code).phrase
    if error.details is not None or error.retry_after:
        after = {"retryAfterSeconds": error.retry_after} if error.retry_after else {}
        status["details"] = {**(error.details or {}), **after}
    status["code"] = error.code
    return status


def build_success(kind: Kind, name: str, uid: str) -> dict[str, Any]:
    details = _build_details(kind, name) | {"uid": uid}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _build_details(kind: Kind, name: str) -> dict[str, Any]:
    given = {"name": name, "group": kind.group, "kind": kind.plural}
    return {key: value for key, value in given.items() if value}
