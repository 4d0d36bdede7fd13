"""Options of `fleet config` and `fleet plugins`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from fleet.cli.parsing import MORE, RUN, CommandLine
from fleet.cli.process_options import SubstituteEnv, SubstituteSecret, read_sources

File = Annotated[Path, typer.Argument(metavar="FILE", help="Settings or a configuration document, in YAML.")]
_SHOW: Final = """
    fleet config show fleet.yaml
    fleet config show --set queue.maxDelay=10s
"""
_CHECK: Final = """
    fleet config check fleet.yaml
"""
_CONVERT: Final = """
    fleet config convert kube-scheduler.yaml > fleet.yaml
    fleet config convert kube-scheduler.yaml --substitute-env METRICS_URL > fleet.yaml
"""
_NEW: Final = """
    fleet plugins new RegionQuarantine
"""


def add_to(app: CommandLine) -> None:
    config = CommandLine(name="config", help="Show, check and convert configuration of the scheduler.")
    config.add(MORE, examples=_SHOW)(show)
    config.add(MORE, examples=_CHECK)(check)
    config.add(MORE, examples=_CONVERT)(convert)
    app.add_typer(config, name="config", rich_help_panel=RUN)
    plugins = CommandLine(name="plugins", help="List, check and begin plugins of the scheduler.")
    plugins.add(MORE, name="list")(list_plugins)
    plugins.add(MORE, name="check")(check_plugin)
    plugins.add(MORE, name="new", examples=_NEW)(new_plugin)
    app.add_typer(plugins, name="plugins", rich_help_panel=RUN)


def show(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Settings or a configuration document, in YAML.")
    ] = None,
    *,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting; repeatable.")
    ] = None,
    substitute_env: SubstituteEnv = "",
    substitute_secret: SubstituteSecret = "",
) -> None:
    """Show every setting and every value of the profiles, with its origin: default, file:line, env:NAME or --set.

    Exit codes: 0 shown, 2 the configuration is wrong.
    """
    from fleet.cli.commands.config import show_config

    raise typer.Exit(show_config(file, settings or (), read_sources(substitute_env, substitute_secret)))


def check(file: File, *, substitute_env: SubstituteEnv = "", substitute_secret: SubstituteSecret = "") -> None:
    """Check a configuration as the controller would, plugins included. Nothing is started.

    Exit codes: 0 correct, 2 wrong: one line per mistake.
    """
    from fleet.cli.commands.config import check_config

    raise typer.Exit(check_config(file, read_sources(substitute_env, substitute_secret)))


def convert(
    file: File,
    *,
    substitute_env: SubstituteEnv = "",
    substitute_secret: SubstituteSecret = "",
) -> None:
    """Convert a document of kube-scheduler. Prints the native document, and on standard error what became of each
    field: honoured, translated, ignored or refused.

    Exit codes: 0 converted, 2 a field is refused or the file cannot be read.
    """
    from fleet.cli.commands.config import convert_config

    raise typer.Exit(convert_config(file, read_sources(substitute_env, substitute_secret)))


def list_plugins() -> None:
    """List the plugins that profiles may name: those of Fleet, and those of installed distributions."""
    from fleet.cli.commands.plugins import list_known_plugins

    raise typer.Exit(list_known_plugins())


def check_plugin(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A plugin of `fleet plugins list`.")],
) -> None:
    """Check that a plugin conforms to the rules that every decision relies on.

    Exit codes: 0 it conforms, 1 it does not, 2 there is no such plugin.
    """
    from fleet.cli.commands.plugins import check_conformance

    raise typer.Exit(check_conformance(name))


def new_plugin(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The plugin's name, such as RegionQuarantine.")],
    *,
    folder: Annotated[
        Path | None, typer.Option("--folder", metavar="DIR", help="Where to create it (default: ./NAME in lower case).")
    ] = None,
) -> None:
    """Create a distribution with a plugin that works, and tests for it.

    Exit codes: 0 created, 2 the name or the folder cannot be used.
    """
    from fleet.cli.commands.plugins import create_plugin

    raise typer.Exit(create_plugin(name, folder))
