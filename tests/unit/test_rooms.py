"""Folders of the product stay small enough to be read at a glance."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
MOST: Final = 14
LARGER: Final = {
    "fleet/framework": 18,  # the plugin author's vocabulary: one import path for each word
    "fleet/model/kinds": 16,  # one module for each kind on the hub
}


def list_folders() -> dict[str, int]:
    modules = (path for package in ("fleet", "plugins", "api", "migrations") for path in (ROOT / package).rglob("*.py"))
    counts: dict[str, int] = {}
    for path in modules:
        if path.name != "__init__.py":
            folder = str(path.parent.relative_to(ROOT))
            counts[folder] = counts.get(folder, 0) + 1
    return counts


@pytest.mark.parametrize("folder, count", list_folders().items())
def test_a_folder_has_about_a_dozen_modules(folder: str, count: int) -> None:
    assert count <= LARGER.get(folder, MOST)


def test_larger_folders_are_no_larger_than_they_were() -> None:
    counts = list_folders()

    assert {folder: counts[folder] for folder in LARGER} == LARGER
