"""Bodies of requests and responses: JSON and YAML as the API server reads them, with its error messages."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from math import inf
from typing import Any, Final

import msgspec
import yaml

from fleet.hub.kinds.kind import Document
from fleet.hub.wire.statuses import bad_request
from fleet.nesting import count_brackets, is_nested_deeper

NO_TEXTS: Final[Mapping[str, msgspec.Raw]] = {}
_NO_KIND: Final = "couldn't get version/kind; json parse error"
_TYPE_STRUCTURE: Final = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
)
_UNREADABLE: Final = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
_DEEPEST: Final = 300  # levels of nesting; deeper documents are refused before they are walked
_NESTED: Final = f"nested more than {_DEEPEST} levels deep"
_MOST_YAML_EVENTS: Final = 100_000

encode = msgspec.json.Encoder().encode
decode_bytes = msgspec.json.Decoder().decode
decode_texts = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
"""The top-level fields of an object, each as it is written."""


def decode_object(body: bytes, *, expected: str) -> Document:
    """Decodes a JSON object, with the API server's error messages."""
    try:
        document = decode_bytes(body)
    except _UNREADABLE as error:
        raise unrecognized_body(expected, f"{_NO_KIND}: {_describe_error(body, error)}", body) from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        shape = "array" if isinstance(document, list) else _go_name(document)
        text = f"{_NO_KIND}: json: cannot unmarshal {shape} into Go value of type {_TYPE_STRUCTURE}"
        what = f"the object provided is unrecognized (must be of type {expected})"
        raise bad_request(f"{what}: {text} ({body[:512].hex()})")
    check_depth(document, containers=count_brackets(body))
    return document


def decode_around(body: bytes, known: Mapping[str, msgspec.Raw], *, expected: str) -> Document:
    """As `decode_object`, but what has the text of a known field is that text: to decode a large one takes long."""
    with suppress(*_UNREADABLE):
        texts = decode_texts(body)
        settled = {name: text for name, text in known.items() if bytes(texts.get(name, b"")) == bytes(text)}
        if settled and _is_all_of(body, texts):
            others = {name: decode_bytes(text) for name, text in texts.items() if name not in settled}
            check_depth(others)
            return {name: settled.get(name) or others[name] for name in texts}
    return decode_object(body, expected=expected)


def _is_all_of(body: bytes, texts: Mapping[str, msgspec.Raw]) -> bool:
    """Not if a field is there twice: the first one would not be looked at. With spaces between fields it is unknown."""
    marks = len("{}") + len(":,") * len(texts) - len(",")
    return len(body) == marks + sum(len(encode(name)) + len(bytes(text)) for name, text in texts.items())


def check_depth(document: Any, *, containers: float = inf) -> None:
    """`containers`: how many lists and mappings there are at most."""
    if is_nested_deeper(document, _DEEPEST, containers=containers):
        raise bad_request(f"the object is {_NESTED}")


def unrecognized_body(expected: str, text: str, body: bytes) -> Exception:
    sample = body[:1024].decode("utf-8", "replace") if body else "<empty>"
    return bad_request(f"the object provided is unrecognized (must be of type {expected}): {text} ({sample})")


def find_duplicate_fields(body: bytes) -> list[str]:
    """Paths of duplicate fields, of which parsers silently keep the last."""
    paths: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for key, value in items:
            if key in fields:
                fields.setdefault("\0twice", []).append(key)
            fields[key] = value
        return fields

    _collect_duplicates(json.loads(body, object_pairs_hook=pairs), "", paths)
    return paths


def _collect_duplicates(value: Any, path: str, paths: list[str]) -> None:
    if isinstance(value, list):
        for index, item in enumerate(value):
            _collect_duplicates(item, f"{path}[{index}]", paths)
    elif isinstance(value, dict):
        prefix = f"{path}." if path else ""
        paths.extend(prefix + name for name in dict.fromkeys(value.pop("\0twice", ())))
        for key, item in value.items():
            _collect_duplicates(item, prefix + key, paths)


def _describe_error(body: bytes, error: Exception) -> str:
    if not body.strip() or "truncated" in str(error):
        return "unexpected end of JSON input"
    place = re.search(r"\(byte (\d+)\)", str(error))
    if place is None:
        return str(error)
    character = body[int(place[1]) :][:1].decode("ascii", "replace")
    where = "object key string" if "keys" in str(error) else "value"
    return f"invalid character '{character}' looking for beginning of {where}"


def _go_name(value: object) -> str:
    return {bool: "bool", str: "string"}.get(type(value), "number")


# --- YAML -------------------------------------------------------------------------------------------------------------


def parse_yaml(body: bytes) -> Any:
    """Parses YAML to JSON values. Values that JSON lacks become strings or are refused."""
    try:
        _check_yaml(body)
        parsed = decode_bytes(encode(yaml.load(body, Loader=_JsonYaml)))
    except (yaml.YAMLError, RecursionError, ValueError, TypeError, UnicodeError) as error:
        # The C library, too, has a limit, and it reads ahead.
        text = _NESTED if "maximum nesting depth" in str(error) else error
        raise bad_request(f"error decoding YAML: {text}") from error
    check_depth([parsed])
    return parsed


def _check_yaml(body: bytes) -> None:
    """Refuses aliases, which could expand without bound, deep nesting, and what would take seconds to load."""
    depth = 0
    for count, event in enumerate(yaml.parse(body, Loader=_JsonYaml)):
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not accepted")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise yaml.YAMLError(_NESTED)
        if count > _MOST_YAML_EVENTS:
            raise yaml.YAMLError(f"more than {_MOST_YAML_EVENTS} values; send the object as JSON")


class _JsonYaml(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML restricted to JSON values: no dates."""


_JsonYaml.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
