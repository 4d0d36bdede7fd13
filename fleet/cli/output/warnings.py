"""Oddities that did not stop a decision, as sentences."""

from __future__ import annotations

from typing import Final

from fleet.framework.context import (
    MISSING_PREVIOUS_STATE,
    MISSING_TOPOLOGY_KEY,
    NAMESPACE_UNCONFIRMED,
    SURPLUS_BINDING,
    UNKNOWN_BINDING_STATE,
    UNREADABLE_PROPERTY,
    Warning,
)
from fleet.snapshot.columns.bitset import each_row
from fleet.snapshot.frame import Frame

MOST_NAMES: Final = 6
_FORMS: Final = {
    UNREADABLE_PROPERTY: "{subject} is no quantity, so it counts as missing, on {clusters}",
    NAMESPACE_UNCONFIRMED: "namespace {subject} could not be confirmed on {clusters}",
    MISSING_TOPOLOGY_KEY: "no label {subject}, so spreading ignores them: {clusters}",
    SURPLUS_BINDING: "{subject} is a second binding for its cluster",
    UNKNOWN_BINDING_STATE: "{subject} is in an unknown state and left alone",
    MISSING_PREVIOUS_STATE: "{subject} does not say which state it had before; Scheduled is assumed",
}


def warning_text(warning: Warning, frame: Frame) -> str:
    form = _FORMS.get(warning.kind, f"{warning.kind}: {{subject}} {{clusters}}")
    return form.format(subject=warning.subject, clusters=clusters_text(warning.rows, frame)).rstrip()


def clusters_text(rows: int, frame: Frame) -> str:
    names = sorted(frame.name(row) for row in each_row(rows))
    shown = ", ".join(names[:MOST_NAMES])
    return f"{shown} and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else shown
