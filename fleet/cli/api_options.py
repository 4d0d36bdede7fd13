"""The options by which every command that asks the API finds it, added to the command's own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from fleet.cli.client.connection import ApiConnection, ConnectionOptions

ApiUrl = Annotated[
    str | None,
    typer.Option(
        "--api",
        metavar="URL",
        help="URL of the API (default: $FLEET_API, then the hub of the kubeconfig, then the running `fleet up`).",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="File with the bearer token (default: $FLEET_TOKEN_FILE, or the credentials of the kubeconfig).",
    ),
]
_HUB_OPTIONS: Final[dict[str, Any]] = {
    "kubeconfig": Annotated[
        Path | None, typer.Option("--kubeconfig", metavar="FILE", help="Kubeconfig of the hub (default: as kubectl).")
    ],
    "context": Annotated[str | None, typer.Option("--context", metavar="NAME", help="Context of the kubeconfig.")],
    "verbose": Annotated[bool, typer.Option("--verbose", "-v", help="Print which API is asked.")],
}
_chosen: ContextVar[dict[str, Any]] = ContextVar("_chosen")
"""The values of these options for the command that runs."""


def with_hub_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds --kubeconfig, --context and --verbose, where the command has none of its own, for `resolve_connection`."""
    signature = inspect.signature(command, eval_str=True)
    added = {name: option for name, option in _HUB_OPTIONS.items() if name not in signature.parameters}

    @functools.wraps(command)
    def run(**arguments: Any) -> None:
        _chosen.set({name: arguments.get(name) for name in _HUB_OPTIONS})
        command(**{name: value for name, value in arguments.items() if name not in added})

    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=option, default=_default(name))
        for name, option in added.items()
    ]
    parameters = [*signature.parameters.values(), *more]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # inspect reads it
    run.__annotations__ = command.__annotations__ | added
    return run


def resolve_connection(api: str | None, token_file: Path | None) -> ApiConnection:
    from fleet.cli.client.connection import ConnectionOptions, find_connection

    chosen = _chosen.get({})
    options = ConnectionOptions(
        api=api, token_file=token_file, kubeconfig=chosen.get("kubeconfig"), context=chosen.get("context")
    )
    connection = find_connection(options)
    if chosen.get("verbose"):
        typer.echo(f"asking {connection.url} ({connection.source})", err=True)
    return connection


def select_api(
    api: str | None, token_file: Path | None, kubeconfig: Path | None, context: str | None
) -> ConnectionOptions:
    """For commands that also use the hub itself: the API of the same hub, unless another one is named."""
    from fleet.cli.client.connection import ConnectionOptions

    if api:
        return ConnectionOptions(api=api, token_file=token_file)
    return ConnectionOptions(token_file=token_file, kubeconfig=kubeconfig, context=context, of_hub=True)


def _default(name: str) -> object:
    return False if name == "verbose" else None
