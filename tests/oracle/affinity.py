"""ClusterAffinity: the required terms as a filter, the preferred terms as a score."""

from __future__ import annotations

from tests.oracle.documents import Json, dig, labels_of
from tests.oracle.quantities import nearest_double
from tests.oracle.selectors import matches_labels, matches_term, observed_property

NO_TERM_MATCHES = "cluster does not match with any of the required cluster affinity terms"

Range = tuple[float, float]


def required_terms(policy: Json) -> list[Json]:
    path = ("affinity", "clusterAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "clusterSelectorTerms")
    return dig(policy, *path) or []


def preferred_terms(policy: Json) -> list[Json]:
    return dig(policy, "affinity", "clusterAffinity", "preferredDuringSchedulingIgnoredDuringExecution") or []


def affinity_rejection(policy: Json, cluster: Json) -> str | None:
    terms = required_terms(policy)
    if not terms or any(matches_term(term, cluster) for term in terms):
        return None
    return NO_TERM_MATCHES


def sorter_ranges(policy: Json, population: list[Json]) -> dict[str, Range]:
    """Least and greatest readable value of every property that a preferred term sorts by."""
    weighed = [preferred for preferred in preferred_terms(policy) if preferred.get("weight")]
    sorters = [dig(preferred, "preference", "propertySorter") for preferred in weighed]
    ranges = {}
    for name in {str(sorter["name"]) for sorter in sorters if sorter is not None}:
        values = [observed_property(cluster, name) for cluster in population]
        readable = [value for value in values if value is not None]
        if readable:
            ranges[name] = (nearest_double(min(readable)), nearest_double(max(readable)))
    return ranges


def affinity_score(policy: Json, cluster: Json, ranges: dict[str, Range]) -> int:
    return sum(contribution(preferred, cluster, ranges) for preferred in preferred_terms(policy))


def contribution(preferred: Json, cluster: Json, ranges: dict[str, Range]) -> int:
    weight: int = preferred.get("weight") or 0
    term = preferred.get("preference") or {}
    selector, sorter = term.get("labelSelector"), term.get("propertySorter")
    if weight == 0 or (selector is not None and not matches_labels(selector, labels_of(cluster))):
        return 0
    if sorter is None:
        return weight
    return sorted_contribution(weight, sorter, cluster, ranges)


def sorted_contribution(weight: int, sorter: Json, cluster: Json, ranges: dict[str, Range]) -> int:
    observed = observed_property(cluster, sorter["name"])
    if observed is None or sorter["name"] not in ranges:
        return 0
    least, greatest = ranges[sorter["name"]]
    if least == greatest:
        return 0
    ratio = (nearest_double(observed) - least) / (greatest - least)
    return round_half_away((ratio if sorter["sortOrder"] == "Descending" else 1 - ratio) * weight)


def round_half_away(value: float) -> int:
    whole = int(value)
    if abs(value - whole) < 0.5:
        return whole
    return whole + (1 if value > 0 else -1)
