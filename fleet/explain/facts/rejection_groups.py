"""Refused clusters by plugin and reason, with the one that came closest."""

from __future__ import annotations

import msgspec

from fleet.explain.facts.cluster_outcome import Standings
from fleet.explain.facts.nearness import by_failures, in_name_order
from fleet.explain.facts.phrases import lacking
from fleet.explain.facts.rejections import Gathered, first_refusal, gathered
from fleet.framework.cycle.decision import Decision

NAMES_SHOWN = 10
AFFINITY = "ClusterAffinity"


class Closest(msgspec.Struct, frozen=True, rename="camel"):
    cluster: str
    lacks: str
    """What keeps it out, in a few words."""


class Group(msgspec.Struct, frozen=True, rename="camel"):
    plugin: str
    reason: str
    count: int
    clusters: tuple[str, ...]
    """The first names, sorted."""
    more: int
    """How many names are left out."""
    closest: Closest


def groups(decision: Decision) -> tuple[Group, ...]:
    """Largest first; the counts add up to the number of rejected clusters."""
    standings = Standings(decision)
    found = [_group(standings, one) for one in gathered(standings)]
    return tuple(sorted(found, key=lambda one: (-one.count, one.plugin, one.reason)))


def _group(standings: Standings, one: Gathered) -> Group:
    in_order = in_name_order(standings.frame, one.rows)
    return Group(
        plugin=one.plugin,
        reason=one.reason,
        count=len(in_order),
        clusters=tuple(standings.frame.name(row) for row in in_order[:NAMES_SHOWN]),
        more=max(len(in_order) - NAMES_SHOWN, 0),
        closest=_closest(standings, one),
    )


def _closest(standings: Standings, one: Gathered) -> Closest:
    """The cluster with the fewest failed expressions; the first by name where nobody counts expressions."""
    row = closest_row(standings, one)
    refused = first_refusal(standings, row)
    assert refused is not None
    return Closest(standings.frame.name(row), lacking(refused))


def closest_row(standings: Standings, one: Gathered) -> int:
    frame, rows = standings.frame, one.rows
    if one.plugin == AFFINITY:
        divided = by_failures(standings.decision.request, frame, rows)
        rows = next(members for members in divided if members)
    return in_name_order(frame, rows)[0]
