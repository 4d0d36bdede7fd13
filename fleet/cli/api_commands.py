"""Options of the commands that query the API. Their implementations are imported when they run."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fleet.cli.api_options import ApiUrl, TokenFile, resolve_connection, with_hub_options
from fleet.cli.parsing import ASK, TRY, CommandLine

if TYPE_CHECKING:
    from fleet.cli.client.names import PlacementName


class Form(enum.StrEnum):
    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


class LineForm(enum.StrEnum):
    """Of answers without an end, which have a line for each item."""

    TEXT = "text"
    JSON = "json"


class FixSearch(enum.StrEnum):
    NONE = "none"
    FAST = "fast"
    DEEP = "deep"


def _complete_placements(incomplete: str) -> list[str]:
    from fleet.cli.client.name_completion import complete_placements

    return complete_placements(incomplete)


def complete_cluster_names(incomplete: str) -> list[str]:
    from fleet.cli.client.name_completion import complete_clusters

    return complete_clusters(incomplete)


Cursor = Annotated[
    str | None,
    typer.Option(
        "--cursor", metavar="TEXT", help="Continue from the `next` cursor of an earlier answer.", show_default=False
    ),
]
Placement = Annotated[
    str,
    typer.Argument(metavar="PLACEMENT", help="web, or orders/web.", autocompletion=_complete_placements),
]
SomePlacement = Annotated[
    str | None,
    typer.Argument(metavar="PLACEMENT", help="web, or orders/web (default: all).", autocompletion=_complete_placements),
]
Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of the placement.", show_default=False),
]
Output = Annotated[Form, typer.Option("--output", "-o", help="Output format.")]
snapshot = CommandLine(help="Export the scheduler's inputs.")
_UI: Final = """
    fleet ui
    kubectl fleet ui --context prod
"""
_STATUS: Final = """
    fleet status
    fleet status -o json
"""
_WHY: Final = """
    fleet why web
    fleet why orders/web --fixes deep
    fleet why web --cluster cluster-7 --explain
    fleet why web --attempt 3 -o json
"""
_WHY_NOT: Final = """
    fleet why-not cluster-7 web
    fleet why-not cluster-7             every placement: what is there, what is not, and why
"""
_HISTORY: Final = """
    fleet history web
    fleet history web --diff 3..4
"""
_DECISIONS: Final = """
    fleet decisions --follow
    fleet decisions web --since 0 --outcome Unschedulable
"""
_REPLAY: Final = """
    fleet replay --since 1h
    fleet replay --edit 'removeCluster cluster=ams-1'
"""
_EXPORT: Final = """
    fleet snapshot export fleet.json
    fleet simulate --snapshot fleet.json
"""


def add_to(app: CommandLine) -> None:
    app.add(ASK, examples=_STATUS)(with_hub_options(status))
    app.add(ASK, examples=_WHY)(with_hub_options(why))
    app.add(ASK, name="why-not", examples=_WHY_NOT)(with_hub_options(why_not))
    app.add(ASK, examples=_HISTORY)(with_hub_options(history))
    app.add(ASK, examples=_DECISIONS)(with_hub_options(decisions))
    app.add(ASK, examples=_UI)(with_hub_options(ui))
    app.add(TRY, examples=_REPLAY)(with_hub_options(replay))
    snapshot.add(TRY, examples=_EXPORT)(with_hub_options(export))
    app.add_typer(snapshot, name="snapshot", rich_help_panel=TRY)


def status(*, output: Output = Form.TEXT, api: ApiUrl = None, token_file: TokenFile = None) -> None:
    """Show the fleet at a glance. What is short and why, clusters that take no work, and the moves of the last hour.

    Exit codes: 0 all placements have what they want, 1 some lack something, 2 no answer.
    """
    from fleet.cli.commands.status import show_status

    raise typer.Exit(show_status(resolve_connection(api, token_file), output.value))


def ui(
    *,
    opens: Annotated[
        bool | None,
        typer.Option("--open/--no-open", help="Start a browser (default: on a terminal with a screen)."),
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            "--port", metavar="PORT", min=0, max=65535, help="Port of the pages on 127.0.0.1; 0 picks a free port."
        ),
    ] = 0,
    api: ApiUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Open the decision explorer in a browser, by a link that works once.

    With a kubeconfig, serves the pages on 127.0.0.1 until Ctrl-C and asks with your own rights.
    An API with an address of its own, such as that of `fleet up`, serves them itself.

    Exit codes: 0 opened, or stopped by a signal, 2 no answer.
    """
    from fleet.cli.commands.serve.ui import open_explorer

    raise typer.Exit(open_explorer(resolve_connection(api, token_file), port=port, opens=opens))


def why(
    placement: Placement,
    *,
    namespace: Namespace = None,
    attempt: Annotated[
        str | None, typer.Option("--attempt", metavar="N", help="An earlier attempt, by number or id.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="NAME", help="Only this cluster.", autocompletion=complete_cluster_names),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the results of all plugins, not only the first rejection.")
    ] = False,
    fixes: Annotated[FixSearch | None, typer.Option("--fixes", help="Effort to search for fixes.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Show at most N clusters.")] = None,
    cursor: Cursor = None,
    output: Output = Form.TEXT,
    api: ApiUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Explain why a placement is where it is, or is nowhere. Also shows what would change that.

    Exit codes: 0 it is scheduled, 1 it is not, 2 no answer.
    """
    from fleet.cli.commands.why import WhyOptions
    from fleet.cli.commands.why import why as answer

    options = WhyOptions(
        attempt=attempt,
        cluster=cluster,
        everything=explain,
        fixes=None if fixes is None else fixes.value,
        limit=limit,
        cursor=cursor,
    )
    name = _placement(placement, namespace)
    raise typer.Exit(answer(resolve_connection(api, token_file), name, options, form=output.value))


def why_not(
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", autocompletion=complete_cluster_names)],
    placement: SomePlacement = None,
    *,
    namespace: Namespace = None,
    fixes: Annotated[FixSearch | None, typer.Option("--fixes", help="Effort to search for fixes.")] = None,
    output: Output = Form.TEXT,
    api: ApiUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Explain what keeps a placement off a cluster. For a cluster that fits: how far it is from being picked.
    Without a placement: what is on the cluster, what is not, and why.

    Exit codes: 0 the placement is scheduled, or none was named; 1 it is not; 2 no answer.
    """
    from fleet.cli.commands.why import why_not as answer

    if placement is None:
        from fleet.cli.commands.status import show_cluster

        raise typer.Exit(show_cluster(resolve_connection(api, token_file), cluster, output.value))
    name = _placement(placement, namespace)
    chosen = None if fixes is None else fixes.value
    raise typer.Exit(answer(resolve_connection(api, token_file), cluster, name, fixes=chosen, form=output.value))


def history(
    placement: Placement,
    *,
    namespace: Namespace = None,
    diff: Annotated[str | None, typer.Option("--diff", metavar="A..B", help="Compare two attempts.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Show at most N attempts.")] = None,
    cursor: Cursor = None,
    output: Output = Form.TEXT,
    api: ApiUrl = None,
    token_file: TokenFile = None,
) -> None:
    """List the decisions for a placement, or compare two of them."""
    from fleet.cli.commands.why import history as answer

    name = _placement(placement, namespace)
    connection = resolve_connection(api, token_file)
    raise typer.Exit(answer(connection, name, diff=diff, limit=limit, cursor=cursor, form=output.value))


def decisions(
    placement: SomePlacement = None,
    *,
    namespace: Namespace = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new decisions until Ctrl-C.")] = False,
    since: Annotated[
        int | None,
        typer.Option("--since", min=0, metavar="SEQ", help="Decisions after this sequence number; 0: all recorded."),
    ] = None,
    outcome: Annotated[
        str | None,
        typer.Option("--outcome", metavar="NAME", help="Only decisions with this outcome, such as Unschedulable."),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Stop after N.")] = None,
    output: Annotated[LineForm, typer.Option("--output", "-o", help="Output format.")] = LineForm.TEXT,
    api: ApiUrl = None,
    token_file: TokenFile = None,
) -> None:
    """List decisions in the order they were made, one per line."""
    from fleet.cli.commands.decisions import DecisionsOptions, show_decisions

    selection = DecisionsOptions(
        placement=None if placement is None else _placement(placement, namespace),
        outcome=outcome,
        since=since,
        limit=limit,
        follow=follow,
    )
    raise typer.Exit(show_decisions(resolve_connection(api, token_file), selection, as_json=output is LineForm.JSON))


def replay(
    attempts: Annotated[
        list[str] | None, typer.Argument(metavar="ATTEMPT", help="Attempt ids, as in history -o json (default: all).")
    ] = None,
    *,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="TIME", help="Only decisions since this RFC 3339 time, or within a duration, such as 1h."
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Replay at most N.")] = None,
    edits: Annotated[
        list[str] | None,
        typer.Option("--edit", metavar="EDIT", help="An edit such as `setCount value=4`, or JSON; repeatable."),
    ] = None,
    output: Output = Form.TEXT,
    api: ApiUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Replay recorded decisions, unchanged or with edits.

    Exit codes: 0 all match the record, or edits were given; 1 some differ; 2 no answer.
    """
    from fleet.cli.commands.simulation.replay import ReplayOptions
    from fleet.cli.commands.simulation.replay import replay as answer

    past = ReplayOptions(attempts=attempts or (), since=since, limit=limit, edits=edits or ())
    raise typer.Exit(answer(resolve_connection(api, token_file), past, form=output.value))


def export(
    file: Annotated[str, typer.Argument(metavar="FILE", help="File to write; - for standard output.")],
    *,
    anonymize: Annotated[
        bool,
        typer.Option("--anonymize", help="Replace names and label values. Decisions stay the same."),
    ] = False,
    api: ApiUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Write the current clusters, placements and settings to a file, for simulations without the hub."""
    from fleet.cli.commands.simulation.snapshot import export_snapshot

    raise typer.Exit(export_snapshot(resolve_connection(api, token_file), file, anonymize=anonymize))


def _placement(text: str, namespace: str | None) -> PlacementName:
    from fleet.cli.client.names import PlacementName

    return PlacementName.parse(text, namespace)
