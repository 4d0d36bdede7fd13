"""The options that processes on a hub share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fleet.settings.document.substitution import NamedSources

Kubeconfig = Annotated[
    Path | None,
    typer.Option("--kubeconfig", metavar="FILE", help="Kubeconfig of the hub (default: in-cluster, or as kubectl)."),
]
Context = Annotated[str | None, typer.Option("--context", metavar="NAME", help="Context of the kubeconfig.")]
SubstituteEnv = Annotated[
    str,
    typer.Option(
        "--substitute-env",
        metavar="NAME,...",
        help="Of a document of kube-scheduler: variables that $NAME in braces stands for.",
    ),
]
SubstituteSecret = Annotated[
    str,
    typer.Option(
        "--substitute-secret",
        metavar="NAME,...",
        help="Of a document of kube-scheduler: Secrets whose keys $NAME in braces stands for.",
    ),
]
Settings = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting; repeatable.")]


def read_sources(variables: str, secrets: str) -> NamedSources:
    from fleet.settings.document.substitution import NamedSources  # slow to import, and not needed for --help

    return NamedSources(_split_names(variables), _split_names(secrets))


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
