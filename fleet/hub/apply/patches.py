"""Merge patches, JSON patches and strategic merge patches on JSON documents.

The document is never modified; results may share parts with it. Results are those of the API server, even odd ones:
`replace` and `copy` treat a missing field of an object as null, and negative indexes count from the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Final

import msgspec

from fleet.errors import PatchError, PatchTestFailed
from fleet.hub.apply.strategic_merge import strategic_merge_patch
from fleet.hub.schema.equality import is_same

__all__ = ["MOST_OPERATIONS", "json_patch", "merge_patch", "strategic_merge_patch"]

MOST_OPERATIONS: Final = 10_000
"""The API server's limit for one JSON patch; the caller answers 413 beyond it."""
MOST_COPIED: Final = 3 * 1024 * 1024
"""Bytes that the `copy` operations of one patch may add, as in the API server: each copy may double the document."""
MOST_SHIFTED: Final = 50_000_000
"""Items that one patch may move within lists by inserting and removing: about a tenth of a second of work."""

_encode: Final = msgspec.json.Encoder().encode
_JSON_TYPES: Final[dict[type, str]] = {
    dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"
}  # fmt: skip


def merge_patch(document: dict[str, Any], patch: Any) -> dict[str, Any]:
    """RFC 7386: fields of the patch replace those of the document, null removes, lists are replaced."""
    if patch is None:
        raise PatchError("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise _undecodable(patch, "value of type map[string]interface {}")
    return _merge(document, patch)


def _merge(document: Any, patch: dict[str, Any]) -> dict[str, Any]:
    merged = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge(merged.get(name), value) if isinstance(value, dict) else value
    return merged


def _type_name(value: Any) -> str:
    return _JSON_TYPES.get(type(value), "value")


# --- JSON patch -------------------------------------------------------------------------------------------------------


def json_patch(document: dict[str, Any], operations: Any) -> Any:
    """RFC 6902: all operations or none. `PatchError.is_unprocessable` distinguishes 422 from 400."""
    checked = _check_operations(operations)
    try:
        return _perform_all(checked, deepcopy(document))
    except RecursionError as error:
        raise _unprocessable("the patched object is nested too deeply") from error


def _perform_all(operations: list[Mapping[str, Any]], patched: Any) -> Any:
    copied = shifted = 0
    for operation in operations:
        name = operation.get("op")
        perform = _OPERATIONS.get(name)
        if perform is None:
            raise _unprocessable(f"Unexpected kind: {name or 'unknown'}")
        if name == "copy":
            copied += len(_encode(_get_value(patched, _get_path(operation, "from"), "copy")))
        elif name in ("add", "remove", "move"):
            shifted += _count_shifted(patched, operation)
        if copied > MOST_COPIED:
            raise _unprocessable(f"the copy operations of the patch add more than {MOST_COPIED} bytes")
        if shifted > MOST_SHIFTED:
            raise _unprocessable("the patch inserts into or removes from long lists too often")
        patched = perform(patched, operation)
    return patched


def _count_shifted(document: Any, operation: Mapping[str, Any]) -> int:
    """The length of the lists that the operation inserts into or removes from."""
    paths = [path for field in ("path", "from") if isinstance(path := operation.get(field), str)]
    return sum(_list_length(document, path) for path in paths if not path.endswith("/-"))


def _list_length(document: Any, path: str) -> int:
    try:
        container, _ = _resolve(document, path, "find")
    except PatchError:
        return 0
    return len(container) if isinstance(container, list) else 0


def _check_operations(operations: Any) -> list[Mapping[str, Any]]:
    if operations is None:
        return []
    if not isinstance(operations, list):
        raise _undecodable(operations, "value of type []handlers.jsonPatchOp")
    for operation in operations:
        if not isinstance(operation, dict):
            raise _undecodable(operation, "value of type handlers.jsonPatchOp")
        for name in ("op", "path", "from"):
            text = operation.get(name)
            if text is not None and not isinstance(text, str):
                raise _undecodable(text, f"struct field jsonPatchOp.{name} of type string")
    return operations


def _undecodable(value: Any, place: str) -> PatchError:
    return PatchError(f"error decoding patch: json: cannot unmarshal {_type_name(value)} into Go {place}")


def _unprocessable(message: str) -> PatchError:
    return PatchError(message, is_unprocessable=True)


def _add(document: Any, operation: Mapping[str, Any]) -> Any:
    return _put(document, _get_path(operation, "path"), operation.get("value"), "add")


def _remove(document: Any, operation: Mapping[str, Any]) -> Any:
    path = _get_path(operation, "path")
    container, key = _resolve(document, path, "remove")
    if isinstance(container, list):
        del container[_parse_index(container, key)]
    elif key in container:
        del container[key]
    else:
        raise _unprocessable(
            f"error in remove for path: '{path}': Unable to remove nonexistent key: {key}: missing value"
        )
    return document


def _replace(document: Any, operation: Mapping[str, Any]) -> Any:
    path = _get_path(operation, "path")
    if path == "":
        if not isinstance(operation.get("value"), (dict, list)):
            raise _unprocessable("replace operation value must be object or array")
        return operation["value"]
    container, key = _resolve(document, path, "replace")
    container[_parse_index(container, key) if isinstance(container, list) else key] = operation.get("value")
    return document


def _move(document: Any, operation: Mapping[str, Any]) -> Any:
    value = _get_value(document, _get_path(operation, "from"), "move")
    _remove(document, {"path": operation["from"]})
    return _put(document, _get_path(operation, "path"), value, "move")


def _copy(document: Any, operation: Mapping[str, Any]) -> Any:
    value = _get_value(document, _get_path(operation, "from"), "copy")
    return _put(document, _get_path(operation, "path"), deepcopy(value), "copy")


def _test(document: Any, operation: Mapping[str, Any]) -> Any:
    path, expected = _get_path(operation, "path"), operation.get("value")
    actual = document if path == "" else _get_value(document, path, "test")
    if not is_same(actual, expected):
        raise PatchTestFailed(f"testing value {path} failed: test failed", is_unprocessable=True)
    return document


_OPERATIONS: Final[dict[Any, Callable[[Any, Mapping[str, Any]], Any]]] = {
    "add": _add,
    "copy": _copy,
    "move": _move,
    "remove": _remove,
    "replace": _replace,
    "test": _test,
}


def _get_path(operation: Mapping[str, Any], name: str) -> str:
    path = operation.get(name)
    if not isinstance(path, str):
        missing = "operation missing path field" if name == "path" else "operation, missing from field"
        raise _unprocessable(f"{operation.get('op')} operation failed to decode {name}: {missing}: missing value")
    return path


def _resolve(document: Any, path: str, verb: str) -> tuple[Any, str]:
    """The container that a path points into, and the key within it."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")]
    container = document
    for step in steps[1:-1]:
        container = _get_child(container, step)
        if not isinstance(container, (dict, list)):
            break
    if len(steps) < 2 or not isinstance(container, (dict, list)):
        raise _unprocessable(f'{verb} operation does not apply: doc is missing path: "{path}": missing value')
    return container, steps[-1]


def _get_child(container: Any, step: str) -> Any:
    if isinstance(container, dict):
        return container.get(step)
    try:
        return container[_parse_index(container, step)]
    except PatchError:
        return None


def _get_value(document: Any, path: str, verb: str) -> Any:
    container, key = _resolve(document, path, verb)
    return container[_parse_index(container, key)] if isinstance(container, list) else container.get(key)


def _put(document: Any, path: str, value: Any, verb: str) -> Any:
    container, key = _resolve(document, path, verb)
    if isinstance(container, dict):
        container[key] = value
    elif key == "-":
        container.append(value)
    else:
        container.insert(_parse_index(container, key, end=len(container) + 1), value)
    return document


def _parse_index(container: list[Any], key: str, *, end: int | None = None) -> int:
    length = len(container) if end is None else end
    digits = key[1:] if key[:1] in ("-", "+") else key
    # Longer numbers are out of range anyway, and slow to parse.
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 19):
        raise _unprocessable(f"value was not a proper array index: '{key}'")
    index = int(key)
    if not -length <= index < length:
        raise _unprocessable(f"Unable to access invalid index: {index}: invalid index referenced")
    return index + length if index < 0 else index
