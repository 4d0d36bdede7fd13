"""The built-in kinds, loaded from `builtin.txt`, and the conversion between the two event APIs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from fleet.hub.kinds.kind import Kind, TableColumn
from fleet.hub.records import DataLine, Record, read_records

NAMESPACES: Final = "namespaces"
EVENTS: Final = "events"
DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
AGE: Final = TableColumn("Age", ".metadata.creationTimestamp", "date")
COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")

_FILE: Final = Path(__file__).with_name("builtin.txt")
_SCOPES: Final = {"namespaced": True, "cluster": False}
_LISTS: Final = {
    "shortNames": "short_names",
    "categories": "categories",
    "subresources": "subresources",
    "verbs": "verbs",
    "fieldLabels": "field_labels",
}
_FLAGS: Final = {"countsGenerations": "counts_generations", "namesArePaths": "names_are_paths"}
_SEPARATOR: Final = re.compile(r" {2,}")
_PRIORITY: Final = re.compile(r"priority=(\d+)")
_FIELDS_OF_COLUMN: Final = range(2, 5)
_ONLY_CREATED: Final = ("create",)


def load_kinds(path: Path = _FILE) -> tuple[Kind, ...]:
    """Raises InputError with the line number for a line that does not fit."""
    kinds: dict[tuple[str, str], Kind] = {}
    for record in read_records(path):
        kind = _parse_kind(record)
        if (kind.api_version, kind.kind) in kinds:
            raise record.head.error("the kind is listed twice")
        kinds[kind.api_version, kind.kind] = kind
    return tuple(kinds.values())


def _parse_kind(record: Record) -> Kind:
    words = record.head.text.split()
    if len(words) < 4 or words[3] not in _SCOPES:
        raise record.head.error("expected GROUP/VERSION Kind plural, and namespaced or cluster")
    api_version, name, plural, scope = words[:4]
    group, _, version = api_version.rpartition("/")
    attributes: dict[str, Any] = {}
    columns = []
    for word in words[4:]:
        _add_attribute(attributes, record.head, word)
    for line in record.continuation:
        fields = _SEPARATOR.split(line.text)
        if len(fields) > 1:
            columns.append(_parse_column(line, fields))
            continue
        for word in line.text.split():
            _add_attribute(attributes, line, word)
    return Kind(group, version, name, plural, namespaced=_SCOPES[scope], columns=tuple(columns), **attributes)


def _add_attribute(attributes: dict[str, Any], line: DataLine, word: str) -> None:
    name, equals, value = word.partition("=")
    if equals and name in _LISTS and all(value.split(",")):
        attributes[_LISTS[name]] = (*attributes.get(_LISTS[name], ()), *value.split(","))
    elif not equals and name in _FLAGS:
        attributes[_FLAGS[name]] = True
    else:
        raise line.error(f"unknown attribute {word}")


def _parse_column(line: DataLine, fields: list[str]) -> TableColumn:
    name, path, *rest = fields
    priority = _PRIORITY.fullmatch(rest[-1]) if rest else None
    kind = (rest if priority is None else rest[:-1]) or ["string"]
    if len(fields) not in _FIELDS_OF_COLUMN or len(kind) > 1 or kind[0] not in COLUMN_TYPES:
        raise line.error("expected a column: name, path and optionally a type and priority=N")
    return TableColumn(name, path, kind[0], priority=int(priority[1]) if priority else 0)


def _split_reviews(kinds: tuple[Kind, ...]) -> Iterator[tuple[Kind, ...]]:
    yield tuple(kind for kind in kinds if kind.verbs != _ONLY_CREATED)
    yield tuple(kind for kind in kinds if kind.verbs == _ONLY_CREATED)


KINDS, REVIEWS = _split_reviews(load_kinds())
SCALE: Final = Kind("autoscaling", "v1", "Scale", "scales", namespaced=True)

# events.k8s.io/v1 and core/v1 are two views of the same events, which are stored as core/v1.
_EVENT_FIELDS: Final = {
    "regarding": "involvedObject",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "reportingController": "reportingComponent",
}
_NEW_EVENT_FIELDS: Final = {old: new for new, old in _EVENT_FIELDS.items()}


def event_to_core(document: dict[str, Any]) -> dict[str, Any]:
    """Converts an events.k8s.io/v1 Event to core/v1, the stored form."""
    renamed = {_EVENT_FIELDS.get(key, key): value for key, value in document.items()}
    return renamed | {"apiVersion": "v1"}


def event_from_core(document: dict[str, Any]) -> dict[str, Any]:
    renamed = {_NEW_EVENT_FIELDS.get(key, key): value for key, value in document.items()}
    return renamed | {"apiVersion": "events.k8s.io/v1"}
