"""Newcomers: the least that another cluster must be, as the plugins describe it, for the placement to take it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count, islice, product
from typing import Any, Final

from fleet.explain.fixes.candidates import Candidate
from fleet.explain.whatif.edits import AddCluster, describe
from fleet.framework.cycle.decision import Decision
from fleet.framework.explaining import MOST_TOGETHER, ClusterTraits
from fleet.framework.profiles.profile import CompiledProfile

_MOST_WAYS: Final = 3
"""Of passing one plugin."""
_NAME: Final = "another"
_ONE: Final = "one more eligible cluster"


def propose_newcomers(decision: Decision, profile: CompiledProfile, *, need: int) -> Iterator[Candidate]:
    """As many as are missing; one where that is too many to propose."""
    ways = [list(_list_ways(plugin, decision)) for _, plugin in profile.find_plugins("list_newcomers")]
    number = need if need <= MOST_TOGETHER else 1
    names = list(islice(_list_free_names(decision), number))
    for chosen in product(*ways):
        traits = _merge(chosen)
        if traits is not None:
            edits = tuple(_add(name, traits) for name in names)
            title = "" if number == 1 else describe(edits[0]).replace(_ONE, f"{number} more eligible clusters", 1)
            yield Candidate(edits, "", size=float(number), title=title)


def _add(name: str, traits: ClusterTraits) -> AddCluster:
    return AddCluster(
        name=name, labels=dict(traits.labels), properties=dict(traits.properties), capacity=dict(traits.capacity)
    )


def _list_ways(plugin: Any, decision: Decision) -> list[ClusterTraits]:
    """None if the plugin fails: nothing is promised for it."""
    try:
        ways = plugin.list_newcomers(decision.request, decision.frame, decision.bindings.active_rows)
        return list(islice(ways, _MOST_WAYS))
    except Exception:
        return []


def _merge(chosen: Sequence[ClusterTraits]) -> ClusterTraits | None:
    """None where two plugins need different values."""
    labels: dict[str, str] = {}
    properties: dict[str, str] = {}
    capacity: dict[str, str] = {}
    for traits in chosen:
        if not (_agrees(labels, traits.labels) and _agrees(properties, traits.properties)):
            return None
        labels |= traits.labels
        properties |= traits.properties
        capacity |= traits.capacity
    return ClusterTraits(labels, properties, capacity)


def _agrees(known: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return all(known.get(key, value) == value for key, value in other.items())


def _list_free_names(decision: Decision) -> Iterator[str]:
    names = (f"{_NAME}-{number}" for number in count(1))
    return (name for name in names if decision.frame.row_of(name) is None)
