"""Who manages which field, as the API server has it. The histories were recorded from one."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from fleet.hub.apply.managed_fields import ApplyResult, apply, track_update
from fleet.hub.apply.patches import merge_patch
from fleet.hub.schema.schema import compile_schema

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "data/managedfields.json").read_text(encoding="utf-8"))
SCHEMA = compile_schema(RECORDED["schema"])
NOW = "2026-01-01T00:00:00Z"

Document = dict[str, Any]


def bare(document: Document) -> Document:
    """Without what depends on the time or on other objects."""
    metadata = {name: document["metadata"].get(name) for name in ("name", "labels")}
    entries = [{**entry, "time": ""} for entry in document["metadata"].get("managedFields", [])]
    entries.sort(key=lambda entry: (entry["operation"], entry["manager"]))
    return {"metadata": metadata, "spec": document.get("spec"), "managedFields": entries}


def performed(live: Document | None, step: dict[str, Any]) -> ApplyResult:
    if step["op"] == "apply":
        options = {"manager": step["manager"], "force": step["force"], "schema": SCHEMA, "now": NOW}
        return apply(live, step["body"], **options)
    new = merge_patch(live, {"spec": step["body"]["spec"]}) if live and step["op"] == "merge" else step["body"]
    return ApplyResult(track_update(live, deepcopy(new), manager=step["manager"], schema=SCHEMA, now=NOW))


@pytest.mark.parametrize("history", RECORDED["histories"], ids=lambda history: history[0]["body"]["metadata"]["name"])
def test_a_history_leaves_what_it_leaves_in_the_api_server(history: list[dict[str, Any]]) -> None:
    live: Document | None = None
    for step in history:
        result = performed(live, step)
        if "message" in step:
            assert sorted(result.message.split("\n")) == sorted(step["message"].split("\n"))
            assert sorted([found.field, found.message] for found in result.conflicts) == sorted(step["causes"])
        else:
            assert result.conflicts == ()
            assert bare(result.object) == bare(step["object"])
            live = result.object
