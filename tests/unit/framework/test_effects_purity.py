"""The runners of effect hooks are told the time and leave waiting, threads and logs to the scheduler."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

FRAMEWORK = Path(__file__).resolve().parents[3] / "fleet" / "framework"
MODULES = (
    "handle",
    "runtime/effects",
    "runtime/framework",
    "profiles/adapter",
    "runtime/purity_guard",
    "profiles/queue_sort",
    "arguments",
    "runtime/reserve_permit",
)
OF_THE_SHELL = {"asyncio", "concurrent", "datetime", "logging", "random", "socket", "subprocess", "threading", "time"}


def imported_by(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (one.name.partition(".")[0] for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_no_clock_thread_or_log(module: str) -> None:
    imported = set(imported_by((FRAMEWORK / f"{module}.py").read_text(encoding="utf-8")))
    assert "fleet" in imported
    assert imported & OF_THE_SHELL == set()


def test_an_import_inside_a_function_is_found() -> None:
    assert set(imported_by("def late():\n    import time\n    from threading import Lock\n")) == {"time", "threading"}
