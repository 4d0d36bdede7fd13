"""Strategic merge patches: merge patches that merge the keyed lists of built-in kinds item by item.

The keyed lists and their merge keys come from the shapes of built-in kinds. Directives in the patch:
 `$patch` (delete, replace), `$retainKeys`, `$deleteFromPrimitiveList/…` and `$setElementOrder/…`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, Final

from fleet.errors import PatchError
from fleet.hub.apply.shapes import Shape, shape_of_kind
from fleet.hub.schema.field_errors import go_json
from fleet.model.decoding import drop_nulls

Object = dict[str, Any]

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE_FROM: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"
_NOTHING: Final = object()


def strategic_merge_patch(document: Object, patch: Any, kind: str) -> Object:
    """`kind` is a kind in the document's API version; lists of unknown kinds are replaced."""
    if not isinstance(patch, dict):
        raise PatchError("invalid JSON document")
    return _merge_objects(deepcopy(document), deepcopy(patch), shape_of_kind(document.get("apiVersion", ""), kind))


def _merge_objects(old: Object, patch: Object, shape: Shape) -> Object:
    if _DIRECTIVE in patch:
        return _apply_directive(patch)
    _retain(old, patch)
    for name in [name for name in patch if name.startswith(_ORDER)]:
        _merge_in_order(old, patch, name, shape)
    for name, value in patch.items():
        if name.startswith(_DELETE_FROM):
            _delete_scalars(old, name.removeprefix(_DELETE_FROM), value)
        else:
            _merge_field(old, name, value, shape.field_shape(name))
    return old


def _apply_directive(patch: Object) -> Object:
    directive = patch.pop(_DIRECTIVE)
    if directive == "replace":
        return patch
    if directive == "delete":
        return {}
    raise PatchError(f"unknown patch type: {directive} in map: {go_json(patch)}")


def _retain(old: Object, patch: Object) -> None:
    """Removes fields that are not in `$retainKeys`. A patch may only set fields that it retains."""
    retained = patch.pop(_RETAIN, _NOTHING)
    if retained is _NOTHING:
        return
    set_fields = {
        name for name, value in patch.items() if value is not None and not name.startswith((_DELETE_FROM, _ORDER))
    }
    if (
        not isinstance(retained, list)
        or not all(isinstance(name, str) for name in retained)
        or set_fields - {*retained}
    ):
        raise PatchError("invalid patch format of retainKeys")
    for name in old.keys() - {*retained}:
        del old[name]


def _merge_field(old: Object, name: str, value: Any, shape: Shape) -> None:
    if value is None:
        old.pop(name, None)
        return
    known = old.get(name, _NOTHING)
    if isinstance(known, dict) and isinstance(value, dict):
        old[name] = value if shape.is_replaced else _merge_objects(known, value, shape)
    elif isinstance(known, list) and isinstance(value, list):
        old[name] = value if shape.patch_key is None else _merge_lists(known, value, shape)
    else:
        _put(old, name, value)


def _put(old: Object, name: str, value: Any) -> None:
    """Sets a new value without its directives, which do not apply to it."""
    rest = _without_directives(drop_nulls(value))
    if rest is _NOTHING:
        old.pop(name, None)
    else:
        old[name] = rest


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        if _DIRECTIVE in value:
            return _NOTHING
        rest = {name: _without_directives(item) for name, item in value.items()}
        return {name: item for name, item in rest.items() if item is not _NOTHING}
    if isinstance(value, list):
        return [rest for item in value if (rest := _without_directives(item)) is not _NOTHING]
    return value


def _delete_scalars(old: Object, name: str, deleted: Any) -> None:
    known = old.get(name)
    if not isinstance(deleted, list):
        raise PatchError("invalid patch format of primitive list")
    if isinstance(known, list):
        kept = [item for item in known if item not in deleted]
        items, rest = _partition(kept, deleted, _identity)
        old[name] = _interleave(items, rest, order=deleted, old=known, key=_identity)


# --- lists ------------------------------------------------------------------------------------------------------------

Key = Callable[[Any], Any]


def _identity(item: Any) -> Any:
    return item


def _build_merge_key(shape: Shape) -> Key:
    """The merge key function, which raises PatchError for an item without the key."""
    name = shape.patch_key
    if not name:
        return _identity

    def key(item: Any) -> Any:
        if not isinstance(item, dict):
            raise PatchError("expected a map, but received something else in a list that is merged by key")
        if name not in item:
            raise PatchError(f"map: {go_json(item)} does not contain declared merge key: {name}")
        return item[name]

    return key


def _merge_lists(old: list[Any], patch: list[Any], shape: Shape) -> list[Any]:
    if not old and not patch:
        return old
    if not shape.patch_key:
        merged = _drop_duplicates([*old, *patch])
    else:
        old, patch = _apply_list_directives(old, patch, shape)
        merged = _merge_by_key(old, patch, shape)
    key = _build_merge_key(shape)
    items, rest = _partition(merged, patch, key)
    return _interleave(items, rest, order=patch, old=old, key=key)


def _drop_duplicates(items: Sequence[Any]) -> list[Any]:
    distinct: list[Any] = []
    for item in items:
        if item not in distinct:
            distinct.append(item)
    return distinct


def _apply_list_directives(old: list[Any], patch: list[Any], shape: Shape) -> tuple[list[Any], list[Any]]:
    """The old items without deleted ones, and the items of the patch that are not directives."""
    key = _build_merge_key(shape)
    plain, is_replaced = [], False
    for item in patch:
        directive = item.get(_DIRECTIVE, _NOTHING) if isinstance(item, dict) else _NOTHING
        if directive is _NOTHING:
            plain.append(item)
        elif directive == "delete":
            deleted_key = key(item)
            old = [known for known in old if key(known) != deleted_key]
        elif directive == "replace":
            is_replaced = True
        elif directive == "merge":
            raise PatchError("merging lists cannot yet be specified in the patch")
        else:
            raise PatchError(f"unknown patch type: {directive} in map: {go_json(item)}")
    return (plain, []) if is_replaced else (old, plain)


def _merge_by_key(old: list[Any], patch: list[Any], shape: Shape) -> list[Any]:
    key = _build_merge_key(shape)
    merged = list(old)
    for item in patch:
        wanted = key(item)
        at = next((index for index, known in enumerate(merged) if key(known) == wanted), None)
        if at is None:
            merged.append(item)
        else:
            merged[at] = _merge_objects(merged[at], item, shape.item_shape)
    return merged


def _merge_in_order(old: Object, patch: Object, directive: str, shape: Shape) -> None:
    """Merges a list in the order of `$setElementOrder`; items that only the server has keep their relative place."""
    order, name = patch.pop(directive), directive.removeprefix(_ORDER)
    known, changes = old.get(name), patch.pop(name, None)
    inner = shape.field_shape(name)
    key = _build_merge_key(inner)
    if not isinstance(order, list) or not isinstance(known or [], list) or not isinstance(changes or [], list):
        raise PatchError("invalid patch format of setElementOrder list")
    _check_order(changes or [], order, key)
    if known is not None and changes is not None:
        merged = _merge_lists(known, changes, inner) if inner.patch_key is not None else changes
    elif known is not None or changes is not None:
        merged = known if known is not None else _without_directives(changes)
    else:
        return
    items, rest = _partition(merged, order, key)
    old[name] = _interleave(items, rest, order=order, old=known or [], key=key)


def _check_order(changes: list[Any], order: list[Any], key: Key) -> None:
    plain = [item for item in changes if not (isinstance(item, dict) and _DIRECTIVE in item)]
    wanted = iter([key(item) for item in order])
    if order and not all(any(key(item) == place for place in wanted) for item in plain):
        text = f"The order in patch list:\n{go_json(changes)}\n doesn't match {_ORDER[:-1]} list:\n{go_json(order)}\n"
        raise PatchError(text)


def _partition(items: Sequence[Any], named: Sequence[Any], key: Key) -> tuple[list[Any], list[Any]]:
    """The items whose keys are in the other list, and those whose keys are not."""
    names = [key(item) for item in named]
    return [item for item in items if key(item) in names], [item for item in items if key(item) not in names]


def _interleave(items: list[Any], rest: list[Any], *, order: Sequence[Any], old: Sequence[Any], key: Key) -> list[Any]:
    """The items in their new order; each is preceded by those of the rest that preceded it in the old list."""
    places, old_places = [key(item) for item in order], [key(item) for item in old]
    items = sorted(items, key=lambda item: places.index(key(item)))
    result, waiting = [], list(rest)
    for item in items:
        while waiting and _was_before(waiting[0], item, old_places, key):
            result.append(waiting.pop(0))
        result.append(item)
    return result + waiting


def _was_before(left: Any, right: Any, places: list[Any], key: Key) -> bool:
    known = key(left) in places and key(right) in places
    return known and places.index(key(left)) < places.index(key(right))
