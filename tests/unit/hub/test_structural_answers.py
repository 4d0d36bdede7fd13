"""What is wrong with objects, word for word as the API server says it. The answers were recorded from one."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from fleet.hub.schema.schema import Schema, compile_schema

pytestmark = pytest.mark.cel

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "data/structural.json").read_text(encoding="utf-8"))
CASES: list[dict[str, Any]] = RECORDED["cases"]
IDS = [f"{index}-{json.dumps(case['spec'])[:40]}" for index, case in enumerate(CASES)]


@pytest.fixture(scope="module")
def schema() -> Schema:
    return compile_schema(RECORDED["schema"])


def a_probe(spec: Any) -> dict[str, Any]:
    metadata = {"name": "probe"}
    return {"apiVersion": "sv.example.com/v1", "kind": "Probe", "metadata": metadata, "spec": deepcopy(spec)}


def admitted(schema: Schema, spec: Any) -> dict[str, Any]:
    probe = schema.default(a_probe(spec))
    schema.prune(probe)
    return probe


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_causes_are_those_of_the_api_server(schema: Schema, case: dict[str, Any]) -> None:
    old = admitted(schema, case["old"]) if "old" in case else None
    causes = schema.validate(admitted(schema, case["spec"]), old)
    assert sorted([cause.field, cause.reason, cause.message] for cause in causes) == case.get("causes", [])


@pytest.mark.parametrize("case", [case for case in CASES if "stored" in case])
def test_defaults_and_pruning_leave_what_the_api_server_stores(schema: Schema, case: dict[str, Any]) -> None:
    assert admitted(schema, case["spec"])["spec"] == case["stored"]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_unknown_fields_are_those_the_api_server_names(schema: Schema, case: dict[str, Any]) -> None:
    probe = a_probe(case["spec"])
    named = ", ".join(f'unknown field "{path}"' for path in schema.unknown_fields(probe))
    assert named == case.get("strict", "")
    assert probe == a_probe(case["spec"])
