"""Request bodies: JSON of a bounded size and a known shape, with errors that name the field."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from api.http.problems import refusal, unprocessable
from fleet.eventloop import pause_collection_in_task
from fleet.kube.cache.stepwise import decode_in_steps, run_steps
from fleet.nesting import count_brackets, is_nested_deeper
from fleet.worker_thread import WorkerThread

LARGEST_BODY: Final = 4 * 1024 * 1024
_LARGE: Final = 64 * 1024
"""Bytes from which on a body is read in a thread."""
DEEPEST_BODY: Final = 64
"""Levels: the definitions of placements have some twenty."""

T = TypeVar("T")

_ERROR: Final = re.compile(r"(?P<message>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?", re.DOTALL)
_FIELD: Final = re.compile(r"(?:missing required|unknown) field `([^`]*)`")
_JSON: Final = re.compile(r"application/(json|[a-z0-9.+-]+\+json)(;.*)?", re.IGNORECASE)


async def read_json_object(
    request: Request,
    thread: WorkerThread | None,
    *,
    largest: int = LARGEST_BODY,
    check: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """The object in the body, not yet validated but for `check`, which refuses it by an error. Both may take long: a
    thread is needed unless `largest` is little."""
    media_type = request.headers.get("content-type", "application/json")
    if not _JSON.fullmatch(media_type.strip()):
        raise refusal(
            415, f"the body is {media_type}", field="Content-Type", value=media_type, next="send application/json"
        )
    body = await read_body(request, largest)
    if len(body) > _LARGE and thread is not None:
        pause_collection_in_task()
        return await thread.run(_parse, body, check)
    return _parse(body, check)


def _parse(body: bytes, check: Callable[[dict[str, Any]], None] | None) -> dict[str, Any]:
    try:
        document = _decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise unprocessable("body", None, f"the body is not JSON: {error}", "send an object in JSON") from error
    if not isinstance(document, dict):
        raise unprocessable("body", document, "the body should be an object", "see /openapi.json for its fields")
    if is_nested_deeper(document, DEEPEST_BODY, containers=count_brackets(body)):
        message = f"the body is nested deeper than {DEEPEST_BODY} levels"
        raise unprocessable("body", None, message, "send a placement and edits as their schemas have them")
    if check is not None:
        check(document)
    return document


def _decode(body: bytes) -> Any:
    try:
        return run_steps(decode_in_steps(body, Any))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return msgspec.json.decode(body)  # tells where it is wrong


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
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > largest:
                raise _too_large(largest)
            chunks.append(chunk)
    except ClientDisconnect:
        detail = "the connection was closed before the end of the body"
        raise refusal(400, detail, field="body", next="send the whole body") from None
    return b"".join(chunks)


def _too_large(largest: int) -> Exception:
    limit = f"{largest} bytes"
    return refusal(413, f"the body is larger than {limit}", field="body", next=f"send at most {limit} at a time")
