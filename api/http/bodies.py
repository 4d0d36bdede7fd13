"""Bodies of requests: JSON of a bounded size and a known shape, and clear words where it is something else."""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import Request

from api.http.limits import body_of
from api.http.problems import refused, unprocessable

T = TypeVar("T")

_AT: Final = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?", re.DOTALL)
_FIELD: Final = re.compile(r"(?:missing required|unknown) field `([^`]*)`")
_JSON: Final = re.compile(r"application/(json|[a-z0-9.+-]+\+json)(;.*)?", re.IGNORECASE)


async def document_of(request: Request) -> dict[str, Any]:
    """The object in the body, not yet looked at."""
    media_type = request.headers.get("content-type", "application/json")
    if not _JSON.fullmatch(media_type.strip()):
        raise refused(
            415, f"the body is {media_type}", field="Content-Type", value=media_type, next="send application/json"
        )
    body = await body_of(request)
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise unprocessable("body", None, f"the body is no JSON: {error}", "send an object in JSON") from error
    if not isinstance(document, dict):
        raise unprocessable("body", document, "the body should be an object", "see /openapi.json for its fields")
    return document


def shaped(document: dict[str, Any], model: type[T]) -> T:
    try:
        return msgspec.convert(document, model)
    except (msgspec.ValidationError, RecursionError) as error:
        match = _AT.fullmatch(str(error))
        assert match is not None
        named = _FIELD.search(match["what"])
        path = ".".join(filter(None, (match["path"], named and named[1]))) or "body"
        value = document.get(path)
        fields = ", ".join(one.encode_name for one in msgspec.structs.fields(model))  # type: ignore[arg-type]
        raise unprocessable(
            path, value, f"{path}: {match['what']}", f"correct {path}; the fields are {fields}"
        ) from error
