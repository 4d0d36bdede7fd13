"""The command line itself: what it offers, and that asking for help loads nothing it does not need."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from fleet import __version__
from fleet.cli.main import app

HEAVY = (
    *("aiohttp", "kubernetes", "msgspec", "numpy", "prometheus_client", "pydantic", "rich", "structlog", "yaml"),
    *("fleet.framework", "fleet.kube", "fleet.model", "fleet.settings"),
)

MOST_MODULES = 180
"""There are about 150, most of them of Python and of Typer."""


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


@pytest.mark.parametrize(
    "arguments, by_typer",
    [(["--help"], ""), (["--version"], ""), (["controller", "--help"], " pydantic")],
    ids=["help", "version", "help of a command"],
)
def test_help_and_version_load_nothing_heavy(arguments: list[str], by_typer: str) -> None:
    """Typer looks for pydantic when it takes a command's parameters apart."""
    program = (
        "import sys\n"
        "from fleet.cli.main import app\n"
        f"try:\n    app({arguments!r}, prog_name='fleet')\n"
        f"except SystemExit:\n    print('loaded:', *[one for one in {HEAVY!r} if one in sys.modules])\n"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == f"loaded:{by_typer}"


def test_help_loads_little_more_than_typer() -> None:
    """Modules are what people wait for who ask for help."""
    program = (
        "import sys\n"
        "from fleet.cli.main import app\n"
        "try:\n    app(['--help'], prog_name='fleet')\nexcept SystemExit:\n    print(len(sys.modules))\n"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert int(done.stdout.splitlines()[-1]) <= MOST_MODULES


@pytest.mark.parametrize(
    "arguments",
    [("simulate",), ("simulate", "-f", "x", "-o", "xml"), ("simulat",), ("simulate", "-f", "x", "--nonsense")],
    ids=["no files", "no such format", "no such command", "no such option"],
)
def test_wrong_usage_ends_with_2(arguments: tuple[str, ...]) -> None:
    assert ran(*arguments)[0] == 2


@pytest.mark.parametrize("arguments", [("version",), ("simulate", "-f", "examples/"), ("--help",)])
def test_a_reader_that_closed_the_pipe_ends_it_as_a_signal_would(arguments: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "fleet.cli", *arguments], stdout=writer, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(writer)

    assert (ended.returncode, ended.stderr) == (141, b"")
