"""Field ownership of what the operator applies: fields that others set, and their transfer to the operator. Pure.

Server-side apply leaves alone what others own, such as a port that was added to a Service by hand. Once such fields
belong to the operator, its next apply removes them, as those that it applied itself and no longer wants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

Json = dict[str, Any]

MANAGER: Final = "fleet-operator"
"""Field manager of the operator."""
_OWNED: Final = ("f:spec", "f:data")
"""Of these parts nothing is left to others. Controllers of a hub add to the rest, as to secrets of ServiceAccounts."""
_PODS_METADATA: Final = ("f:spec", "f:template", "f:metadata")
"""`kubectl rollout restart` writes an annotation there."""


def has_fields_of_others(document: Json) -> bool:
    """Whether others own fields that are the operator's."""
    return any(entry.get("manager") != MANAGER and _take(entry)[0] for entry in _list_entries(document))


def transfer_fields(document: Json) -> list[Json] | None:
    """`managedFields` with those fields, and those that the operator created, as if it had applied them; None if there
    are none."""
    own: Json = {"manager": MANAGER, "operation": "Apply", "apiVersion": document["apiVersion"]}
    transferred: Json = {}
    kept: list[Json] = []
    for entry in _list_entries(document):
        if _is_applied(entry):
            own = entry
            continue
        taken, left = _take(entry)
        transferred = _unite(transferred, taken)
        if left:
            kept.append({**entry, "fieldsV1": left})
    if not transferred:
        return None
    return [{**own, "fieldsType": "FieldsV1", "fieldsV1": _unite(own.get("fieldsV1") or {}, transferred)}, *kept]


def _list_entries(document: Json) -> list[Json]:
    entries: list[Json] = document["metadata"].get("managedFields") or []
    return entries


def _is_applied(entry: Json) -> bool:
    return entry.get("manager") == MANAGER and entry.get("operation") == "Apply" and not entry.get("subresource")


def _take(entry: Json) -> tuple[Json, Json]:
    """The fields that are the operator's, and the others."""
    fields: Json = entry.get("fieldsV1") or {}
    if entry.get("manager") == MANAGER:
        return fields, {}
    taken = {step: below for step, below in fields.items() if step in _OWNED}
    left = {step: below for step, below in fields.items() if step not in _OWNED}
    spec, template, metadata = _PODS_METADATA
    if of_pods := taken.get(spec, {}).get(template, {}).get(metadata):
        left[spec] = {template: {metadata: of_pods}}
        taken = _remove(taken, _PODS_METADATA)
    return taken, left


def _remove(fields: Json, path: Sequence[str]) -> Json:
    """The set without the path, and without what is empty then."""
    step, *deeper = path
    rest = {name: below for name, below in fields.items() if name != step}
    below = _remove(fields[step], deeper) if deeper else {}
    return {**rest, step: below} if below else rest


def _unite(left: Json, right: Json) -> Json:
    united = dict(left)
    for step, below in right.items():
        united[step] = _unite(united[step], below) if step in united else below
    return united
