"""`fleet config`: shows, checks and converts configuration without starting anything."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml

from fleet.cli.output.console import print_rows
from fleet.errors import ConfigurationError
from fleet.scheduler.configured_profiles import build_profiles
from fleet.settings import load_settings
from fleet.settings.document.kubescheduler import convert_document, is_foreign
from fleet.settings.names import known_settings, render_value
from fleet.settings.secrets import redact
from fleet.settings.sources import CollectedSettings, compose_file

FINE: Final = 0
WRONG: Final = 2


def show_config(file: Path | None, assignments: Sequence[str]) -> int:
    try:
        effective = load_settings(file, os.environ, assignments)
    except ConfigurationError as error:
        return _refuse(str(error).splitlines())
    rows = [
        (name, render_value(redact(name, _find_value(effective.settings, name))), effective.origins[name])
        for name in known_settings()
    ]
    for profile in effective.settings.profiles:
        rows += [(path, str(redact(path, value)), origin) for path, value, origin in profile.list_values()]
    print_rows(("SETTING", "VALUE", "ORIGIN"), rows)
    return FINE


def check_config(file: Path) -> int:
    try:
        effective = load_settings(file, os.environ, ())
        profiles, _ = build_profiles(effective.settings)
    except ConfigurationError as error:
        return _refuse(str(error).splitlines())
    for warning in effective.warnings:
        sys.stderr.write(f"warning: {warning}\n")
    names = ", ".join(profile.scheduler_name for profile in profiles)
    sys.stdout.write(f"{file} is correct; its profiles: {names}\n")
    return FINE


def convert_config(file: Path) -> int:
    collected = CollectedSettings()
    is_read, root = compose_file(file, collected)
    if not is_read:
        return _refuse(collected.problems)
    if not is_foreign(root) or not isinstance(root, yaml.MappingNode):
        return _refuse([f"{file}: is no document of kube-scheduler: there is nothing to convert"])
    converted = convert_document(root)
    sys.stdout.write(yaml.serialize(converted.root, Dumper=yaml.SafeDumper))
    for field in converted.fields:
        note = f": {field.note}" if field.note else ""
        sys.stderr.write(f"{field.treatment:<10} {field.path}{note}\n")
    for warning in converted.warnings:
        sys.stderr.write(f"warning: {warning}\n")
    counts = Counter(field.treatment for field in converted.fields)
    sys.stderr.write(f"{', '.join(f'{count} {name}' for name, count in sorted(counts.items()))}\n")
    return WRONG if counts["refused"] else FINE


def _find_value(settings: object, name: str) -> object:
    value = settings
    known = known_settings()[name]
    for section in name.split(".")[:-1]:
        fields = type(value).model_fields.items()  # type: ignore[attr-defined]  # sections are models
        value = getattr(value, next(attribute for attribute, field in fields if (field.alias or attribute) == section))
    return getattr(value, known.attribute)


def _refuse(problems: Sequence[str]) -> int:
    for problem in problems:
        sys.stderr.write(f"error: {problem}\n")
    return WRONG
