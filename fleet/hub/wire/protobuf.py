"""Decodes protobuf bodies, which typed clients such as kubectl and Helm send, to JSON documents.

A body is a magic number and an envelope with the kind and the bytes of the object. Go sends unset fields as zero
values; they are left out, as in the JSON of Go.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from fleet.errors import EncodingError, UnsupportedKind
from fleet.hub.records import DataLine, read_records

MAGIC: Final = b"k8s\x00"

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT: Final = 10  # bytes
_DEEPEST: Final = 64
_KEY, _VALUE = 1, 2
_ENVELOPE_TYPE, _ENVELOPE_RAW, _ENVELOPE_ENCODING, _ENVELOPE_CONTENT = 1, 2, 3, 4
_FILE: Final = Path(__file__).with_name("protobuf_messages.txt")
_FIELD: Final = re.compile(r"(?P<number>[1-9]\d*)(?P<name>(?:[a-zA-Z$][\w-]*)?)(?P<mark>\?|\*|\{\})?:(?P<type>@?\w+)")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Field(NamedTuple):
    name: str
    type: str
    is_repeated: bool
    is_map: bool
    keeps_zero: bool


def decode(body: bytes) -> dict[str, Any]:
    """Raises EncodingError for malformed messages, and UnsupportedKind."""
    if not body.startswith(MAGIC):
        raise EncodingError("provided data does not appear to be a protobuf message, expected prefix 6b 38 73 00")
    envelope = _read_fields(memoryview(body)[len(MAGIC) :])
    api_version, kind = _read_type(envelope)
    raw = _as_bytes(envelope.get(_ENVELOPE_RAW, b""))
    if envelope.get(_ENVELOPE_ENCODING):
        raise UnsupportedKind("the content of the envelope is encoded", value=kind)
    message = load_messages().roots.get(f"{api_version}.{kind}") or (kind if kind == "DeleteOptions" else None)
    if message is None:
        raise UnsupportedKind(f"{api_version} {kind} cannot be read as protobuf; send JSON instead", value=kind)
    return {"apiVersion": api_version, "kind": kind, **_decode_message(raw, message, 0)}


def _read_type(envelope: dict[int, Any]) -> tuple[str, str]:
    names = _read_fields(_as_bytes(envelope.get(_ENVELOPE_TYPE, b"")))
    return _as_string(names.get(1, b"")), _as_string(names.get(2, b""))


# --- the wire ---------------------------------------------------------------------------------------------------------


def _iter_fields(data: memoryview) -> Iterator[tuple[int, Any]]:
    """Yields field numbers with raw values: integers, or the bytes of other types."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _read_varint(data, at)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise EncodingError("field number 0 is invalid")
        if wire == _VARINT:
            value, at = _read_varint(data, at)
            yield number, value
            continue
        length = {_FIXED64: 8, _FIXED32: 4}.get(wire)
        if wire == _BYTES:
            length, at = _read_varint(data, at)
        if length is None:
            raise EncodingError(f"field {number} has the unknown wire type {wire}")
        if length > end - at:
            raise EncodingError(f"field {number} is longer than its message")
        yield number, data[at : at + length]
        at += length


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for position, byte in enumerate(data[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at + position + 1
    raise EncodingError("a varint is longer than 10 bytes or truncated")


def _read_fields(data: memoryview | bytes) -> dict[int, Any]:
    return dict(_iter_fields(memoryview(data)))


def _as_bytes(value: Any) -> memoryview:
    if isinstance(value, int):
        raise EncodingError("expected bytes, got a number")
    return memoryview(value)


def _as_string(value: Any) -> str:
    try:
        return str(_as_bytes(value), "utf-8")
    except UnicodeDecodeError as error:
        raise EncodingError("a string is not valid UTF-8") from error


def _as_integer(value: Any) -> int:
    if not isinstance(value, int):
        raise EncodingError("expected a number, got bytes")
    return value - (1 << 64) if value >= 1 << 63 else value


# --- messages ---------------------------------------------------------------------------------------------------------


def _decode_message(data: memoryview, message: str, depth: int) -> dict[str, Any]:
    if depth > _DEEPEST:
        raise EncodingError("messages are nested too deeply")
    fields = load_messages().fields[message]
    document: dict[str, Any] = {}
    for number, raw in _iter_fields(data):
        field = fields.get(number)
        if field is not None:
            _add_field(document, field, raw, depth)
    return document


def _add_field(document: dict[str, Any], field: Field, raw: Any, depth: int) -> None:
    if field.is_map:
        entry = _read_fields(_as_bytes(raw))
        value = _decode_value(entry[_VALUE], field.type, depth) if _VALUE in entry else _zero_value(field.type)
        document.setdefault(field.name, {})[_as_string(entry.get(_KEY, b""))] = value
    elif field.is_repeated:
        document.setdefault(field.name, []).extend(_decode_items(raw, field.type, depth))
    elif not field.name:
        document.update(_decode_message(_as_bytes(raw), field.type, depth + 1))
    else:
        value = _decode_value(raw, field.type, depth)
        if value is not None and (field.keeps_zero or not _is_zero(value)):
            document[field.name] = value


def _is_zero(value: Any) -> bool:
    """Whether Go would treat the value as unset."""
    return all(map(_is_zero, value.values())) if isinstance(value, dict) else not value


def _zero_value(kind: str) -> Any:
    return {"s": "", "y": "", "i": 0, "u": 0, "b": False, "f": 0.0}.get(kind, {})


def _decode_items(raw: Any, kind: str, depth: int) -> list[Any]:
    """One item, or all numbers of a packed list."""
    if kind not in ("i", "u", "b") or isinstance(raw, int):
        return [_decode_value(raw, kind, depth)]
    at, items = 0, []
    while at < len(raw):
        number, at = _read_varint(raw, at)
        items.append(_decode_value(number, kind, depth))
    return items


def _decode_value(raw: Any, kind: str, depth: int) -> Any:
    scalar = _SCALARS.get(kind)
    if scalar is not None:
        return scalar(raw)
    special = _SPECIAL.get(kind)
    if special is not None:
        return special(_as_bytes(raw), depth + 1)
    return _decode_message(_as_bytes(raw), kind, depth + 1)


def _decode_double(raw: Any) -> int | float:
    data = _as_bytes(raw)
    if len(data) != 8:
        raise EncodingError("a double must have 8 bytes")
    number: float = struct.unpack("<d", data)[0]
    if number != number or number in (float("inf"), float("-inf")):
        raise EncodingError("NaN and infinity have no JSON form")
    return int(number) if number.is_integer() else number


_SCALARS: Final[dict[str, Callable[[Any], Any]]] = {
    "b": lambda raw: _as_integer(raw) != 0,
    "f": _decode_double,
    "i": _as_integer,
    "s": _as_string,
    "u": lambda raw: _as_integer(raw) & 0xFFFF_FFFF_FFFF_FFFF,
    "y": lambda raw: base64.b64encode(_as_bytes(raw)).decode("ascii"),
}


# --- types with a JSON form of their own ------------------------------------------------------------------------------


def _decode_time(data: memoryview, _depth: int) -> str | None:
    time = _read_time(data)
    return None if time is None else time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _decode_micro_time(data: memoryview, _depth: int) -> str | None:
    time = _read_time(data)
    return None if time is None else time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _read_time(data: memoryview) -> datetime | None:
    """An empty message is an unset time. Years have four digits, as in JSON."""
    parts = _read_fields(data)
    seconds, nanos = _as_integer(parts.get(1, 0)), _as_integer(parts.get(2, 0))
    if not parts:
        return None
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError as error:
        raise EncodingError("time out of range") from error


def _decode_wrapped_string(data: memoryview, _depth: int) -> str:
    return _as_string(_read_fields(data).get(1, b""))


def _decode_int_or_string(data: memoryview, _depth: int) -> int | str:
    parts = _read_fields(data)
    return _as_string(parts.get(3, b"")) if _as_integer(parts.get(1, 0)) == 1 else _as_integer(parts.get(2, 0))


def _decode_wrapped_json(data: memoryview, _depth: int) -> Any:
    raw = _as_bytes(_read_fields(data).get(1, b""))
    try:
        return json.loads(bytes(raw)) if raw else None
    except (ValueError, RecursionError) as error:
        raise EncodingError("malformed embedded JSON") from error


def _decode_duration(data: memoryview, _depth: int) -> str:
    nanos = _as_integer(_read_fields(data).get(1, 0))
    minutes, rest = divmod(abs(nanos), 60 * 10**9)
    seconds = f"{rest / 10**9:.9f}".rstrip("0").rstrip(".")
    hours, minutes = divmod(minutes, 60)
    text = (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + f"{seconds}s"
    return f"-{text}" if nanos < 0 else text


def _decode_strings(data: memoryview, _depth: int) -> list[str]:
    return [_as_string(raw) for number, raw in _iter_fields(data) if number == 1]


def _decode_schema_or_list(data: memoryview, depth: int) -> Any:
    schemas = [
        _decode_message(_as_bytes(raw), "JSONSchemaProps", depth) for number, raw in _iter_fields(data) if number == 2
    ]
    return schemas or _decode_schema(data, 1, depth)


def _decode_schema_or_bool(data: memoryview, depth: int) -> Any:
    schema = _decode_schema(data, 2, depth)
    return schema if schema is not None else _as_integer(_read_fields(data).get(1, 0)) != 0


def _decode_schema_or_strings(data: memoryview, depth: int) -> Any:
    schema = _decode_schema(data, 1, depth)
    return schema if schema is not None else [_as_string(raw) for number, raw in _iter_fields(data) if number == 2]


def _decode_schema(data: memoryview, number: int, depth: int) -> dict[str, Any] | None:
    raw = _read_fields(data).get(number)
    return None if raw is None else _decode_message(_as_bytes(raw), "JSONSchemaProps", depth)


_SPECIAL: Final[dict[str, Callable[[memoryview, int], Any]]] = {
    "@Duration": _decode_duration,
    "@FieldsV1": _decode_wrapped_json,
    "@IntOrString": _decode_int_or_string,
    "@JSON": _decode_wrapped_json,
    "@JSONSchemaPropsOrArray": _decode_schema_or_list,
    "@JSONSchemaPropsOrBool": _decode_schema_or_bool,
    "@JSONSchemaPropsOrStringArray": _decode_schema_or_strings,
    "@MicroTime": _decode_micro_time,
    "@Quantity": _decode_wrapped_string,
    "@RawExtension": _decode_wrapped_json,
    "@Time": _decode_time,
    "@strings": _decode_strings,
}


# --- tables -----------------------------------------------------------------------------------------------------------


class _Messages(NamedTuple):
    """`roots` names the message of each kind, `fields` the fields of each message by their numbers."""

    roots: dict[str, str]
    fields: dict[str, dict[int, Field]]


@lru_cache(maxsize=2)
def load_messages(path: Path = _FILE) -> _Messages:
    """Raises InputError with the line number for a line that does not fit."""
    messages = _Messages({}, {})
    references: list[tuple[DataLine, str]] = []
    for record in read_records(path):
        (_, head), *words = record.words()
        if head == "kinds":
            references += _add_roots(messages.roots, words)
        elif head in messages.fields:
            raise record.head.error(f"message {head} is listed twice")
        else:
            fields = messages.fields[head] = {}
            for line, token in words:
                number, field = _parse_field(line, token)
                if number in fields:
                    raise line.error(f"message {head} has two fields {number}")
                fields[number] = field
                references.append((line, field.type))
    for line, name in references:
        if name not in _SCALARS and name not in _SPECIAL and name not in messages.fields:
            raise line.error(f"unknown type {name}")
    return messages


def _add_roots(roots: dict[str, str], words: list[tuple[DataLine, str]]) -> Iterator[tuple[DataLine, str]]:
    (_, api_version), *kinds = words
    for line, word in kinds:
        kind, _, message = word.partition("=")
        roots[f"{api_version}.{kind}"] = message or kind
        yield line, message or kind


def _parse_field(line: DataLine, token: str) -> tuple[int, Field]:
    """`6ports*:ContainerPort`: number, name, mark and type."""
    match = _FIELD.fullmatch(token)
    if match is None:
        raise line.error(f"not a field: {token}")
    mark = match["mark"]
    field = Field(match["name"], match["type"], is_repeated=mark == "*", is_map=mark == "{}", keeps_zero=mark == "?")
    return int(match["number"]), field
