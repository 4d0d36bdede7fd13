"""Sets of fields, in the form `fieldsV1` has on the wire.

A step of a path is a text such as `f:spec` (a field), `k:{"name":"a"}` (an item of a list-map), `v:"x"` (a value of a
set) or `i:0`. A set is a dictionary of steps; the step `.` says that the path so far is itself a member. On the wire
an empty dictionary says the same, which `encode` and `decode` take care of.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from fleet.errors import InputError
from fleet.hub.schema.causes import as_json, shown

Set = dict[str, Any]
Steps = tuple[str, ...]

MEMBER: Final = "."
_REMEMBERED: Final = 4096
_KINDS: Final = ("f:", "k:", "v:", "i:")


def member() -> Set:
    return {MEMBER: {}}


def union(left: Set, right: Set) -> Set:
    merged = dict(left)
    for step, below in right.items():
        merged[step] = union(left[step], below) if step in left else below
    return merged


def difference(left: Set, right: Set) -> Set:
    """What of the left is not in the right; paths below a member stay unless they are named."""
    rest: Set = {}
    for step, below in left.items():
        if step == MEMBER:
            if MEMBER not in right:
                rest[step] = below
        elif step not in right:
            rest[step] = below
        elif remaining := difference(below, right[step]):
            rest[step] = remaining
    return rest


def intersection(left: Set, right: Set) -> Set:
    shared: Set = {}
    for step, below in left.items():
        if step not in right:
            continue
        if step == MEMBER:
            shared[step] = below
        elif both := intersection(below, right[step]):
            shared[step] = both
    return shared


def without_top(fields: Set, names: frozenset[str]) -> Set:
    """Without everything at and below the fields of these names."""
    return {step: below for step, below in fields.items() if step.removeprefix("f:") not in names} if names else fields


def paths(fields: Set, above: Steps = ()) -> Iterator[Steps]:
    """All members in the order in which the API server tells them: a member before what is below it."""
    steps = sorted((step for step in fields if step != MEMBER), key=_rank)
    for step in steps:
        if MEMBER in fields[step]:
            yield (*above, step)
    for step in steps:
        yield from paths(fields[step], (*above, step))


def _rank(step: str) -> tuple[int, str]:
    return _KINDS.index(step[:2]), step[2:]


def of_paths(members: Iterator[Steps]) -> Set:
    fields: Set = {}
    for path in members:
        below = fields
        for step in path:
            below = below.setdefault(step, {})
        below[MEMBER] = {}
    return fields


def rendered(path: Steps) -> str:
    """`.spec.containers[name="app"].image`."""
    return "".join(map(_rendered_step, path))


def _rendered_step(step: str) -> str:
    kind, text = step[:2], step[2:]
    if kind == "f:":
        return f".{text}"
    if kind == "k:":
        return "[" + ",".join(f"{name}={shown(value)}" for name, value in sorted(json.loads(text).items())) + "]"
    return f"[={shown(json.loads(text))}]" if kind == "v:" else f"[{text}]"


def value_step(value: Any) -> str:
    return f"v:{as_json(value)}"


def key_step(keys: dict[str, Any]) -> str:
    # Numbers are not remembered, as true and one are the same to a cache.
    return _key_step(tuple(keys.items())) if all(type(key) is str for key in keys.values()) else f"k:{as_json(keys)}"


@lru_cache(maxsize=_REMEMBERED)
def _key_step(keys: tuple[tuple[str, str], ...]) -> str:
    return f"k:{as_json(dict(keys))}"


# --- the wire ---------------------------------------------------------------------------------------------------------


def encode(fields: Set) -> dict[str, Any]:
    encoded: dict[str, Any] = {}
    for step in sorted(fields):
        if step == MEMBER:
            if len(fields) > 1:
                encoded[step] = {}
        else:
            encoded[step] = encode(fields[step])
    return encoded


def decode(encoded: object, *, is_root: bool = True) -> Set:
    """Raises InputError for what is no set."""
    if not isinstance(encoded, dict):
        raise InputError("a set of fields is an object", field="fieldsV1", value=encoded)
    if not encoded:
        return {} if is_root else member()
    fields: Set = {}
    for step, below in encoded.items():
        if step == MEMBER:
            fields[MEMBER] = {}
        else:
            fields[_checked(step)] = decode(below, is_root=False)
    return fields


@lru_cache(maxsize=_REMEMBERED)
def _checked(step: str) -> str:
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
    return f"{kind}{as_json(value)}"
