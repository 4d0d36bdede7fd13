"""Which files are read, and in which order."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from fleet.cli.input.files import read_texts
from fleet.cli.input.problems import Findings


def contents(*names: str) -> list[str]:
    findings = Findings()
    found = [one.content for one in read_texts(names, findings)]
    assert findings.problems == []
    return found


def a_folder(root: Path, *names: str) -> str:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
    return str(root)


def test_a_folder_is_read_to_the_bottom_in_the_order_of_paths(tmp_path: Path) -> None:
    folder = a_folder(tmp_path, "b.yml", "a/z.json", "a/y.yaml", "c/x/w.yaml", "notes.txt", "d.yaml~")

    assert contents(folder) == ["a/y.yaml", "a/z.json", "b.yml", "c/x/w.yaml"]


def test_files_are_read_in_the_order_they_are_named(tmp_path: Path) -> None:
    a_folder(tmp_path, "a.yaml", "b.yaml")

    assert contents(str(tmp_path / "b.yaml"), str(tmp_path / "a.yaml")) == ["b.yaml", "a.yaml"]


def test_a_file_is_read_once_however_often_it_is_named(tmp_path: Path) -> None:
    folder = a_folder(tmp_path, "a.yaml", "b.yaml")

    assert contents(str(tmp_path / "b.yaml"), folder, f"{folder}/../{tmp_path.name}/a.yaml") == ["b.yaml", "a.yaml"]


def test_a_file_may_have_any_name_when_it_is_named(tmp_path: Path) -> None:
    assert contents(f"{a_folder(tmp_path, 'export')}/export") == ["export"]


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xef\xbb\xbfa: 1")

    assert contents(str(tmp_path)) == ["a: 1"]


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a: 1")))

    assert contents("-", "-") == ["a: 1"]
