"""`python -m charts.schema charts/fleet` writes into the schema of the values what is known elsewhere.

That is what may stand under `settings`, so that a mistake in a setting is told when the chart is rendered and not when
the controller starts: names, limits and meanings are those of the code (`fleet.settings`). And from values.yaml, which
values there are, and what they are for, because editors show that; and from files/alerts.yaml, what the alerts are
called. The rest of the schema is written by hand.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import yaml

from charts.readme import Described, described
from fleet.settings.names import Known, known_settings
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


def completed(chart: Path) -> str:
    """The text of the schema as it should be."""
    schema = json.loads((chart / "values.schema.json").read_text(encoding="utf-8"))
    values = (chart / "values.yaml").read_text(encoding="utf-8")
    schema = requiring(with_descriptions(schema, described(values)), yaml.safe_load(values))
    schema["definitions"][DEFINITION] = settings_schema()
    schema = with_alerts(schema, yaml.safe_load((chart / "files" / "alerts.yaml").read_text(encoding="utf-8")))
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


# --- settings ---------------------------------------------------------------------------------------------------------


def settings_schema() -> Schema:
    """All settings, nested as in the file of settings."""
    whole = _section()
    for known in known_settings().values():
        *sections, name = known.name.split(".")
        inner = whole
        for section in sections:
            inner = inner["properties"].setdefault(section, _section())
        inner["properties"][name] = _schema_of(known)
    return whole


def _section() -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def _schema_of(known: Known) -> Schema:
    meaning = {"description": known.meaning}
    if known.is_planned:  # another value is refused by the settings, too
        return meaning | {"const": str(known.default) if isinstance(known.default, str) else known.default}
    said = known.section.model_json_schema()["properties"][known.field.alias]
    if "anyOf" in said:  # whether there is a value at all
        said = next(one for one in said["anyOf"] if one["type"] != "null")
    if said["type"] == "array":
        return meaning | {"type": ["string", "array"], "items": {"type": "string"}}
    limits = {keyword: said[keyword] for keyword in _KEYWORDS if keyword in said}
    form = _FORMS.get(type(known.default))
    return meaning | limits | ({"pattern": form} if form else {})


def with_alerts(schema: Schema, alerts: Iterable[Mapping[str, Any]]) -> Schema:
    """Only those that there are can be left out."""
    found = deepcopy(schema)
    rule = found["properties"]["monitoring"]["properties"]["prometheusRule"]
    rule["properties"]["disabled"]["items"] = {"type": "string", "enum": [one["alert"] for one in alerts]}
    return found


# --- descriptions -----------------------------------------------------------------------------------------------------


def with_descriptions(schema: Schema, values: Iterable[Described]) -> Schema:
    found = deepcopy(schema)
    for one in values:
        *sections, name = one.name.split(".")
        inner = found
        for section in sections:
            inner = inner["properties"][section]
        said = inner["properties"][name]
        inner["properties"][name] = {"description": one.meaning} | {
            keyword: value for keyword, value in said.items() if keyword != "description"
        }
    return found


# --- what must not be taken away --------------------------------------------------------------------------------------


def requiring(schema: Schema, values: Mapping[str, Any]) -> Schema:
    """Every value has a default, so one is missing only where somebody wrote its name and nothing behind it."""
    if "properties" not in schema:
        return schema
    inner = {
        name: requiring(said, values[name]) if isinstance(values.get(name), dict) else said
        for name, said in schema["properties"].items()
    }
    required = {"required": list(values)} if values else {}
    return {**schema, **required, "properties": inner}


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (folder / "values.schema.json").write_text(completed(folder), encoding="utf-8")
