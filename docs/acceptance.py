"""`python docs/acceptance.py` writes the column of tests in `docs/acceptance.md`, as the names of the tests have it.

Rows, states and notes are written by hand. A test belongs to a row if its name carries the row's id: `test_F3_023_…`.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "acceptance.md"
TESTS: Final = ROOT / "tests"
SERIES: Final = {"F3": 140, "L": 9, "Q": 47, "P": 19, "W": 19, "C": 12, "O": 17, "T": 14, "G": 12, "X": 24}
"""How many rows there are of each kind."""
DOORS: Final = (
    "api.app",
    "fleet.cli.commands",
    "fleet.cli.main",
    "fleet.cli.up",
    "fleet.manager.manager",
    "fleet.manager.process",
)
"""Modules through which users reach the product; so does a process `python -m fleet.cli`."""
_ID: Final = re.compile(rf"(?:^|_)({'|'.join(SERIES)})_(\d{{2,3}})(?=_|$)")
_ROW: Final = re.compile(r"^\| ((?:[A-Z]\d?)-\d+) \| (.+?) \| (\w+) \| (.*?) \| (.*) \|$", re.MULTILINE)


class Row(NamedTuple):
    id: str
    subject: str
    state: str
    tests: str
    note: str

    @property
    def files(self) -> list[str]:
        return re.findall(r"`([\w/]+\.py)`", self.tests)


def ids() -> list[str]:
    return [f"{kind}-{number:0{3 if kind == 'F3' else 2}d}" for kind, n in SERIES.items() for number in range(1, n + 1)]


def read_rows(page: str) -> list[Row]:
    return [Row(*cells) for cells in _ROW.findall(page)]


@cache
def test_files() -> dict[str, list[str]]:
    """By row, the files with tests of it, relative to `tests/`."""
    files: dict[str, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        names = re.findall(
            r"^\s*(?:async )?def (test_\w+)|^(Test\w+) =", path.read_text(encoding="utf-8"), re.MULTILINE
        )
        for row in {f"{kind}-{number}" for name, _ in names for kind, number in _ID.findall(name)}:
            files[row].append(path.relative_to(TESTS).as_posix())
    return files


def render(page: str) -> str:
    def with_tests(match: re.Match[str]) -> str:
        row = Row(*match.groups())
        tests = ", ".join(f"`{file}`" for file in test_files().get(row.id, ()))
        return f"| {row.id} | {row.subject} | {row.state} | {tests or '-'} | {row.note} |"

    return _ROW.sub(with_tests, page)


# --- through which door a test goes -----------------------------------------------------------------------------------


@cache
def reaches_the_product(path: Path) -> bool:
    """Whether a test file, or what it imports of `tests`, or a conftest above it, uses a door of the product."""
    return any(_opens_a_door(source) for source in _sources(path))


def _opens_a_door(path: Path) -> bool:
    tree, text = _parse(path)
    names = {name for node in ast.walk(tree) for name in _imports(node)}
    return '"fleet.cli"' in text or any(name == door or name.startswith(f"{door}.") for name in names for door in DOORS)


def _sources(path: Path) -> Iterator[Path]:
    waiting = [path, *(folder / "conftest.py" for folder in path.parents if TESTS in (folder, *folder.parents))]
    seen: set[Path] = set()
    while waiting:
        source = waiting.pop()
        if source in seen or not source.exists():
            continue
        seen.add(source)
        yield source
        for node in ast.walk(_parse(source)[0]):
            waiting += [ROOT / f"{name.replace('.', '/')}.py" for name in _imports(node) if name.startswith("tests.")]


def _imports(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


@cache
def _parse(path: Path) -> tuple[ast.Module, str]:
    text = path.read_text(encoding="utf-8")
    return ast.parse(text), text


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
