"""Answers as they look, for the OpenAPI document: most are answers that were given, in `example_answers.json`.

`python -m tests.api.example_answers` makes that file; tests hold each example to its schema and to a real answer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

MADE: Final = Path(__file__).with_name("example_answers.json")
_FOUND: Final[dict[str, Any]] = json.loads(MADE.read_text(encoding="utf-8"))

SIMULATE: Final[dict[str, Any]] = {
    "placement": {"ref": "big"},
    "from": "current",
    "edits": [{"op": "removeTaint", "cluster": "osl-1", "key": "dedicated"}, {"op": "setCount", "value": 4}],
    "compare": True,
}
REPLAY: Final[dict[str, Any]] = {
    "select": {"since": "2026-03-10T08:00:00Z", "limit": 100},
    "change": {"edits": [{"op": "setReady", "cluster": "ams-1", "value": False}]},
}


def answer_named(name: str) -> Any:
    """None for one that has yet to be made."""
    return _FOUND["answers"].get(name)


def text_named(name: str) -> str:
    found: str = _FOUND["texts"].get(name, "")
    return found
