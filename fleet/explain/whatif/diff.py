"""Diff of the decisions of many placements before and after a change: the ones that differ, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, Literal

import msgspec

from fleet.explain.facts.outcomes import ClusterOutcomes, list_clusters_in_use, name_outcome
from fleet.explain.facts.rejections import group_rejections
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
    """How many more clusters there are, before or after, that the caller may not read."""
    placement: str = ""
    """The placement of the attempt, if `key` is an attempt and the caller may read the placement."""

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


class DiffSummary(_Part, frozen=True):
    """The sum of all differences."""

    clusters: tuple[ClusterTally, ...] = ()
    """Those with the most traffic first."""
    outcomes: tuple[OutcomeTally, ...] = ()
    redacted: int = 0
    """How many more clusters gain or lose, which the caller may not read."""


def diff_decisions(key: str, before: Decision, after: Decision) -> Moved | None:
    """None where both put the placement on the same clusters with the same outcome."""
    used_before, used_after = list_clusters_in_use(before), list_clusters_in_use(after)
    names = (name_outcome(before), name_outcome(after))
    if set(used_before) == set(used_after) and names[0] == names[1]:
        return None
    return Moved(key, _find_cause(before, after), tuple(used_before), tuple(used_after), *names)


def _find_cause(before: Decision, after: Decision) -> Cause:
    if _find_qualified(before) != _find_qualified(after):
        return "filter"
    return "ranking" if set(list_clusters_in_use(before)) != set(list_clusters_in_use(after)) else "outcome"


def _find_qualified(decision: Decision) -> set[str]:
    """Clusters that qualify but for what else was picked: a filter that depends on picks does not count."""
    outcomes, frame = ClusterOutcomes(decision), decision.frame
    rows = frame.valid & ~outcomes.idle
    if decision.verdicts is not None:
        local = {
            judge.name for judge in decision.verdicts.judges if getattr(judge.plugin, "ROW_LOCAL", _LOCAL_AS_ASSUMED)
        }
        for group in group_rejections(outcomes):
            if group.plugin in local or decision.verdicts.fill is not None or decision.fixed_verdicts is not None:
                rows &= ~group.rows
    return {frame.name(row) for row in each_row(rows)}


def summarize_diffs(pairs: Iterable[tuple[str, str]], diffs: Iterable[Moved]) -> DiffSummary:
    """`pairs` are the outcomes of every placement before and after."""
    gained, lost = Counter[str](), Counter[str]()
    for diff in diffs:
        gained.update(diff.gained)
        lost.update(diff.lost)
    known = list(pairs)
    before, after = Counter(was for was, _ in known), Counter(now for _, now in known)
    clusters = sorted({*gained, *lost}, key=lambda name: (-gained[name] - lost[name], name))
    return DiffSummary(
        clusters=tuple(ClusterTally(name, gained[name], lost[name]) for name in clusters),
        outcomes=tuple(OutcomeTally(name, before[name], after[name]) for name in sorted({*before, *after})),
    )


# --- redaction -------------------------------------------------------------------------------------------------------


def redact_move(diff: Moved, hides: Callable[[str], bool]) -> Moved:
    hidden = {name for name in (*diff.before, *diff.after) if hides(name)}
    return msgspec.structs.replace(
        diff,
        before=tuple(name for name in diff.before if name not in hidden),
        after=tuple(name for name in diff.after if name not in hidden),
        redacted=len(hidden),
    )


def redact_summary(summary: DiffSummary, hides: Callable[[str], bool]) -> DiffSummary:
    shown = tuple(cluster for cluster in summary.clusters if not hides(cluster.cluster))
    return msgspec.structs.replace(summary, clusters=shown, redacted=len(summary.clusters) - len(shown))
