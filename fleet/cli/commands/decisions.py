"""`fleet decisions`: decisions as they are made, one per line.

The API ends every stream after a while, and clients reconnect. The stream is read as JSON even for text output, because
each JSON line has the position at which to resume: no decision is lost or printed twice.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from fleet.cli.client.connection import ApiConnection
from fleet.cli.client.names import PlacementName
from fleet.cli.client.requests import LINES, ApiRequest, StreamInterrupted, build_mismatch, open_stream
from fleet.cli.commands.why import SUCCESS
from fleet.cli.output.console import write_text

Decision = dict[str, Any]

_PAUSE: Final = 1.0
"""Seconds between two streams."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionsOptions:
    """The options of the command line."""

    placement: PlacementName | None = None
    outcome: str | None = None
    since: int | None = None
    limit: int | None = None
    follow: bool = False


def show_decisions(
    connection: ApiConnection,
    selection: DecisionsOptions,
    *,
    as_json: bool,
    pause: Callable[[float], None] = time.sleep,
) -> int:
    """Print all decisions; when following, until Ctrl-C."""
    try:
        for decision in _follow(connection, selection, pause):
            if as_json:
                sys.stdout.write(json.dumps(decision, ensure_ascii=False) + "\n")
                sys.stdout.flush()
            else:
                write_text(render_decision(decision))
    except KeyboardInterrupt:
        if not selection.follow:
            raise
    return SUCCESS


def render_decision(decision: Decision) -> str:
    """`2026-03-02T09:14:03Z  orders/web: Selected, ams-1, dub-1 [MemberCluster/Add dub-1]`"""
    names = [str(target["cluster"]) for target in decision.get("targets") or ()]
    hidden = decision.get("redacted") or 0
    if hidden:
        names.append(f"{hidden} that you may not read")
    because = ", ".join(decision.get("triggers") or ())
    outcome = decision.get("result") or decision.get("outcome") or decision.get("ending")
    error = f": {decision['error']}" if decision.get("error") else ""
    reason = f" [{because}]" if because else ""
    in_use = decision.get("active")
    chosen = ", ".join(names) or (f"no new cluster, {in_use} in use" if in_use else "no cluster")
    about = decision["key"] or "a placement you may not read"
    return f"{decision['at']}  {about}: {outcome}{error}, {chosen}{reason}"


def _follow(
    connection: ApiConnection, selection: DecisionsOptions, pause: Callable[[float], None]
) -> Iterator[Decision]:
    while True:
        try:
            for decision in _stream(connection, selection):
                yield decision
                selection = _advance(selection, decision)
                if selection.limit == 0:
                    return
        except StreamInterrupted:
            if not selection.follow:
                raise
        if not selection.follow:
            return
        pause(_PAUSE)


def _advance(selection: DecisionsOptions, decision: Decision) -> DecisionsOptions:
    """The remaining selection after a decision."""
    left = None if selection.limit is None else selection.limit - 1
    return replace(selection, since=decision["seq"], limit=left)


def _stream(connection: ApiConnection, selection: DecisionsOptions) -> Iterator[Decision]:
    query = {
        "since": selection.since,
        "placement": selection.placement.key if selection.placement else None,
        "outcome": selection.outcome,
        "limit": selection.limit,
        "follow": "true" if selection.follow else None,
    }
    request = ApiRequest(path="/v1/decisions", query=query, follows=selection.follow)
    with open_stream(connection, request, accept=LINES) as chunks:
        for line in _split_lines(chunks):
            yield _parse_decision(line, connection)


def _split_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Complete lines. Empty lines are keep-alives; a broken connection may leave an incomplete one."""
    rest = b""
    for piece in chunks:
        *whole, rest = (rest + piece).split(b"\n")
        yield from filter(None, whole)


def _parse_decision(line: bytes, connection: ApiConnection) -> Decision:
    try:
        decision = json.loads(line)
    except ValueError:
        decision = None
    if not isinstance(decision, dict) or "seq" not in decision:
        raise build_mismatch(connection, repr(line[:80]))
    return decision
