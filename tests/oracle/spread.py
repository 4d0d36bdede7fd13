"""TopologySpreadConstraints on given domain counts."""

from __future__ import annotations

from dataclasses import dataclass

from tests.oracle.documents import Json, labels_of, name_of
from tests.oracle.settings import Settings

SOFT_VIOLATION = -1000

Counts = dict[str, dict[str, int]]


@dataclass(frozen=True)
class Effect:
    """What one more placement on a cluster does to all constraints together."""

    score: int = 0
    violation: str | None = None


def constraints_of(policy: Json) -> list[Json]:
    """The constraints in the order of evaluation, defaults filled in."""
    constraints = [
        {
            "key": constraint["topologyKey"],
            "skew": constraint.get("maxSkew") or 1,
            "hard": (constraint.get("whenUnsatisfiable") or "DoNotSchedule") == "DoNotSchedule",
        }
        for constraint in policy.get("topologySpreadConstraints") or []
    ]
    return [each for each in constraints if each["hard"]] + [each for each in constraints if not each["hard"]]


def counts_of(policy: Json, domain_members: list[Json], holding: set[str]) -> Counts:
    """Per topology key the number of clusters in `holding` in every domain of `domain_members`."""
    keys = {constraint["key"] for constraint in constraints_of(policy)}
    return {key: domain_counts(key, domain_members, holding) for key in keys}


def effect_on(cluster: Json, *, policy: Json, counts: Counts, settings: Settings) -> Effect:
    score = 0
    for constraint in constraints_of(policy):
        domain = labels_of(cluster).get(constraint["key"])
        if domain is None and constraint["hard"] and settings.missing_key == "Exclude":
            return Effect(violation=f'cluster has no value for topology key "{constraint["key"]}"')
        if domain not in counts[constraint["key"]]:
            continue
        skew, delta = skew_after(counts[constraint["key"]], domain)
        if skew <= constraint["skew"]:
            score -= delta
        elif constraint["hard"]:
            return Effect(violation=violation_text(constraint))
        else:
            score += SOFT_VIOLATION
    return Effect(score=score)


def violation_text(constraint: Json) -> str:
    return f'violated doNotSchedule topology spread constraint "{constraint["key"]}" (max skew {constraint["skew"]})'


def domain_counts(key: str, domain_members: list[Json], holding: set[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for cluster in domain_members:
        domain = labels_of(cluster).get(key)
        if domain is not None:
            counts[domain] = counts.get(domain, 0) + (name_of(cluster) in holding)
    return counts


def skew_after(counts: dict[str, int], domain: str) -> tuple[int, int]:
    """The skew once the domain has one more, and the difference to the skew now."""
    ordered = sorted(counts.values())
    lowest, highest = ordered[0], ordered[-1]
    second = ordered[1] if len(ordered) > 1 else lowest
    skew = highest - lowest
    if highest == lowest:
        delta = 1
    elif counts[domain] == lowest and lowest != second:
        delta = -1
    elif counts[domain] == highest:
        delta = 1
    else:
        delta = 0
    return skew + delta, delta
