"""Every decision, kept: with its inputs, verdicts and the clusters it was made on, so that it can be questioned later.

Rows and bytes only. What a decision is, and what can be learned from it, is known elsewhere.
"""

from __future__ import annotations

from fleet.history.entries import (
    Attempt,
    Columns,
    Counts,
    Group,
    Health,
    Inputs,
    Judgement,
    KnownPlacement,
    Part,
    Recorded,
    ScoreColumn,
    Snapshot,
    Source,
    Target,
    Warned,
    Write,
)
from fleet.history.history import History, Limits
from fleet.history.schema import NewerSchema, migrate

__all__ = [
    "Attempt",
    "Columns",
    "Counts",
    "Group",
    "Health",
    "History",
    "Inputs",
    "Judgement",
    "KnownPlacement",
    "Limits",
    "NewerSchema",
    "Part",
    "Recorded",
    "ScoreColumn",
    "Snapshot",
    "Source",
    "Target",
    "Warned",
    "Write",
    "migrate",
]
