"""`fleet simulate --snapshot`: an exported snapshot, decided as the scheduler it came from would have decided then.

Its objects are read like those of any other file (`objects.flattened`); here is what files do not say: the moment, and
the settings that differed from their defaults.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from fleet.cli.commands.simulate import Options
from fleet.cli.input.objects import SNAPSHOT
from fleet.errors import InputError

API_VERSION: Final = "fleet/v1"


@dataclass(frozen=True, slots=True)
class Circumstances:
    at: str
    settings: tuple[str, ...]
    """As `--set` takes them."""


def as_of(file: str, options: Options) -> Options:
    """What the command line says counts more than the snapshot."""
    found = read_circumstances(file)
    return replace(
        options,
        files=[file, *options.files],
        now=options.now or found.at,
        now_from=options.now_from if options.now else "--snapshot",
        settings=[*found.settings, *options.settings],
    )


def read_circumstances(file: str) -> Circumstances:
    try:
        found: Any = json.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}", field="--snapshot") from error
    except ValueError as error:
        raise InputError(f"{file} is not JSON: {error}", field="--snapshot") from error
    if not isinstance(found, dict) or (found.get("apiVersion"), found.get("kind")) != (API_VERSION, SNAPSHOT):
        message = f"{file} is no {SNAPSHOT} of {API_VERSION}; make one with `fleet snapshot export FILE`"
        raise InputError(message, field="--snapshot")
    settings = found.get("settings") or {}
    return Circumstances(str(found.get("at")), tuple(f"{name}={_written(value)}" for name, value in settings.items()))


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
