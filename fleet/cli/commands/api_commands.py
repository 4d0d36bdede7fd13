"""The commands that ask the API, and their options. What they do is imported when they run."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fleet.cli.client.connection import Connection
    from fleet.cli.client.placement_names import PlacementName


class Form(enum.StrEnum):
    TEXT = "text"
    JSON = "json"


class Fixes(enum.StrEnum):
    NONE = "none"
    FAST = "fast"
    DEEP = "deep"


def _complete_placements(incomplete: str) -> list[str]:
    from fleet.cli.client.name_completion import placements

    return placements(incomplete)


def _complete_clusters(incomplete: str) -> list[str]:
    from fleet.cli.client.name_completion import clusters

    return clusters(incomplete)


Api = Annotated[
    str | None,
    typer.Option("--api", metavar="URL", help="Where the API is; else FLEET_API, else the last `fleet up`."),
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="What opens it; else FLEET_TOKEN_FILE, else of `fleet up`."),
]
Placement = Annotated[
    str,
    typer.Argument(metavar="PLACEMENT", help="web, or orders/web.", autocompletion=_complete_placements),
]
SomePlacement = Annotated[
    str | None,
    typer.Argument(metavar="[PLACEMENT]", help="web, or orders/web; all without.", autocompletion=_complete_placements),
]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", metavar="NAME", help="As in orders/web.", show_default=False)
]
Output = Annotated[Form, typer.Option("--output", "-o", help="How to answer.")]
snapshot = typer.Typer(help="What the scheduler decides on.", no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    app.command()(why)
    app.command()(why_not)
    app.command()(history)
    app.command()(decisions)
    app.command()(replay)
    app.add_typer(snapshot, name="snapshot")


def why(
    placement: Placement,
    *,
    namespace: Namespace = None,
    attempt: Annotated[
        str | None, typer.Option("--attempt", metavar="N", help="An earlier attempt, by number or id.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="NAME", help="Only this cluster.", autocompletion=_complete_clusters),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="What every plugin says, not only the first.")] = False,
    fixes: Annotated[Fixes | None, typer.Option("--fixes", help="How hard to look for what would help.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="So many clusters.")] = None,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="TEXT", help="Go on where an answer ended.", show_default=False)
    ] = None,
    output: Output = Form.TEXT,
    api: Api = None,
    token_file: TokenFile = None,
) -> None:
    """Say why a placement is where it is, or nowhere, and what would change that.

    Exit codes: 0 it is scheduled, 1 it is not, 2 there is no answer.
    """
    from fleet.cli.commands.why import Why
    from fleet.cli.commands.why import why as answer

    options = Why(
        attempt=attempt,
        cluster=cluster,
        everything=explain,
        fixes=None if fixes is None else fixes.value,
        limit=limit,
        cursor=cursor,
    )
    asked = _placement(placement, namespace)
    raise typer.Exit(answer(connection_of(api, token_file), asked, options, as_json=output is Form.JSON))


def why_not(
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", autocompletion=_complete_clusters)],
    placement: Placement,
    *,
    namespace: Namespace = None,
    fixes: Annotated[Fixes | None, typer.Option("--fixes", help="How hard to look for what would help.")] = None,
    output: Output = Form.TEXT,
    api: Api = None,
    token_file: TokenFile = None,
) -> None:
    """Say what keeps a placement from a cluster, or how far the cluster is from being picked.

    Exit codes: 0 the placement is scheduled, 1 it is not, 2 there is no answer.
    """
    from fleet.cli.commands.why import why_not as answer

    asked = _placement(placement, namespace)
    chosen = None if fixes is None else fixes.value
    as_json = output is Form.JSON
    raise typer.Exit(answer(connection_of(api, token_file), cluster, asked, fixes=chosen, as_json=as_json))


def history(
    placement: Placement,
    *,
    namespace: Namespace = None,
    diff: Annotated[
        str | None, typer.Option("--diff", metavar="A..B", help="What changed from one attempt to another.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="So many attempts.")] = None,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="TEXT", help="Go on where an answer ended.", show_default=False)
    ] = None,
    output: Output = Form.TEXT,
    api: Api = None,
    token_file: TokenFile = None,
) -> None:
    """List the decisions about a placement, or compare two of them."""
    from fleet.cli.commands.why import history as answer

    asked = _placement(placement, namespace)
    as_json = output is Form.JSON
    raise typer.Exit(
        answer(connection_of(api, token_file), asked, diff=diff, limit=limit, cursor=cursor, as_json=as_json)
    )


def decisions(
    placement: SomePlacement = None,
    *,
    namespace: Namespace = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as decisions are made, until Ctrl-C.")] = False,
    since: Annotated[
        int | None, typer.Option("--since", min=0, metavar="SEQ", help="Those after this one; 0: all that are kept.")
    ] = None,
    outcome: Annotated[
        str | None, typer.Option("--outcome", metavar="NAME", help="Only those, as Unschedulable.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="End after so many.")] = None,
    output: Output = Form.TEXT,
    api: Api = None,
    token_file: TokenFile = None,
) -> None:
    """List decisions as they were made, one in a line."""
    from fleet.cli.commands.decisions import Selection, show_decisions

    selection = Selection(
        placement=None if placement is None else _placement(placement, namespace),
        outcome=outcome,
        since=since,
        limit=limit,
        follow=follow,
    )
    raise typer.Exit(show_decisions(connection_of(api, token_file), selection, as_json=output is Form.JSON))


def replay(
    attempts: Annotated[
        list[str] | None, typer.Argument(metavar="[ATTEMPT]", help="Ids, as history -o json has them; all without.")
    ] = None,
    *,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Those made since then, in RFC 3339.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="So many at most.")] = None,
    edits: Annotated[
        list[str] | None,
        typer.Option("--edit", metavar="EDIT", help="As `setCount value=4`, or in JSON; repeatable."),
    ] = None,
    output: Output = Form.TEXT,
    api: Api = None,
    token_file: TokenFile = None,
) -> None:
    """Decide recorded decisions again: unchanged to prove the record, or with edits to rehearse them.

    Exit codes: 0 all came out as recorded, or were rehearsed; 1 some did not; 2 there is no answer.
    """
    from fleet.cli.commands.replay import Past
    from fleet.cli.commands.replay import replay as answer

    past = Past(attempts=attempts or (), since=since, limit=limit, edits=edits or ())
    raise typer.Exit(answer(connection_of(api, token_file), past, as_json=output is Form.JSON))


@snapshot.command()
def export(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where to write it; - for standard output.")],
    *,
    anonymize: Annotated[
        bool,
        typer.Option("--anonymize", help="With other names, and other values of labels. Decisions stay the same."),
    ] = False,
    api: Api = None,
    token_file: TokenFile = None,
) -> None:
    """Write clusters, placements and settings as they are now into one file, for trying things without the hub."""
    from fleet.cli.commands.snapshot_export import export_snapshot

    raise typer.Exit(export_snapshot(connection_of(api, token_file), file, anonymize=anonymize))


def connection_of(api: str | None, token_file: Path | None) -> Connection:
    from fleet.cli.client.connection import Wanted, find_connection

    return find_connection(Wanted(api=api, token_file=token_file))


def _placement(text: str, namespace: str | None) -> PlacementName:
    from fleet.cli.client.placement_names import PlacementName

    return PlacementName.read(text, namespace)
