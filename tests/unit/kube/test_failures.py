"""Each way of refusing has an error of its own."""

from __future__ import annotations

import msgspec
import pytest

from fleet.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Cause,
    Conflict,
    Forbidden,
    Gone,
    InternalError,
    Invalid,
    NotFound,
    ServerTimeout,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from fleet.kube.client.failures import parse_error


def a_status(code: int, reason: str, **more: object) -> bytes:
    return msgspec.json.encode({"kind": "Status", "code": code, "reason": reason, "message": "m", **more})


@pytest.mark.parametrize(
    "code, reason, error",
    [
        (400, "BadRequest", BadRequest),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (405, "MethodNotAllowed", BadRequest),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", Gone),
        (410, "Gone", Gone),
        (413, "RequestEntityTooLarge", BadRequest),
        (415, "UnsupportedMediaType", BadRequest),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", InternalError),
        (500, "ServerTimeout", ServerTimeout),
        (503, "ServiceUnavailable", Unavailable),
        (504, "Timeout", ServerTimeout),
        (507, "StorageReadError", InternalError),
    ],
)
def test_a_reason_says_more_than_a_code(code: int, reason: str, error: type[ApiError]) -> None:
    assert type(parse_error(code, a_status(code, reason))) is error


@pytest.mark.parametrize("body", [b"", b"<html>no</html>", b"[]", b'{"kind":"Other"}', b"\xff", b"[" * 5000])
@pytest.mark.parametrize(
    "code, error",
    [
        (400, BadRequest),
        (404, NotFound),
        (418, BadRequest),
        (429, TooManyRequests),
        (500, InternalError),
        (502, Unavailable),
        (503, Unavailable),
        (504, ServerTimeout),
        (599, InternalError),
    ],
)
def test_without_a_status_the_code_has_to_do(code: int, error: type[ApiError], body: bytes) -> None:
    found = parse_error(code, body)
    assert type(found) is error
    assert found.status == code
    assert str(found)


def test_an_invalid_object_comes_with_its_causes() -> None:
    causes = [{"reason": "FieldValueRequired", "message": "Required value", "field": "spec.name"}, {}]
    found = parse_error(422, a_status(422, "Invalid", details={"causes": causes}))
    assert found.causes == (Cause("spec.name", "FieldValueRequired", "Required value"), Cause("", "", ""))


@pytest.mark.parametrize(
    "header, in_body, expected",
    [("3", 0, 3), ("", 4, 4), ("3", 4, 3), ("", 0, None), ("soon", 0, None), ("-1", 0, None), ("²", 0, None)],
)
def test_the_wait_comes_from_the_header_or_the_body(header: str, in_body: int, expected: float | None) -> None:
    body = a_status(429, "TooManyRequests", details={"retryAfterSeconds": in_body})
    assert parse_error(429, body, retry_after=header).retry_after == expected


def test_a_status_without_details_is_a_status() -> None:
    assert parse_error(403, a_status(403, "Forbidden", details=None)).causes == ()


def test_where_a_write_may_have_happened_the_error_says_so() -> None:
    assert parse_error(504, b"").outcome_unknown
    assert not parse_error(409, b"").outcome_unknown
