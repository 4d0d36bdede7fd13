"""Operations of server-side apply on values, by their shapes: check, list fields, compare, merge, remove."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from fleet.errors import ApplyError
from fleet.hub.apply.field_sets import MEMBER, FieldSet, Steps, format_path, key_step, union, value_step
from fleet.hub.apply.shapes import Shape
from fleet.hub.schema.equality import is_same

ABSENT: Final[Any] = object()
"""Marks an absent value, as opposed to null."""


def is_leaf(shape: Shape, *values: Any) -> bool:
    """Whether values are handled as a whole: scalars, atomic values, and values that are empty on both sides."""
    present = [value for value in values if value is not ABSENT]
    if shape.is_atomic or not any(isinstance(value, (dict, list)) and value for value in present):
        return True
    kind = next(type(value) for value in reversed(present) if value is not None)
    return kind not in (dict, list) or (kind is list and not shape.merges_items)


def item_step(item: Any, shape: Shape) -> str:
    """The path step of an item of a list-map or a set. Raises ApplyError if it has no key."""
    if shape.keys is None:
        if isinstance(item, (dict, list)):
            raise ApplyError("associative list without keys has an element that's a map type")
        return value_step(item)
    if not isinstance(item, dict):
        text = "may not have a null element" if item is None else "may not have non-map elements"
        raise ApplyError(f"associative list with keys {text}")
    keys = {key: item.get(key, default) for key, default in shape.keys.items() if key in item or default is not None}
    if not keys:
        names = " ".join(f'"{key}"' for key in shape.keys)
        text = f"associative list with keys has an element that omits all key fields [{names}]"
        raise ApplyError(f"{text} (and doesn't have default values for any key fields)")
    return key_step(keys)


def _iter_item_steps(items: list[Any], shape: Shape) -> Iterator[tuple[str, Any]]:
    for item in items:
        try:
            yield item_step(item, shape), item
        except ApplyError:
            continue


# --- checks -----------------------------------------------------------------------------------------------------------


def check(value: Any, shape: Shape, path: Steps = ()) -> None:
    """Raises ApplyError for unknown fields, items without keys and duplicate items."""
    if isinstance(value, dict) and not shape.is_atomic:
        for name, item in value.items():
            if shape.is_closed and name not in shape.fields:
                raise ApplyError(f"{format_path((*path, f'f:{name}'))}: field not declared in schema")
            check(item, shape.field_shape(name), (*path, f"f:{name}"))
    elif isinstance(value, list) and shape.merges_items:
        _check_items(value, shape, path)


def _check_items(items: list[Any], shape: Shape, path: Steps) -> None:
    seen = set()
    for index, item in enumerate(items):
        try:
            step = item_step(item, shape)
        except ApplyError as error:
            raise ApplyError(f"{format_path(path)}: element {index}: {error.message}") from error
        if step in seen:
            raise ApplyError(f"{format_path(path)}: duplicate entries for key {format_path((step,))}")
        seen.add(step)
        check(item, shape.item_shape, (*path, step))


# --- which fields a value has -----------------------------------------------------------------------------------------


def collect_fields(value: Any, shape: Shape) -> FieldSet:
    """Every leaf, and every item of a list or map that was added explicitly."""
    if shape.is_atomic or not isinstance(value, (dict, list)):
        return {MEMBER: {}}
    if isinstance(value, list):
        return _collect_list_fields(value, shape)
    fields: FieldSet = {}
    for name, item in value.items():
        below = collect_fields(item, shape.field_shape(name))
        if item is None or item == {} or not shape.declares(name):
            below = {MEMBER: {}, **below}
        if below:
            fields[f"f:{name}"] = below
    return fields


def _collect_list_fields(value: list[Any], shape: Shape) -> FieldSet:
    if not shape.merges_items:
        return {MEMBER: {}}
    fields: FieldSet = {}
    for step, item in _iter_item_steps(value, shape):
        # For duplicate keys only the existence of items is owned, not their fields.
        fields[step] = {MEMBER: {}} if step in fields else {MEMBER: {}, **collect_fields(item, shape.item_shape)}
    return fields


def complete_declared_fields(fields: FieldSet, shape: Shape, *, is_declared: bool = False) -> FieldSet:
    """The set plus all declared fields on the path to each member."""
    complete: FieldSet = {MEMBER: {}} if is_declared else {}
    for step, below in fields.items():
        if step == MEMBER:
            complete[MEMBER] = {}
        elif step.startswith("f:"):
            name = step[2:]
            complete[step] = complete_declared_fields(below, shape.field_shape(name), is_declared=shape.declares(name))
        else:
            complete[step] = complete_declared_fields(below, shape.item_shape)
    return complete


# --- comparing --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class FieldComparison:
    added: FieldSet = field(default_factory=dict)
    removed: FieldSet = field(default_factory=dict)
    modified: FieldSet = field(default_factory=dict)


def compare(old: Any, new: Any, shape: Shape) -> FieldComparison:
    result = FieldComparison()
    _compare(old, new, shape, (), result)
    return result


def _compare(old: Any, new: Any, shape: Shape, path: Steps, result: FieldComparison) -> None:
    if old is new:
        return
    if old is ABSENT:
        _graft(result.added, path, _collect_all_fields(new, shape))
    elif new is ABSENT:
        _graft(result.removed, path, _collect_all_fields(old, shape))
    elif not shape.is_atomic and _changes_type(old, new):
        _insert(result.modified, path)
        _compare_inside(old, new, shape, path, result)
    elif is_leaf(shape, old, new):
        if not is_same(old, new):
            _insert(result.modified, path)
    elif not path or not _has_same_encoding(old, new):  # whole objects are hardly ever the same
        _compare_inside(old, new, shape, path, result)


def _collect_all_fields(value: Any, shape: Shape) -> FieldSet:
    """Everything that is added or removed with a value: the value and all fields inside it that can be owned."""
    fields: FieldSet = {MEMBER: {}}
    if shape.is_atomic or not value:
        return fields
    if isinstance(value, dict):
        for name, item in value.items():
            fields[f"f:{name}"] = _collect_all_fields(item, shape.field_shape(name))
        return fields
    if not isinstance(value, list) or not shape.merges_items:
        return fields
    for step, items in _group_items(value, shape).items():
        fields[step] = _collect_all_fields(items[0], shape.item_shape) if len(items) == 1 else {MEMBER: {}}
    return fields


def _has_same_encoding(old: Any, new: Any) -> bool:
    """A fast check for unchanged values. False only means that a full comparison is needed: fields may be reordered."""
    return msgspec.json.encode(old) == msgspec.json.encode(new)


def _changes_type(old: Any, new: Any) -> bool:
    """Whether a map replaces a non-map, or the reverse."""
    is_there = not any(value is ABSENT or value is None for value in (old, new))
    return is_there and isinstance(old, dict) is not isinstance(new, dict)


def _compare_inside(old: Any, new: Any, shape: Shape, path: Steps, result: FieldComparison) -> None:
    if isinstance(old, dict) or isinstance(new, dict):
        before, after = (value if isinstance(value, dict) else {} for value in (old, new))
        for name in {**before, **after}:
            inner = shape.field_shape(name)
            _compare(before.get(name, ABSENT), after.get(name, ABSENT), inner, (*path, f"f:{name}"), result)
        return
    if not shape.merges_items:
        return
    befores, afters = (_group_items(value, shape) if isinstance(value, list) else {} for value in (old, new))
    for step in {**befores, **afters}:
        _compare_items(befores.get(step, []), afters.get(step, []), shape.item_shape, (*path, step), result)


def _group_items(items: list[Any], shape: Shape) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for step, item in _iter_item_steps(items, shape):
        groups.setdefault(step, []).append(item)
    return groups


def _compare_items(old: list[Any], new: list[Any], shape: Shape, path: Steps, result: FieldComparison) -> None:
    """Compares items of one key: normally one on each side; duplicates are compared as a whole."""
    if len(old) <= 1 and len(new) <= 1:
        _compare(old[0] if old else ABSENT, new[0] if new else ABSENT, shape, path, result)
    elif len(old) > 1 and len(new) > 1:
        if not is_same(old, new):
            _insert(result.modified, path)
    elif len(old) > 1:
        if new:
            _compare(ABSENT, new[0], shape, path, result)
        _insert(result.removed, path)
    else:
        if old:
            _compare(old[0], ABSENT, shape, path, result)
        _insert(result.added, path)


def _graft(fields: FieldSet, path: Steps, below: FieldSet) -> None:
    if not path:
        fields.update(below)
        return
    for step in path[:-1]:
        fields = fields.setdefault(step, {})
    fields[path[-1]] = union(fields[path[-1]], below) if path[-1] in fields else below


def _insert(fields: FieldSet, path: Steps) -> None:
    for step in path:
        fields = fields.setdefault(step, {})
    fields[MEMBER] = {}


# --- merging ----------------------------------------------------------------------------------------------------------


def merge(live: Any, applied: Any, shape: Shape) -> Any:
    """The live value with all applied fields; removes nothing."""
    if applied is ABSENT:
        return live
    if live is ABSENT or is_leaf(shape, live, applied):
        return applied
    if isinstance(applied, list) or (applied is None and isinstance(live, list)):
        return _merge_lists(live if isinstance(live, list) else [], applied or [], shape)
    before, after = (value if isinstance(value, dict) else {} for value in (live, applied))
    return {
        name: merge(before.get(name, ABSENT), after.get(name, ABSENT), shape.field_shape(name))
        for name in {**before, **after}
    }


def _merge_lists(live: list[Any], applied: list[Any], shape: Shape) -> list[Any]:
    """Applied items keep their order; items that are only live are placed as near to their old position as possible."""
    old = list(_iter_item_steps(live, shape))
    old_items, is_unique = _index_items(old)
    new = list(_iter_item_steps(applied, shape))
    new_steps = {step for step, _ in new}
    shared = iter([step for step, _ in new if step in old_items])
    next_shared = next(shared, None)
    merged: list[Any] = []
    done: set[str] = set()
    left = right = 0

    def take(step: str, item: Any) -> None:
        done.add(step)
        merged.append(merge(old_items[step] if is_unique.get(step) else ABSENT, item, shape.item_shape))

    while left < len(old) or right < len(new):
        if left < len(old) and right < len(new):
            step = old[left][0]
            if step == new[right][0]:
                take(*new[right])
                left, right, next_shared = left + 1, right + 1, next(shared, None)
                continue
            if step in new_steps and next_shared is not None and next_shared != step:
                left += 1
                continue
        if left < len(old):
            step, item = old[left]
            if step not in new_steps:
                merged.append(item)
                left += 1
                continue
            if step in done:
                left += 1
        if right < len(new):
            take(*new[right])
            if next_shared == new[right][0]:
                next_shared = next(shared, None)
            right += 1
    return merged


def _index_items(items: list[tuple[str, Any]]) -> tuple[dict[str, Any], dict[str, bool]]:
    first: dict[str, Any] = {}
    is_unique: dict[str, bool] = {}
    for step, item in items:
        is_unique[step] = step not in first
        first.setdefault(step, item)
    return first, is_unique


# --- removing ---------------------------------------------------------------------------------------------------------


def remove(value: Any, fields: FieldSet, shape: Shape) -> Any:
    """The value without these fields.

    A map or list that loses all its content becomes empty. The API server makes it null, which most schemas refuse.
    """
    if shape.is_atomic or not value or not fields:
        return value
    if isinstance(value, dict):
        return _remove_fields(value, fields, shape)
    return _remove_items(value, fields, shape) if isinstance(value, list) and shape.merges_items else value


def _remove_fields(value: dict[str, Any], fields: FieldSet, shape: Shape) -> dict[str, Any]:
    below = {name: fields.get(f"f:{name}", {}) for name in value}
    return {
        name: remove(item, below[name], shape.field_shape(name))
        for name, item in value.items()
        if MEMBER not in below[name]
    }


def _remove_items(value: list[Any], fields: FieldSet, shape: Shape) -> list[Any]:
    kept = []
    for item in value:
        try:
            below = fields.get(item_step(item, shape), {})
        except ApplyError:
            below = {}
        if MEMBER not in below:
            kept.append(remove(item, below, shape.item_shape))
    return kept
