"""Entries of `metadata.managedFields`: one per manager, operation, API version and subresource."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from fleet.errors import InputError
from fleet.hub.apply.field_sets import FieldSet, decode, encode, union
from fleet.hub.schema.field_errors import go_quote

APPLY: Final = "Apply"
UPDATE: Final = "Update"
MOST_UPDATERS: Final = 10
"""Surplus managers with operation Update are merged into one entry per API version, oldest first."""

_ANCIENT_CHANGES: Final = "ancient-changes"


@dataclass(frozen=True, slots=True)
class FieldManager:
    """Identifies an entry. `api_version` is empty for Apply, which is tracked across all versions."""

    name: str
    operation: str
    api_version: str
    subresource: str

    def __str__(self) -> str:
        """The manager as conflict messages name it."""
        text = go_quote(self.name)
        if self.subresource:
            text += f" with subresource {go_quote(self.subresource)}"
        if self.operation == APPLY:
            return text
        return f"{text} using {self.api_version}"

    def sort_key(self) -> str:
        return f"{self.name} {self.operation} {self.api_version} {self.subresource}"


@dataclass(frozen=True, slots=True)
class ManagedFieldsEntry:
    fields: FieldSet
    api_version: str
    time: str = ""


ManagedFields = dict[FieldManager, ManagedFieldsEntry]


def is_reset(entries: object) -> bool:
    """Whether a request resets all ownership: an empty list, or a list with one empty entry."""
    return isinstance(entries, list) and entries in ([], [{}])


def decode_managers(entries: object) -> ManagedFields:
    """Undecodable entries count as no entries at all."""
    if not isinstance(entries, list):
        return {}
    try:
        return dict(_decode_entry(entry) for entry in entries)
    except InputError:
        return {}


def _decode_entry(entry: Any) -> tuple[FieldManager, ManagedFieldsEntry]:
    if not isinstance(entry, dict):
        raise InputError("an entry is an object", field="managedFields", value=entry)
    texts = {name: entry.get(name) or "" for name in ("manager", "operation", "apiVersion", "subresource", "time")}
    is_readable = all(isinstance(text, str) for text in texts.values())
    if not is_readable or texts["operation"] not in (APPLY, UPDATE) or not texts["apiVersion"]:
        raise InputError("not an entry of a manager", field="managedFields", value=entry)
    if entry.get("fieldsType") != "FieldsV1":
        raise InputError("unknown type of fields", field="managedFields", value=entry)
    version = "" if texts["operation"] == APPLY else texts["apiVersion"]
    manager = FieldManager(texts["manager"], texts["operation"], version, texts["subresource"])
    return manager, ManagedFieldsEntry(decode(entry.get("fieldsV1") or {}), texts["apiVersion"], texts["time"])


def encode_managers(managed: ManagedFields) -> list[dict[str, Any]]:
    ordered = sorted(managed.items(), key=lambda item: _sort_key(*item))
    return [_encode_entry(manager, entry) for manager, entry in ordered]


def _sort_key(manager: FieldManager, entry: ManagedFieldsEntry) -> tuple[str, str, str, str, str]:
    return manager.operation, entry.time, manager.name, entry.api_version, manager.subresource


def _encode_entry(manager: FieldManager, entry: ManagedFieldsEntry) -> dict[str, Any]:
    fields = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": entry.api_version,
        "time": entry.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": encode(entry.fields),
        "subresource": manager.subresource,
    }
    return {name: value for name, value in fields.items() if value or name == "fieldsV1"}


def merge_oldest(managed: ManagedFields) -> ManagedFields:
    updaters = [manager for manager in managed if manager.operation == UPDATE]
    if len(updaters) <= MOST_UPDATERS:
        return managed
    updaters.sort(key=lambda manager: (managed[manager].time, manager.sort_key()))
    return _merge_surplus(managed, updaters, surplus=len(updaters) - MOST_UPDATERS)


def _merge_surplus(managed: ManagedFields, updaters: Sequence[FieldManager], *, surplus: int) -> ManagedFields:
    """Merges the oldest managers of each version into one bucket until the surplus is gone."""
    result, first = dict(managed), {}
    for manager in updaters:
        version = manager.api_version
        if surplus == 0:
            break
        if version not in first:
            first[version] = manager
            continue
        bucket = replace(manager, name=_ANCIENT_CHANGES, subresource="")
        if bucket not in result:
            result[bucket] = result.pop(first[version])
        newer = result.pop(manager)
        result[bucket] = ManagedFieldsEntry(union(newer.fields, result[bucket].fields), version, newer.time)
        surplus -= 1
    return result
