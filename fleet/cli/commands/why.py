"""Questions about placements and decisions: what is asked, how the answer is shown, and which exit code it makes.

Texts are the API's own. Exit codes do not depend on them, because texts are for people: beside a text the API says in
a header how the placement is. Where the header got lost on the way, the answer is asked for in JSON as well.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from fleet.cli.client.connection import Connection
from fleet.cli.client.placement_names import PlacementName
from fleet.cli.client.requests import PATIENCE, Question, Refusal, ask_json, ask_text
from fleet.errors import InputError

FINE: Final = 0
NOT_SO: Final = 1
SCHEDULED: Final = "Scheduled"
_NOT_FOUND: Final = 404
_TWO_ATTEMPTS: Final = re.compile(r"[0-9]{1,18}\.\.[0-9]{1,18}")
_CONTROLS: Final = {*range(32), *range(127, 160)} - {*map(ord, "\t\n")}
_UNPRINTABLE: Final = dict.fromkeys(_CONTROLS, "\N{REPLACEMENT CHARACTER}")
_MOST_NAMES: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """As it stands on the command line."""

    attempt: str | None = None
    cluster: str | None = None
    everything: bool = False
    fixes: str | None = None
    limit: int | None = None
    cursor: str | None = None


def why(connection: Connection, placement: PlacementName, options: Why, *, as_json: bool) -> int:
    query = {
        "attempt": options.attempt,
        "cluster": options.cluster,
        "explain": "all" if options.everything else None,
        "fixes": options.fixes,
        "limit": options.limit,
        "cursor": options.cursor,
    }
    return _about(connection, placement, Question(path=f"{placement.path}/why", query=query), as_json=as_json)


def why_not(connection: Connection, cluster: str, placement: PlacementName, *, fixes: str | None, as_json: bool) -> int:
    path = f"/v1/clusters/{quote(cluster, safe='')}/why-not"
    question = Question(path=path, query={"placement": placement.key, "fixes": fixes})
    try:
        return _about(connection, placement, question, as_json=as_json)
    except Refusal as refusal:
        raise _with_cluster_meant(refusal, connection, cluster, placement) from refusal


def history(
    connection: Connection,
    placement: PlacementName,
    *,
    diff: str | None,
    limit: int | None,
    cursor: str | None,
    as_json: bool,
) -> int:
    if diff is not None and not _TWO_ATTEMPTS.fullmatch(diff):
        raise InputError(f"{diff!r} does not name two attempts; write their numbers, as 3..4", field="--diff")
    query = {"diff": diff, "limit": limit, "cursor": cursor}
    question = Question(path=f"{placement.path}/history", query=query)
    try:
        if as_json:
            write_json(ask_json(connection, question))
        else:
            write_text(ask_text(connection, question).content)
    except Refusal as refusal:
        raise _with_suggestion(refusal, connection, placement) from refusal
    return FINE


def show_text(connection: Connection, question: Question) -> str:
    """Returns the state of the placement, which is asked for again where it did not come with the text."""
    text = ask_text(connection, question)
    write_text(text.content)
    return text.state or state_in(ask_json(connection, question), connection)


def exit_code(state: str) -> int:
    """Whether a placement is, or would be, where it should be."""
    return FINE if state == SCHEDULED else NOT_SO


def state_in(found: Any, connection: Connection) -> str:
    """Of an answer with a verdict, or of a simulation, which has such an answer in it."""
    try:
        state = found.get("answer", found)["verdict"]["state"]
    except (AttributeError, KeyError, TypeError):
        state = None
    if not isinstance(state, str) or not state:
        raise Refusal(f"{connection.url} does not say how the placement is: no verdict.state in its answer")
    return state


# --- output ---------------------------------------------------------------------------------------------------------


def write_text(text: str) -> None:
    """Nothing that an object says may steer a terminal."""
    text = text.translate(_UNPRINTABLE)
    sys.stdout.write(text if text.endswith("\n") or not text else f"{text}\n")
    sys.stdout.flush()


def write_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def write_yaml(value: Any) -> None:
    import yaml

    sys.stdout.write(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))


# --- inside ---------------------------------------------------------------------------------------------------------


def _about(connection: Connection, placement: PlacementName, question: Question, *, as_json: bool) -> int:
    try:
        if not as_json:
            return exit_code(show_text(connection, question))
        found = ask_json(connection, question)
    except Refusal as refusal:
        raise _with_suggestion(refusal, connection, placement) from refusal
    write_json(found)
    return exit_code(state_in(found, connection))


def _with_suggestion(refusal: Refusal, connection: Connection, placement: PlacementName) -> Refusal:
    """A name that was misspelt is the most frequent reason why nothing is found."""
    if refusal.status != _NOT_FOUND:
        return refusal
    from fleet.cli.input.problems import nearest

    try:
        known = placement_names(connection)
    except Refusal:
        return refusal
    meant = None if placement.key in known else nearest(placement.key, known)
    return Refusal(f"{refusal}\nnext: did you mean {meant}?", status=refusal.status) if meant else refusal


def _with_cluster_meant(refusal: Refusal, connection: Connection, cluster: str, placement: PlacementName) -> Refusal:
    """A cluster that is not there may be misspelt, or the two names may have changed places."""
    if refusal.status != _NOT_FOUND:
        return refusal
    from fleet.cli.input.problems import nearest

    try:
        known = cluster_names(connection)
        if placement.key in known and cluster in placement_names(connection):
            step = f"the cluster comes first: did you mean `fleet why-not {placement.key} {cluster}`?"
            return Refusal(f"{cluster} is no cluster, but a placement\nnext: {step}", status=refusal.status)
    except Refusal:
        return refusal
    meant = None if cluster in known else nearest(cluster, known)
    return Refusal(f"{refusal}\nnext: did you mean {meant}?", status=refusal.status) if meant else refusal


def placement_names(connection: Connection, *, patience: float = PATIENCE) -> list[str]:
    """Of the first page of them, which is enough for suggestions."""
    return _names(connection, "/v1/placements", "key", patience)


def cluster_names(connection: Connection, *, patience: float = PATIENCE) -> list[str]:
    return _names(connection, "/v1/clusters", "name", patience)


def _names(connection: Connection, path: str, part: str, patience: float) -> list[str]:
    page = ask_json(connection, Question(path=path, query={"limit": _MOST_NAMES}), patience=patience)
    items = page.get("items") if isinstance(page, dict) else None
    return [str(one[part]) for one in items or () if isinstance(one, dict) and part in one]
