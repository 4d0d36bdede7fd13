"""Names known to the API: for shell completion and for suggestions.

Completion has a short timeout and hides errors, because the user is typing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fleet.cli.client.connection import ApiConnection, ConnectionOptions, find_connection
from fleet.cli.client.requests import DEFAULT_TIMEOUT, ApiRequest, fetch_json
from fleet.errors import FleetError

_COMPLETION_TIMEOUT: Final = 1.0
"""Seconds."""
_MAX_NAMES: Final = 500


def complete_placements(incomplete: str) -> list[str]:
    return _complete(incomplete, placement_names)


def complete_clusters(incomplete: str) -> list[str]:
    return _complete(incomplete, cluster_names)


def _complete(incomplete: str, names: Callable[..., list[str]]) -> list[str]:
    try:
        connection = find_connection(ConnectionOptions(interactive=False))
        known = names(connection, timeout=_COMPLETION_TIMEOUT)
    except FleetError:
        return []
    return [name for name in known if name.startswith(incomplete)]


def placement_names(connection: ApiConnection, *, timeout: float = DEFAULT_TIMEOUT) -> list[str]:
    """Keys of the first page of placements, which is enough for suggestions."""
    return _names(connection, "/v1/placements", "key", timeout)


def cluster_names(connection: ApiConnection, *, timeout: float = DEFAULT_TIMEOUT) -> list[str]:
    return _names(connection, "/v1/clusters", "name", timeout)


def _names(connection: ApiConnection, path: str, part: str, timeout: float) -> list[str]:
    page = fetch_json(connection, ApiRequest(path=path, query={"limit": _MAX_NAMES}), timeout=timeout)
    items = page.get("items") if isinstance(page, dict) else None
    return [str(item[part]) for item in items or () if isinstance(item, dict) and part in item]


def load_eligibility(connection: ApiConnection) -> dict[str, bool]:
    """Of all clusters that the caller may read."""
    known: dict[str, bool] = {}
    cursor: str | None = None
    while True:
        page = fetch_json(connection, ApiRequest(path="/v1/clusters", query={"limit": _MAX_NAMES, "cursor": cursor}))
        known |= {str(item["name"]): bool(item["eligible"]) for item in page["items"]}
        cursor = page["next"]
        if cursor is None:
            return known
