"""Messages of conditions. Programs read reasons; messages are for people and may change.

A message names up to three clusters, so that a placement on a thousand clusters has readable conditions; the details
are in the per-cluster status.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from fleet.name_lists import join_first

LONGEST: Final = 32768
"""Characters a condition's message may have."""
_NAMED: Final = 3

_UNKNOWN: Final[Mapping[str, str]] = {
    "RolloutStarted": "rollout not decided yet on {clusters}",
    "Overridden": "overrides not evaluated yet on {clusters}",
    "WorkSynchronized": "waiting for work on {clusters}",
    "Applied": "waiting for an apply result from {clusters}",
    "Available": "waiting for availability from {clusters}",
    "DiffReported": "waiting for a diff report from {clusters}",
}
_FALSE: Final[Mapping[str, str]] = {
    "RolloutStarted": "rollout strategy is holding back {clusters}",
    "Overridden": "overrides cannot be applied on {clusters}: {cause}",
    "WorkSynchronized": "work could not be written for {clusters}: {cause}",
    "Applied": "objects failed to apply on {clusters}; see failedPlacements",
    "Available": "objects are not available on {clusters}; see failedPlacements",
    "DiffReported": "diff report incomplete on {clusters}",
}
_TRUE: Final[Mapping[str, str]] = {
    "RolloutStarted": "rollout started on all {count} cluster(s)",
    "Overridden": "overrides applied on all {count} cluster(s)",
    "WorkSynchronized": "work is up to date for all {count} cluster(s)",
    "Applied": "objects applied on all {count} cluster(s)",
    "Available": "objects available on all {count} cluster(s)",
    "DiffReported": "diff reported by all {count} cluster(s)",
}

NO_OVERRIDE: Final = "no override matches"


def join_names(names: Collection[str]) -> str:
    """`a, b, c and 2 more`: in alphabetical order."""
    return join_first(sorted(names), _NAMED)


def describe_waiting(stage: str, clusters: Collection[str]) -> str:
    return _UNKNOWN[stage].format(clusters=join_names(clusters))


def describe_failure(stage: str, clusters: Collection[str], *, cause: str) -> str:
    return _FALSE[stage].format(clusters=join_names(clusters), cause=cause)


def describe_success(stage: str, count: int) -> str:
    return _TRUE[stage].format(count=count)


def describe_unscheduled(generation: int) -> str:
    return f"generation {generation} has not been scheduled yet"


def describe_external_control(runs: Collection[str]) -> str:
    """For a rollout controlled by staged update runs, while clusters run different versions or none."""
    if not runs:
        return "clusters run no common version yet; create a staged update run for this placement"
    return f"clusters run no common version yet; the rollout is controlled by {join_names(runs)}"


def describe_copy(namespace: str) -> str:
    return f"the status is shown in namespace {namespace}"
