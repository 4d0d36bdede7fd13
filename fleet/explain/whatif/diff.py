"""Many placements decided twice: which of them end up elsewhere, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, Literal

import msgspec

from fleet.explain.facts.cluster_outcome import Standings
from fleet.explain.facts.placement_outcome import in_use, level_name
from fleet.explain.facts.rejections import gathered
from fleet.framework.cycle.decision import Decision
from fleet.snapshot.columns.bitset import each_row

Cause = Literal["filter", "ranking", "outcome"]

_LOCAL_AS_ASSUMED: Final = False


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    pass


class Moved(_Part, frozen=True):
    """One placement that is decided differently."""

    key: str
    """The placement, or the attempt."""
    cause: Cause
    """`filter`: other clusters qualify. `ranking`: the same ones do, others are chosen. `outcome`: neither."""
    before: tuple[str, ...]
    after: tuple[str, ...]
    outcome_before: str
    outcome_after: str
    redacted: int = 0
    """How many more clusters there are, before or after, that the one who asks may not read."""
    placement: str = ""
    """Whose attempt it is, if `key` is one and the one who asks may read the placement."""

    @property
    def gained(self) -> set[str]:
        return set(self.after) - set(self.before)

    @property
    def lost(self) -> set[str]:
        return set(self.before) - set(self.after)


class ClusterTally(_Part, frozen=True):
    cluster: str
    gained: int
    lost: int


class OutcomeTally(_Part, frozen=True):
    outcome: str
    before: int
    after: int


class Tally(_Part, frozen=True):
    """The sum of all movements."""

    clusters: tuple[ClusterTally, ...] = ()
    """Those with the most traffic first."""
    outcomes: tuple[OutcomeTally, ...] = ()
    redacted: int = 0
    """How many more clusters gain or lose, which the one who asks may not read."""


def moved(key: str, before: Decision, after: Decision) -> Moved | None:
    """None where both put the placement on the same clusters with the same outcome."""
    one, other = in_use(before), in_use(after)
    names = (level_name(before), level_name(after))
    if set(one) == set(other) and names[0] == names[1]:
        return None
    return Moved(key, _cause(before, after), tuple(one), tuple(other), *names)


def _cause(before: Decision, after: Decision) -> Cause:
    if _qualified(before) != _qualified(after):
        return "filter"
    return "ranking" if set(in_use(before)) != set(in_use(after)) else "outcome"


def _qualified(decision: Decision) -> set[str]:
    """Clusters that qualify but for what else was picked: a filter that looks at picks says nothing about a cluster."""
    standings, frame = Standings(decision), decision.frame
    rows = frame.valid & ~standings.idle
    if decision.verdicts is not None:
        local = {one.name for one in decision.verdicts.judges if getattr(one.plugin, "ROW_LOCAL", _LOCAL_AS_ASSUMED)}
        for one in gathered(standings):
            if one.plugin in local or decision.verdicts.fill is not None or decision.fixed_verdicts is not None:
                rows &= ~one.rows
    return {frame.name(row) for row in each_row(rows)}


def tally(pairs: Iterable[tuple[str, str]], found: Iterable[Moved]) -> Tally:
    """`pairs` are the outcomes of every placement before and after."""
    gained, lost = Counter[str](), Counter[str]()
    for one in found:
        gained.update(one.gained)
        lost.update(one.lost)
    known = list(pairs)
    before, after = Counter(one for one, _ in known), Counter(other for _, other in known)
    clusters = sorted({*gained, *lost}, key=lambda name: (-gained[name] - lost[name], name))
    return Tally(
        clusters=tuple(ClusterTally(name, gained[name], lost[name]) for name in clusters),
        outcomes=tuple(OutcomeTally(name, before[name], after[name]) for name in sorted({*before, *after})),
    )


# --- for those who may not read all clusters --------------------------------------------------------------------------


def unnamed_move(one: Moved, hides: Callable[[str], bool]) -> Moved:
    hidden = {name for name in (*one.before, *one.after) if hides(name)}
    return msgspec.structs.replace(
        one,
        before=tuple(name for name in one.before if name not in hidden),
        after=tuple(name for name in one.after if name not in hidden),
        redacted=len(hidden),
    )


def unnamed_tally(found: Tally, hides: Callable[[str], bool]) -> Tally:
    shown = tuple(one for one in found.clusters if not hides(one.cluster))
    return msgspec.structs.replace(found, clusters=shown, redacted=len(found.clusters) - len(shown))
