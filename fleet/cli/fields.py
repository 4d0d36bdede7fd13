"""What is wrong inside one object: values its kind does not allow, and fields its kind does not have.

Every complaint carries the path of its field, so that whoever reports it can find the line.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from fleet.cli.documents import Parsed, Steps
from fleet.cli.problems import did_you_mean, nearest
from fleet.errors import TimestampError
from fleet.model.meta import ObjectMeta
from fleet.model.quantity import quantity_or_none
from fleet.model.schema import Keywords
from fleet.model.timestamps import parse_timestamp

_TREE = tuple[str | int, ...]
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
    path: _TREE
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
    found = [*_unknown(parsed.content, model, ()), *_malformed(parsed.content, model, ())]
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


def _unknown(content: Any, annotation: Any, path: _TREE) -> Iterator[Complaint]:
    """Fields that the kind does not have. Without this a slip of the pen would pass as if it were not there."""
    for model, value, where in _models(content, annotation, path):
        known = [field.alias or name for name, field in model.model_fields.items()]
        for key in value:
            if key not in known and not _may_be_new(key, known, where, model):
                elsewhere = [] if nearest(key, known) else _below(model)
                yield Complaint((*where, key), f"unknown field{did_you_mean(key, known) or _misplaced(key, elsewhere)}")


def _below(model: type[BaseModel]) -> list[tuple[str, str]]:
    """The fields one level down, with the field that holds them."""
    found = []
    for name, field in model.model_fields.items():
        for inner in _kinds(field.annotation):
            found += [(field.alias or name, one.alias or other) for other, one in inner.model_fields.items()]
    return found


def _misplaced(key: str, below: list[tuple[str, str]]) -> str:
    meant = nearest(key, [field for _, field in below])
    holder = next((holder for holder, field in below if field == meant), None)
    return f"; did you mean {holder}.{meant}?" if holder else ""


def _kinds(annotation: Any) -> Iterator[type[BaseModel]]:
    """The model of a field that holds one object."""
    if get_origin(annotation) is Annotated or _is_union(annotation):
        for option in get_args(annotation):
            yield from _kinds(option)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation


def _may_be_new(key: str, known: list[str], where: _TREE, model: type[BaseModel]) -> bool:
    growing = model is ObjectMeta or (bool(where) and where[0] in _GROWING)
    return growing and nearest(key, known) is None


def _malformed(content: Any, annotation: Any, path: _TREE) -> Iterator[Complaint]:
    """Texts that the API server would check by their format."""
    for model, value, where in _models(content, annotation, path):
        for name, field in model.model_fields.items():
            key = field.alias or name
            marks = [mark for mark in field.metadata if isinstance(mark, Keywords)]
            if key in value:
                yield from _format(value[key], field.annotation, (*where, key), marks)


def _format(value: Any, annotation: Any, path: _TREE, marks: list[Keywords]) -> Iterator[Complaint]:
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        yield from _format(value, inner, path, [*marks, *(one for one in more if isinstance(one, Keywords))])
    elif _is_union(annotation):
        for option in get_args(annotation):
            yield from _format(value, option, path, marks)
    elif get_origin(annotation) is dict and isinstance(value, dict):
        for key, item in value.items():
            yield from _format(item, get_args(annotation)[1], (*path, key), [])
    elif annotation is str and isinstance(value, str):
        message = _format_problem(value, marks)
        if message:
            yield Complaint(path, message)


def _format_problem(value: str, marks: list[Keywords]) -> str:
    for mark in marks:
        if mark.values.get("format") == "date-time":
            try:
                parse_timestamp(value)
            except TimestampError as error:
                return error.message
        if mark.values.get("x-kubernetes-int-or-string") and quantity_or_none(value) is None:
            return f"{value!r} is no quantity such as 4, 500m or 16Gi"
    return ""


def _models(content: Any, annotation: Any, path: _TREE) -> Iterator[tuple[type[BaseModel], Mapping[str, Any], _TREE]]:
    """Every mapping in the content that a model describes, with the model and its path."""
    origin = get_origin(annotation)
    if origin is Annotated or _is_union(annotation):
        options = get_args(annotation)
        for option in options[:1] if origin is Annotated else options:
            yield from _models(content, option, path)
    elif origin is tuple and isinstance(content, list):
        for position, item in enumerate(content):
            yield from _models(item, get_args(annotation)[0], (*path, position))
    elif origin is dict and isinstance(content, dict):
        for key, item in content.items():
            yield from _models(item, get_args(annotation)[1], (*path, key))
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel) and isinstance(content, dict):
        yield annotation, content, path
        for name, field in annotation.model_fields.items():
            key = field.alias or name
            if key in content:
                yield from _models(content[key], field.annotation, (*path, key))


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (typing.Union, types.UnionType)
