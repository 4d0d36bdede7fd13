"""Decoding of documents into views, tolerant of nulls, with exact errors.

The fast path is msgspec straight into the view. When that fails, nulls are dropped (serializers written in Go write
them for absent fields) and decoding is repeated. A remaining error is a DocumentError that names the object, the field
and the value, so that one bad object can be reported to its owner while the others are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from fleet.errors import DocumentError
from fleet.model.views import Observed, View

V = TypeVar("V", bound=View)

_PROBLEM: Final = re.compile(r"(?P<what>.*?)(?: - at `\$(?P<path>[^`]*)`)?", re.DOTALL)
_GOT: Final = re.compile(r"got `(\w+)`")
_STEP: Final = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<index>\d+)\]|(?P<any>\[\.\.\.\])")
_TYPE_NAMES: Final[dict[type, str]] = {
    dict: "object",
    list: "array",
    str: "str",
    bool: "bool",
    int: "int",
    float: "float",
    type(None): "null",
}
_MAX_SHOWN: Final = 80


def decode(raw: bytes, view_type: type[V]) -> Observed[V]:
    """The view of a document, together with the document."""
    try:
        return Observed(view=_read(raw, view_type), raw=raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DocumentError(f"the document is not JSON: {error}") from error
    except RecursionError as error:
        raise DocumentError("the document is nested too deeply") from error


def _read(raw: bytes, view_type: type[V]) -> V:
    decoder: msgspec.json.Decoder[V] = _get_decoder(view_type)
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError:
        document = drop_nulls(msgspec.json.decode(raw))
    try:
        return decoder.decode(msgspec.json.encode(document))
    except msgspec.ValidationError as error:
        raise _build_error(document, str(error)) from error


@cache
def _get_decoder(view_type: type[View]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(view_type)


def drop_nulls(value: Any) -> Any:
    """As the API server does with fields that are null."""
    if isinstance(value, dict):
        return {key: drop_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [drop_nulls(item) for item in value]
    return value


def _build_error(document: Any, complaint: str) -> DocumentError:
    match = _PROBLEM.fullmatch(complaint)
    what, path = (match["what"], match["path"] or "") if match else (complaint, "")
    got = _GOT.search(what)
    steps = list(_STEP.finditer(path))
    located = next(_locate(document, steps, got[1] if got else ""), None)
    field, value = located if located else (path.removeprefix("."), None)
    shown = "" if located is None else f": {_render_value(value)}"
    return DocumentError(
        f"{describe_document(document)} cannot be read: {what}{shown}", field=field.removeprefix("."), value=value
    )


def _locate(value: Any, steps: list[re.Match[str]], type_name: str) -> Iterator[tuple[str, Any]]:
    """The places a path may mean, as path and value; msgspec leaves the keys of mappings open."""
    if not steps:
        if not type_name or _TYPE_NAMES.get(type(value)) == type_name:
            yield "", value
        return
    for name, item in _list_children(value, steps[0]):
        for rest, match in _locate(item, steps[1:], type_name):
            yield name + rest, match


def _list_children(value: Any, step: re.Match[str]) -> Iterator[tuple[str, Any]]:
    if step["any"] and isinstance(value, dict):
        yield from ((f"[{key}]", item) for key, item in value.items())
    elif step["any"] and isinstance(value, list):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    elif step["index"] and isinstance(value, list) and int(step["index"]) < len(value):
        yield step[0], value[int(step["index"])]
    elif step["name"] and isinstance(value, dict) and step["name"] in value:
        yield step[0], value[step["name"]]


def describe_document(document: Any) -> str:
    """`MemberCluster c1`, `ResourcePlacement shop/web`: also for invalid documents."""
    fields = document if isinstance(document, dict) else {}
    metadata = fields.get("metadata")
    names = metadata if isinstance(metadata, dict) else {}
    name = "/".join(str(names[key]) for key in ("namespace", "name") if names.get(key))
    return f"{fields.get('kind') or 'the object'} {name or '(no name)'}"


def _render_value(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
