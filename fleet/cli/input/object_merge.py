"""Application of a document on the object that it changes, with the result that an apply has on a hub.

Fields of the file replace those of the object, mappings are merged and lists are replaced. A field that the file does
not have stays, unless an earlier apply put it there: the annotation of `kubectl apply` and the managed fields of a
server-side apply record that. It also stays while another field manager owns it. Conflicts count as forced.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

Json = dict[str, Any]

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
FIELD_MANAGER: Final = "fleet-apply"
"""Of `fleet apply`."""
_OWN_METADATA: Final = ("labels", "annotations")
"""The parts of the metadata that an apply changes here."""
_FIELD: Final = "f:"


def merge_document(before: Mapping[str, Any], given: Mapping[str, Any], *, manager: str = FIELD_MANAGER) -> Json:
    """The object after the document was applied to it."""
    applied = _read_last_applied(before)
    merged = _merge(_remove_applied(before, applied, given), given)
    owned, others = _find_owned(before, manager)
    for fields in owned:
        merged = _remove_owned(merged, fields, given, others)
    merged["metadata"] = _merge_metadata(before, merged)
    return merged


def _merge_metadata(before: Mapping[str, Any], merged: Mapping[str, Any]) -> Json:
    """Names and versions are those of the object."""
    metadata = {**before["metadata"], "name": merged["metadata"]["name"]}
    for part in _OWN_METADATA:
        metadata.pop(part, None)
        if merged["metadata"].get(part):
            metadata[part] = merged["metadata"][part]
    return metadata


def _merge(before: Mapping[str, Any], given: Mapping[str, Any]) -> Json:
    result = dict(before)
    for name, value in given.items():
        known = result.get(name)
        result[name] = _merge(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return result


# --- fields that the file no longer has -------------------------------------------------------------------------------


def _read_last_applied(before: Mapping[str, Any]) -> Mapping[str, Any]:
    """What `kubectl apply` wrote the last time; empty if it was something else."""
    annotations = before["metadata"].get("annotations")
    try:
        applied = json.loads(annotations[LAST_APPLIED]) if isinstance(annotations, Mapping) else None
    except (KeyError, TypeError, ValueError):
        applied = None
    return applied if isinstance(applied, Mapping) else {}


def _remove_applied(before: Mapping[str, Any], applied: Mapping[str, Any], given: Mapping[str, Any]) -> Json:
    result = dict(before)
    for name, value in applied.items():
        if name not in given:
            result.pop(name, None)
        elif isinstance(value, Mapping) and isinstance(result.get(name), Mapping):
            part = given[name] if isinstance(given[name], Mapping) else {}
            result[name] = _remove_applied(result[name], value, part)
    return result


def _find_owned(before: Mapping[str, Any], manager: str) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The sets of fields that the manager applied to the object itself, and those of everyone else."""
    owned: list[Mapping[str, Any]] = []
    others: list[Mapping[str, Any]] = []
    for entry in before["metadata"].get("managedFields") or ():
        is_own = entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource")
        (owned if is_own else others).append(entry.get("fieldsV1") or {})
    return owned, others


def _remove_owned(
    merged: Mapping[str, Any],
    fields: Mapping[str, Any],
    given: Mapping[str, Any],
    others: Sequence[Mapping[str, Any]],
) -> Json:
    """Fields inside lists are left alone: lists are replaced whole."""
    result = dict(merged)
    for path, inner in fields.items():
        name = path.removeprefix(_FIELD)
        if not path.startswith(_FIELD) or name not in result:
            continue
        part, shared = given.get(name), [other[path] for other in others if path in other]
        if isinstance(result[name], Mapping) and any(deeper.startswith(_FIELD) for deeper in inner):
            result[name] = _remove_owned(result[name], inner, part if isinstance(part, Mapping) else {}, shared)
            if not result[name] and part is None and not shared:
                del result[name]
        elif part is None and not shared:
            del result[name]
    return result
