"""`fleet why`, `why-not` and `history`: requests to the API, output and exit codes.

Text output is rendered by the API. Exit codes do not depend on the text: the API also sends the placement's state in a
header. If the header is missing, the answer is requested again as JSON.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from fleet.cli.client.connection import ApiConnection
from fleet.cli.client.name_completion import cluster_names, placement_names
from fleet.cli.client.names import PlacementName
from fleet.cli.client.requests import ApiRefusal, ApiRequest, fetch_json, fetch_text
from fleet.cli.output.console import write_json, write_text
from fleet.errors import InputError

SUCCESS: Final = 0
NOT_SCHEDULED: Final = 1
SCHEDULED: Final = "Scheduled"
_NOT_FOUND: Final = 404
_TWO_ATTEMPTS: Final = re.compile(r"[0-9]{1,18}\.\.[0-9]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyOptions:
    """The options of the command line."""

    attempt: str | None = None
    cluster: str | None = None
    everything: bool = False
    fixes: str | None = None
    limit: int | None = None
    cursor: str | None = None


def why(connection: ApiConnection, placement: PlacementName, options: WhyOptions, *, as_json: bool) -> int:
    query = {
        "attempt": options.attempt,
        "cluster": options.cluster,
        "explain": "all" if options.everything else None,
        "fixes": options.fixes,
        "limit": options.limit,
        "cursor": options.cursor,
    }
    return _answer(connection, placement, ApiRequest(path=f"{placement.path}/why", query=query), as_json=as_json)


def why_not(
    connection: ApiConnection, cluster: str, placement: PlacementName, *, fixes: str | None, as_json: bool
) -> int:
    path = f"/v1/clusters/{quote(cluster, safe='')}/why-not"
    question = ApiRequest(path=path, query={"placement": placement.key, "fixes": fixes})
    try:
        return _answer(connection, placement, question, as_json=as_json)
    except ApiRefusal as refusal:
        raise _suggest_cluster(refusal, connection, cluster, placement) from refusal


def history(
    connection: ApiConnection,
    placement: PlacementName,
    *,
    diff: str | None,
    limit: int | None,
    cursor: str | None,
    as_json: bool,
) -> int:
    if diff is not None and not _TWO_ATTEMPTS.fullmatch(diff):
        raise InputError(f"{diff!r} does not name two attempts; write their numbers, such as 3..4", field="--diff")
    query = {"diff": diff, "limit": limit, "cursor": cursor}
    question = ApiRequest(path=f"{placement.path}/history", query=query)
    try:
        if as_json:
            write_json(fetch_json(connection, question))
        else:
            write_text(fetch_text(connection, question).content)
    except ApiRefusal as refusal:
        raise _suggest_placement(refusal, connection, placement) from refusal
    return SUCCESS


def print_text(connection: ApiConnection, question: ApiRequest) -> str:
    """Returns the state of the placement; requested again as JSON if the header is missing."""
    text = fetch_text(connection, question)
    write_text(text.content)
    return text.state or read_state(fetch_json(connection, question), connection)


def exit_code(state: str) -> int:
    """Whether a placement is, or would be, scheduled."""
    return SUCCESS if state == SCHEDULED else NOT_SCHEDULED


def read_state(answer: Any, connection: ApiConnection) -> str:
    """The state in an answer with a verdict, or in a simulation that contains such an answer."""
    try:
        state = answer.get("answer", answer)["verdict"]["state"]
    except (AttributeError, KeyError, TypeError):
        state = None
    if not isinstance(state, str) or not state:
        raise ApiRefusal(f"{connection.url} is not a Fleet API: its response has no verdict.state")
    return state


# --- internals ------------------------------------------------------------------------------------------------------


def _answer(connection: ApiConnection, placement: PlacementName, question: ApiRequest, *, as_json: bool) -> int:
    try:
        if not as_json:
            return exit_code(print_text(connection, question))
        answer = fetch_json(connection, question)
    except ApiRefusal as refusal:
        raise _suggest_placement(refusal, connection, placement) from refusal
    write_json(answer)
    return exit_code(read_state(answer, connection))


def _suggest_placement(refusal: ApiRefusal, connection: ApiConnection, placement: PlacementName) -> ApiRefusal:
    """Suggest a placement with a similar name."""
    if refusal.status != _NOT_FOUND:
        return refusal
    from fleet.cli.input.problems import nearest

    try:
        known = placement_names(connection)
    except ApiRefusal:
        return refusal
    match = None if placement.key in known else nearest(placement.key, known)
    return ApiRefusal(f"{refusal}\nnext: did you mean {match}?", status=refusal.status) if match else refusal


def _suggest_cluster(
    refusal: ApiRefusal, connection: ApiConnection, cluster: str, placement: PlacementName
) -> ApiRefusal:
    """Suggest a cluster with a similar name, or swapped arguments."""
    if refusal.status != _NOT_FOUND:
        return refusal
    from fleet.cli.input.problems import nearest

    try:
        known = cluster_names(connection)
        if placement.key in known and cluster in placement_names(connection):
            step = f"the cluster comes first: did you mean `fleet why-not {placement.key} {cluster}`?"
            return ApiRefusal(f"{cluster} is a placement, not a cluster\nnext: {step}", status=refusal.status)
    except ApiRefusal:
        return refusal
    match = None if cluster in known else nearest(cluster, known)
    return ApiRefusal(f"{refusal}\nnext: did you mean {match}?", status=refusal.status) if match else refusal
