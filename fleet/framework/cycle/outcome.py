"""How an attempt can end."""

from __future__ import annotations

import enum


class Outcome(enum.Enum):
    SELECTED = "Selected"
    """As many clusters as wanted."""
    PARTIAL = "Partial"
    UNSCHEDULABLE = "Unschedulable"
    UNCHANGED = "Unchanged"
    """As many as wanted were there already; nobody was asked."""
    SHRINK = "Shrink"
    NEEDS_ANSWER = "NeedsAnswer"
    ERROR = "Error"
