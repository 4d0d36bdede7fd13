"""F3-123: whoever decides calls the one function; there is no second implementation and no light variant."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path

from fleet.framework.cycle.cycle import decide
from fleet.framework.runtime.framework import Framework
from plugins import in_tree_registry
from plugins.default_profile import default_profile
from tests.vectors.engine import decision_input
from tests.vectors.runner import read_vectors

ROOT = Path(__file__).resolve().parents[3]
VECTORS = ROOT / "tests" / "vectors" / "data"
RECORDED = 500


@cache
def sources() -> dict[str, str]:
    files = [path for folder in ("fleet", "plugins", "api", "tests") for path in (ROOT / folder).rglob("*.py")]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path.read_text(encoding="utf-8") for path in files}


@cache
def importers() -> list[str]:
    """Modules that take `decide` from anywhere; tests of it are not among its callers."""
    found = []
    for module, text in sources().items():
        if module.rpartition(".")[2].startswith("test_") or not re.search(r"\bdecide\b", text):
            continue
        imports = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom))
        if any(one.name == "decide" and one.asname is None for node in imports for one in node.names):
            found.append(module)
    return sorted(found)


def test_F3_123_every_caller_resolves_to_the_same_object() -> None:
    assert [module for module in importers() if vars(importlib.import_module(module))["decide"] is not decide] == []


def test_F3_123_framework_simulation_vectors_and_benchmark_are_among_the_callers() -> None:
    callers = {
        "fleet.framework.runtime.framework",
        "fleet.cli.input.simulation",
        "tests.vectors.engine",
        "tests.bench.decisions",
    }

    assert callers <= set(importers())


def test_F3_123_nobody_else_runs_the_rounds() -> None:
    callers = [
        module
        for module, text in sources().items()
        if "run_rounds" in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "run_rounds"
    ]

    assert callers == ["fleet.framework.cycle.cycle"]


def test_F3_123_a_framework_decides_recorded_inputs_as_the_function_does() -> None:
    framework = Framework.build(in_tree_registry(), default_profile())
    inputs = [decision_input(vector["scenario"]) for vector in read_vectors(VECTORS)][:RECORDED]

    assert len(inputs) == RECORDED
    for inp in inputs:
        assert framework.decide(inp).digest == decide(inp).digest
