"""Edits of the command line: `setCount value=4`, or the JSON of the API."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from typing import Any

from fleet.errors import InputError

_NUMBERS = frozenset({"term", "maxSkew"})
"""Numbers in every operation; `_NUMBERS_OF` has those of one operation."""
_NUMBERS_OF = {"setCount": "value", "setMinTargets": "value", "setPriority": "value", "setWeight": "value"}
_FLAGS_OF = {"setReady": "value"}
_PAIRS_OF = {"addCluster": ("labels", "properties")}
_TAINTS_OF = {"addCluster": "taints"}


def read_edits(texts: Iterable[str]) -> list[dict[str, Any]]:
    """The `edits` of a simulation or a replay. The API validates them."""
    return [_read(text, f"--edit {text!r}") for text in texts]


def _read(text: str, place: str) -> dict[str, Any]:
    if text.lstrip().startswith("{"):
        return _json(text, place)
    op, *words = _words(text, place)
    edit: dict[str, Any] = {"op": op}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise InputError(f"{word!r} should be a value with its name, as in value=4", field=place)
        edit[name] = _value(op, name, value, place)
    return edit


def _words(text: str, place: str) -> list[str]:
    """Split as by a shell: quote an expression that contains blanks."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"cannot be split: {error}", field=place) from error
    if not words:
        raise InputError("should be an operation and its values, as in setCount value=4", field=place)
    return words


def _json(text: str, place: str) -> dict[str, Any]:
    try:
        edit = json.loads(text)
    except ValueError as error:
        raise InputError(f"is not JSON: {error}", field=place) from error
    assert isinstance(edit, dict)  # it begins with a brace
    return edit


def _value(op: str, name: str, value: str, place: str) -> Any:
    if name in _NUMBERS or _NUMBERS_OF.get(op) == name:
        if not value.removeprefix("-").isdecimal() or not value.isascii():
            raise InputError(f"{name} should be a whole number, not {value!r}", field=place)
        return int(value)
    if _FLAGS_OF.get(op) == name:
        if value not in ("true", "false"):
            raise InputError(f"{name} should be true or false, not {value!r}", field=place)
        return value == "true"
    if value.startswith(("{", "[")):
        return _part(value, name, place)
    if name in _PAIRS_OF.get(op, ()):
        return dict(_pair(item, name, place) for item in value.split(","))
    if _TAINTS_OF.get(op) == name:
        return [_taint(item) for item in value.split(",")]
    return value


def _pair(item: str, name: str, place: str) -> tuple[str, str]:
    key, equals, value = item.partition("=")
    if not equals:
        raise InputError(f"{name} should be key=value,key=value, not {item!r}", field=place)
    return key, value


def _taint(item: str) -> dict[str, str]:
    """`gpu`, `gpu=a100` or `gpu=a100:NoSchedule`"""
    pair, _, effect = item.partition(":")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value} | ({"effect": effect} if effect else {})


def _part(value: str, name: str, place: str) -> Any:
    """A JSON value, as in a patch."""
    try:
        return json.loads(value)
    except ValueError as error:
        raise InputError(f"{name} is not JSON: {error}", field=place) from error
