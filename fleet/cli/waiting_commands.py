"""Options of the commands about placements that wait for approval, or for each other. Their implementations are
imported when they run."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from fleet.cli.api_commands import Form, Namespace, Output, Placement, complete_cluster_names
from fleet.cli.api_options import ApiUrl, TokenFile, resolve_connection, with_hub_options
from fleet.cli.parsing import ASK, CHANGE, CommandLine

APPROVAL_PLUGIN: Final = "PlacementApproval"
Waiting = Annotated[
    str, typer.Argument(metavar="PLACEMENT", help="web or orders/web, or the UID in `fleet waiting -o json`.")
]
Plugin = Annotated[str, typer.Option("--plugin", metavar="NAME", help="The plugin that waits.")]
Rule = Annotated[str | None, typer.Option("--rule", metavar="NAME", help="Only this approval rule.")]
WaitingCluster = Annotated[
    str | None,
    typer.Option("--cluster", metavar="NAME", help="Only this cluster.", autocompletion=complete_cluster_names),
]
Message = Annotated[str, typer.Option("--message", "-m", metavar="TEXT", help="Why.", show_default=False)]
_WAITING: Final = """
    fleet waiting
    fleet waiting --cluster ams-1 -o json
"""
_GROUPS: Final = """
    fleet groups
    fleet groups shards
    fleet groups orders/shards -o json
"""
_DENY: Final = """
    fleet deny web -m 'not before the release'
"""
_CLEAR: Final = """
    fleet gates clear web review
"""
gates = CommandLine(help="Gates that hold placements back.")


def add_to(app: CommandLine) -> None:
    app.add(ASK, examples=_WAITING)(with_hub_options(waiting))
    app.add(ASK, examples=_GROUPS)(with_hub_options(groups))
    app.add(CHANGE, examples=_DENY)(with_hub_options(deny))
    gates.add(CHANGE, examples=_CLEAR)(with_hub_options(clear))
    app.add_typer(gates, name="gates", rich_help_panel=CHANGE)


def waiting(
    *,
    cluster: WaitingCluster = None,
    plugin: Annotated[
        str | None, typer.Option("--plugin", metavar="NAME", help="Only what this plugin waits for.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="NAME", help="Only placements of this profile.")
    ] = None,
    output: Output = Form.TEXT,
    api: ApiUrl = None,
    token_file: TokenFile = None,
) -> None:
    """List the placements that wait for approval: for whom, on which clusters, and until when."""
    from fleet.cli.commands.waiting import show_waiting

    connection = resolve_connection(api, token_file)
    raise typer.Exit(show_waiting(connection, cluster=cluster, plugin=plugin, profile=profile, form=output.value))


def groups(
    group: Annotated[
        str | None, typer.Argument(metavar="GROUP", help="shards, or orders/shards (default: list all).")
    ] = None,
    *,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of the group.", show_default=False),
    ] = None,
    output: Output = Form.TEXT,
    api: ApiUrl = None,
    token_file: TokenFile = None,
) -> None:
    """List the placement groups, or explain why one is where it is: its members, what each waits for, and where those
    that do not fit were tried.

    Exit codes: 0 it is scheduled, or none was named; 1 it is not; 2 no answer.
    """
    from fleet.cli.client.names import PlacementName
    from fleet.cli.commands.groups import explain_group, list_groups

    name = None if group is None else PlacementName.parse(group, namespace)
    connection = resolve_connection(api, token_file)
    if name is None:
        raise typer.Exit(list_groups(connection, form=output.value))
    raise typer.Exit(explain_group(connection, name, form=output.value))


def deny(
    waiting: Waiting,
    *,
    message: Message = "",
    cluster: WaitingCluster = None,
    rule: Rule = None,
    plugin: Plugin = APPROVAL_PLUGIN,
    api: ApiUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Keep a placement off the clusters that were chosen for it, and say why.

    Exit codes: 0 denied, 2 refused.
    """
    from fleet.cli.commands.waiting import ReplyOptions
    from fleet.cli.commands.waiting import deny as answer

    reply = ReplyOptions(plugin=plugin, message=message, cluster=cluster, rule=rule)
    raise typer.Exit(answer(resolve_connection(api, token_file), waiting, reply))


def clear(
    placement: Placement,
    gate: Annotated[str, typer.Argument(metavar="GATE", help="Name of the gate.")],
    *,
    namespace: Namespace = None,
    api: ApiUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Remove a gate from the options of a placement. When none is left, it is scheduled."""
    from fleet.cli.client.names import PlacementName
    from fleet.cli.commands.waiting import clear_gate

    name = PlacementName.parse(placement, namespace)
    raise typer.Exit(clear_gate(resolve_connection(api, token_file), name, gate))
