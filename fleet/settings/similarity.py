"""Similar names, for messages about a name that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from typing import Final

SIMILAR: Final = 0.6


def nearest(word: str, candidates: Collection[str], *, cutoff: float = SIMILAR) -> str | None:
    """The most similar candidate: letters count, case and separators do not."""
    by_letters = {_normalize(candidate): candidate for candidate in candidates}
    matches = difflib.get_close_matches(_normalize(word), by_letters, n=1, cutoff=cutoff)
    return by_letters[matches[0]] if matches else None


def _normalize(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")
