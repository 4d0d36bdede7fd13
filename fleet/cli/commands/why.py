"""`fleet why`, `why-not` and `history`: requests to the API, output and exit codes.

On a terminal an answer is rendered here, as wide as the terminal and with its colors; elsewhere its text comes from the
API, which says the same. Exit codes do not depend on the text: the API also sends the placement's state in a
header. If the header is missing, the answer is requested again as JSON.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from fleet.cli.client.connection import ApiConnection
from fleet.cli.client.name_completion import cluster_names, placement_names
from fleet.cli.client.names import PlacementName
from fleet.cli.client.requests import ApiRefusal, ApiRequest, build_mismatch, fetch_json, fetch_text
from fleet.cli.output.console import TEXT, page_of, write_document, write_text
from fleet.errors import InputError

if TYPE_CHECKING:
    from api.why_models import WhyAnswer
    from fleet.text_table import Page

Render = Callable[["WhyAnswer", "Page"], str]

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


def why(connection: ApiConnection, placement: PlacementName, options: WhyOptions, *, form: str) -> int:
    query = {
        "attempt": options.attempt,
        "cluster": options.cluster,
        "explain": "all" if options.everything else None,
        "fixes": options.fixes,
        "limit": options.limit,
        "cursor": options.cursor,
    }
    render: Render = partial(_render_why, is_about_cluster=options.cluster is not None)
    return _answer(connection, placement, ApiRequest(path=f"{placement.path}/why", query=query), render, form=form)


def why_not(connection: ApiConnection, cluster: str, placement: PlacementName, *, fixes: str | None, form: str) -> int:
    path = f"/v1/clusters/{quote(cluster, safe='')}/why-not"
    question = ApiRequest(path=path, query={"placement": placement.key, "fixes": fixes})
    try:
        return _answer(connection, placement, question, _render_why_not, form=form)
    except ApiRefusal as refusal:
        raise suggest_cluster(refusal, connection, cluster, placement) from refusal


def history(
    connection: ApiConnection,
    placement: PlacementName,
    *,
    diff: str | None,
    limit: int | None,
    cursor: str | None,
    form: str,
) -> int:
    if diff is not None and not _TWO_ATTEMPTS.fullmatch(diff):
        raise InputError(f"{diff!r} does not name two attempts; write their numbers, such as 3..4", field="--diff")
    query = {"diff": diff, "limit": limit, "cursor": cursor}
    question = ApiRequest(path=f"{placement.path}/history", query=query)
    try:
        if form == TEXT:
            write_text(fetch_text(connection, question).content)
        else:
            write_document(fetch_json(connection, question), form)
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
        raise build_mismatch(connection, "its response has no verdict.state")
    return state


# --- internals ------------------------------------------------------------------------------------------------------


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _render_why(answer: WhyAnswer, page: Page, *, is_about_cluster: bool) -> str:
    from api.text.why import render_why

    return render_why(answer, is_about_cluster=is_about_cluster, page=page)


def _render_why_not(answer: WhyAnswer, page: Page) -> str:
    from api.text.why import render_why_not

    return render_why_not(answer, page=page)


def _render_here(connection: ApiConnection, question: ApiRequest, render: Render) -> str | None:
    """Returns the state of the placement; None if this answer is not one that can be rendered here, such as that of an
    API of another version."""
    import msgspec

    from api.why_models import WhyAnswer

    answer = fetch_json(connection, question)
    try:
        known = msgspec.convert(answer, WhyAnswer)
    except msgspec.ValidationError:
        return None
    sys.stdout.write(render(known, page_of(sys.stdout)))
    sys.stdout.flush()
    return known.verdict.state


def _answer(
    connection: ApiConnection, placement: PlacementName, question: ApiRequest, render: Render, *, form: str
) -> int:
    try:
        if form == TEXT and _is_terminal():
            state = _render_here(connection, question, render)
            if state is not None:
                return exit_code(state)
        if form == TEXT:
            return exit_code(print_text(connection, question))
        answer = fetch_json(connection, question)
    except ApiRefusal as refusal:
        raise _suggest_placement(refusal, connection, placement) from refusal
    write_document(answer, form)
    return exit_code(read_state(answer, connection))


def _suggest_placement(refusal: ApiRefusal, connection: ApiConnection, placement: PlacementName) -> ApiRefusal:
    """Suggest a placement with a similar name."""
    if refusal.status != _NOT_FOUND:
        return refusal
    from fleet.similarity import CLOSE, nearest

    try:
        known = placement_names(connection)
    except ApiRefusal:
        return refusal
    match = None if placement.key in known else nearest(placement.key, known, cutoff=CLOSE)
    return _replace_step(refusal, f"did you mean {match}?") if match else refusal


def suggest_cluster(
    refusal: ApiRefusal, connection: ApiConnection, cluster: str, placement: PlacementName | None = None
) -> ApiRefusal:
    """Suggest a cluster with a similar name, or swapped arguments."""
    if refusal.status != _NOT_FOUND:
        return refusal
    from fleet.similarity import CLOSE, nearest

    try:
        known = cluster_names(connection)
        if (placement is None or placement.key in known) and cluster in placement_names(connection):
            step = f"`fleet why {cluster}`"
            if placement is not None:
                step = f"the cluster comes first: did you mean `fleet why-not {placement.key} {cluster}`?"
            return ApiRefusal(f"{cluster} is a placement, not a cluster\nnext: {step}", status=refusal.status)
    except ApiRefusal:
        return refusal
    match = None if cluster in known else nearest(cluster, known, cutoff=CLOSE)
    return _replace_step(refusal, f"did you mean {match}?") if match else refusal


def _replace_step(refusal: ApiRefusal, step: str) -> ApiRefusal:
    """A likely name is a better next step than a list of all."""
    problem = str(refusal).partition("\nnext:")[0]
    return ApiRefusal(f"{problem}\nnext: {step}", status=refusal.status)
