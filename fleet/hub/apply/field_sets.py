"""Sets of fields, and their `fieldsV1` form on the wire.

A step of a path is a string such as `f:spec` (a field), `k:{"name":"a"}` (an item of a list-map), `v:"x"` (a value of a
set) or `i:0`. A set is a dictionary of steps; the step `.` marks the path so far as a member. On the wire an empty
dictionary means the same; `encode` and `decode` convert between the two.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from fleet.errors import InputError
from fleet.hub.schema.field_errors import go_json, go_value

FieldSet = dict[str, Any]
Steps = tuple[str, ...]

MEMBER: Final = "."
_CACHE_SIZE: Final = 4096
_STEP_KINDS: Final = ("f:", "k:", "v:", "i:")


def member() -> FieldSet:
    return {MEMBER: {}}


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    merged = dict(left)
    for step, below in right.items():
        merged[step] = union(left[step], below) if step in left else below
    return merged


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Members of the left set that are not in the right one; paths below a member stay unless they are listed."""
    rest: FieldSet = {}
    for step, below in left.items():
        if step == MEMBER:
            if MEMBER not in right:
                rest[step] = below
        elif step not in right:
            rest[step] = below
        elif remaining := difference(below, right[step]):
            rest[step] = remaining
    return rest


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    shared: FieldSet = {}
    for step, below in left.items():
        if step not in right:
            continue
        if step == MEMBER:
            shared[step] = below
        elif both := intersection(below, right[step]):
            shared[step] = both
    return shared


def without_top_level(fields: FieldSet, names: frozenset[str]) -> FieldSet:
    """The set without the given top-level fields and everything below them."""
    return {step: below for step, below in fields.items() if step.removeprefix("f:") not in names} if names else fields


def paths(fields: FieldSet, above: Steps = ()) -> Iterator[Steps]:
    """All members in the order of the API server: a member comes before those below it."""
    steps = sorted((step for step in fields if step != MEMBER), key=_sort_key)
    for step in steps:
        if MEMBER in fields[step]:
            yield (*above, step)
    for step in steps:
        yield from paths(fields[step], (*above, step))


def _sort_key(step: str) -> tuple[int, str]:
    return _STEP_KINDS.index(step[:2]), step[2:]


def from_paths(members: Iterator[Steps]) -> FieldSet:
    fields: FieldSet = {}
    for path in members:
        below = fields
        for step in path:
            below = below.setdefault(step, {})
        below[MEMBER] = {}
    return fields


def format_path(path: Steps) -> str:
    """Formats a path as `.spec.containers[name="app"].image`."""
    return "".join(map(_format_step, path))


def _format_step(step: str) -> str:
    kind, text = step[:2], step[2:]
    if kind == "f:":
        return f".{text}"
    if kind == "k:":
        return "[" + ",".join(f"{name}={go_value(value)}" for name, value in sorted(json.loads(text).items())) + "]"
    return f"[={go_value(json.loads(text))}]" if kind == "v:" else f"[{text}]"


def value_step(value: Any) -> str:
    return f"v:{go_json(value)}"


def key_step(keys: dict[str, Any]) -> str:
    # Numbers are not cached: a cache does not distinguish True from 1.
    return _key_step(tuple(keys.items())) if all(type(key) is str for key in keys.values()) else f"k:{go_json(keys)}"


@lru_cache(maxsize=_CACHE_SIZE)
def _key_step(keys: tuple[tuple[str, str], ...]) -> str:
    return f"k:{go_json(dict(keys))}"


# --- the wire ---------------------------------------------------------------------------------------------------------


def encode(fields: FieldSet) -> dict[str, Any]:
    encoded: dict[str, Any] = {}
    for step in sorted(fields):
        if step == MEMBER:
            if len(fields) > 1:
                encoded[step] = {}
        else:
            encoded[step] = encode(fields[step])
    return encoded


def decode(encoded: object, *, is_root: bool = True) -> FieldSet:
    """Raises InputError for a malformed set."""
    if not isinstance(encoded, dict):
        raise InputError("a set of fields is an object", field="fieldsV1", value=encoded)
    if not encoded:
        return {} if is_root else member()
    fields: FieldSet = {}
    for step, below in encoded.items():
        if step == MEMBER:
            fields[MEMBER] = {}
        else:
            fields[_parse_step(step)] = decode(below, is_root=False)
    return fields


@lru_cache(maxsize=_CACHE_SIZE)
def _parse_step(step: str) -> str:
    kind, text = step[:2], step[2:]
    if kind == "f:":
        return step
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    is_right = {"k:": isinstance(value, dict) and bool(value), "i:": type(value) is int, "v:": value is not None}
    if not is_right.get(kind):
        raise InputError("not a step to a field", field="fieldsV1", value=step)
    return f"{kind}{go_json(value)}"
