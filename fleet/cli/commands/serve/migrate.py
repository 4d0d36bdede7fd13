"""`fleet migrate`: migrates the schema of the decision history to this version."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fleet.errors import ConfigurationError, HistoryUnavailable
from fleet.history import NewerSchema, UnusableSchema, call_within, migrate
from fleet.settings import load_settings

_PATIENCE: Final = 600.0
"""Seconds for a best effort."""


def run_migrate(
    *,
    url: str | None,
    to: str,
    unless_newer: bool,
    best_effort: bool = False,
    config: Path | None,
    settings: Sequence[str],
) -> int:
    """With `best_effort`, whatever is wrong with the database is a warning: only the operator's mistakes fail."""
    where = url or load_settings(config, os.environ, settings).settings.history.url
    if where is None:
        raise ConfigurationError("no history to migrate: set --url or history.url")
    try:
        before, after = call_within(_PATIENCE, lambda: migrate(where, to=to)) if best_effort else migrate(where, to=to)
    except (UnusableSchema, HistoryUnavailable) as error:
        if best_effort or (unless_newer and isinstance(error, NewerSchema)):
            sys.stderr.write(f"warning: {error}; Fleet runs without history until then\n")
            return 0
        if not isinstance(error, HistoryUnavailable):
            raise
        sys.stderr.write(f"error: {error}\n")
        return 1
    result = f"is already at {after}" if before == after else f"was migrated from {before} to {after}"
    sys.stdout.write(f"the history {result}\n")
    return 0
