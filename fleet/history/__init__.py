"""The decision history: every decision with its inputs, its verdicts and the clusters it was based on.

Rows and bytes only: `fleet.recorder` builds them from decisions, `fleet.explain` interprets them.
"""

from __future__ import annotations

from fleet.history.entries import (
    AttemptSource,
    Columns,
    HistoryAttempt,
    HistoryCounts,
    HistoryHealth,
    Judgement,
    KnownPlacement,
    PartState,
    RecordedHook,
    RecordedInputs,
    RecordedRejection,
    RecordedScores,
    RecordedTarget,
    RecordedWarning,
    RecordedWrite,
    ReplayInputs,
    SnapshotReference,
)
from fleet.history.history import History, RetentionLimits
from fleet.history.storage.database import call_within
from fleet.history.storage.schema import NewerSchema, UnusableSchema, migrate

__all__ = [
    "AttemptSource",
    "Columns",
    "History",
    "HistoryAttempt",
    "HistoryCounts",
    "HistoryHealth",
    "Judgement",
    "KnownPlacement",
    "NewerSchema",
    "PartState",
    "RecordedHook",
    "RecordedInputs",
    "RecordedRejection",
    "RecordedScores",
    "RecordedTarget",
    "RecordedWarning",
    "RecordedWrite",
    "ReplayInputs",
    "RetentionLimits",
    "SnapshotReference",
    "UnusableSchema",
    "call_within",
    "migrate",
]
