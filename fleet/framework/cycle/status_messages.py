"""The texts other agents and people read in published decisions. Same facts, same text: no ages, no random choice."""

from __future__ import annotations

from typing import Final

FULFILLED: Final = "found all cluster needed as specified by the scheduling policy, found {} cluster(s)"
UNFULFILLED: Final = (
    "could not find all clusters needed as specified by the scheduling policy, found {} cluster(s) instead"
)
STOPPED: Final = "scheduling stopped: {}"


def selected_reason(cluster: str, scores: tuple[int, int] | None) -> str:
    """`scores` are affinity and topology, in this order."""
    scored = "" if scores is None else " (affinity score: {}, topology spread score: {})".format(*scores)
    return f'Successfully scheduled resources for placement in "{cluster}"{scored}: picked by scheduling policy'


def not_picked_reason(cluster: str, *, affinity: int, topology: int) -> str:
    return (
        f'Cluster "{cluster}" does not score high enough '
        f"(affinity score: {affinity}, topology spread score: {topology})"
    )


def invalid_reason(cluster: str, cause: str) -> str:
    return f'Cluster "{cluster}" is not eligible for resource placement yet: {cause}'


def missing_reason(cluster: str) -> str:
    return f'Specified cluster "{cluster}" is not found'
