"""`fleet decisions`: decisions line by line as they are made, for as long as somebody watches.

The API ends every stream after a while and expects its readers to come back. Each line says how far they are, so it is
read as JSON even where people get words: nothing is lost, and nothing told twice.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from fleet.cli.client.connection import Connection
from fleet.cli.client.placement_names import PlacementName
from fleet.cli.client.requests import LINES, Interrupted, Question, Refusal, pieces
from fleet.cli.commands.why import FINE, write_text

Decision = dict[str, Any]

_PAUSE: Final = 1.0
"""Seconds between two streams."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """As it stands on the command line."""

    placement: PlacementName | None = None
    outcome: str | None = None
    since: int | None = None
    limit: int | None = None
    follow: bool = False


def show_decisions(
    connection: Connection, selection: Selection, *, as_json: bool, pause: Callable[[float], None] = time.sleep
) -> int:
    """Until all is told; when following, until Ctrl-C."""
    try:
        for one in _decisions(connection, selection, pause):
            if as_json:
                sys.stdout.write(json.dumps(one, ensure_ascii=False) + "\n")
                sys.stdout.flush()
            else:
                write_text(decision_text(one))
    except KeyboardInterrupt:
        if not selection.follow:
            raise
    return FINE


def decision_text(decision: Decision) -> str:
    """`2026-03-02T09:14:03Z  orders/web: Selected, ams-1, dub-1 [MemberCluster/Add dub-1]`"""
    names = [str(target["cluster"]) for target in decision.get("targets") or ()]
    hidden = decision.get("redacted") or 0
    if hidden:
        names.append(f"{hidden} that you may not read")
    because = ", ".join(decision.get("triggers") or ())
    outcome = decision.get("outcome") or decision.get("ending")
    error = f": {decision['error']}" if decision.get("error") else ""
    reason = f" [{because}]" if because else ""
    in_use = decision.get("active")
    chosen = ", ".join(names) or (f"no new cluster, {in_use} in use" if in_use else "no cluster")
    about = decision["key"] or "a placement you may not read"
    return f"{decision['at']}  {about}: {outcome}{error}, {chosen}{reason}"


def _decisions(connection: Connection, selection: Selection, pause: Callable[[float], None]) -> Iterator[Decision]:
    while True:
        try:
            for one in _stream(connection, selection):
                yield one
                selection = _after(selection, one)
                if selection.limit == 0:
                    return
        except Interrupted:
            if not selection.follow:
                raise
        if not selection.follow:
            return
        pause(_PAUSE)


def _after(selection: Selection, told: Decision) -> Selection:
    """What is still to be told."""
    left = None if selection.limit is None else selection.limit - 1
    return replace(selection, since=told["seq"], limit=left)


def _stream(connection: Connection, selection: Selection) -> Iterator[Decision]:
    query = {
        "since": selection.since,
        "placement": selection.placement.key if selection.placement else None,
        "outcome": selection.outcome,
        "limit": selection.limit,
        "follow": "true" if selection.follow else None,
    }
    with pieces(connection, Question(path="/v1/decisions", query=query), accept=LINES) as found:
        for line in _lines(found):
            yield _read(line, connection)


def _lines(found: Iterator[bytes]) -> Iterator[bytes]:
    """An empty line only says that the API is alive; half a line is what a broken connection leaves."""
    rest = b""
    for piece in found:
        *whole, rest = (rest + piece).split(b"\n")
        yield from filter(None, whole)


def _read(line: bytes, connection: Connection) -> Decision:
    try:
        decision = json.loads(line)
    except ValueError:
        decision = None
    if not isinstance(decision, dict) or "seq" not in decision:
        raise Refusal(f"{connection.url} does not speak as the API of Fleet does: {line[:80]!r}")
    return decision
