"""Checks of embedded objects (`x-kubernetes-embedded-resource`): they need an apiVersion and a kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from fleet.hub.names import DNS_1035_LABEL, DNS_1035_MESSAGE
from fleet.hub.schema.field_errors import INVALID, REQUIRED, MapKey, Path, SchemaFinding

JSONSchema = Mapping[str, Any]
Check = Callable[[Any, Path, list[SchemaFinding]], None]

_LONGEST_LABEL: Final = 63


def compile_embedded_check(schema: JSONSchema) -> Check | None:
    """Compiles a check of all embedded objects in and below a value, or None if the schema has none."""
    compiled = {name: compile_embedded_check(inner) for name, inner in (schema.get("properties") or {}).items()}
    fields = {name: check for name, check in compiled.items() if check is not None}
    others = _compile_others(schema)
    items = compile_embedded_check(schema["items"]) if "items" in schema else None
    is_embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    if not (fields or others or items or is_embedded):
        return None

    def check(value: Any, path: Path, findings: list[SchemaFinding]) -> None:
        if type(value) is dict:
            if is_embedded:
                _check_embedded(value, path, findings)
            for name, item in value.items():
                if name in fields:
                    fields[name](item, (path, name), findings)
                elif others is not None:
                    others(item, (path, MapKey(name)), findings)
        elif type(value) is list and items is not None:
            for index, item in enumerate(value):
                items(item, (path, index), findings)

    return check


def _compile_others(schema: JSONSchema) -> Check | None:
    others = schema.get("additionalProperties")
    return compile_embedded_check(others) if isinstance(others, Mapping) else None


def _check_embedded(value: dict[str, Any], path: Path, findings: list[SchemaFinding]) -> None:
    for name, problem in (("apiVersion", _api_version_problem), ("kind", _kind_problem)):
        at = (path, name)
        if name not in value:
            findings.append(SchemaFinding(path, at, REQUIRED))
        elif text := problem(value[name]):
            findings.append(SchemaFinding(path, at, INVALID, value[name], text))


def _api_version_problem(value: object) -> str:
    if not isinstance(value, str):
        return "must be a string"
    if not value:
        return "must not be empty"
    return f"unexpected GroupVersion string: {value}" if value.count("/") > 1 else ""


def _kind_problem(value: object) -> str:
    if not isinstance(value, str):
        return "must be a string"
    if not value:
        return "must not be empty"
    if problems := _label_problems(value.lower()):
        return f"may have mixed case, but should otherwise match: {','.join(problems)}"
    return ""


def _label_problems(text: str) -> list[str]:
    too_long = [f"must be no more than {_LONGEST_LABEL} characters"] if len(text) > _LONGEST_LABEL else []
    return too_long + ([] if DNS_1035_LABEL.match(text) else [DNS_1035_MESSAGE])
