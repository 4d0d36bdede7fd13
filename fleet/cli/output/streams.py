"""Plain output on standard output: text, JSON and YAML."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

_CONTROLS: Final = {*range(32), *range(127, 160)} - {*map(ord, "\t\n")}
_UNPRINTABLE: Final = dict.fromkeys(_CONTROLS, "\N{REPLACEMENT CHARACTER}")


def write_text(text: str) -> None:
    """Control characters from objects are replaced, so that they cannot control the terminal."""
    text = text.translate(_UNPRINTABLE)
    sys.stdout.write(text if text.endswith("\n") or not text else f"{text}\n")
    sys.stdout.flush()


def write_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def write_yaml(value: Any) -> None:
    import yaml

    sys.stdout.write(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))
