"""Options of the commands that change a member cluster, and of the three verbs of KubeFleet's `kubectl fleet`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fleet.cli.api_commands import complete_cluster_names
from fleet.cli.api_options import ApiUrl, TokenFile, resolve_connection, select_api, with_hub_options
from fleet.cli.hub_commands import Kubeconfig
from fleet.cli.parsing import CHANGE, CommandLine
from fleet.cli.process_options import Context
from fleet.cli.waiting_commands import APPROVAL_PLUGIN, Message, Plugin, Rule, WaitingCluster

if TYPE_CHECKING:
    from fleet.cli.clusters.commands import MaintenanceOptions

Cluster = Annotated[
    str, typer.Argument(metavar="CLUSTER", help="A member cluster.", autocompletion=complete_cluster_names)
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask. Required where there is no terminal.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the impact and change nothing.")]
Timeout = Annotated[str, typer.Option("--timeout", metavar="DURATION", help="How long to wait for evictions.")]
HubContext = Annotated[
    str,
    typer.Option("--hubClusterContext", "--hub-cluster-context", metavar="NAME", help="Context of the hub."),
]
ClusterName = Annotated[
    str,
    typer.Option(
        "--clusterName",
        "--cluster-name",
        metavar="NAME",
        help="The member cluster.",
        autocompletion=complete_cluster_names,
    ),
]
_DEFAULT_TIMEOUT: Final = "5m"
_CORDON: Final = """
    fleet cordon ams-1
    fleet cordon ams-1 --dry-run
"""
_UNCORDON: Final = """
    fleet uncordon ams-1
"""
_DRAIN: Final = """
    fleet drain ams-1 --dry-run          what would move, and where to
    fleet drain ams-1                    shows the same, and asks
    fleet drain ams-1 --yes --timeout 30m
"""
_APPROVE: Final = """
    fleet approve web
    fleet approve orders/web --cluster ams-1 -m 'tested in staging'
    fleet approve clusterapprovalrequest --name web-canary
    fleet approve areq -n orders --name web-canary
"""
_DRAINCLUSTER: Final = """
    kubectl fleet draincluster --hubClusterContext hub --clusterName ams-1
"""
_UNCORDONCLUSTER: Final = """
    kubectl fleet uncordoncluster --hubClusterContext hub --clusterName ams-1
"""


def add_to(app: CommandLine) -> None:
    app.add(CHANGE, examples=_CORDON)(cordon)
    app.add(CHANGE, examples=_UNCORDON)(uncordon)
    app.add(CHANGE, examples=_DRAIN)(drain)
    app.add(CHANGE, examples=_APPROVE)(with_hub_options(approve))
    app.add(CHANGE, examples=_DRAINCLUSTER)(draincluster)
    app.add(CHANGE, examples=_UNCORDONCLUSTER)(uncordoncluster)


def cordon(
    cluster: Cluster,
    *,
    yes: Yes = False,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    api: ApiUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Keep new work off a cluster, with the taint of KubeFleet's tools. What is there stays.

    Exit codes: 0 done, 1 the answer was no, 2 refused.
    """
    from fleet.cli.clusters.commands import run_cordon

    change = _build_change(cluster, yes=yes, dry_run=dry_run, hub=(kubeconfig, context), api=(api, token_file))
    raise typer.Exit(run_cordon(change, cordoned=True))


def uncordon(
    cluster: Cluster,
    *,
    yes: Yes = False,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    api: ApiUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Let new work onto a cluster again. Removes the taint of `cordon` and `drain`, and no other.

    Exit codes: 0 done, 1 the answer was no, 2 refused.
    """
    from fleet.cli.clusters.commands import run_cordon

    change = _build_change(cluster, yes=yes, dry_run=dry_run, hub=(kubeconfig, context), api=(api, token_file))
    raise typer.Exit(run_cordon(change, cordoned=False))


def drain(
    cluster: Cluster,
    *,
    yes: Yes = False,
    dry_run: DryRun = False,
    timeout: Timeout = _DEFAULT_TIMEOUT,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    api: ApiUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Cordon a cluster and evict what is on it. Shows what moves where, then asks.
    Disruption budgets hold. KubeFleet's hub agent executes the evictions. Interrupted, it goes on when it is run again.

    Exit codes: 0 drained, 1 something remains or the answer was no, 2 refused.
    """
    from dataclasses import replace

    from fleet.cli.clusters.commands import run_drain

    change = _build_change(cluster, yes=yes, dry_run=dry_run, hub=(kubeconfig, context), api=(api, token_file))
    raise typer.Exit(run_drain(replace(change, timeout=_parse_timeout(timeout))))


def approve(
    what: Annotated[
        str,
        typer.Argument(
            metavar="PLACEMENT",
            help="web or orders/web, or the UID in `fleet waiting -o json`; with --name a kind: careq or areq.",
        ),
    ],
    *,
    message: Message = "",
    cluster: WaitingCluster = None,
    rule: Rule = None,
    plugin: Plugin = APPROVAL_PLUGIN,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="The approval request of a staged update.", show_default=False)
    ] = "",
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of an approvalrequest.")
    ] = "",
    hub_context: HubContext = "",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    api: ApiUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Let a placement onto the clusters that were chosen for it, or a staged update onto its next stage.

    For a stage it takes the flags of KubeFleet's `kubectl fleet approve`.

    Exit codes: 0 approved, 2 refused.
    """
    if name:
        from fleet.cli.client.hub_access import HubOptions
        from fleet.cli.clusters.approve import run_approve

        hub = HubOptions(kubeconfig=kubeconfig, context=hub_context or context)
        raise typer.Exit(run_approve(what, name, namespace, hub))
    from fleet.cli.commands.waiting import ReplyOptions
    from fleet.cli.commands.waiting import approve as answer

    reply = ReplyOptions(plugin=plugin, message=message, cluster=cluster, rule=rule)
    raise typer.Exit(answer(resolve_connection(api, token_file), what, reply))


def draincluster(*, hub_context: HubContext, cluster: ClusterName, timeout: Timeout = _DEFAULT_TIMEOUT) -> None:
    """Drain a cluster, as KubeFleet's plugin does. Does not ask; `drain` does, and shows the impact."""
    from fleet.cli.clusters.commands import run_drain

    raise typer.Exit(run_drain(_build_compatible(cluster, hub_context, timeout)))


def uncordoncluster(*, hub_context: HubContext, cluster: ClusterName, timeout: Timeout = _DEFAULT_TIMEOUT) -> None:
    """Uncordon a cluster, as KubeFleet's plugin does. Does not ask; `uncordon` does, and shows the impact."""
    from fleet.cli.clusters.commands import run_cordon

    raise typer.Exit(run_cordon(_build_compatible(cluster, hub_context, timeout), cordoned=False))


def _build_change(
    cluster: str,
    *,
    yes: bool,
    dry_run: bool,
    hub: tuple[Path | None, str | None],
    api: tuple[str | None, Path | None],
) -> MaintenanceOptions:
    from fleet.cli.client.hub_access import HubOptions
    from fleet.cli.clusters.commands import MaintenanceOptions

    return MaintenanceOptions(
        cluster=cluster,
        yes=yes,
        dry_run=dry_run,
        hub=HubOptions(kubeconfig=hub[0], context=hub[1]),
        api=select_api(*api, *hub),
    )


def _build_compatible(cluster: str, context: str, timeout: str) -> MaintenanceOptions:
    from fleet.cli.client.hub_access import HubOptions
    from fleet.cli.clusters.commands import MaintenanceOptions

    return MaintenanceOptions(
        cluster=cluster,
        yes=True,
        timeout=_parse_timeout(timeout),
        shows_impact=False,
        hub=HubOptions(context=context),
    )


def _parse_timeout(text: str) -> float:
    from fleet.errors import InputError
    from fleet.model.timestamps import SECOND, parse_duration

    try:
        return parse_duration(text) / SECOND
    except InputError as error:
        raise InputError(error.message, field="--timeout", value=text) from error
