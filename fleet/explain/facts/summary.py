"""A decision in one sentence: how many clusters were selected, how many are needed, and why the others were not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from fleet.explain.facts.outcomes import ClusterOutcomes
from fleet.explain.facts.redaction import Redaction
from fleet.explain.facts.rejections import (
    RejectionGroup,
    describe_reason,
    find_equivalence_classes,
    find_first_rejection,
    find_plain_phrase,
    find_reason,
    group_rejections,
)
from fleet.framework.cycle.decision import Decision
from fleet.framework.types import Reason
from fleet.model.keys import PICK_FIXED

LONGEST: Final = 1024
_CUT: Final = " ..."


def summarize(decision: Decision, redaction: Redaction | None = None) -> str:
    """`3/12 clusters selected, need 4: 1 fit; 6 agent silent, 2 untolerated taint {dedicated: batch}`"""
    redaction = redaction or Redaction(decision.frame, None)
    outcomes = ClusterOutcomes(decision)
    counts, need = outcomes.count(), count_needed(decision)
    if decision.fulfilled and counts.already_selected and not counts.selected:
        return _shorten(_summarize_in_use(outcomes, need, redaction))
    head = f"{counts.selected}/{counts.total} clusters selected"
    if need is not None:
        head += f", need {need}"
    good = _join_counts((counts.fit, "fit"), (counts.already_selected, "already selected"))
    bad = ", ".join(f"{count} {text}" for count, text in _count_buckets(outcomes, redaction))
    rest = "; ".join(part for part in (good, bad, _describe_missing(decision)) if part)
    return _shorten(f"{head}: {rest}" if rest else head)


def _summarize_in_use(outcomes: ClusterOutcomes, need: int | None, redaction: Redaction) -> str:
    """`4 of 4 wanted clusters in use; 3 others fit, 2 cannot: 2 agent silent`"""
    counts, removed = outcomes.count(), outcomes.leaving.bit_count()
    wanted = "" if need is None else f" of {need} {'listed' if outcomes.is_fixed else 'wanted'}"
    used = f"{counts.already_selected}{wanted} {'cluster' if counts.already_selected == 1 else 'clusters'} in use"
    others = [f"{counts.fit} {'other fits' if counts.fit == 1 else 'others fit'}" if counts.fit else "no other fits"]
    others += [f"{counts.rejected} cannot"] if counts.rejected else []
    if outcomes.is_fixed or outcomes.decision.verdicts is None or counts.total == counts.already_selected:
        others = []
    buckets = ", ".join(f"{count} {text}" for count, text in _count_buckets(outcomes, redaction))
    rest = ": ".join(part for part in (", ".join(others), buckets) if part)
    return "; ".join(part for part in (used, f"{removed} given up" if removed else "", rest) if part)


def count_needed(decision: Decision) -> int | None:
    """How many clusters the policy requests; None for PickAll, which has no number."""
    request = decision.request
    if request.placement_type == PICK_FIXED:
        return len(request.cluster_names)
    return request.wanted if request.min_targets is None else request.min_targets


def _count_buckets(outcomes: ClusterOutcomes, redaction: Redaction) -> list[tuple[int, str]]:
    """Most frequent first, then by text."""
    totals: Counter[str] = Counter()
    for group in group_rejections(outcomes):
        plain = find_plain_phrase(group.reason, _find_reason(outcomes, group))
        if plain is not None:
            totals[plain] += group.rows.bit_count()
        else:
            for text, count in _count_details(outcomes, group, redaction):
                totals[text] += count
    idle = outcomes.idle & ~outcomes.leaving
    if idle:
        totals["not evaluated"] += idle.bit_count()
    return sorted(((count, text) for text, count in totals.items()), key=lambda bucket: (-bucket[0], bucket[1]))


def _find_reason(outcomes: ClusterOutcomes, group: RejectionGroup) -> Reason | None:
    verdicts = outcomes.decision.verdicts
    return None if verdicts is None else find_reason(verdicts, group.plugin, group.reason)


def _count_details(outcomes: ClusterOutcomes, group: RejectionGroup, redaction: Redaction) -> Iterator[tuple[str, int]]:
    for rows, representative in find_equivalence_classes(outcomes.decision, group):
        rejection = find_first_rejection(outcomes, representative)
        assert rejection is not None
        yield describe_reason(redaction.redact_rejection(rejection)), rows.bit_count()


def _describe_missing(decision: Decision) -> str:
    return _join_counts((len(decision.missing), "listed but not in the fleet"))


def _join_counts(*parts: tuple[int, str]) -> str:
    return ", ".join(f"{count} {text}" for count, text in parts if count)


def _shorten(text: str) -> str:
    """Cut after a whole bucket, so that no number is left without its meaning."""
    if len(text) <= LONGEST:
        return text
    room = text[: LONGEST - len(_CUT)]
    return room[: max(room.rfind(", "), room.rfind("; "), room.rfind(": "))] + _CUT
