"""`fleet migrate`: migrates the schema of the decision history to this version."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from fleet.errors import ConfigurationError, HistoryUnavailable
from fleet.history import NewerSchema, migrate
from fleet.settings import load_settings


def run_migrate(*, url: str | None, to: str, unless_newer: bool, config: Path | None, settings: Sequence[str]) -> int:
    where = url or load_settings(config, os.environ, settings).settings.history.url
    if where is None:
        raise ConfigurationError("no history to migrate: set --url or history.url")
    try:
        before, after = migrate(where, to=to)
    except NewerSchema as error:
        if not unless_newer:
            raise
        sys.stderr.write(f"warning: {error}; Fleet runs without history until then\n")
        return 0
    except HistoryUnavailable as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    result = f"is already at {after}" if before == after else f"was migrated from {before} to {after}"
    sys.stdout.write(f"the history {result}\n")
    return 0
