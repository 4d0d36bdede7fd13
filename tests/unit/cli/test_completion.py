"""What shells offer while somebody types, and the name under which kubectl starts the program."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.cli import completion
from fleet.cli.main import run_as_plugin
from tests.databases import SOON
from tests.unit.cli.scripted_api import ScriptedApi, in_json, refused

Complete = Callable[..., list[str]]


@pytest.fixture
def complete(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Complete:
    """What `kubectl fleet` would offer after these words."""

    def offered(*words: str) -> list[str]:
        for name in ("COMP_WORDS", "COMP_CWORD", "_FLEET_COMPLETE"):
            monkeypatch.setenv(name, "")
        monkeypatch.setattr(sys, "argv", ["kubectl_complete-fleet", *words])
        monkeypatch.setattr("fleet.cli.client.name_completion._COMPLETION_TIMEOUT", SOON)
        completion.run()
        *lines, directive = capsys.readouterr().out.split()
        assert directive == ":4"
        return lines

    return offered


def test_commands_are_offered_by_their_beginning(complete: Complete) -> None:
    assert complete("why") == ["why", "why-not"]


def test_all_commands_are_offered_before_anything_is_typed(complete: Complete) -> None:
    assert {"why", "history", "decisions", "replay", "snapshot", "get", "apply", "simulate"} <= set(complete(""))


def test_values_of_options_are_offered(complete: Complete) -> None:
    assert complete("why", "web", "--fixes", "") == ["none", "fast", "deep"]


def test_placements_are_offered_as_the_api_has_them(complete: Complete, api: ScriptedApi) -> None:
    api.says("/v1/placements", in_json({"items": [{"key": "web"}, {"key": "orders/web"}, {"key": "wiki"}]}))

    assert complete("why", "w") == ["web", "wiki"]
    assert complete("why-not", "dub-1", "or") == ["orders/web"]


def test_clusters_are_offered_as_the_api_has_them(complete: Complete, api: ScriptedApi) -> None:
    api.says("/v1/clusters", in_json({"items": [{"name": "ams-1"}, {"name": "dub-1"}]}))

    assert complete("why-not", "d") == ["dub-1"]
    assert complete("why", "web", "--cluster", "") == ["ams-1", "dub-1"]


def test_a_shell_is_told_nothing_where_nobody_answers(complete: Complete, api: ScriptedApi) -> None:
    api.says("/v1/placements", refused(403, "no"))

    assert complete("why", "w") == []


def test_a_shell_is_told_nothing_without_an_api(complete: Complete) -> None:
    assert complete("why", "w") == []


# --- kubectl ------------------------------------------------------------------------------------------------------


def test_started_by_kubectl_it_speaks_of_itself_as_kubectl_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl-fleet", "why", "--help"])

    with pytest.raises(SystemExit) as ended:
        run_as_plugin()

    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("Usage: kubectl fleet why ")
