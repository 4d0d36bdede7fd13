"""JSON schemas of reports, the same with every version of Python."""

from __future__ import annotations

from inspect import cleandoc
from typing import Any

import msgspec


def render_schema(report: type[msgspec.Struct]) -> str:
    schema = _clean(msgspec.json.schema(report))
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode()


def _clean(schema: Any) -> Any:
    """Without the indentation of docstrings, which Python strips from 3.13 on."""
    if isinstance(schema, list):
        return [_clean(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    cleaned = {name: _clean(value) for name, value in schema.items()}
    if isinstance(text := cleaned.get("description"), str):
        cleaned["description"] = cleandoc(text)
    return cleaned
