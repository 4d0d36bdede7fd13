"""What `fleet up` says: commands that work in any other terminal."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from api.auth.browser import CODE_SECONDS, BrowserSessions
from fleet.cli.up.api import ExplorerLink
from fleet.cli.up.display import list_commands, render_greeting
from fleet.hub.http.server import Endpoint
from tests.fake_clock import FakeClock

ENDPOINT = Endpoint(
    url="http://127.0.0.1:1234", kubeconfig=Path("my data/kubeconfig"), token_file=Path("/x/t"), ca_file=None
)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment that holds the program, and is not on the PATH."""
    path = tmp_path / "bin" / "fleet"
    path.parent.mkdir()
    path.touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(path.with_name("python")))
    monkeypatch.setenv("PATH", "")
    monkeypatch.chdir(tmp_path)
    return path


def test_the_kubeconfig_is_found_from_any_folder(program: Path) -> None:
    assert list_commands(ENDPOINT)[0] == f"export KUBECONFIG='{program.parent.parent}/my data/kubeconfig'"


def test_the_program_is_found_without_its_environment(program: Path) -> None:
    assert list_commands(ENDPOINT)[1] == f"{program} why storefront"


def test_a_program_on_the_path_is_called_by_its_name(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(program.parent))
    assert list_commands(ENDPOINT)[1] == "fleet why storefront"


def test_the_link_of_the_explorer_can_be_used_whenever_it_is_shown() -> None:
    clock = FakeClock()
    sessions = BrowserSessions(clock)
    link = ExplorerLink(sessions, "http://127.0.0.1:1", user="admin", token="secret")

    first = link.get()
    assert link.get() == first
    session = sessions.redeem(first.partition("#")[2])
    assert session is not None
    assert (session.caller, session.token) == ("admin", "secret")
    second = link.get()
    assert second != first
    clock.advance(CODE_SECONDS)
    assert link.get() not in (first, second)


def test_the_greeting_has_the_link_on_a_line_of_its_own(program: Path) -> None:
    greeting = render_greeting(ENDPOINT, None, api="http://127.0.0.1:2", explorer="http://127.0.0.1:2/x", clusters=3)

    assert "\n  http://127.0.0.1:2/x\n" in greeting
    assert f"`{program} ui`" in greeting
