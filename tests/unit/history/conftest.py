"""Both databases, for all tests of this folder."""

from __future__ import annotations

from tests.databases import database, history, open_history, postgres, url

__all__ = ["database", "history", "open_history", "postgres", "url"]
