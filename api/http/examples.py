"""Examples for the OpenAPI document. Most are recorded answers from `example_answers.json`.

`python -m tests.api.example_answers` writes that file; tests compare each example with its schema and a real answer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

RECORDED_FILE: Final = Path(__file__).with_name("example_answers.json")
_RECORDED: Final[dict[str, Any]] = json.loads(RECORDED_FILE.read_text(encoding="utf-8"))

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


def get_example(name: str) -> Any:
    """None for one that is not recorded yet."""
    return _RECORDED["answers"].get(name)


def get_example_text(name: str) -> str:
    text: str = _RECORDED["texts"].get(name, "")
    return text
