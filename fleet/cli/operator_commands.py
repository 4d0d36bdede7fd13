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


def add_to(app: CommandLine) -> None:
    operator = CommandLine(name="operator", help="Run schedulers beside the first one.")
    operator.callback()(_require_command)
    operator.add(RUN, examples=_RUN)(run)
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
