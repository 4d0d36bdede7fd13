"""What goes wrong outside of the files is told in a line, with an exit code of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleet.cli.main import app

ROOT = Path(__file__).resolve().parents[2]


def simulate(*arguments: str, stdout: int | None = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fleet.cli", "simulate", *arguments]
    return subprocess.run(command, cwd=ROOT, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=90, check=False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_told_without_a_trace() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        done = simulate("-f", "examples", "-o", "json", stdout=full)
    finally:
        os.close(full)

    assert done.returncode == 3
    assert done.stderr.splitlines()[-2:] == [
        "error: cannot write the output: No space left on device",
        "next: free space, or write elsewhere",
    ]


def test_deep_nesting_is_refused_and_survived(tmp_path: Path) -> None:
    openings = {"lists": "[", "mappings": "{a: ", "blocks": "- "}
    for name, opening in openings.items():
        (tmp_path / f"{name}.yaml").write_text(opening * 100_000, encoding="utf-8")

    done = simulate("-f", str(tmp_path))

    assert done.returncode == 2
    for name in openings:
        assert f"{name}.yaml:1: is nested too deeply" in done.stderr


def test_a_list_without_a_list_of_items_is_no_list(tmp_path: Path) -> None:
    odd = tmp_path / "odd.yaml"
    odd.write_text("apiVersion: v1\nkind: List\nitems: {a: {}}\n", encoding="utf-8")

    done = CliRunner().invoke(app, ["simulate", "-f", str(odd)])

    assert done.exit_code == 2
    assert "odd.yaml:3: List: items should be a list" in done.stderr
