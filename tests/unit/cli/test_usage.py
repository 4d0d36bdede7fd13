"""Help, flags with a value, and errors of usage: what the parser adds to Typer."""

from __future__ import annotations

import re

import pytest

from fleet.cli.parsing import CommandLine
from tests.unit.cli.conftest import Fleet


def test_fleet_alone_prints_its_help_which_is_no_error(fleet: Fleet) -> None:
    alone = fleet()

    assert (alone.code, alone.err) == (0, "")
    assert alone.out == fleet("--help").out


def test_the_help_lists_commands_by_their_purpose(fleet: Fleet) -> None:
    help = fleet("--help").out
    sections = re.split(r"^(\w+):$", help, flags=re.MULTILINE)
    commands = {
        title: [line.split()[0] for line in text.splitlines() if re.match(r"  \S", line)]
        for title, text in zip(sections[1::2], sections[2::2], strict=True)
    }

    assert commands["Ask"][:3] == ["status", "why", "why-not"]
    assert {"up", "simulate", "replay", "snapshot"} <= set(commands["Try"])
    assert {"controller", "api", "hub", "migrate"} <= set(commands["Run"])
    assert "..." not in help


@pytest.mark.parametrize("command", ["why", "why-not", "replay", "get", "simulate", "apply", "snapshot export"])
def test_the_help_of_a_command_has_examples_and_no_markup_of_the_parser(fleet: Fleet, command: str) -> None:
    help = fleet(*command.split(), "--help").out

    assert re.search(r"^Examples:\n  fleet ", help, re.MULTILINE)
    assert not re.search(r"[{}<>]|\[\[", help.partition("Examples:")[0])


@pytest.mark.parametrize(
    "arguments, error, step",
    [
        (["why"], "PLACEMENT is missing", "see `fleet why --help`"),
        (["why", "web", "-o", "xml"], "--output: 'xml' is not one of", "see `fleet why --help`"),
        (["why", "a", "b"], "unexpected argument: b", "did you mean --cluster b?"),
        (["why", "a", "b", "c"], "unexpected argument: b c", "see `fleet why --help`"),
        (["status", "x"], "unexpected argument: x", "see `fleet status --help`"),
        (["simulate", "--nonsense"], "there is no option --nonsense", "see `fleet simulate --help`"),
        (["simulate", "--expect-fulfiled"], "there is no option", "did you mean --expect-fulfilled?"),
        (["simulate"], "--filename: give files with -f, or use --live", "see `fleet simulate --help`"),
        (["up", "--port", "x"], "--port: should be a valid integer", "see `fleet up --help`"),
        (["versio"], "no such command 'versio'. Did you mean 'version'?", "see `fleet --help`"),
        (["describe", "web"], "there is no command describe", "try `fleet why PLACEMENT`"),
        (["simulate", "-f", "x", "--expect-fulfilled=si"], "should be true or false, not 'si'", "see `fleet simulate"),
    ],
)
def test_an_error_of_usage_is_one_line_and_the_next_step(
    fleet: Fleet, arguments: list[str], error: str, step: str
) -> None:
    refused = fleet(*arguments)
    first, second = refused.err.splitlines()

    assert (refused.code, refused.out) == (2, "")
    assert first.startswith("error: ")
    assert error in first
    assert second.startswith("next: ")
    assert step in second


def test_the_version_has_a_command_and_an_option(fleet: Fleet) -> None:
    described, asked = fleet("version"), fleet("--version")

    assert (described.code, asked.code) == (0, 0)
    assert asked.out.splitlines() == described.out.splitlines()[:1]


def flags_of(*arguments: str) -> tuple[bool, bool | None, list[str]]:
    """What a command with a flag, a switch and an argument receives."""
    app, received = CommandLine(), []

    @app.add("Ask")
    def ask(
        *,
        wide: bool = False,
        color: bool | None = None,
        names: list[str] = [],  # noqa: B006 - Typer reads it
    ) -> None:
        received.append((wide, color, names))

    @app.add("Ask")
    def other() -> None: ...

    with pytest.raises(SystemExit) as ended:
        app(["ask", *arguments], prog_name="x")
    assert ended.value.code == 0
    return received[0]


@pytest.mark.parametrize(
    "arguments, want",
    [
        (["--wide=true"], (True, None, [])),
        (["--wide=false"], (False, None, [])),
        (["--wide", "--wide=False"], (False, None, [])),
        (["--color=false"], (False, False, [])),
        (["--color=true", "--wide"], (True, True, [])),
        (["--names", "a=b"], (False, None, ["a=b"])),
    ],
)
def test_a_flag_takes_true_and_false(arguments: list[str], want: tuple[bool, bool | None, list[str]]) -> None:
    assert flags_of(*arguments) == want


@pytest.mark.parametrize(
    "flags", [("--hubClusterContext", "--clusterName"), ("--hub-cluster-context", "--cluster-name")]
)
@pytest.mark.parametrize("verb", ["draincluster", "uncordoncluster"])
def test_verbs_of_kubefleet_take_the_flags_of_both_its_releases(
    fleet: Fleet, verb: str, flags: tuple[str, str]
) -> None:
    context, cluster = flags

    assert "no hub found" in fleet(verb, context, "hub", cluster, "ams-1", "--timeout=30m").err
    assert fleet(verb, cluster, "ams-1").err.splitlines()[0] == "error: --hub-cluster-context is missing"
