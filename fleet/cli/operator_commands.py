"""Options of `fleet operator`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from fleet.cli.parsing import RUN, CommandLine

_RUN: Final = """
    fleet operator run --namespace fleet-secondary
    fleet operator run --namespace fleet-secondary --kubeconfig hub.kubeconfig
"""

_MANIFESTS: Final = """
    fleet operator manifests --namespace fleet-secondary --image registry.example/fleet:v0.1.0 > operator.yaml
"""


def add_to(app: CommandLine) -> None:
    operator = CommandLine(name="operator", help="Run schedulers beside the first one.")
    operator.callback()(_require_command)
    operator.add(RUN, examples=_RUN)(run)
    operator.add(RUN, examples=_MANIFESTS)(manifests)
    app.add_typer(operator, name="operator", rich_help_panel=RUN)


def _require_command() -> None:
    pass


def run(
    *,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of the SecondaryScheduler.")
    ],
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting; repeatable.")
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            "--kubeconfig", metavar="FILE", help="Kubeconfig of the hub (default: in-cluster, or as kubectl)."
        ),
    ] = None,
    context: Annotated[str | None, typer.Option("--context", metavar="NAME", help="Context of the kubeconfig.")] = None,
) -> None:
    """Run the operator on a hub. It keeps the scheduler of the SecondaryScheduler of one namespace as it should be.

    Exit codes: 0 stopped by a signal, 1 lease lost or failure, 2 wrong settings or usage.
    """
    import os

    from fleet.operator.process import OperatorOptions, run_operator
    from fleet.settings import load_settings

    effective = load_settings(None, os.environ, settings or ())
    options = OperatorOptions(settings=effective.settings, namespace=namespace, kubeconfig=kubeconfig, context=context)
    raise typer.Exit(run_operator(options))


def manifests(
    *,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of operator and SecondaryScheduler.")
    ],
    image: Annotated[str, typer.Option("--image", metavar="IMAGE", help="Image of the operator.")],
) -> None:
    """Print the objects that install the operator in a namespace: for `kubectl apply`, by an administrator.

    They include what the scheduler may do on the hub. The chart has the same with `operator.enabled`.
    """
    from fleet.operator.installation import build_manifests, format_manifests

    typer.echo(format_manifests(build_manifests(namespace, image)), nl=False)
