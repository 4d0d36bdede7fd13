"""Tables for `kubectl get`, built from printer columns, and objects reduced to their metadata."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from fleet.hub.kinds.builtin import AGE
from fleet.hub.kinds.kind import Document, Kind, TableColumn

_GROUP_VERSION: Final = "meta.k8s.io/v1"
_NAME: Final = {
    "name": "Name",
    "type": "string",
    "format": "name",
    "description": "The name of the object, unique among its kind in its namespace.",
    "priority": 0,
}
_NONE: Final = "<none>"
_UNKNOWN: Final = "<unknown>"
_STEP: Final = re.compile(
    r"""\.?(?:\['(?P<quoted>(?:[^'\\]|\\.)*)'\]|\[\?\(@\.(?P<field>[\w.\-]+)\s*==\s*(?P<quote>["'])(?P<value>.*?)(?P=quote)\)\]"""
    r"""|\[(?P<index>\*|-?\d+)\]|(?P<name>(?:[^.\[\\]|\\.)+))"""
)

Step = tuple[str, str, str]


def build_table(
    kind: Kind, documents: Sequence[Document], metadata: Document, *, include: str, with_headers: bool = True
) -> Document:
    """`include` is the `includeObject` policy of the rows: Metadata, Object or None."""
    columns = kind.columns or (AGE,)
    return {
        "kind": "Table",
        "apiVersion": _GROUP_VERSION,
        "metadata": metadata,
        "columnDefinitions": _column_definitions(columns) if with_headers else [],
        "rows": [_build_row(kind, columns, document, include) for document in documents],
    }


def to_partial(document: Document) -> Document:
    return {"kind": "PartialObjectMetadata", "apiVersion": _GROUP_VERSION, "metadata": document["metadata"]}


def build_partial_list(documents: Iterable[Document], metadata: Document) -> Document:
    items = [to_partial(document) for document in documents]
    return {"kind": "PartialObjectMetadataList", "apiVersion": _GROUP_VERSION, "metadata": metadata, "items": items}


def _column_definitions(columns: Sequence[TableColumn]) -> list[Document]:
    definitions = [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in columns
    ]
    return [_NAME, *definitions]


def _build_row(kind: Kind, columns: Sequence[TableColumn], document: Document, include: str) -> Document:
    cells = [document["metadata"]["name"], *(_build_cell(kind, column, document) for column in columns)]
    row: Document = {"cells": cells}
    if include == "Object":
        row["object"] = document
    elif include != "None":
        row["object"] = to_partial(document)
    return row


def _build_cell(kind: Kind, column: TableColumn, document: Document) -> Any:
    """Paths of built-in columns have additional forms; `kinds/builtin.txt` describes them."""
    path = column.path
    if path.startswith("#"):
        return sum(len(document.get(name) or ()) for name in path[1:].split(","))
    if path.startswith("="):
        labels = _first_value(document, path[1:])
        pairs = labels.items() if isinstance(labels, dict) else ()
        return ",".join(f"{key}={value}" for key, value in pairs) or _NONE
    if path.startswith("{"):
        return re.sub(r"\{(.*?)\}", lambda match: str(_first_value(document, match[1]) or ""), path)
    if not kind.custom and "/" in path:
        have, want = (_first_value(document, part) for part in path.split("/"))
        return f"{have or 0}/{want if want is not None else 1}"
    if column.type == "date":
        return _format_age(column, document, kind)
    values = list(_find_values(document, path))
    if not values:
        return None if kind.custom else (0 if column.type == "integer" else _NONE)
    if column.type in ("integer", "number", "boolean") and len(values) == 1:
        return values[0]
    return ",".join(_format_value(value) for value in values)


def _format_age(column: TableColumn, document: Document, kind: Kind) -> str | None:
    """The age; a "Created At" column shows the time itself. `|` in a path separates alternatives."""
    text = next((value for path in column.path.split("|") if (value := _first_value(document, path))), None)
    if text is None:
        return None if kind.custom else _UNKNOWN
    if column.name == "Created At":
        return str(text)
    return format_age(str(text))


def format_age(text: str, now: float | None = None) -> str:
    """The age of a timestamp in the format of kubectl."""
    try:
        seconds = int((time.time() if now is None else now) - datetime.fromisoformat(text).timestamp())
    except ValueError:
        return "<invalid>"
    if seconds < 0:
        return "0s" if seconds >= -2 else "<invalid>"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    years, rest = divmod(days, 365)
    return f"{years}y{rest}d" if years < 8 and rest else f"{years}y"


def _first_value(document: Document, path: str) -> Any:
    return next(iter(_find_values(document, path)), None)


def _find_values(document: Document, path: str) -> Iterator[Any]:
    values: list[Any] = [document]
    for step in _parse_path(path):
        values = [inner for value in values for inner in _select(value, step)]
    yield from (value for value in values if value is not None)


@lru_cache(maxsize=1024)
def _parse_path(path: str) -> tuple[Step, ...]:
    """Parses the JSONPath subset of printer columns: fields, indexes, wildcards and `?(@.field=="value")` filters."""
    steps: list[Step] = []
    position = 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            return (("nothing", "", ""),)
        steps.append(_parse_step(match))
        position = match.end()
    return tuple(steps)


def _parse_step(match: re.Match[str]) -> Step:
    if match["field"]:
        return ("where", match["field"], match["value"])
    if match["index"]:
        return ("index", match["index"], "")
    return ("name", re.sub(r"\\(.)", r"\1", match["quoted"] or match["name"]), "")


def _select(value: Any, step: Step) -> Iterable[Any]:
    action, name, expected = step
    match action:
        case "name" if isinstance(value, dict):
            return (value[name],) if name in value else ()
        case "where" if isinstance(value, list):
            return [item for item in value if _field_value(item, name) == expected]
        case "index" if isinstance(value, list):
            return value if name == "*" else value[int(name) :][:1]
    return ()


def _field_value(item: Any, name: str) -> Any:
    for part in name.split("."):
        item = item.get(part) if isinstance(item, dict) else None
    return item


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list)):
        from fleet.hub.wire.bodies import encode

        return encode(value).decode()
    return str(value)
