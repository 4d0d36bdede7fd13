"""`fleet hub`: what it says when it serves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fleet.cli.commands.serve.hub import render_greeting
from fleet.hub.http.server import Endpoint

ENDPOINT = Endpoint(
    url="http://127.0.0.1:1234", kubeconfig=Path("/x/kubeconfig"), token_file=Path("/x/t"), ca_file=None
)


def test_the_greeting_names_the_address_and_commands_to_try() -> None:
    said = render_greeting(ENDPOINT, None)

    assert "http://127.0.0.1:1234" in said
    assert "export KUBECONFIG=/x/kubeconfig" in said
    assert said.count("  kubectl ") == 2


def test_the_commands_work_in_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = render_greeting(replace(ENDPOINT, kubeconfig=Path("my data/kubeconfig")), None)
    assert f"export KUBECONFIG='{tmp_path}/my data/kubeconfig'\n" in said


def test_the_greeting_tells_whether_objects_outlive_the_hub() -> None:
    assert "live in memory and are lost when it stops" in render_greeting(ENDPOINT, None)
    assert "stored in /data." in render_greeting(ENDPOINT, Path("/data"))
