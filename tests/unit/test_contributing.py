"""The pages for contributors name files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "contributing").glob("*.md"))
PATH = re.compile(r"`((?:api|charts|docs|fleet|migrations|plugins|tests)/[\w./-]*)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_on_the_page_exists(page: Path) -> None:
    named = PATH.findall(page.read_text(encoding="utf-8"))
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_twenty_changes_have_their_place() -> None:
    rows = re.findall(r"^\| [^|]+ \| .*`.*\|$", (ROOT / "docs/contributing/where.md").read_text(), re.MULTILINE)
    assert len(rows) >= 20
