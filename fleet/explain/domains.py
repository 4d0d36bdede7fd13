"""Domains that hold a spread constraint up: the emptiest ones, when no cluster of theirs can be used.

A hard constraint counts every domain of its label, also one whose clusters cannot be chosen. Such a domain stays
behind and forbids all others to grow; naming it, and what is wrong with its clusters, is the whole explanation.
"""

from __future__ import annotations

import msgspec

from fleet.explain.refusals import Refusal, first_refusal
from fleet.explain.standing import Standings
from fleet.framework.decision import Decision
from fleet.snapshot.bits import each_row

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


def full_domains(decision: Decision) -> tuple[FullDomain, ...]:
    """By key and domain; nothing when the policy got what it wants."""
    if decision.fulfilled or decision.request.wanted is None:
        return ()
    standings = Standings(decision)
    found: dict[tuple[str, str], FullDomain] = {}
    for row in each_row(standings.rejected):
        refused = first_refusal(standings, row)
        if refused is not None and refused.reason == SKEW_EXCEEDED:
            for domain in refused.details["lowest"]:
                key = refused.details["key"]
                if (key, domain) not in found:
                    found[key, domain] = _full(standings, refused, domain)
    return tuple(found[one] for one in sorted(found))


def _full(standings: Standings, refused: Refusal, domain: str) -> FullDomain:
    key = refused.details["key"]
    members = standings.frame.labels(key).eq(domain)
    rows = sorted(each_row(members), key=standings.frame.name)
    return FullDomain(
        key=key,
        domain=domain,
        count=(members & standings.in_use).bit_count(),
        max_skew=refused.details["maxSkew"],
        clusters=tuple(Unusable(standings.frame.name(row), first_refusal(standings, row)) for row in rows),
    )
