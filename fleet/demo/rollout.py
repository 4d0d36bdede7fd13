"""Rollout steps: the next spec and status of a binding, as the agents behind the scheduler would write them.

Pure functions from one document to the next; `agents` writes them.
"""

from __future__ import annotations

from typing import Any, Final

from fleet.model.keys import BOUND, SCHEDULED

Document = dict[str, Any]

APPLIED: Final = "Applied"
_TRUE: Final = "True"
_DONE: Final = (
    ("RolloutStarted", "RolloutStarted", "The rollout has started."),
    ("Overridden", "NoOverrideSpecified", "No override matches."),
    ("WorkSynchronized", "AllWorkSynced", "All work is written."),
    (APPLIED, "AllWorkHaveBeenApplied", "All objects are applied."),
    ("Available", "AllWorkAreAvailable", "All objects are available."),
)
_STARTED: Final = 3
"""Number of conditions that are true as soon as the rollout has started."""
_CHAIN: Final = {type for type, _, _ in _DONE}


def bind(document: Document, resource_snapshot: str | None) -> Document | None:
    """The binding, Bound to the latest resource snapshot if there is one; None if it is already."""
    spec = document["spec"]
    if spec["state"] not in (SCHEDULED, BOUND):
        return None
    wanted = spec | {"state": BOUND, "resourceSnapshotName": resource_snapshot or spec["resourceSnapshotName"]}
    return None if wanted == spec else document | {"spec": wanted}


def mark_started(document: Document, now: str) -> Document | None:
    """Rolled out, but not applied yet; None if the status has these conditions, or more, for this generation."""
    return _with_conditions(document, _DONE[:_STARTED], now)


def mark_available(document: Document, now: str) -> Document | None:
    """Applied and available; None if the status has these conditions for this generation."""
    return _with_conditions(document, _DONE, now)


def _with_conditions(document: Document, wanted: tuple[tuple[str, str, str], ...], now: str) -> Document | None:
    """All of these are true, and the rest of the chain is removed."""
    if _has_conditions(document, wanted):
        return None
    status = document.get("status", {})
    before = {condition["type"]: condition for condition in status.get("conditions", ())}
    conditions = [
        _condition(*condition, before=before.get(condition[0]), document=document, now=now) for condition in wanted
    ]
    others = [condition for type, condition in before.items() if type not in _CHAIN]
    return document | {"status": status | {"conditions": conditions + others}}


def _has_conditions(document: Document, wanted: tuple[tuple[str, str, str], ...]) -> bool:
    """Whether all of these are true for the current generation."""
    true = {
        condition["type"]
        for condition in document.get("status", {}).get("conditions", ())
        if condition["status"] == _TRUE and condition.get("observedGeneration") == document["metadata"]["generation"]
    }
    return true.issuperset(type for type, _, _ in wanted)


def _condition(
    type: str, reason: str, message: str, *, before: Document | None, document: Document, now: str
) -> Document:
    since = before.get("lastTransitionTime") if before is not None and before["status"] == _TRUE else None
    return {
        "type": type,
        "status": _TRUE,
        "reason": reason,
        "message": message,
        "observedGeneration": document["metadata"]["generation"],
        "lastTransitionTime": since or now,
    }
