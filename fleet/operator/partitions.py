"""Selectors of clusters by which schedulers divide a fleet. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from fleet.model.selectors import DOES_NOT_EXIST, EXISTS, IN, NOT_IN, find_selector_problems
from fleet.model.views import LabelSelector, SelectorRequirement

Json = dict[str, Any]


def read_selector(owner: Json) -> LabelSelector | None:
    """Of a SecondaryScheduler; None if it shares all clusters."""
    capacity = owner["spec"].get("capacity") or {}
    if capacity.get("mode") != "Partitioned":
        return None
    return msgspec.convert(capacity.get("clusterSelector") or {}, LabelSelector)


def find_partition_problem(owner: Json, others: Iterable[Json]) -> tuple[str, str] | None:
    """Reason and message. Of two selectors that overlap the younger resource is refused."""
    own = read_selector(owner)
    if own is None:
        return None
    for problem in find_selector_problems(own):
        return "InvalidSelector", f"spec.capacity.clusterSelector.{problem.field}: {problem.message}"
    for other in sorted(others, key=_get_seniority):
        selector = read_selector(other)
        if selector is None or _get_seniority(other) >= _get_seniority(owner):
            continue
        if not are_disjoint(own, selector):
            name = f"{other['metadata']['namespace']}/{other['metadata']['name']}"
            return "OverlappingSelectors", (
                f"spec.capacity.clusterSelector: {format_selector(own)} and the {format_selector(selector)} of "
                f"SecondaryScheduler {name} may select the same cluster; give both a label with different values"
            )
    return None


def are_disjoint(selector: LabelSelector, other: LabelSelector) -> bool:
    """Whether no labels can match both: some key has requirements that exclude each other."""
    theirs = list(_list_requirements(other))
    return any(
        _exclude(mine, its) or _exclude(its, mine)
        for mine in _list_requirements(selector)
        for its in theirs
        if mine.key == its.key
    )


def format_selector(selector: LabelSelector) -> str:
    """In the syntax of kubectl."""
    return ",".join(_format_requirement(each) for each in _list_requirements(selector))


def _get_seniority(owner: Json) -> tuple[str, str, str]:
    metadata = owner["metadata"]
    return metadata["creationTimestamp"], metadata["namespace"], metadata["name"]


def _list_requirements(selector: LabelSelector) -> Iterator[SelectorRequirement]:
    for key, value in (selector.match_labels or {}).items():
        yield SelectorRequirement(key=key, operator=IN, values=(value,))
    yield from selector.match_expressions


def _exclude(mine: SelectorRequirement, its: SelectorRequirement) -> bool:
    """Seen from the first: the caller asks both ways."""
    if mine.operator == IN:
        if its.operator == IN:
            return set(mine.values).isdisjoint(its.values)
        return its.operator == DOES_NOT_EXIST or (its.operator == NOT_IN and set(mine.values) <= set(its.values))
    return mine.operator == EXISTS and its.operator == DOES_NOT_EXIST


def _format_requirement(requirement: SelectorRequirement) -> str:
    values = ",".join(requirement.values)
    match requirement.operator:
        case "In":
            return f"{requirement.key} in ({values})"
        case "NotIn":
            return f"{requirement.key} notin ({values})"
        case "Exists":
            return requirement.key
    return f"!{requirement.key}"
