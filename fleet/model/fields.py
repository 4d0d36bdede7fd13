"""Validation of one object: values that its kind does not allow, and fields that its kind does not have.

Every problem has the path of its field, from which a caller that read a file finds the line.
"""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Annotated, Any, Final, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from fleet.errors import TimestampError
from fleet.model.kinds.markers import Keywords
from fleet.model.kinds.meta import ObjectMeta
from fleet.model.operators import find_meant_operator
from fleet.model.quantity import quantity_or_none
from fleet.model.timestamps import parse_timestamp
from fleet.similarity import CLOSE, did_you_mean, nearest

M = TypeVar("M", bound=BaseModel)
Steps = Sequence[str | int]
_Path = tuple[str | int, ...]
_ReadSource = Callable[[Steps], str | None]
_SCALAR: Final = (str, int, float, bool)
_MOST_UNKNOWN: Final = 100
"""Of one mapping: each is compared with all known names."""
_EXTENSIBLE: Final = ("metadata", "status")
"""Parts that newer releases and other programs extend: an unknown field is an error there only if it resembles one."""
_TYPE_NAMES: Final = {bool: "a boolean", int: "a number", float: "a number"}
_WORDS: Final = {
    "a valid integer": "a whole number",
    "a valid string": "a string",
    "a valid boolean": "true or false",
    "a valid dictionary": "a mapping",
    "a valid tuple": "a list",
    "Tuple": "the list",
}
_ENDINGS: Final = frozenset({"int", "str"})
"""Pydantic appends these to the path of a value that may have either type."""


@dataclass(frozen=True, slots=True)
class FieldProblem:
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


def check_fields(
    content: Any,
    model: type[M],
    *,
    read_source: _ReadSource | None = None,
    most: int | None = None,
) -> tuple[M | None, list[FieldProblem]]:
    """The object that a document of this kind describes, None if a value is wrong, and the problems of the document:
    unknown fields before wrong values, which may follow from them.
    `read_source` returns a scalar as the user wrote it; `most` bounds each of the two."""
    problems = list(islice(_check_shape(content, _Shape(model=model), ()), most))
    checked = None
    try:
        checked = model.model_validate(content)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        problems += islice(_check_values(_Source(content, read_source), errors), most)
    return checked, _deduplicate(problems)


def locate_field(content: Any, path: Steps) -> tuple[int, ...]:
    """Sorts paths as their fields are in the content; a field that is missing comes before those of its holder."""
    position = []
    for step in path:
        if isinstance(content, dict) and step in content:
            position.append(list(content).index(step))
        elif isinstance(content, list) and isinstance(step, int) and step < len(content):
            position.append(step)
        else:
            break
        content = content[step]
    return tuple(position)


@dataclass(frozen=True, slots=True)
class _Source:
    content: Any
    read: _ReadSource | None

    def show(self, path: Steps, value: object) -> str:
        """A scalar as the user wrote it, or else as JSON."""
        written = None if self.read is None else self.read(path)
        return written or json.dumps(value, ensure_ascii=False, default=str)


def _deduplicate(problems: Iterable[FieldProblem]) -> list[FieldProblem]:
    return list({problem.path: problem for problem in reversed(list(problems))}.values())[::-1]


# --- values ---------------------------------------------------------------------------------------------------------


def _check_values(source: _Source, errors: list[ErrorDetails]) -> Iterator[FieldProblem]:
    wrong = {error["loc"][:depth] for error in errors for depth in range(len(error["loc"]))}
    for error in errors:
        path = error["loc"]
        if error["type"] == "too_short" and path in wrong:
            continue  # the count excludes invalid items, which are reported themselves
        if path and path[-1] in _ENDINGS and isinstance(_value(source.content, path[:-1]), _SCALAR):
            shown = _describe_value(source, path[:-1], error["input"])
            yield FieldProblem(path[:-1], f"{shown} should be a whole number or a string")
        else:
            yield FieldProblem(path, _describe_error(source, error))


def _describe_error(source: _Source, error: ErrorDetails) -> str:
    path, value = error["loc"], error["input"]
    match error["type"]:
        case "missing":
            return "is required"
        case "rule":
            return (
                error["msg"]
                if isinstance(value, dict | list)
                else f"{_describe_value(source, path, value)}: {error['msg']}"
            )
        case "string_type" if type(value) in _TYPE_NAMES:
            written = source.show(path, value)
            return f'{written} is {_TYPE_NAMES[type(value)]} here; write "{written}" for a string'
    message = _rephrase(error["msg"].removeprefix("Input "))
    if error["type"] == "literal_error":
        message += _suggest_choice(str(value), _parse_choices(error.get("ctx", {}).get("expected", "")))
    return f"{_describe_value(source, path, value)} {message}" if message.startswith("should") else message


def _suggest_choice(value: str, choices: list[str]) -> str:
    operator = find_meant_operator(value, choices)
    return f"; did you mean {operator}?" if operator else did_you_mean(value, choices)


def _rephrase(message: str) -> str:
    for theirs, ours in _WORDS.items():
        message = message.replace(theirs, ours)
    return re.sub(r" or instance of \w+", "", message)


def _describe_value(source: _Source, path: Steps, value: object) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "null"
    return repr(value) if isinstance(value, str) else source.show(path, value)


def _parse_choices(expected: str) -> list[str]:
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
    """What to check in the value of a field; exactly one of the parts is set."""

    model: type[BaseModel] | None = None
    item: _Shape | None = None
    value: _Shape | None = None
    format: Callable[[str], str] | None = None
    """Returns the problem of a string, or an empty string."""


def _check_shape(content: Any, shape: _Shape, path: _Path) -> Iterator[FieldProblem]:
    """Unknown fields, which pydantic would ignore, and strings of the wrong format."""
    if isinstance(content, dict):
        if shape.model is not None:
            yield from _check_unknown(content, shape.model, path)
        inside = {} if shape.model is None else _shapes(shape.model)
        for key, value in content.items():
            known = inside.get(key) if shape.value is None else shape.value
            if known is not None:
                yield from _check_shape(value, known, (*path, key))
    elif isinstance(content, list) and shape.item is not None:
        for position, value in enumerate(content):
            yield from _check_shape(value, shape.item, (*path, position))
    elif isinstance(content, str) and shape.format is not None:
        message = shape.format(content)
        if message:
            yield FieldProblem(path, message)


@cache
def _shapes(model: type[BaseModel]) -> dict[str, _Shape]:
    """The fields of a model that need checks, by their names on the wire."""
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
    """The formats that the API server validates."""
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
    return f"{text!r} is not a quantity such as 4, 500m or 16Gi" if quantity_or_none(text) is None else ""


# --- unknown fields -------------------------------------------------------------------------------------------------


def _check_unknown(content: Mapping[str, Any], model: type[BaseModel], path: _Path) -> Iterator[FieldProblem]:
    known = _names(model)
    unknown = (key for key in content if key not in known)
    for key in islice(unknown, _MOST_UNKNOWN):
        if not _may_be_new(key, model, path):
            suggestion = did_you_mean(key, known) or _suggest_child(key, model)
            yield FieldProblem((*path, key), f"unknown field{suggestion}")


def _may_be_new(key: str, model: type[BaseModel], path: _Path) -> bool:
    growing = model is ObjectMeta or (bool(path) and path[0] in _EXTENSIBLE)
    return growing and nearest(key, _names(model), cutoff=CLOSE) is None


def _suggest_child(key: str, model: type[BaseModel]) -> str:
    """Suggest a field of that name one level down."""
    for holder, shape in _shapes(model).items():
        meant = nearest(key, _names(shape.model), cutoff=CLOSE) if shape.model is not None else None
        if meant:
            return f"; did you mean {holder}.{meant}?"
    return ""


@cache
def _names(model: type[BaseModel]) -> frozenset[str]:
    return frozenset(field.alias or name for name, field in _fields(model))


def _fields(model: type[BaseModel]) -> Iterable[tuple[str, FieldInfo]]:
    return model.model_fields.items()
