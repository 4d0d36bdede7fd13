"""Reading plain JSON documents: absent, null and empty levels all read as "nothing there"."""

from __future__ import annotations

import datetime
from typing import Any

Json = dict[str, Any]

PREFIX = "kubernetes-fleet.io/"
PARENT_LABEL = PREFIX + "parent-CRP"
COUNT_ANNOTATION = PREFIX + "number-of-clusters"
GENERATION_ANNOTATION = PREFIX + "CRP-generation"
PREVIOUS_STATE = PREFIX + "previous-binding-state"
SCHEDULER_FINALIZER = PREFIX + "scheduler-crb-cleanup"
RESOURCE_PREFIX = "resources." + PREFIX


def dig(document: Any, *path: str) -> Any:
    """The value at a path, or None as soon as a level is missing."""
    for step in path:
        if not isinstance(document, dict):
            return None
        document = document.get(step)
    return document


def name_of(document: Json) -> str:
    return str(document["metadata"]["name"])


def labels_of(document: Json) -> dict[str, str]:
    return dig(document, "metadata", "labels") or {}


def annotations_of(document: Json) -> dict[str, str]:
    return dig(document, "metadata", "annotations") or {}


def namespace_of(document: Json) -> str:
    return dig(document, "metadata", "namespace") or ""


def is_terminating(document: Json) -> bool:
    return bool(dig(document, "metadata", "deletionTimestamp"))


def condition_of(conditions: list[Json] | None, kind: str) -> Json | None:
    """The first condition of that type."""
    return next((condition for condition in conditions or [] if condition.get("type") == kind), None)


def moment(text: str | None) -> datetime.datetime | None:
    return datetime.datetime.fromisoformat(text).astimezone(datetime.UTC) if text else None


def rfc3339(when: datetime.datetime) -> str:
    return when.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
