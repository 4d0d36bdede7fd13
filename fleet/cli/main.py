"""The command `fleet`: its options, and how it ends.

Imports nothing heavy: what a command needs is imported when the command runs.
"""

from __future__ import annotations

import enum
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from fleet import __version__
from fleet.errors import FleetError

app = typer.Typer(
    name="fleet",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Output(enum.StrEnum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def _print_version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"fleet {__version__}")
        raise typer.Exit


@app.callback()
def fleet(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=lambda wanted: _print_version(wanted=wanted), help="Show the version."
        ),
    ] = False,
) -> None:
    """Decide which member clusters a Kubernetes workload runs on, and say why."""
    del version


@app.command()
def simulate(
    *,
    files: Annotated[
        list[str],
        typer.Option(
            "--filename",
            "-f",
            metavar="PATH",
            help="File or folder with YAML or JSON, or - for standard input; repeatable.",
        ),
    ],
    more_files: Annotated[
        list[str] | None, typer.Argument(metavar="PATH", help="More of the same, so that -f *.yaml works.")
    ] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="How to answer.")] = Output.TABLE,
    why: Annotated[
        list[str] | None,
        typer.Option("--why", metavar="CLUSTER", help="Explain this cluster, for every placement; repeatable."),
    ] = None,
    expect_fulfilled: Annotated[
        bool, typer.Option("--expect-fulfilled", help="Exit with 1 unless every policy is fulfilled.")
    ] = False,
    now: Annotated[
        str | None,
        typer.Option(
            "--now", metavar="TIME", help="Decide at this RFC 3339 time, or `now`; else at the newest heartbeat."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Change a setting of the scheduler; repeatable."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also tell which objects were left out.")] = False,
) -> None:
    """Place what is in files, without a cluster, and show why.

    Reads MemberClusters, placements or policy snapshots, and existing bindings. Writes nothing.

    Exit codes: 0 decided, 1 not every policy is fulfilled (with --expect-fulfilled), 2 wrong input, 3 something could
    not be decided or the answer could not be written.
    """
    from fleet.cli.simulate import Options, run_simulate

    options = Options(
        files=[*files, *(more_files or ())],
        output=output.value,
        why=why or (),
        expect_fulfilled=expect_fulfilled,
        now=now,
        settings=settings or (),
        verbose=verbose,
    )
    raise typer.Exit(run_simulate(options))


@app.command()
def hub(
    *,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="DIR", help="Keep objects here; in memory without.")
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = 0,
    ready_file: Annotated[
        Path | None,
        typer.Option("--ready-file", metavar="FILE", help="Gets one JSON object once the hub serves, for scripts."),
    ] = None,
) -> None:
    """Run a small Kubernetes API server for this machine, for trying things without a cluster.

    It listens on 127.0.0.1 and ends with Ctrl-C.
    """
    from fleet.cli.hub import run_hub

    raise typer.Exit(run_hub(data_dir=data_dir, port=port, ready_file=ready_file))


def run() -> None:
    """The console script. What Fleet raises on purpose is told in a line, without a trace."""
    try:
        app(prog_name="fleet")
    except FleetError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    except BrokenPipeError:
        # Whoever read our output has seen enough; the interpreter must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        sys.stderr.write(f"error: the answer could not be written: {error.strerror}\n")
        # Nothing may be left for the interpreter to flush, or it fails once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(3)
