"""Refused clusters by plugin and reason, with the one that came closest."""

from __future__ import annotations

import msgspec

from fleet.explain.refusals import Gathered, Refusal, first_refusal, gathered
from fleet.explain.standing import Standings
from fleet.explain.words import lacking
from fleet.framework.decision import Decision
from fleet.snapshot.bits import each_row

NAMES_SHOWN = 10


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
    frame = standings.frame
    names = sorted(frame.name(row) for row in each_row(one.rows))
    return Group(
        plugin=one.plugin,
        reason=one.reason,
        count=len(names),
        clusters=tuple(names[:NAMES_SHOWN]),
        more=max(len(names) - NAMES_SHOWN, 0),
        closest=_closest(standings, one.rows),
    )


def _closest(standings: Standings, rows: int) -> Closest:
    """The cluster with the fewest failed expressions; the first by name where nobody counts expressions."""
    in_order = sorted(each_row(rows), key=standings.frame.name)
    best, found = in_order[0], _refused(standings, in_order[0])
    for row in in_order[1:] if "terms" in found.details else ():
        refused = _refused(standings, row)
        if _distance(refused) < _distance(found):
            best, found = row, refused
    return Closest(standings.frame.name(best), lacking(found))


def _refused(standings: Standings, row: int) -> Refusal:
    refused = first_refusal(standings, row)
    assert refused is not None
    return refused


def _distance(refused: Refusal) -> int:
    terms = refused.details.get("terms")
    return len(terms[0]["failed"]) if terms else 0
