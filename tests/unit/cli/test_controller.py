"""`fleet controller`: what reaches the process, and everything that is refused before it starts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import structlog
from typer.testing import CliRunner, Result

from fleet.cli.main import app
from fleet.manager.process import ControllerOptions
from fleet.settings import Settings

SECTION = "fleet.manager.process"


@dataclass
class Process:
    """Stands in for the controller."""

    started: list[ControllerOptions] = field(default_factory=list)
    exit_code: int = 0

    def run(self, options: ControllerOptions) -> int:
        self.started.append(options)
        return self.exit_code


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    found = Process()
    module: Any = ModuleType(SECTION)
    module.ControllerOptions, module.run_controller = ControllerOptions, found.run
    monkeypatch.setitem(sys.modules, SECTION, module)
    monkeypatch.setattr("fleet.manager.logs.configure", lambda *_: None)
    for variable in ("FLEET_LONG", "FLEET_WORKERS", "FLEET_QUEUE__MODE"):
        monkeypatch.delenv(variable, raising=False)
    with structlog.testing.capture_logs():
        yield found


def ran(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["controller", *arguments])


def test_without_options_everything_runs_with_the_defaults(process: Process) -> None:
    assert ran().exit_code == 0
    (options,) = process.started
    assert (options.settings, options.config, options.kubeconfig, options.context) == (Settings(), None, None, None)
    assert options.controllers == {"placement", "scheduler"}


def test_the_exit_code_is_that_of_the_process(process: Process) -> None:
    process.exit_code = 1
    assert ran().exit_code == 1


@pytest.mark.parametrize(
    "text, want",
    [
        ("scheduler", {"scheduler"}),
        ("placement", {"placement"}),
        ("scheduler, placement", {"placement", "scheduler"}),
        ("scheduler,scheduler,", {"scheduler"}),
    ],
)
def test_one_controller_may_run_without_the_other(text: str, want: set[str], process: Process) -> None:
    assert ran("--controllers", text).exit_code == 0
    assert process.started[0].controllers == want


def test_settings_come_from_file_environment_and_command_line(
    process: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text("workers: 1\nmaxFleetSize: 1\nqueue: {mode: batched, burst: 1}\n", encoding="utf-8")
    monkeypatch.setenv("FLEET_WORKERS", "2")
    monkeypatch.setenv("FLEET_QUEUE__MODE", "simple")
    assert ran("--config", str(file), "--set", "workers=3", "--set", "api.qps=7").exit_code == 0
    assert process.started[0].settings.collect_changes() == {
        "workers": 3,
        "maxFleetSize": 1,
        "queue.burst": 1,
        "api.qps": 7,
    }


@pytest.mark.parametrize(
    "arguments, name, value",
    [
        (["--health-address", ":1"], "health.address", ":1"),
        (["--metrics-address", "off"], "metrics.address", "off"),
        (["--no-leader-elect"], "leaderElection.leaderElect", False),
        (["--no-leader-elect", "--set", "leaderElection.leaderElect=true"], "leaderElection.leaderElect", False),
    ],
)
def test_some_settings_have_an_option_of_their_own(
    arguments: list[str], name: str, value: object, process: Process
) -> None:
    assert ran(*arguments).exit_code == 0
    assert process.started[0].settings.collect_changes() == {name: value}


def test_leader_elect_beats_a_file_that_says_no(process: Process, tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text("leaderElection: {leaderElect: false}\n", encoding="utf-8")
    assert ran("--config", str(file), "--leader-elect").exit_code == 0
    assert process.started[0].settings.leader_election.leader_elect is True


def test_kubeconfig_and_context_are_passed_on(process: Process, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.touch()
    assert ran("--kubeconfig", str(file), "--context", "hub").exit_code == 0
    assert (process.started[0].kubeconfig, process.started[0].context) == (file, "hub")


def test_every_problem_is_told_and_nothing_is_started(process: Process, tmp_path: Path) -> None:
    missing = tmp_path / "config"
    result = ran(
        "--controllers", "schedulr", "--set", "queue.mod=x", "--set", "workers=0", "--kubeconfig", str(missing)
    )
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        "error: --controllers: no controller named 'schedulr'; did you mean scheduler?",
        "error: --set: no setting named 'queue.mod'; did you mean queue.mode?",
        "error: --set: setting workers: '0' should be greater than or equal to 1",
        f"error: --kubeconfig: there is no file {missing}",
        "4 problems, nothing was started",
    ]
    assert not process.started


@pytest.mark.parametrize(
    "arguments, want",
    [
        (["--controllers", ","], "--controllers: the list is empty; give placement or scheduler, or both"),
        (["--controllers", "x"], "--controllers: no controller named 'x'; there are placement and scheduler"),
        (
            ["--health-address", "8081"],
            "--health-address: setting health.address: '8081' should be an address such as "
            ":8080, 127.0.0.1:8080 or [::1]:8080, or off",
        ),
    ],
)
def test_a_wrong_option_is_named(arguments: list[str], want: str, process: Process) -> None:
    result = ran(*arguments)
    assert (result.exit_code, result.stderr) == (2, f"error: {want}\n1 problem, nothing was started\n")


def test_settings_that_differ_from_the_defaults_are_logged_with_their_origin(process: Process) -> None:
    with structlog.testing.capture_logs() as lines:
        ran("--set", "workers=3")
    assert lines == [{"event": "setting", "log_level": "info", "name": "workers", "value": 3, "origin": "--set"}]


def test_the_help_names_the_exit_codes() -> None:
    assert "Exit codes: 0 stopped by a signal" in " ".join(ran("--help").output.split())
