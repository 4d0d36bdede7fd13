"""JSON schemas of types, the same with every version of Python."""

from __future__ import annotations

from inspect import cleandoc
from typing import Any

import msgspec


def render_schema(type_: type[msgspec.Struct]) -> str:
    schema = strip_indentation(msgspec.json.schema(type_))
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode()


def strip_indentation(schema: Any) -> Any:
    """Descriptions without the indentation of docstrings, which Python strips from 3.13 on."""
    if isinstance(schema, list):
        return [strip_indentation(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    cleaned = {name: strip_indentation(value) for name, value in schema.items()}
    if isinstance(text := cleaned.get("description"), str):
        cleaned["description"] = cleandoc(text)
    return cleaned
