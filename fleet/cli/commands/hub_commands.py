"""The commands that read and write the hub's objects, and their options."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer


class Format(enum.StrEnum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig", metavar="FILE", help="How to reach the hub; else as kubectl finds out, or `fleet up`."
    ),
]
Context = Annotated[str | None, typer.Option("--context", metavar="NAME", help="Which context of the kubeconfig.")]


def add_to(app: typer.Typer) -> None:
    app.command()(get)
    app.command()(apply)


def get(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="placements, clusters, bindings, crp, rp, mc, crb, rb …")],
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="web, or orders/web.")] = None,
    *,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", metavar="NAME", help="Only this one; all without.")
    ] = None,
    labels: Annotated[
        str | None, typer.Option("--selector", "-l", metavar="LABELS", help="As kubectl takes it: env=prod,tier.")
    ] = None,
    output: Annotated[Format, typer.Option("--output", "-o", help="How to answer.")] = Format.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """List objects of Fleet's kinds on the hub."""
    from fleet.cli.client.hub_access import HubOptions
    from fleet.cli.commands.get import GetOptions, run_get

    options = GetOptions(
        kind=kind,
        name=name,
        namespace=namespace,
        labels=labels,
        output=output.value,
        hub=HubOptions(kubeconfig=kubeconfig, context=context),
    )
    raise typer.Exit(run_get(options))


def apply(
    *,
    files: Annotated[
        list[str],
        typer.Option("--filename", "-f", metavar="PATH", help="File or folder, or - for standard input; repeatable."),
    ],
    more_files: Annotated[list[str] | None, typer.Argument(metavar="PATH", help="More of the same.")] = None,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAME", help="Of objects that name none.")
    ] = "default",
    force_conflicts: Annotated[
        bool, typer.Option("--force-conflicts", help="Take over fields that somebody else applied.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Let the hub check it, and change nothing.")] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Create or change what files describe, on the hub, by server-side apply.

    Exit codes: 0 all was applied, 2 something was not.
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
