"""The command line as a function, an API for it to ask, and a home of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from fleet.cli.main import run
from tests.unit.cli.scripted_api import ScriptedApi


class Ran(NamedTuple):
    code: int | str | None
    out: str
    err: str


Fleet = Callable[..., Ran]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Without a running fleet, and without anything that the environment says of one."""
    for name in ("FLEET_API", "FLEET_TOKEN_FILE", "KUBECONFIG", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def fleet(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Fleet:
    def ran(*arguments: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["fleet", *arguments])
        with pytest.raises(SystemExit) as ended:
            run()
        shown = capsys.readouterr()
        return Ran(ended.value.code, shown.out, shown.err)

    return ran


@pytest.fixture
def api(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    """The one that FLEET_API names."""
    with ScriptedApi() as found:
        monkeypatch.setenv("FLEET_API", found.url)
        yield found
