"""`python -m charts.schema charts/fleet` updates the generated parts of the schema of the values.

These are: everything under `settings`, from `fleet.settings`, so that a wrong setting is reported when the chart is
rendered and not when the controller starts; the names and descriptions of the values, from values.yaml, because editors
show them; and the names of the alerts, from files/alerts.yaml. The rest of the schema is written by hand.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import yaml

from charts.readme import DocumentedValue, parse_values
from fleet.settings.names import SettingInfo, known_settings
from fleet.settings.values import Address, Duration, Rate

Schema = dict[str, Any]

DEFINITION: Final = "settings"
_NUMBER: Final = r"[0-9]+(\.[0-9]+)?"
_FORMS: Final[Mapping[type, str]] = {
    Duration: rf"^(0|({_NUMBER}(ms|h|m|s))+)$",
    Rate: rf"^{_NUMBER}/(h|m|s)$",
    Address: r"^(off|.*:[0-9]+)$",
}
_KEYWORDS: Final = ("type", "enum", "minimum", "maximum", "exclusiveMinimum", "pattern")


def complete_schema(chart: Path) -> str:
    """The schema with all generated parts up to date."""
    schema = json.loads((chart / "values.schema.json").read_text(encoding="utf-8"))
    values = (chart / "values.yaml").read_text(encoding="utf-8")
    schema = require_values(with_descriptions(schema, parse_values(values)), yaml.safe_load(values))
    schema["definitions"][DEFINITION] = settings_schema()
    schema = with_alerts(schema, yaml.safe_load((chart / "files" / "alerts.yaml").read_text(encoding="utf-8")))
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


# --- settings ---------------------------------------------------------------------------------------------------------


def settings_schema() -> Schema:
    """All settings, nested as in a settings file."""
    whole = _section()
    for known in known_settings().values():
        *sections, name = known.name.split(".")
        inner = whole
        for section in sections:
            inner = inner["properties"].setdefault(section, _section())
        inner["properties"][name] = _setting_schema(known)
    return whole


def _section() -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def _setting_schema(known: SettingInfo) -> Schema:
    meaning = {"description": known.meaning}
    if known.is_planned:  # the settings reject any other value, too
        return meaning | {"const": str(known.default) if isinstance(known.default, str) else known.default}
    field = known.section.model_json_schema()["properties"][known.field.alias]
    if "anyOf" in field:  # an optional value
        field = next(option for option in field["anyOf"] if option["type"] != "null")
    if field["type"] == "array":
        return meaning | {"type": ["string", "array"], "items": {"type": "string"}}
    limits = {keyword: field[keyword] for keyword in _KEYWORDS if keyword in field}
    form = _FORMS.get(type(known.default))
    return meaning | limits | ({"pattern": form} if form else {})


def with_alerts(schema: Schema, alerts: Iterable[Mapping[str, Any]]) -> Schema:
    """Only existing alerts can be disabled."""
    extended = deepcopy(schema)
    rule = extended["properties"]["monitoring"]["properties"]["prometheusRule"]
    rule["properties"]["disabled"]["items"] = {"type": "string", "enum": [alert["alert"] for alert in alerts]}
    return extended


# --- descriptions -----------------------------------------------------------------------------------------------------


def with_descriptions(schema: Schema, values: Iterable[DocumentedValue]) -> Schema:
    described = deepcopy(schema)
    for value in values:
        *sections, name = value.name.split(".")
        inner = described
        for section in sections:
            inner = inner["properties"][section]
        old = inner["properties"][name]
        inner["properties"][name] = {"description": value.meaning} | {
            keyword: value for keyword, value in old.items() if keyword != "description"
        }
    return described


# --- required values --------------------------------------------------------------------------------------------------


def require_values(schema: Schema, values: Mapping[str, Any]) -> Schema:
    """Every value has a default, so a value is missing only if it was set to null."""
    if "properties" not in schema:
        return schema
    inner = {
        name: require_values(part, values[name]) if isinstance(values.get(name), dict) else part
        for name, part in schema["properties"].items()
    }
    required = {"required": list(values)} if values else {}
    return {**schema, **required, "properties": inner}


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (folder / "values.schema.json").write_text(complete_schema(folder), encoding="utf-8")
