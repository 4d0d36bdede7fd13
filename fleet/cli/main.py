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
from fleet.cli.commands import api_commands as questions
from fleet.cli.commands import hub_commands
from fleet.errors import FleetError

app = typer.Typer(
    name="fleet",
    no_args_is_help=True,
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
        list[str] | None,
        typer.Option(
            "--filename",
            "-f",
            metavar="PATH",
            help="File or folder with YAML or JSON, or - for standard input; repeatable.",
        ),
    ] = None,
    more_files: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH", help="More of the same, so that -f *.yaml works; with --live, the placement."),
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
    snapshot: Annotated[
        str | None,
        typer.Option("--snapshot", metavar="FILE", help="Decide what `fleet snapshot export` wrote, as of then."),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Ask the API about the fleet as it is, instead of files.")
    ] = False,
    edits: Annotated[
        list[str] | None,
        typer.Option("--edit", metavar="EDIT", help="With --live: `setCount value=4`, or in JSON; repeatable."),
    ] = None,
    attempt: Annotated[
        str | None, typer.Option("--from", metavar="ATTEMPT", help="With --live: the fleet as it was then, by id.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="With --live: what every plugin says.")] = False,
    fixes: Annotated[
        questions.Fixes | None, typer.Option("--fixes", help="With --live: how hard to look for what would help.")
    ] = None,
    impact: Annotated[bool, typer.Option("--impact", help="With --live: also which placements would move.")] = False,
    api: questions.Api = None,
    token_file: questions.TokenFile = None,
) -> None:
    """Place what is in files, without a cluster, and show why.

    Reads MemberClusters, placements or policy snapshots, and existing bindings. Writes nothing.

    Exit codes: 0 decided, 1 not every policy is fulfilled (with --expect-fulfilled), 2 wrong input, 3 something could
    not be decided or the answer could not be written.

    With --live: 0 the placement would be scheduled, 1 it would not, 2 there is no answer.
    """
    if live:
        from fleet.cli.commands.simulate_live import Supposition, simulate_live

        for_files = {
            "--snapshot": snapshot,
            "--now": now,
            "--set": settings,
            "--expect-fulfilled": expect_fulfilled,
            "--verbose": verbose,
        }
        _refuse([name for name, given in for_files.items() if given], "is for files; leave it out, or --live")
        supposition = Supposition(
            placements=more_files or (),
            files=files or (),
            edits=edits or (),
            attempt=attempt,
            clusters=why or (),
            everything=explain,
            fixes=None if fixes is None else fixes.value,
            impact=impact,
            output=output.value,
        )
        raise typer.Exit(simulate_live(questions.connection_of(api, token_file), supposition))
    for_live = {"--edit": edits, "--from": attempt, "--explain": explain, "--fixes": fixes, "--impact": impact}
    _refuse([name for name, given in for_live.items() if given], "needs --live")
    if not files and snapshot is None:
        raise typer.BadParameter("name files with -f, or ask the API with --live", param_hint="--filename")
    from fleet.cli.commands.simulate import Options, run_simulate

    options = Options(
        files=[*(files or ()), *(more_files or ())],
        output=output.value,
        why=why or (),
        expect_fulfilled=expect_fulfilled,
        now=now,
        settings=settings or (),
        verbose=verbose,
    )
    if snapshot is not None:
        from fleet.cli.input.snapshot_import import as_of

        options = as_of(snapshot, options)
    raise typer.Exit(run_simulate(options))


@app.command()
def controller(
    *,
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Settings, in YAML.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="A setting; counts more than file and environment; repeatable."
        ),
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            "--kubeconfig", metavar="FILE", help="How to reach the hub; else as kubectl finds out, or the pod."
        ),
    ] = None,
    context: Annotated[
        str | None, typer.Option("--context", metavar="NAME", help="Which context of the kubeconfig.")
    ] = None,
    controllers: Annotated[
        str,
        typer.Option(
            "--controllers", metavar="NAMES", help="What runs; `scheduler` beside another placement controller."
        ),
    ] = "placement,scheduler",
    health_address: Annotated[
        str | None, typer.Option("--health-address", metavar="ADDRESS", help="Where /livez and /readyz are served.")
    ] = None,
    metrics_address: Annotated[
        str | None, typer.Option("--metrics-address", metavar="ADDRESS", help="Where /metrics is served.")
    ] = None,
    leader_elect: Annotated[
        bool | None,
        typer.Option(
            "--leader-elect/--no-leader-elect", help="Whether to wait for the lease. Off: make sure yourself."
        ),
    ] = None,
) -> None:
    """Place workloads on the clusters of a hub, and keep it true.

    Settings come from --set, from variables such as FLEET_QUEUE__MAX_DELAY and from the file, in this order; the names
    are in docs/settings.md. Ends in order on SIGTERM and Ctrl-C.

    Exit codes: 0 ended as asked, 1 the lease was lost or something failed, 2 wrong settings or usage.
    """
    from fleet.cli.commands.controller import Options, run_controller_command

    options = Options(
        config=config,
        settings=settings or (),
        kubeconfig=kubeconfig,
        context=context,
        controllers=controllers,
        health_address=health_address,
        metrics_address=metrics_address,
        leader_elect=leader_elect,
    )
    raise typer.Exit(run_controller_command(options))


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
    from fleet.cli.commands.hub import run_hub

    raise typer.Exit(run_hub(data_dir=data_dir, port=port, ready_file=ready_file))


@app.command()
def api(
    *,
    address: Annotated[
        str, typer.Option("--address", metavar="ADDRESS", help="Where to listen; port 0 takes a free one.")
    ] = "127.0.0.1:8090",
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", metavar="FILE", help="Needed to be reached from other machines.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Of the certificate.")] = None,
    plain_http: Annotated[
        bool,
        typer.Option("--plain-http", help="Do without a certificate, because something in front of it ends TLS."),
    ] = False,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Settings, in YAML: those of the controller.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting; repeatable.")
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            "--kubeconfig", metavar="FILE", help="How to reach the hub; else as kubectl finds out, or the pod."
        ),
    ] = None,
    context: Annotated[
        str | None, typer.Option("--context", metavar="NAME", help="Which context of the kubeconfig.")
    ] = None,
    ready_file: Annotated[
        Path | None,
        typer.Option("--ready-file", metavar="FILE", help="Gets one JSON object once it answers, for scripts."),
    ] = None,
) -> None:
    """Answer questions about decisions over HTTP: why, why not, what if.

    Watches the hub and reads the history at `history.url`; changes nothing. Who asks needs a token that the hub
    accepts. Ends in order on SIGTERM and Ctrl-C.

    Exit codes: 0 ended as asked, 1 something failed, 2 wrong settings or usage.
    """
    from fleet.cli.commands.api import Options, run_api

    options = Options(
        address=address,
        tls_cert=tls_cert,
        tls_key=tls_key,
        plain_http=plain_http,
        config=config,
        settings=settings or (),
        kubeconfig=kubeconfig,
        context=context,
        ready_file=ready_file,
    )
    raise typer.Exit(run_api(options))


@app.command()
def up(
    *,
    clusters: Annotated[
        int | None,
        typer.Option(
            "--clusters", min=1, max=10_000, help="Simulated member clusters; 12, or as many as DIR has of them."
        ),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="DIR", help="Keep objects here; in memory without.")
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = 0,
    api_port: Annotated[int, typer.Option("--api-port", min=0, max=65535, help="Of the API; 0 takes a free one.")] = 0,
    ready_file: Annotated[
        Path | None,
        typer.Option("--ready-file", metavar="FILE", help="Gets one JSON object once all is ready, for scripts."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Decisions as plain lines, also on a terminal.")] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the controller; repeatable.")
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Settings, in YAML.")] = None,
) -> None:
    """Try Fleet on this machine: a hub, a simulated fleet, workloads and the controller, and what it decides.

    It listens on 127.0.0.1 and ends with Ctrl-C.

    Exit codes: 0 ended as asked, 1 something failed, 2 wrong settings or usage, or a port or folder that cannot be
    used.
    """
    from fleet.cli.up.up import Options, run_up

    options = Options(
        clusters=clusters,
        data_dir=data_dir,
        port=port,
        api_port=api_port,
        ready_file=ready_file,
        quiet=quiet,
        settings=settings or (),
        config=config,
    )
    raise typer.Exit(run_up(options))


@app.command()
def migrate(
    *,
    url: Annotated[
        str | None,
        typer.Option(
            "--url", metavar="URL", help="The database of the decision history; else the setting history.url."
        ),
    ] = None,
    to: Annotated[
        str, typer.Option("--to", metavar="REVISION", help="Instead of the newest; `base` removes all of it.")
    ] = "",
    unless_newer: Annotated[
        bool,
        typer.Option(
            "--unless-newer", help="A schema of a later version is no failure: whoever needs it does without."
        ),
    ] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting; repeatable.")
    ] = None,
    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Settings, in YAML.")] = None,
) -> None:
    """Bring the database of the decision history to the schema that this version needs.

    Stop whoever writes to it first. A schema that this version does not know is left alone.

    Exit codes: 0 done, 1 the database cannot be reached, 2 wrong settings or usage, or a schema nobody here knows.
    """
    from fleet.cli.commands.migrate import run_migrate

    raise typer.Exit(run_migrate(url=url, to=to, unless_newer=unless_newer, config=config, settings=settings or ()))


def _refuse(options: list[str], because: str) -> None:
    if options:
        raise typer.BadParameter(because, param_hint=options[0])


questions.add_to(app)
hub_commands.add_to(app)


def run_as_plugin() -> None:
    """The console script `kubectl-fleet`, which kubectl starts for `kubectl fleet`."""
    run("kubectl fleet")


def run(program: str = "fleet") -> None:
    """The console script. What Fleet raises on purpose is told in a line, without a trace."""
    try:
        app(prog_name=program)
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
