"""Options of the commands that read and write objects on the hub."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated, Final

import typer

from fleet.cli.api_options import ApiUrl, TokenFile, select_api
from fleet.cli.parsing import ASK, CHANGE, TRY, CommandLine
from fleet.cli.process_options import Context, SubstituteEnv, SubstituteSecret, read_sources


class DiffFormat(enum.StrEnum):
    TEXT = "text"
    JSON = "json"
    YAML = "yaml"
    MARKDOWN = "markdown"


class Format(enum.StrEnum):
    TABLE = "table"
    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"


Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig", metavar="FILE", help="Kubeconfig of the hub (default: as kubectl, then the running `fleet up`)."
    ),
]

_GET: Final = """
    fleet get placements --unfulfilled
    fleet get placements -l team=payments --sort-by ready
    fleet get bindings --cluster ams-1
    fleet get clusters -o wide
    fleet get placements --watch
"""
_APPLY: Final = """
    fleet apply -f web.yaml
    fleet apply -f web.yaml --dry-run
"""

_DIFF: Final = """
    fleet diff -f web.yaml
    fleet diff -f placements/ --prune -l team=shop
    fleet diff --snapshot prod.json -f web.yaml -o markdown
"""


def add_to(app: CommandLine) -> None:
    app.add(ASK, examples=_GET)(get)
    app.add(CHANGE, examples=_APPLY)(apply)
    app.add(TRY, examples=_DIFF)(diff)


def get(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="placements, clusters, bindings, crp, rp, crb, rb …")],
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="web, or orders/web.")] = None,
    *,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", metavar="NAME", help="Only this namespace (default: all).")
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option("--selector", "-l", metavar="LABELS", help="Label selector, as in kubectl: env=prod,tier."),
    ] = None,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="All namespaces, which is the default.")
    ] = False,
    unfulfilled: Annotated[bool, typer.Option("--unfulfilled", help="Only placements that lack clusters.")] = False,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="NAME", help="Only placements and bindings on this cluster."),
    ] = None,
    sort_by: Annotated[
        str | None,
        typer.Option("--sort-by", metavar="COLUMN", help="A column, or a path (default: trouble first)."),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Then print a row for every change, until Ctrl-C.")
    ] = False,
    output: Annotated[Format, typer.Option("--output", "-o", help="Output format.")] = Format.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    api: ApiUrl = None,
    token_file: TokenFile = None,
) -> None:
    """List objects of Fleet's kinds on the hub. What is in trouble comes first.

    READY is the number of clusters where everything is available, and how many there should be. Whether a cluster is
    ELIGIBLE for new work depends on settings, so the API is asked for it.

    Exit codes: 0 listed, 1 a watch ended by Ctrl-C, 2 no answer.
    """
    from fleet.cli.client.hub_access import HubOptions
    from fleet.cli.commands.get import GetOptions, run_get

    if namespace is not None and all_namespaces:
        raise typer.BadParameter("cannot be combined with --all-namespaces", param_hint="--namespace")
    options = GetOptions(
        kind=kind,
        name=name,
        namespace=namespace,
        labels=labels,
        unfulfilled=unfulfilled,
        cluster=cluster,
        sort_by=sort_by,
        watch=watch,
        output=output.value,
        hub=HubOptions(kubeconfig=kubeconfig, context=context),
        api=select_api(api, token_file, kubeconfig, context),
    )
    raise typer.Exit(run_get(options))


def apply(
    *,
    files: Annotated[
        list[str],
        typer.Option("--filename", "-f", metavar="PATH", help="File or folder, or - for standard input; repeatable."),
    ],
    more_files: Annotated[list[str] | None, typer.Argument(metavar="PATH", help="More files.")] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of objects without one.")
    ] = "default",
    force_conflicts: Annotated[
        bool, typer.Option("--force-conflicts", help="Take over fields owned by another manager.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Validate on the hub and change nothing.")] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Apply files to the hub, with server-side apply.

    Exit codes: 0 all objects were applied, 2 some were not.
    """
    from fleet.cli.client.hub_access import HubOptions
    from fleet.cli.commands.apply import ApplyOptions, run_apply

    options = ApplyOptions(
        files=[*files, *(more_files or ())],
        namespace=namespace,
        force=force_conflicts,
        dry_run=dry_run,
        hub=HubOptions(kubeconfig=kubeconfig, context=context),
    )
    raise typer.Exit(run_apply(options))


def diff(
    *,
    files: Annotated[
        list[str] | None,
        typer.Option("--filename", "-f", metavar="PATH", help="File or folder, or - for standard input; repeatable."),
    ] = None,
    more_files: Annotated[list[str] | None, typer.Argument(metavar="PATH", help="More files.")] = None,
    snapshot: Annotated[
        str | None,
        typer.Option("--snapshot", metavar="FILE", help="Compare with a file of `fleet snapshot export`."),
    ] = None,
    base: Annotated[
        list[str] | None,
        typer.Option("--base", metavar="PATH", help="Compare with these objects of a hub, in files; repeatable."),
    ] = None,
    delete: Annotated[
        list[str] | None,
        typer.Option("--delete", metavar="KIND/NAME", help="Also delete this placement or cluster; repeatable."),
    ] = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Also delete placements without a file; needs --selector or --all.")
    ] = False,
    selector: Annotated[
        str | None, typer.Option("--selector", "-l", metavar="LABELS", help="Of placements to prune: team=a,env=prod.")
    ] = None,
    all_placements: Annotated[bool, typer.Option("--all", help="Prune every placement without a file.")] = False,
    output: Annotated[DiffFormat, typer.Option("--output", "-o", help="Output format.")] = DiffFormat.TEXT,
    now: Annotated[
        str | None,
        typer.Option("--now", metavar="TIME", help="Time of the decisions, RFC 3339 or `now`."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Setting of the scheduler; repeatable."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Settings and profiles of the scheduler, in YAML.")
    ] = None,
    substitute_env: SubstituteEnv = "",
    substitute_secret: SubstituteSecret = "",
    ask_extenders: Annotated[
        bool, typer.Option("--ask-extenders", help="Ask the extenders of --config, over the network.")
    ] = False,
    field_manager: Annotated[
        str, typer.Option("--field-manager", metavar="NAME", help="Name under which the files are applied.")
    ] = "fleet-apply",
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also list ignored objects.")] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show which placements files would move, compared with the hub. Writes nothing.

    Exit codes: 0 nothing moves, 1 something moves, 2 wrong input, or a placement cannot be decided.
    """
    from fleet.cli.client.hub_access import HubOptions
    from fleet.cli.commands.simulation.diff import DiffOptions, run_diff

    if not (files or more_files or delete or prune):
        raise typer.BadParameter("give files with -f, or deletions", param_hint="--filename")
    if snapshot is not None and base:
        raise typer.BadParameter("cannot be combined with --snapshot", param_hint="--base")
    options = DiffOptions(
        files=[*(files or ()), *(more_files or ())],
        base=base or (),
        snapshot=snapshot,
        delete=delete or (),
        prune=prune,
        selector=selector,
        all=all_placements,
        output=output.value,
        now=now,
        settings=settings or (),
        config=config,
        sources=read_sources(substitute_env, substitute_secret),
        asks_extenders=ask_extenders,
        field_manager=field_manager,
        verbose=verbose,
        hub=HubOptions(kubeconfig=kubeconfig, context=context),
    )
    raise typer.Exit(run_diff(options))
