"""What is wrong inside one object: values its kind does not allow, and fields its kind does not have.

Every complaint carries the path of its field, so that whoever reports it can find the line.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Final, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from fleet.cli.input.documents import Parsed, Steps
from fleet.cli.input.problems import did_you_mean, nearest
from fleet.errors import TimestampError
from fleet.model.crd.markers import Keywords
from fleet.model.kinds.meta import ObjectMeta
from fleet.model.quantity import quantity_or_none
from fleet.model.timestamps import parse_timestamp

_Path = tuple[str | int, ...]
_SCALAR: Final = (str, int, float, bool)
_GROWING: Final = ("metadata", "status")
"""Parts that newer releases and other programs add fields to: unknown fields are wrong there only if nearly known."""
_TYPE_NAMES: Final = {bool: "a boolean", int: "a number", float: "a number"}
_WORDS: Final = {
    "a valid integer": "a whole number",
    "a valid string": "a text",
    "a valid boolean": "true or false",
    "a valid dictionary": "a mapping",
    "a valid tuple": "a list",
    "Tuple": "the list",
}
_ENDINGS: Final = frozenset({"int", "str"})
"""What pydantic appends to the path of a value that may have either type."""


@dataclass(frozen=True, slots=True)
class Complaint:
    path: _Path
    message: str

    def __str__(self) -> str:
        return f"{path_text(self.path)}: {self.message}" if self.path else self.message


def path_text(path: Steps) -> str:
    """`spec.taints[0].key`, `metadata.labels[a/b]`"""
    text = ""
    for step in path:
        plain = isinstance(step, str) and "." not in step and "/" not in step
        text += f".{step}" if plain else f"[{step}]"
    return text.removeprefix(".")


def complaints(parsed: Parsed, model: type[BaseModel]) -> list[Complaint]:
    """Everything wrong with a document of this kind, in the order of the fields."""
    found = list(_oddities(parsed.content, _Shape(model=model), ()))
    try:
        model.model_validate(parsed.content)
    except ValidationError as error:
        found += _invalid(parsed, error.errors(include_url=False))
    return sorted(_once(found), key=lambda one: parsed.line_of(one.path))


def _once(found: Iterable[Complaint]) -> list[Complaint]:
    return list({one.path: one for one in reversed(list(found))}.values())[::-1]


# --- values ---------------------------------------------------------------------------------------------------------


def _invalid(parsed: Parsed, errors: list[ErrorDetails]) -> Iterator[Complaint]:
    wrong = {error["loc"][:depth] for error in errors for depth in range(len(error["loc"]))}
    for error in errors:
        path = error["loc"]
        if error["type"] == "too_short" and path in wrong:
            continue  # counted without the items that are reported themselves
        if path and path[-1] in _ENDINGS and isinstance(_value(parsed.content, path[:-1]), _SCALAR):
            shown = _shown(parsed, path[:-1], error["input"])
            yield Complaint(path[:-1], f"{shown} should be a whole number or a text")
        else:
            yield Complaint(path, _expected(parsed, error))


def _expected(parsed: Parsed, error: ErrorDetails) -> str:
    path, value = error["loc"], error["input"]
    match error["type"]:
        case "missing":
            return "is required"
        case "rule":
            return error["msg"] if isinstance(value, dict | list) else f"{_shown(parsed, path, value)}: {error['msg']}"
        case "string_type" if type(value) in _TYPE_NAMES:
            written = parsed.written(path) or str(value)
            return f'{written} is {_TYPE_NAMES[type(value)]} here; write "{written}" for the text'
    message = _in_our_words(error["msg"].removeprefix("Input "))
    if error["type"] == "literal_error":
        message += did_you_mean(str(value), _quoted(error.get("ctx", {}).get("expected", "")))
    return f"{_shown(parsed, path, value)} {message}" if message.startswith("should") else message


def _in_our_words(message: str) -> str:
    for theirs, ours in _WORDS.items():
        message = message.replace(theirs, ours)
    return re.sub(r" or instance of \w+", "", message)


def _shown(parsed: Parsed, path: Steps, value: object) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "null"
    return repr(value) if isinstance(value, str) else parsed.written(path) or str(value)


def _quoted(expected: str) -> list[str]:
    return expected.split("'")[1::2]


def _value(content: Any, path: Steps) -> Any:
    for step in path:
        try:
            content = content[step]
        except (KeyError, IndexError, TypeError):
            return None
    return content


# --- fields and formats ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Shape:
    """What there is to check in the value of a field; exactly one of the parts is set."""

    model: type[BaseModel] | None = None
    item: _Shape | None = None
    value: _Shape | None = None
    format: Callable[[str], str] | None = None
    """The complaint about a text, or nothing."""


def _oddities(content: Any, shape: _Shape, path: _Path) -> Iterator[Complaint]:
    """Fields that a kind does not have, which would pass as if they were not there, and texts of the wrong form."""
    if isinstance(content, dict):
        if shape.model is not None:
            yield from _unknown(content, shape.model, path)
        inside = {} if shape.model is None else _shapes(shape.model)
        for key, value in content.items():
            known = inside.get(key) if shape.value is None else shape.value
            if known is not None:
                yield from _oddities(value, known, (*path, key))
    elif isinstance(content, list) and shape.item is not None:
        for position, value in enumerate(content):
            yield from _oddities(value, shape.item, (*path, position))
    elif isinstance(content, str) and shape.format is not None:
        message = shape.format(content)
        if message:
            yield Complaint(path, message)


@cache
def _shapes(model: type[BaseModel]) -> dict[str, _Shape]:
    """The fields of a model that are worth a look, under their names on the wire."""
    shapes = ((field.alias or name, _shape(field.annotation, field.metadata)) for name, field in _fields(model))
    return {name: shape for name, shape in shapes if shape is not None}


def _shape(annotation: Any, marks: Sequence[Any]) -> _Shape | None:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _shape(parts[0], [*marks, *parts[1:]])
    if origin in (typing.Union, types.UnionType):
        return next((shape for shape in (_shape(part, marks) for part in parts) if shape is not None), None)
    if origin is tuple:
        item = _shape(parts[0], ())
        return None if item is None else _Shape(item=item)
    if origin is dict:
        value = _shape(parts[1], ())
        return None if value is None else _Shape(value=value)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _Shape(model=annotation)
    form = _format(marks) if annotation is str else None
    return None if form is None else _Shape(format=form)


def _format(marks: Sequence[Any]) -> Callable[[str], str] | None:
    """The forms that the API server would check."""
    for mark in marks:
        if isinstance(mark, Keywords) and mark.values.get("format") == "date-time":
            return _time_problem
        if isinstance(mark, Keywords) and mark.values.get("x-kubernetes-int-or-string"):
            return _quantity_problem
    return None


def _time_problem(text: str) -> str:
    try:
        parse_timestamp(text)
    except TimestampError as error:
        return error.message
    return ""


def _quantity_problem(text: str) -> str:
    return f"{text!r} is no quantity such as 4, 500m or 16Gi" if quantity_or_none(text) is None else ""


# --- unknown fields -------------------------------------------------------------------------------------------------


def _unknown(content: Mapping[str, Any], model: type[BaseModel], path: _Path) -> Iterator[Complaint]:
    known = _names(model)
    for key in content:
        if key not in known and not _may_be_new(key, model, path):
            suggestion = did_you_mean(key, known) or _misplaced(key, model)
            yield Complaint((*path, key), f"unknown field{suggestion}")


def _may_be_new(key: str, model: type[BaseModel], path: _Path) -> bool:
    growing = model is ObjectMeta or (bool(path) and path[0] in _GROWING)
    return growing and nearest(key, _names(model)) is None


def _misplaced(key: str, model: type[BaseModel]) -> str:
    """A field of that name one level down."""
    for holder, shape in _shapes(model).items():
        meant = nearest(key, _names(shape.model)) if shape.model is not None else None
        if meant:
            return f"; did you mean {holder}.{meant}?"
    return ""


@cache
def _names(model: type[BaseModel]) -> frozenset[str]:
    return frozenset(field.alias or name for name, field in _fields(model))


def _fields(model: type[BaseModel]) -> Iterable[tuple[str, FieldInfo]]:
    return model.model_fields.items()
