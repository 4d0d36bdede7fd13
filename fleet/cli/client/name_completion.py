"""What a shell offers while somebody types a name. A shell waits for nothing and shows no errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fleet.cli.client.connection import Connection, Wanted, find_connection
from fleet.cli.commands.why import cluster_names, placement_names
from fleet.errors import FleetError

_PATIENCE: Final = 1.0
"""Seconds."""


def placements(incomplete: str) -> list[str]:
    return _beginning_with(incomplete, placement_names)


def clusters(incomplete: str) -> list[str]:
    return _beginning_with(incomplete, cluster_names)


def _beginning_with(incomplete: str, names: Callable[..., list[str]]) -> list[str]:
    try:
        known = names(_connection(), patience=_PATIENCE)
    except FleetError:
        return []
    return [name for name in known if name.startswith(incomplete)]


def _connection() -> Connection:
    return find_connection(Wanted())
