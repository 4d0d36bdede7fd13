"""The explorer's files by themselves: their weight, what they may contain, and that the wheel has them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
from hatchling.builders.wheel import WheelBuilder

import api.ui

FOLDER: Final = Path(api.ui.__file__).parent
PAGE: Final = sorted(path for path in FOLDER.iterdir() if path.suffix in (".html", ".js", ".css", ".svg"))
MOST_BYTES: Final = 300_000
MARKUP: Final = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc"
    r"|\beval\(|new Function"
)
STORAGE: Final = re.compile(r"localStorage|sessionStorage|indexedDB|document\.cookie")
INLINE: Final = re.compile(r"\sstyle=|\son[a-z]+=|<script(?![^>]*\bsrc=)|javascript:")
IMPORT: Final = re.compile(r"""(?:^(?:import|export) [^"]*from |\bimport\()"([^"]+)\"""", re.MULTILINE)
ELSEWHERE: Final = re.compile(r"https?://[\w./-]*")
NAMESPACES: Final = {"http://www.w3.org/2000/svg"}


def test_the_explorer_is_light() -> None:
    assert sum(path.stat().st_size for path in PAGE) < MOST_BYTES


@pytest.mark.parametrize("path", PAGE, ids=lambda path: path.name)
def test_no_file_makes_markup_from_text_or_keeps_anything(path: Path) -> None:
    text = path.read_text("utf-8")

    assert MARKUP.findall(text) == []
    assert STORAGE.findall(text) == []
    assert set(ELSEWHERE.findall(text)) <= NAMESPACES


def test_the_document_has_nothing_inline() -> None:
    assert INLINE.findall((FOLDER / "index.html").read_text("utf-8")) == []


@pytest.mark.parametrize("path", [path for path in PAGE if path.suffix == ".js"], ids=lambda path: path.name)
def test_modules_import_their_neighbours_only(path: Path) -> None:
    imported = IMPORT.findall(path.read_text("utf-8"))

    assert all(name.startswith("./") and (FOLDER / name).is_file() for name in imported), imported


def test_the_wheel_has_every_file_of_the_explorer() -> None:
    builder = WheelBuilder(str(FOLDER.parents[1]))
    packed = {file.distribution_path for file in builder.recurse_included_files()}

    assert {f"api/ui/{path.name}" for path in PAGE} <= packed
