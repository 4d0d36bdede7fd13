"""The impact of a change of a cluster, shown before the command asks."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import Any

from fleet.cli.client.connection import ApiConnection, ConnectionOptions, find_connection
from fleet.cli.client.requests import ApiRequest, fetch_json
from fleet.cli.output.console import print_text
from fleet.errors import ConfigurationError, FleetError, InputError

Json = dict[str, Any]


def print_impact(wanted: ConnectionOptions, edits: Sequence[Json]) -> None:
    """Without an API, or without the right to ask it, what is not known is stated: the change itself needs neither."""
    try:
        impact = _fetch_impact(find_connection(wanted), edits)
    except FleetError as error:
        if wanted.api is not None and isinstance(error, ConfigurationError):
            raise
        reason = str(error).partition("\nnext:")[0]
        sys.stderr.write(f"note: the impact is not known: {reason}\n")
        return
    if impact is None:
        print_text("there are no placements, so nothing moves")
        return
    from msgspec import ValidationError, convert

    from fleet.explain.answer.comparisons import render_impact
    from fleet.explain.whatif.impact import Impact

    try:
        known = convert(impact, Impact)
        moves = known.moved or known.redacted or known.truncated
        nothing = f"nothing moves: {known.placements} placements were decided, with the same result"
        print_text(render_impact(known).rstrip("\n") if moves else nothing)
    except ValidationError as error:
        sys.stderr.write(f"note: the impact is not known: the API is of another version: {error}\n")


def _fetch_impact(connection: ApiConnection, edits: Sequence[Json]) -> Json | None:
    """None where there are no placements. Any placement will do to ask: the impact is on all."""
    page = fetch_json(connection, ApiRequest(path="/v1/placements", query={"limit": 1}))
    if not page["items"]:
        return None
    body = {"placement": {"ref": page["items"][0]["key"]}, "edits": list(edits), "compare": False, "impact": True}
    impact: Json = fetch_json(connection, ApiRequest(path="/v1/simulate", body=body))["impact"]
    return impact


def confirm(question: str, *, yes: bool) -> bool:
    """Where no one can answer, `--yes` is required."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise InputError(f"{question} There is no terminal to answer on\nnext: add --yes, or look first with --dry-run")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    # asyncio's own handler only cancels the task, which waits right here.
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return sys.stdin.readline().strip().lower() in ("y", "yes")
    finally:
        signal.signal(signal.SIGINT, former)
