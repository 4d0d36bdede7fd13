"""Options of the commands that read and write objects on the hub."""

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
        "--kubeconfig", metavar="FILE", help="Kubeconfig of the hub (default: as kubectl, then the running `fleet up`)."
    ),
]
Context = Annotated[str | None, typer.Option("--context", metavar="NAME", help="Context of the kubeconfig.")]


def add_to(app: typer.Typer) -> None:
    app.command()(get)
    app.command()(apply)


def get(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="placements, clusters, bindings, crp, rp, mc, crb, rb …")],
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="web, or orders/web.")] = None,
    *,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", metavar="NAME", help="Only this namespace (default: all).")
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option("--selector", "-l", metavar="LABELS", help="Label selector, as in kubectl: env=prod,tier."),
    ] = None,
    output: Annotated[Format, typer.Option("--output", "-o", help="Output format.")] = Format.TABLE,
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
