"""Impact of a change of the fleet on all placements: those that would end up elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import msgspec

from fleet.checkpoint import check
from fleet.explain.facts.outcomes import name_outcome
from fleet.explain.facts.redaction import Hidden
from fleet.explain.whatif.diff import DiffSummary, Moved, diff_decisions, redact_move, redact_summary, summarize_diffs
from fleet.explain.whatif.edits import Edit
from fleet.explain.whatif.scenario import apply_to_frame, remove_evicted
from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.snapshot.frame import Frame


class Impact(msgspec.Struct, frozen=True, rename="camel"):
    placements: int
    """How many were decided."""
    same: int
    moved: tuple[Moved, ...]
    """In the order they were given."""
    summary: DiffSummary
    truncated: bool = False
    """Whether time was up before all placements were decided."""
    redacted: int = 0
    """How many more would move that the caller may not read."""


def never_expires() -> bool:
    return False


def compute_impact(
    frame: Frame,
    questions: Iterable[DecisionInput],
    edits: Sequence[Edit],
    *,
    now: int,
    hidden: Hidden | None = None,
    expired: Callable[[], bool] = never_expires,
) -> Impact:
    """Decide every placement on the fleet as it is and as it would be. Only clusters can be edited, and
    placements evicted.

    Messages do not name `hidden` clusters; the rest is up to `redact_impact`."""
    edited = apply_to_frame(frame, edits, now=now, hidden=hidden)
    diffs: list[Moved] = []
    outcomes: list[tuple[str, str]] = []
    truncated = False
    for question in questions:
        check()
        if expired():
            truncated = True
            break
        before = decide(replace(question, frame=frame, now=now))
        after = decide(replace(remove_evicted(question, edits), frame=edited, now=now))
        outcomes.append((name_outcome(before), name_outcome(after)))
        movement = diff_decisions(question.request.key, before, after)
        diffs += [] if movement is None else [movement]
    return Impact(len(outcomes), len(outcomes) - len(diffs), tuple(diffs), summarize_diffs(outcomes, diffs), truncated)


def redact_impact(
    impact: Impact, *, hides_cluster: Callable[[str], bool], hides_placement: Callable[[str], bool]
) -> Impact:
    """With counts in place of names the caller may not read."""
    shown = [diff for diff in impact.moved if not hides_placement(diff.key)]
    return msgspec.structs.replace(
        impact,
        moved=tuple(redact_move(diff, hides_cluster) for diff in shown),
        summary=redact_summary(impact.summary, hides_cluster),
        redacted=len(impact.moved) - len(shown),
    )
