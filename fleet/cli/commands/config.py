"""`fleet config`: shows, checks and converts configuration without starting anything."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import yaml

from fleet.cli.output.console import print_rows
from fleet.errors import ConfigurationError
from fleet.scheduler.profiles.configuration import find_more_problems
from fleet.scheduler.profiles.frameworks import build_compiled_profiles
from fleet.settings import load_settings
from fleet.settings.document.kubescheduler import Conversion, ConvertedDocument, convert_document, is_foreign
from fleet.settings.document.substitution import NO_SOURCES, NamedSources
from fleet.settings.loading import list_converted_problems
from fleet.settings.names import known_settings, render_value
from fleet.settings.secrets import redact
from fleet.settings.sources import CollectedSettings, compose_file

FINE: Final = 0
WRONG: Final = 2


def show_config(file: Path | None, assignments: Sequence[str], sources: NamedSources = NO_SOURCES) -> int:
    try:
        effective = load_settings(file, os.environ, assignments, sources=sources)
    except ConfigurationError as error:
        return _refuse(str(error).splitlines())
    rows = [
        (name, render_value(redact(name, _find_value(effective.settings, name))), effective.origins[name])
        for name in known_settings()
    ]
    document = effective.settings.list_document_values()
    rows += [(path, str(redact(path, value)), origin) for path, value, origin in document]
    print_rows(("SETTING", "VALUE", "ORIGIN"), rows)
    return FINE


def check_config(file: Path, sources: NamedSources = NO_SOURCES) -> int:
    try:
        effective = load_settings(file, os.environ, (), find_more=find_more_problems, sources=sources)
        profiles = build_compiled_profiles(effective.settings).by_name
    except ConfigurationError as error:
        return _refuse(str(error).splitlines())
    for warning in effective.warnings:
        sys.stderr.write(f"warning: {warning}\n")
    for name, profile in profiles.items():
        for warning in profile.warnings:
            sys.stderr.write(f"warning: profile {name}: {warning}\n")
    sys.stdout.write(f"{file} is correct; its profiles: {', '.join(profiles)}\n")
    return FINE


def convert_config(file: Path, sources: NamedSources = NO_SOURCES) -> int:
    collected = CollectedSettings()
    is_read, root = compose_file(file, collected)
    if not is_read:
        return _refuse(collected.problems)
    if not is_foreign(root) or not isinstance(root, yaml.MappingNode):
        return _refuse([f"{file}: is no document of kube-scheduler: there is nothing to convert"])
    converted = convert_document(root, sources)
    fields, others = _judge_fields(file, converted)
    sys.stdout.write(yaml.serialize(converted.root, Dumper=yaml.SafeDumper))
    for field in fields:
        note = f": {field.note}" if field.note else ""
        sys.stderr.write(f"{field.treatment:<10} {field.path}{note}\n")
    for warning in converted.warnings:
        sys.stderr.write(f"warning: {warning}\n")
    for problem in others:
        sys.stderr.write(f"error: {problem}\n")
    counts = Counter(field.treatment for field in fields)
    sys.stderr.write(f"{', '.join(f'{count} {name}' for name, count in sorted(counts.items()))}\n")
    return WRONG if counts["refused"] or others else FINE


def _judge_fields(file: Path, converted: ConvertedDocument) -> tuple[list[Conversion], list[str]]:
    """The fields, refused where the converted document has a problem, and the problems of no field."""
    fields, others = list(converted.fields), []
    for problem in list_converted_problems(file, converted.root):
        text = problem.removeprefix(f"{file}:").partition(": ")[2].removeprefix("setting ")
        path, _, message = text.partition(": ")
        position = next((at for at, field in enumerate(fields) if field.native == path), None)
        if position is None:
            others.append(problem)
        else:
            fields[position] = replace(fields[position], treatment="refused", note=message)
    return fields, others


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
