"""Domains that block a spread constraint: the emptiest ones, when none of their clusters can be used.

A hard constraint counts every domain of its label, also one whose clusters cannot be chosen. Such a domain stays
behind and keeps all others from growing; naming it, and the reasons against its clusters, is the whole explanation.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fleet.explain.facts.outcomes import ClusterOutcomes
from fleet.explain.facts.rejections import (
    ClusterRejection,
    find_equivalence_classes,
    find_first_rejection,
    group_rejections,
)
from fleet.framework.cycle.decision import Decision
from fleet.framework.explaining import LOWEST
from fleet.snapshot.columns.bitset import each_row


class Unusable(msgspec.Struct, frozen=True, rename="camel"):
    """A cluster of a full domain. `refusal` is None for one that the placement uses already."""

    cluster: str
    refusal: ClusterRejection | None
    short: str = ""
    """The reason in a few words."""


class FullDomain(msgspec.Struct, frozen=True, rename="camel"):
    """A domain that should take the next pick and has no cluster left for it."""

    key: str
    domain: str
    count: int
    """How many of the placement's clusters are there."""
    max_skew: int
    clusters: tuple[Unusable, ...]


def find_full_domains(decision: Decision, *, among: int = -1, most: int | None = None) -> tuple[FullDomain, ...]:
    """By key and domain; empty for a fulfilled policy.

    Of a domain the first clusters by name, at most so many, and only those among the given rows.
    """
    if decision.fulfilled or decision.request.wanted is None:
        return ()
    outcomes = ClusterOutcomes(decision)
    domains: dict[tuple[str, str], FullDomain] = {}
    for rejection in _find_blocked(outcomes):
        for domain in rejection.details[LOWEST]:
            key = rejection.details["key"]
            if (key, domain) not in domains:
                domains[key, domain] = _build_domain(outcomes, rejection, domain, among=among, most=most)
    return tuple(domains[name] for name in sorted(domains))


def _find_blocked(outcomes: ClusterOutcomes) -> Iterator[ClusterRejection]:
    """Rejections for the sake of emptier domains, one of each equivalence class."""
    for group in group_rejections(outcomes):
        first = find_first_rejection(outcomes, next(each_row(group.rows)))
        if first is not None and LOWEST in first.details:
            for _, representative in find_equivalence_classes(outcomes.decision, group):
                rejection = find_first_rejection(outcomes, representative)
                if rejection is not None and LOWEST in rejection.details:
                    yield rejection


def _build_domain(
    outcomes: ClusterOutcomes, rejection: ClusterRejection, domain: str, *, among: int, most: int | None
) -> FullDomain:
    key = rejection.details["key"]
    members = outcomes.frame.labels(key).eq(domain)
    rows = outcomes.frame.sort_by_name(members & among)[:most]
    return FullDomain(
        key=key,
        domain=domain,
        count=(members & outcomes.in_use).bit_count(),
        max_skew=rejection.details["maxSkew"],
        clusters=tuple(Unusable(outcomes.frame.name(row), find_first_rejection(outcomes, row)) for row in rows),
    )
