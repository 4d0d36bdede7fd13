"""Similar names, for messages about a name that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

SIMILAR: Final = 0.6
CLOSE: Final = 0.75


def nearest(word: str, candidates: Iterable[str], *, cutoff: float = SIMILAR) -> str | None:
    """The most similar candidate: letters count, case and separators do not."""
    by_letters = {_normalize(candidate): candidate for candidate in candidates}
    matches = difflib.get_close_matches(_normalize(word), by_letters, n=1, cutoff=cutoff)
    return by_letters[matches[0]] if matches else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean clusterAffinity?`, or empty."""
    match = nearest(word, known, cutoff=CLOSE)
    return f"; did you mean {match}?" if match else ""


def _normalize(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")
