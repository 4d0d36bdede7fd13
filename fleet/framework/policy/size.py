"""Size of a policy: the number of parts that are read, each once, when it is evaluated."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.model.views import ClusterSelectorTerm, PlacementPolicy


def count_parts(policy: PlacementPolicy | None) -> int:
    """Terms, preferences, expressions and their values, tolerations, constraints and names of clusters."""
    return sum(_list_counts(policy))


def has_more_parts(policy: PlacementPolicy | None, than: int) -> bool:
    """Without counting a large policy to its end."""
    total = 0
    for count in _list_counts(policy):
        total += count
        if total > than:
            return True
    return False


def _list_counts(policy: PlacementPolicy | None) -> Iterator[int]:
    if policy is None:
        return
    yield len(policy.cluster_names) + len(policy.tolerations) + len(policy.topology_spread_constraints)
    affinity = policy.affinity.cluster_affinity if policy.affinity else None
    if affinity is None:
        return
    for term in affinity.required.cluster_selector_terms if affinity.required else ():
        yield from _count_term(term)
    for preference in affinity.preferred:
        yield from _count_term(preference.preference)


def _count_term(term: ClusterSelectorTerm) -> Iterator[int]:
    yield 1
    if term.label_selector is not None:
        yield len(term.label_selector.match_labels or ())
        yield from (1 + len(expression.values) for expression in term.label_selector.match_expressions)
    if term.property_selector is not None:
        yield from (1 + len(expression.values) for expression in term.property_selector.match_expressions)
