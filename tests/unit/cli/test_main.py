"""The command line itself: what it offers, and that asking for help loads nothing it does not need."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from fleet import __version__
from fleet.cli.main import app

HEAVY = ("numpy", "pydantic", "rich", "yaml", "msgspec", "fleet.framework", "fleet.model")


def ran(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.output


def test_the_version_is_that_of_the_package() -> None:
    assert ran("--version") == (0, f"fleet {__version__}\n")


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_the_commands(flag: str) -> None:
    code, output = ran(flag)

    assert code == 0
    assert "simulate" in output


def test_the_help_of_simulate_names_the_exit_codes() -> None:
    code, output = ran("simulate", "--help")

    assert code == 0
    assert "Exit codes: 0 decided, 1 not every policy is fulfilled" in " ".join(output.split())


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_and_version_load_nothing_heavy(flag: str) -> None:
    program = (
        "import sys\n"
        "from fleet.cli.main import app\n"
        f"try:\n    app([{flag!r}], prog_name='fleet')\n"
        f"except SystemExit:\n    print('loaded:', *[one for one in {HEAVY!r} if one in sys.modules])\n"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "loaded:"


@pytest.mark.parametrize(
    "arguments",
    [("simulate",), ("simulate", "-f", "x", "-o", "xml"), ("simulat",), ("simulate", "-f", "x", "--nonsense")],
    ids=["no files", "no such format", "no such command", "no such option"],
)
def test_wrong_usage_ends_with_2(arguments: tuple[str, ...]) -> None:
    assert ran(*arguments)[0] == 2
