"""Request bodies: JSON of a bounded size and a known shape, with errors that name the field."""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import Request

from api.http.problems import refusal, unprocessable

LARGEST_BODY: Final = 4 * 1024 * 1024

T = TypeVar("T")

_ERROR: Final = re.compile(r"(?P<message>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?", re.DOTALL)
_FIELD: Final = re.compile(r"(?:missing required|unknown) field `([^`]*)`")
_JSON: Final = re.compile(r"application/(json|[a-z0-9.+-]+\+json)(;.*)?", re.IGNORECASE)


async def read_json_object(request: Request, *, largest: int = LARGEST_BODY) -> dict[str, Any]:
    """The object in the body, not yet validated."""
    media_type = request.headers.get("content-type", "application/json")
    if not _JSON.fullmatch(media_type.strip()):
        raise refusal(
            415, f"the body is {media_type}", field="Content-Type", value=media_type, next="send application/json"
        )
    body = await read_body(request, largest)
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise unprocessable("body", None, f"the body is not JSON: {error}", "send an object in JSON") from error
    if not isinstance(document, dict):
        raise unprocessable("body", document, "the body should be an object", "see /openapi.json for its fields")
    return document


def convert_body(document: dict[str, Any], model: type[T]) -> T:
    try:
        return msgspec.convert(document, model)
    except (msgspec.ValidationError, RecursionError) as error:
        match = _ERROR.fullmatch(str(error))
        assert match is not None
        named = _FIELD.search(match["message"])
        path = ".".join(filter(None, (match["path"], named and named[1]))) or "body"
        value = document.get(path)
        fields = ", ".join(field.encode_name for field in msgspec.structs.fields(model))  # type: ignore[arg-type]
        raise unprocessable(
            path, value, f"{path}: {match['message']}", f"correct {path}; the fields are {fields}"
        ) from error


async def read_body(request: Request, largest: int) -> bytes:
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > largest:
        raise _too_large(largest)
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > largest:
            raise _too_large(largest)
        chunks.append(chunk)
    return b"".join(chunks)


def _too_large(largest: int) -> Exception:
    limit = f"{largest} bytes"
    return refusal(413, f"the body is larger than {limit}", field="body", next=f"send at most {limit} at a time")
