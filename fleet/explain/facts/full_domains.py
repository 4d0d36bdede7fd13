"""Domains that hold a spread constraint up: the emptiest ones, when no cluster of theirs can be used.

A hard constraint counts every domain of its label, also one whose clusters cannot be chosen. Such a domain stays
behind and forbids all others to grow; naming it, and what is wrong with its clusters, is the whole explanation.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fleet.explain.facts.cluster_outcome import Standings
from fleet.explain.facts.equivalence import alike
from fleet.explain.facts.nearness import in_name_order
from fleet.explain.facts.phrases import LOWEST
from fleet.explain.facts.rejections import Refusal, first_refusal, gathered
from fleet.framework.cycle.decision import Decision

SKEW_EXCEEDED = "SkewExceeded"


class Unusable(msgspec.Struct, frozen=True, rename="camel"):
    """A cluster of a full domain. `refusal` is None for one that the placement uses already."""

    cluster: str
    refusal: Refusal | None


class FullDomain(msgspec.Struct, frozen=True, rename="camel"):
    """A domain that should take the next pick and has no cluster left for it."""

    key: str
    domain: str
    count: int
    """How many of the placement's clusters are there."""
    max_skew: int
    clusters: tuple[Unusable, ...]


def full_domains(decision: Decision, *, among: int = -1, most: int | None = None) -> tuple[FullDomain, ...]:
    """By key and domain; nothing when the policy got what it wants.

    Of a domain the first clusters by name, at most so many, and only those among the given rows.
    """
    if decision.fulfilled or decision.request.wanted is None:
        return ()
    standings = Standings(decision)
    found: dict[tuple[str, str], FullDomain] = {}
    for refused in _held_up(standings):
        for domain in refused.details[LOWEST]:
            key = refused.details["key"]
            if (key, domain) not in found:
                found[key, domain] = _full(standings, refused, domain, among=among, most=most)
    return tuple(found[one] for one in sorted(found))


def _held_up(standings: Standings) -> Iterator[Refusal]:
    """One refusal of each kind."""
    for one in gathered(standings):
        if one.reason == SKEW_EXCEEDED:
            for _, speaker in alike(standings.frame, standings.decision.request, one):
                refused = first_refusal(standings, speaker)
                if refused is not None:
                    yield refused


def _full(standings: Standings, refused: Refusal, domain: str, *, among: int, most: int | None) -> FullDomain:
    key = refused.details["key"]
    members = standings.frame.labels(key).eq(domain)
    rows = in_name_order(standings.frame, members & among)[:most]
    return FullDomain(
        key=key,
        domain=domain,
        count=(members & standings.in_use).bit_count(),
        max_skew=refused.details["maxSkew"],
        clusters=tuple(Unusable(standings.frame.name(row), first_refusal(standings, row)) for row in rows),
    )
