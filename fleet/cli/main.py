"""The command `fleet`: its subcommands, their options, and exit codes.

Each command imports what it needs when it runs, so that `fleet --help` stays fast.
"""

from __future__ import annotations

import enum
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from fleet.cli import (
    api_commands,
    api_options,
    cluster_commands,
    config_commands,
    hub_commands,
    operator_commands,
    process_options,
    release_commands,
    waiting_commands,
)
from fleet.cli.parsing import MORE, RUN, TRY, CommandLine
from fleet.errors import FleetError

app = CommandLine(
    name="fleet",
    epilog="""
        fleet up                              a whole fleet on this machine, to try everything on
        fleet status                          what is short, and why
        fleet why web                         where it runs and why, and what would help
        fleet why-not cluster-7 web           what keeps it off one cluster
        fleet simulate -f clusters.yaml -f web.yaml
    """,
)

_HELP = "next: see `fleet simulate --help`"


class Output(enum.StrEnum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def _print_version(*, wanted: bool) -> None:
    if wanted:
        from fleet.release.build_info import load_build_info

        typer.echo(f"fleet {load_build_info().name}")
        raise typer.Exit


def _print_edits(*, wanted: bool) -> None:
    if wanted:
        from fleet.cli.output.edits_reference import render_edits
        from fleet.text_table import Page, finish

        typer.echo(finish(render_edits(), Page()))
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
    """Choose which member clusters a Kubernetes workload runs on, and explain why."""
    del version


@app.add(
    TRY,
    examples="""
        fleet simulate -f examples/                           every placement against every cluster
        fleet simulate -f examples/ --why edge-lab            one cluster: why not, and what would help
        fleet simulate -f fleet.yaml --scenario region-lost.yaml     step by step, in virtual time
        fleet simulate --live web --edit 'setCount value=4'   what if, on the fleet as it is
        fleet simulate --live web --edit 'removeCluster cluster=ams-1' --impact
    """,
)
@api_options.with_hub_options
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
        typer.Argument(metavar="PATH", help="More files, so that -f *.yaml works; with --live, the placement."),
    ] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="Output format.")] = Output.TABLE,
    why: Annotated[
        list[str] | None,
        typer.Option("--why", metavar="CLUSTER", help="Explain this cluster for every placement; repeatable."),
    ] = None,
    expect_fulfilled: Annotated[
        bool, typer.Option("--expect-fulfilled", help="Exit with 1 unless every policy is fulfilled.")
    ] = False,
    now: Annotated[
        str | None,
        typer.Option(
            "--now", metavar="TIME", help="Time of the decision, RFC 3339 or `now` (default: newest heartbeat)."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Scheduler setting; repeatable."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Settings and profiles of the scheduler, in YAML.")
    ] = None,
    substitute_env: process_options.SubstituteEnv = "",
    substitute_secret: process_options.SubstituteSecret = "",
    ask_extenders: Annotated[
        bool, typer.Option("--ask-extenders", help="Ask the extenders of --config, over the network.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also list ignored objects; with --live, print which API is asked.")
    ] = False,
    snapshot: Annotated[
        str | None,
        typer.Option("--snapshot", metavar="FILE", help="Replay a file of `fleet snapshot export`, at its time."),
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option("--scenario", metavar="FILE", help="Play these steps on the fleet in the files, in virtual time."),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Use the live fleet, through the API, instead of files.")
    ] = False,
    edits: Annotated[
        list[str] | None,
        typer.Option(
            "--edit", metavar="EDIT", help="With --live: an edit such as `setCount value=4`, or JSON; repeatable."
        ),
    ] = None,
    attempt: Annotated[
        str | None, typer.Option("--from", metavar="ATTEMPT", help="With --live: the fleet as of this attempt (id).")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="With --live: results of all plugins.")] = False,
    fixes: Annotated[
        api_commands.FixSearch | None,
        typer.Option("--fixes", help="With --live: effort to search for fixes."),
    ] = None,
    impact: Annotated[
        bool, typer.Option("--impact", help="With --live: also show which placements would move.")
    ] = False,
    help_edits: Annotated[
        bool,
        typer.Option(
            "--help-edits",
            is_eager=True,
            callback=lambda wanted: _print_edits(wanted=wanted),
            help="List all edits, with examples.",
        ),
    ] = False,
    api: api_options.ApiUrl = None,
    token_file: api_options.TokenFile = None,
) -> None:
    """Schedule placements from files, and explain the result.
    Reads MemberClusters, placements or policy snapshots, and existing bindings. Writes nothing.

    Exit codes: 0 decided, 1 not every policy is fulfilled (with --expect-fulfilled), 2 wrong input, 3 a placement could
    not be decided or the output could not be written.

    With --live: 0 the placement would be scheduled, 1 it would not, 2 no answer.
    """
    del help_edits
    if live:
        from fleet.cli.commands.simulation.simulate_live import LiveSimulation, simulate_live

        for_files = {
            "--scenario": scenario,
            "--snapshot": snapshot,
            "--now": now,
            "--set": settings,
            "--config": config,
            "--substitute-env": substitute_env,
            "--substitute-secret": substitute_secret,
            "--ask-extenders": ask_extenders,
            "--expect-fulfilled": expect_fulfilled,
        }
        _refuse([name for name, given in for_files.items() if given], "cannot be combined with --live")
        supposition = LiveSimulation(
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
        raise typer.Exit(simulate_live(api_options.resolve_connection(api, token_file), supposition))
    for_live = {"--edit": edits, "--from": attempt, "--explain": explain, "--fixes": fixes, "--impact": impact}
    _refuse([name for name, given in for_live.items() if given], "needs --live")
    if not files and snapshot is None:
        raise typer.BadParameter(f"give files with -f, or use --live\n{_HELP}", param_hint="--filename")
    from fleet.cli.commands.simulation.simulate import SimulateOptions, run_simulate

    options = SimulateOptions(
        files=[*(files or ()), *(more_files or ())],
        output=output.value,
        why=why or (),
        expect_fulfilled=expect_fulfilled,
        now=now,
        settings=settings or (),
        config=config,
        sources=process_options.read_sources(substitute_env, substitute_secret),
        asks_extenders=ask_extenders,
        verbose=verbose,
    )
    if snapshot is not None:
        from fleet.cli.commands.simulation.snapshot import apply_snapshot

        options = apply_snapshot(snapshot, options)
    if scenario is not None:
        from fleet.cli.scenario.run import run_scenario

        unused = {"--why": why, "--expect-fulfilled": expect_fulfilled, "--ask-extenders": ask_extenders}
        _refuse([name for name, given in unused.items() if given], "cannot be combined with --scenario")
        raise typer.Exit(run_scenario(scenario, options))
    raise typer.Exit(run_simulate(options))


@app.add(
    RUN,
    examples="""
        fleet controller --config fleet.yaml
        fleet controller --kubeconfig hub.kubeconfig --set queue.workers=8
    """,
)
def controller(
    *,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Settings and profiles, in YAML.")
    ] = None,
    substitute_env: process_options.SubstituteEnv = "",
    substitute_secret: process_options.SubstituteSecret = "",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="A setting; overrides the file and the environment; repeatable."
        ),
    ] = None,
    kubeconfig: process_options.Kubeconfig = None,
    context: process_options.Context = None,
    controllers: Annotated[
        str,
        typer.Option(
            "--controllers", metavar="NAMES", help="Controllers to run; `scheduler` beside KubeFleet's controllers."
        ),
    ] = "placement,scheduler",
    health_address: Annotated[
        str | None, typer.Option("--health-address", metavar="ADDRESS", help="Address of /livez and /readyz.")
    ] = None,
    metrics_address: Annotated[
        str | None, typer.Option("--metrics-address", metavar="ADDRESS", help="Address of /metrics.")
    ] = None,
    leader_elect: Annotated[
        bool | None,
        typer.Option(
            "--leader-elect/--no-leader-elect",
            help="Wait for the lease. Turn off only if no other scheduler can run.",
        ),
    ] = None,
    verbosity: Annotated[
        str, typer.Option("-v", metavar="NUMBER", help="4 and more: log at the level `debug`, whatever is set.")
    ] = "2",
) -> None:
    """Run the controller on a hub. It places workloads on clusters and keeps placements up to date.

    Settings come from --set, from variables such as FLEET_QUEUE__MAX_DELAY and from the file, in this order of
    precedence; see docs/settings.md. Shuts down gracefully on SIGTERM and Ctrl-C.

    Exit codes: 0 stopped by a signal, 1 lease lost or failure, 2 wrong settings or usage.
    """
    from fleet.cli.commands.serve.controller import ControllerCommandOptions, run_controller_command

    options = ControllerCommandOptions(
        config=config,
        sources=process_options.read_sources(substitute_env, substitute_secret),
        settings=settings or (),
        kubeconfig=kubeconfig,
        context=context,
        controllers=controllers,
        health_address=health_address,
        metrics_address=metrics_address,
        leader_elect=leader_elect,
        verbosity=verbosity,
    )
    raise typer.Exit(run_controller_command(options))


@app.add(
    RUN,
    examples="""
        fleet hub --data-dir ~/.fleet/hub --ready-file /tmp/hub.json
    """,
)
def hub(
    *,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="DIR", help="Directory for objects (default: in memory).")
    ] = None,
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="Port; 0 picks a free port.")
    ] = 0,
    ready_file: Annotated[
        Path | None,
        typer.Option("--ready-file", metavar="FILE", help="Write a JSON object here when the hub is ready."),
    ] = None,
) -> None:
    """Run a small Kubernetes API server on this machine. Use it to try Fleet without a cluster.

    It listens on 127.0.0.1 and stops on Ctrl-C.
    """
    from fleet.cli.commands.serve.hub import run_hub

    raise typer.Exit(run_hub(data_dir=data_dir, port=port, ready_file=ready_file))


@app.add(
    RUN,
    examples="""
        fleet api --kubeconfig hub.kubeconfig
        fleet api --address 0.0.0.0:8443 --tls-cert tls.crt --tls-key tls.key
    """,
)
def api(
    *,
    address: Annotated[
        str, typer.Option("--address", metavar="ADDRESS", help="Listen address; port 0 picks a free port.")
    ] = "127.0.0.1:8090",
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate; required unless on loopback.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Key of the certificate.")] = None,
    plain_http: Annotated[
        bool,
        typer.Option("--plain-http", help="Serve without TLS, behind a proxy that terminates TLS."),
    ] = False,
    aggregated: Annotated[
        bool,
        typer.Option("--aggregated", help="Also serve callers that the hub's aggregation layer has authenticated."),
    ] = False,
    explain_only: Annotated[
        bool,
        typer.Option(
            "--explain-only", help="Another scheduler decides: compare its bindings with what Fleet would do."
        ),
    ] = False,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Settings and profiles of the controller, in YAML.")
    ] = None,
    substitute_env: process_options.SubstituteEnv = "",
    substitute_secret: process_options.SubstituteSecret = "",
    settings: process_options.Settings = None,
    kubeconfig: process_options.Kubeconfig = None,
    context: process_options.Context = None,
    ready_file: Annotated[
        Path | None,
        typer.Option("--ready-file", metavar="FILE", help="Write a JSON object here when the API is ready."),
    ] = None,
) -> None:
    """Serve the HTTP API that explains decisions.
    Watches the hub and reads the history at `history.url`; changes nothing. Clients need a token that the hub accepts.
    Shuts down gracefully on SIGTERM and Ctrl-C.

    Exit codes: 0 stopped by a signal, 1 failure, 2 wrong settings or usage.
    """
    from fleet.cli.commands.serve.api import ApiOptions, run_api

    options = ApiOptions(
        address=address,
        tls_cert=tls_cert,
        tls_key=tls_key,
        plain_http=plain_http,
        aggregated=aggregated,
        explain_only=explain_only,
        config=config,
        sources=process_options.read_sources(substitute_env, substitute_secret),
        settings=settings or (),
        kubeconfig=kubeconfig,
        context=context,
        ready_file=ready_file,
    )
    raise typer.Exit(run_api(options))


@app.add(
    TRY,
    examples="""
        fleet up
        fleet up --clusters 60 --quiet
    """,
)
def up(
    *,
    clusters: Annotated[
        int | None,
        typer.Option(
            "--clusters",
            metavar="N",
            min=1,
            max=10_000,
            help="Simulated member clusters (default: those in DIR, or 12).",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="DIR", help="Directory for objects (default: in memory).")
    ] = None,
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="Port of the hub; 0 picks a free port.")
    ] = 0,
    api_port: Annotated[
        int, typer.Option("--api-port", metavar="PORT", min=0, max=65535, help="Port of the API; 0 picks a free port.")
    ] = 0,
    ready_file: Annotated[
        Path | None,
        typer.Option("--ready-file", metavar="FILE", help="Write a JSON object here when all is ready."),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print decisions as plain lines, even on a terminal.")
    ] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Setting of the controller; repeatable.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Settings and profiles, in YAML.")
    ] = None,
    substitute_env: process_options.SubstituteEnv = "",
    substitute_secret: process_options.SubstituteSecret = "",
) -> None:
    """Try Fleet on this machine.

    Runs a hub, a simulated fleet, workloads and the controller, and shows its decisions live.
    It listens on 127.0.0.1 and stops on Ctrl-C.

    Exit codes: 0 stopped by a signal, 1 failure, 2 wrong settings or usage, or a port or folder that cannot be used.
    """
    from fleet.cli.up.up import UpOptions, run_up

    options = UpOptions(
        clusters=clusters,
        data_dir=data_dir,
        port=port,
        api_port=api_port,
        ready_file=ready_file,
        quiet=quiet,
        settings=settings or (),
        config=config,
        sources=process_options.read_sources(substitute_env, substitute_secret),
    )
    raise typer.Exit(run_up(options))


@app.add(
    RUN,
    examples="""
        fleet migrate --url postgresql+psycopg://fleet@db/fleet
    """,
)
def migrate(
    *,
    url: Annotated[
        str | None,
        typer.Option("--url", metavar="URL", help="Database of the history (default: the setting history.url)."),
    ] = None,
    to: Annotated[
        str, typer.Option("--to", metavar="REVISION", help="Target (default: newest); `base` drops all tables.")
    ] = "",
    unless_newer: Annotated[
        bool,
        typer.Option(
            "--unless-newer", help="Succeed if the schema is of a later version; Fleet then runs without history."
        ),
    ] = False,
    best_effort: Annotated[
        bool,
        typer.Option(
            "--best-effort", help="Succeed with a warning whatever is wrong with the database; Fleet then runs without."
        ),
    ] = False,
    settings: process_options.Settings = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Settings and profiles, in YAML.")
    ] = None,
) -> None:
    """Migrate the database of the decision history.
    Stop the controllers that write to it first. An unknown schema is not changed.

    Exit codes: 0 done, 1 the database is not reachable, 2 wrong settings or usage, or an unknown schema.
    """
    from fleet.cli.commands.serve.migrate import run_migrate

    code = run_migrate(
        url=url, to=to, unless_newer=unless_newer, best_effort=best_effort, config=config, settings=settings or ()
    )
    raise typer.Exit(code)


class VersionOutput(enum.StrEnum):
    TEXT = "text"
    JSON = "json"


@app.add(MORE)
def version(
    *, output: Annotated[VersionOutput, typer.Option("--output", "-o", help="Output format.")] = VersionOutput.TEXT
) -> None:
    """Show the version, and what it was built from."""
    from fleet.cli.commands.version import show_version

    raise typer.Exit(show_version(output.value))


def _refuse(options: list[str], because: str) -> None:
    if options:
        raise typer.BadParameter(f"{because}\n{_HELP}", param_hint=options[0])


api_commands.add_to(app)
waiting_commands.add_to(app)
hub_commands.add_to(app)
cluster_commands.add_to(app)
config_commands.add_to(app)
release_commands.add_to(app)
operator_commands.add_to(app)


def run_as_plugin() -> None:
    """The console script `kubectl-fleet`, which kubectl runs for `kubectl fleet`."""
    run("kubectl fleet")


def run(program: str = "fleet") -> None:
    """The console script. Fleet's own errors are printed with the next step, without a traceback."""
    try:
        app(prog_name=program)
    except FleetError as error:
        from fleet.cli.output.failures import describe_failure

        sys.stderr.write(f"error: {describe_failure(error, program, sys.argv[1:])}\n")
        sys.exit(2)
    except BrokenPipeError:
        # The reader of our output has closed the pipe; keep the interpreter from failing again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        sys.stderr.write(f"error: cannot write the output: {error.strerror}\nnext: free space, or write elsewhere\n")
        # An unflushed buffer would make the interpreter fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(3)
