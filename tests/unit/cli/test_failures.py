"""Every error of a command has a next step, or says itself what to change."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import api
import fleet
import plugins
from fleet.cli.main import run
from fleet.cli.output.failures import EVIDENT, STEPS, describe_failure
from fleet.errors import ApiError, FleetError, Forbidden, InputError
from tests.unit.scheduler.test_configured_profiles import HEAD

INTERNAL = {
    "ApiError": "only its subclasses are raised",
    "ApplyError": "the embedded hub answers it as a Status",
    "CycleFailed": "ends its attempt, which is tried again",
    "EncodingError": "the embedded hub answers it as a Status",
    "InvalidKey": "keys are made from parsed names",
    "PatchError": "the embedded hub answers it as a Status",
    "PatchTestFailed": "the embedded hub answers it as a Status",
    "ProblemError": "the API answers it as a problem document",
    "QueueClosed": "ends the workers of a queue that is shut down",
    "RequestRefused": "the embedded hub answers it as a Status",
    "SchemaError": "the embedded hub answers it as a Status",
    "StateExpired": "a plugin's mistake, which ends its attempt",
    "StateNotFound": "a plugin's mistake, which ends its attempt",
    "UnsupportedKind": "the embedded hub answers it as a Status",
}
"""Errors that end no command, and what becomes of them. If one did all the same, it would be reported as a defect."""


def all_errors() -> Iterator[type[FleetError]]:
    for package in (fleet, api, plugins):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__") and ".testing" not in module.name:
                importlib.import_module(module.name)
    found, left = set(), [FleetError]
    while left:
        kind = left.pop()
        if kind not in found and not kind.__module__.startswith("tests"):
            found.add(kind)
            left += kind.__subclasses__()
    return iter(sorted(found, key=lambda kind: kind.__name__))


@pytest.mark.cel
def test_each_class_has_a_step_or_a_reason_why_not() -> None:
    kinds = list(all_errors())
    tables = [*STEPS, *EVIDENT, *INTERNAL]

    assert len(tables) == len(set(tables))
    assert set(tables) <= {kind.__name__ for kind in kinds}
    for kind in kinds:
        bases = [base.__name__ for base in kind.__mro__ if base is not FleetError or kind is FleetError]
        assert any(base in tables for base in bases), f"{kind.__name__} would be reported as a defect"


@pytest.mark.cel
def test_a_command_that_fails_ends_with_the_next_step() -> None:
    for kind in all_errors():
        error = kind.__new__(kind)
        Exception.__init__(error, "GET /apis/x: it failed" if issubclass(kind, ApiError) else "it failed")
        vars(error).update(message="it failed", field="", value=None)

        problem, next, step = describe_failure(error, "fleet", ["why", "web"]).partition("\nnext: ")

        assert problem == "it failed", kind
        assert bool(next) is (kind.__name__ not in EVIDENT), kind
        assert "{" not in step, kind
        assert bool(step.strip()) is bool(next), kind


def test_the_step_of_an_error_itself_is_the_better_one() -> None:
    assert describe_failure(Forbidden("no\nnext: ask bob"), "fleet", []) == "no\nnext: ask bob"


def test_the_help_of_the_command_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl-fleet", "get", "nonsense"])

    with pytest.raises(SystemExit) as ended:
        run("kubectl fleet")

    error, step = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert error.startswith("error: 'nonsense' is not a kind of Fleet")
    assert step == "next: see `kubectl fleet get --help`"


def test_output_that_cannot_be_written_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fleet.cli.main.app", full)
    monkeypatch.setattr("fleet.cli.main.os.dup2", lambda *_: None)
    monkeypatch.setattr(sys.stdout, "fileno", lambda: 1, raising=False)

    with pytest.raises(SystemExit) as ended:
        run()

    assert ended.value.code == 3
    assert capsys.readouterr().err.splitlines() == [
        "error: cannot write the output: No space left on device",
        "next: free space, or write elsewhere",
    ]


def test_an_input_error_names_its_field_first() -> None:
    said = describe_failure(InputError("is wrong", field="--since"), "fleet", ["replay"])

    assert said == "--since: is wrong\nnext: see `fleet replay --help`"


@pytest.mark.parametrize("command", ["api", "up", "migrate"])
def test_C_05_every_mistake_of_a_document_is_an_error_of_its_own(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document = tmp_path / "fleet.yaml"
    document.write_text(f"{HEAD}workers: 0\nqueue: {{mod: simple}}\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["fleet", command, f"--config={document}"])

    with pytest.raises(SystemExit) as ended:
        run()

    first, second, step = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert first.startswith(f"error: {document}:")
    assert second.startswith(f"error: {document}:")
    assert step == f"next: see `fleet {command} --help`"
