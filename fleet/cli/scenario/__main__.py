"""`python -m fleet.cli.scenario`: plays what the API writes to its input, in a process that yields to all others."""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any, Final

import msgspec

from fleet.cli.scenario.document import API_VERSION, KIND, parse_scenario
from fleet.cli.scenario.player import Bounds, play
from fleet.cli.scenario.timeline import build_timeline_report, render_timeline
from fleet.errors import FleetError, InputError
from fleet.manager import logs
from fleet.text_table import Page

_NICEST: Final = 19


def main() -> None:
    os.nice(_NICEST)
    logs.configure("error")
    answer = _answer(**pickle.load(sys.stdin.buffer))  # written by the process that started this one
    sys.stdout.buffer.write(msgspec.json.encode(answer))


def _answer(
    *, scenario: dict[str, Any], documents: list[dict[str, Any]], settings: Any, start: int, attempts: int, until: float
) -> dict[str, Any]:
    try:
        document = parse_scenario({"apiVersion": API_VERSION, "kind": KIND, **scenario})
        timeline = play(document, documents, settings, start=start, bounds=Bounds(attempts, until))
    except InputError as error:
        return {"field": error.field, "problem": error.message}
    except FleetError as error:
        return {"field": "", "problem": str(error)}
    return {"report": build_timeline_report(timeline), "text": render_timeline(timeline, Page())}


main()
